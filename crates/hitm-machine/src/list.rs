//! The machine models that come with hitm.

use hitm_base::machine::{MachineError, MachineFile, preset, preset_names};
use serde::Serialize;

/// One line about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Name under which it is found.
    pub name: String,
    /// Description of the machine.
    pub description: String,
    /// Its logical CPUs.
    pub cpu_count: usize,
}

/// Returns all presets, in order of name.
pub fn list() -> Result<Vec<Summary>, MachineError> {
    let summary = |name: &str| {
        let file = MachineFile::parse(preset(name).unwrap_or_default(), name)?;
        let cpu_count = file.resolve()?.topology.cpu_count();
        Ok(Summary {
            name: file.name,
            description: file.description,
            cpu_count,
        })
    };
    preset_names().map(summary).collect()
}
