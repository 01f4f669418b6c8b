//! The exact layer: the locks of a program that hitm starts, as its preloaded library counts them.

use hitm_layout::Symbolizer;
use hitm_live::shim::{CallSite, Launch, Observation, ShimError, check_program, library_directory};
use thiserror::Error;

use crate::input_file;
use crate::record::{Target, TargetError};

/// Call sites that are looked up by name. Others keep their addresses.
const SITES_MAX: usize = 65_536;

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

/// What the library saw, with names for call sites.
pub(super) fn observation(launch: &Launch) -> Result<Observation, String> {
    let mut observation = launch.read().map_err(|error| error.to_string())?;
    if observation.losses.loaded == 0 {
        return Err("no program loaded the observer: nothing of its locks was seen".to_owned());
    }
    let mut symbolizer = Symbolizer::new(Vec::new(), input_file::load);
    let mut left = SITES_MAX;
    for lock in &mut observation.locks {
        let sites = [Some(&mut lock.call_site), lock.wait_site.as_mut()];
        for site in sites.into_iter().flatten() {
            if left > 0 {
                left -= 1;
                name(&mut symbolizer, site);
            }
        }
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
