//! Host side of placing: the tree of CPUs from sysfs, and the folder of the journals.

use std::path::PathBuf;

use hitm_live::place::{Linux, Machine, PlaceError, Registry, Store, online};
use hitm_machine as machine;

/// Returns the machine of this host, by the kernel's CPU numbers.
///
/// # Errors
/// sysfs cannot be read, or CPUs were hot-plugged meanwhile.
pub fn host() -> Result<Machine, PlaceError> {
    let refused = |error: String| PlaceError::Refused(format!("the CPUs of this host: {error}"));
    let file = machine::host().map_err(|error| refused(error.to_string()))?;
    let model = file.resolve().map_err(|error| refused(error.to_string()))?;
    let machine = Machine::new(model.topology, &online(&Linux)?);
    machine.ok_or_else(|| refused(String::from("some came or went meanwhile, try again")))
}

/// Folder of this user's journals.
///
/// # Errors
/// There is none: no `XDG_RUNTIME_DIR`, and no /run/user of this user.
pub fn journal_folder() -> Result<PathBuf, PlaceError> {
    Store::default_folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))
}

/// List of the folders of journals; none for a user without a default folder.
pub fn registry() -> Option<Registry> {
    journal_folder().ok().map(Registry::new)
}
