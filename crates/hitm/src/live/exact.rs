//! The exact layer: the locks of a program that hitm starts, as its preloaded library counts them.

use hitm_files::input_file;
use hitm_layout::Symbolizer;
use hitm_live::shim::{
    CallSite, Launch, LockKind, LockUse, Observation, ShimError, check_program, library_directory,
};
use thiserror::Error;

use crate::record::{Target, TargetError};

/// Locks whose call sites are named. Those of others keep their addresses.
const NAMED_MAX: usize = 32_768;

/// Errors of observing a program's own locks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExactError {
    /// There is no such program, or no library can be preloaded into it.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The library cannot be preloaded.
    #[error(transparent)]
    Shim(#[from] ShimError),
}

impl ExactError {
    /// Returns true if the host lacks something that could be installed.
    pub fn is_missing(&self) -> bool {
        matches!(self, ExactError::Shim(error) if error.is_missing())
    }
}

/// Prepares the library for a command. The interpreter of a script loads it.
pub(super) fn prepare(command: &[String]) -> Result<Launch, ExactError> {
    let target = Target::find(command)?;
    check_program(&target.program)?;
    Ok(Launch::prepare(&library_directory())?)
}

/// Reads the library's observation, with names for call sites.
pub(super) fn observation(launch: &Launch) -> Result<Observation, String> {
    let mut observation = launch.read().map_err(|error| error.to_string())?;
    if observation.losses.loaded == 0 {
        return Err("no program loaded the observer: nothing of its locks was seen".to_owned());
    }
    let mut symbolizer = Symbolizer::new(Vec::new(), input_file::load);
    for lock in observation.locks.iter_mut().take(NAMED_MAX) {
        name(&mut symbolizer, &mut lock.call_site);
        if let Some(site) = &mut lock.wait_site {
            name(&mut symbolizer, site);
        }
        lock.variable = variable(&mut symbolizer, lock);
    }
    Ok(observation)
}

fn name(symbolizer: &mut Symbolizer<'_>, site: &mut CallSite) {
    let Some(module) = &site.module else {
        return;
    };
    // The call lies before its return address.
    let found = symbolizer.code_in_file(&module.path, module.offset.wrapping_sub(1));
    site.name = Some(found.to_string());
}

/// Variable at a lock's address, if it lies in the file whose code takes the lock.
fn variable(symbolizer: &mut Symbolizer<'_>, lock: &LockUse) -> Option<String> {
    let module = lock.call_site.module.as_ref()?;
    let bias = lock.call_site.address.wrapping_sub(module.offset);
    let file = symbolizer.file(&module.path)?;
    let vaddr = lock.address.wrapping_sub(bias);
    if !file.is_loaded(vaddr) {
        return None;
    }
    let name = file.data_location(vaddr, size(lock.kind))?.to_string();
    // A member of glibc's unions with the size of the whole lock.
    let whole = name.strip_suffix(".__size").unwrap_or(&name);
    Some(whole.to_owned())
}

/// Bytes of a lock: a smaller part would get the name of a member inside.
fn size(kind: LockKind) -> u64 {
    let size = match kind {
        LockKind::Mutex => size_of::<libc::pthread_mutex_t>(),
        LockKind::Read | LockKind::Write => size_of::<libc::pthread_rwlock_t>(),
        LockKind::Spin => size_of::<libc::c_int>(),
        LockKind::Condition => size_of::<libc::pthread_cond_t>(),
    };
    size as u64
}
