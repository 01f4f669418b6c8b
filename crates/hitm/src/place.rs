//! This host's CPUs for placing: its tree from sysfs, and the folder of the journals.

use std::path::PathBuf;

use hitm_live::place::{Linux, Machine, PlaceError, Store, online};

use crate::machine;

/// The machine of this host, by the kernel's CPU numbers.
///
/// # Errors
/// sysfs does not tell, or CPUs came and went while it was read.
pub fn host() -> Result<Machine, PlaceError> {
    let refused = |error: String| PlaceError::Refused(format!("the CPUs of this host: {error}"));
    let file = machine::host().map_err(|error| refused(error.to_string()))?;
    let model = file.resolve().map_err(|error| refused(error.to_string()))?;
    let machine = Machine::new(model.topology, &online(&Linux)?);
    machine.ok_or_else(|| refused(String::from("some came or went meanwhile, try again")))
}

/// The folder of the journals of this user.
///
/// # Errors
/// There is none: no `XDG_RUNTIME_DIR`, and no /run/user of this user.
pub fn journal_folder() -> Result<PathBuf, PlaceError> {
    Store::default_folder(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))
}
