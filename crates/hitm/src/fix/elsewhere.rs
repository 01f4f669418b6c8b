//! Both versions on other machines, by replays of their recordings.

use std::path::Path;

use hitm_base::Machine;
use hitm_recording::Recording;
use hitm_whatif::{WhatifConfig, trial};

/// Cycles of both versions on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The machine's name.
    pub machine: String,
    /// Cycles of the user's version.
    pub before: u64,
    /// Cycles of the version that is kept.
    pub after: u64,
}

/// Replays two recordings on a machine; none where one cannot be replayed there, as on a machine with too few CPUs.
pub(super) fn replayed(before: &Path, after: &Path, machine: &Machine) -> Option<Elsewhere> {
    Some(Elsewhere {
        machine: machine.name.clone(),
        before: cycles(before, machine)?,
        after: cycles(after, machine)?,
    })
}

fn cycles(file: &Path, machine: &Machine) -> Option<u64> {
    let recording = Recording::load_for_replay(file, &mut |_, _| {}).ok()?;
    let config = WhatifConfig {
        input: file.to_owned(),
        layouts: Vec::new(),
        instances: Vec::new(),
        machine: Some(machine.clone()),
        placement: None,
    };
    let change = trial(&recording, &config, &[], &mut |_, _| {}).ok()?;
    Some(change.after.cycles.0)
}
