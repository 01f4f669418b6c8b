//! The exact layer: the locks of a program that hitm starts, as its preloaded library counts them.

use hitm_layout::Symbolizer;
use hitm_live::shim::{
    CallSite, Launch, LockKind, LockUse, Observation, ShimError, check_program, library_directory,
};
use thiserror::Error;

use crate::input_file;
use crate::record::{Target, TargetError};

/// Locks whose call sites get names. Those of others keep their addresses.
const NAMED_MAX: usize = 32_768;

/// The reason why a program's own locks cannot be observed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExactError {
    /// No such program, or one of a kind that takes no libraries.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The library cannot be preloaded.
    #[error(transparent)]
    Shim(#[from] ShimError),
}

impl ExactError {
    /// Returns true when a host with more could do it.
    pub fn is_missing(&self) -> bool {
        matches!(self, ExactError::Shim(error) if error.is_missing())
    }
}

/// Readies the library for a command. Of a script the interpreter is what loads it.
pub(super) fn prepare(command: &[String]) -> Result<Launch, ExactError> {
    let target = Target::find(command)?;
    check_program(&target.program)?;
    Ok(Launch::prepare(&library_directory())?)
}

/// The library's observation, with names for call sites.
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
    // The call lies before the address that it returns to.
    let found = symbolizer.code_in_file(&module.path, module.offset.wrapping_sub(1));
    site.name = Some(found.to_string());
}

/// The variable at a lock's address, if it lies in the file whose code takes it.
fn variable(symbolizer: &mut Symbolizer<'_>, lock: &LockUse) -> Option<String> {
    let module = lock.call_site.module.as_ref()?;
    let bias = lock.call_site.address.wrapping_sub(module.offset);
    let file = symbolizer.file(&module.path)?;
    let vaddr = lock.address.wrapping_sub(bias);
    if !file.is_loaded(vaddr) {
        return None;
    }
    let name = file.data_location(vaddr, size(lock.kind))?.to_string();
    // The member of glibc's unions that is as large as the lock.
    let whole = name.strip_suffix(".__size").unwrap_or(&name);
    Some(whole.to_owned())
}

/// Bytes of a lock: a smaller part of one would get the name of a member inside of it.
fn size(kind: LockKind) -> u64 {
    let size = match kind {
        LockKind::Mutex => size_of::<libc::pthread_mutex_t>(),
        LockKind::Read | LockKind::Write => size_of::<libc::pthread_rwlock_t>(),
        LockKind::Spin => size_of::<libc::c_int>(),
        LockKind::Condition => size_of::<libc::pthread_cond_t>(),
    };
    size as u64
}
