//! Choices that measurements by BPF programs share.

use std::time::Duration;

use crate::place::Stop;

/// Choice of tasks, time and means.
#[derive(Debug, Clone)]
pub struct Options<T> {
    /// The tasks or groups.
    pub target: T,
    /// Longest duration.
    pub duration: Duration,
    /// Signals that end it earlier.
    pub stop: Stop,
    /// Never load BPF programs.
    pub counters_only: bool,
}

impl<T> Options<T> {
    /// The programs, if they are wanted and work, or the reason why there are none.
    pub(crate) fn programs<P>(
        &self,
        attach: impl FnOnce() -> Result<P, hitm_bpf::Error>,
    ) -> Result<P, String> {
        match self.counters_only {
            true => Err("BPF was not wanted".to_owned()),
            false => attach().map_err(|error| error.to_string()),
        }
    }
}
