//! Findings about processes that are told beside the recording.

use std::collections::BTreeMap;

use hitm_trace::{EndReason, Loss};

use super::Caveats;

/// Account of what a session has found out about its processes.
#[derive(Debug, Default)]
pub struct Account {
    /// End of the last program of the first process.
    pub end: Option<EndReason>,
    /// Programs whose rest is not recorded, and why.
    pub losses: Vec<(String, Loss)>,
    /// Number of the program that each process ran last, by the pid that it has for itself. Forks run their
    /// parent's.
    pub programs: BTreeMap<u32, u32>,
    /// Programs that were not followed, each as `reason:program`, and how many of each.
    pub left_alone: BTreeMap<String, u64>,
    /// Answers that programs got from the host, and refusals.
    pub caveats: Caveats,
}

impl Account {
    pub(super) fn leave_alone(&mut self, why: &str, program: &str) {
        let found = self.left_alone.entry(format!("{why}:{program}"));
        *found.or_default() += 1;
    }
}
