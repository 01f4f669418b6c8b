//! A change tried for its cost alone: what threads take, and lose to each other.

use hitm_base::Cycles;
use hitm_layout::member_map::MemberMap;
use hitm_recording::Recording;

use super::compare::busy;
use super::second_run::{Keep, SecondRun};
use super::{Change, WhatifConfig, WhatifError, both_runs};

/// Sums over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Took {
    /// Cycles that threads ran or waited for memory.
    pub cycles: Cycles,
    /// Part of them caused by other CPUs' use of lines.
    pub lost: Cycles,
}

impl Took {
    fn of(run: &SecondRun<'_>) -> Took {
        let mut took = Took::default();
        for (_, thread) in &run.threads {
            let cycles = busy(thread, run.cpi_milli);
            took.cycles = Cycles(took.cycles.0.saturating_add(cycles.0));
            took.lost = Cycles(took.lost.0.saturating_add(thread.contention_stall.0));
        }
        took
    }
}

/// Replays a recording that was loaded from `config.input` with the changes, and with structures whose maps are
/// `known`. `progress` gets the bytes read so far and in all.
pub fn trial(
    recording: &Recording,
    config: &WhatifConfig,
    known: &[MemberMap],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Change<Took>, WhatifError> {
    let Change { before, after } = both_runs(recording, config, known, Keep::Sums, progress)?;
    Ok(Change {
        before: Took::of(&before),
        after: Took::of(&after),
    })
}
