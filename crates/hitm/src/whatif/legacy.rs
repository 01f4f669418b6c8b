//! Recordings that lack the work of threads between accesses: those of format 1.0, and of later
//! formats where another tool wrote them.
//!
//! The work is derived from times: the time between two accesses of a thread that no access is
//! charged with is the thread's own work, waits in system calls included. Stores to private lines
//! are unknown. Accesses of one time keep the order of the file.

use std::collections::BTreeMap;
use std::path::Path;

use hitm_base::{Access, AccessOp, Cycles, Outcome, ThreadId};
use hitm_trace::{Record, Step, Steps, Stretch, Turn, Visitor, Work};

use super::WhatifError;
use crate::recording::{Recording, RecordingFile};

/// Note beside the figures.
pub(super) const NOTE: &str = "the recording does not say what threads did between accesses: the threads' own work is taken from the times of their accesses, and both runs are replays; record again for exact figures";

/// Returns true if the recording has no positions.
pub(super) fn is_legacy(recording: &Recording) -> bool {
    !recording.has_work
}

/// Limit on memory for the accesses and starts of such a recording, which are all kept.
const KEPT_BYTES_MAX: usize = 48 << 20;

/// Reads the accesses and adds the missing records, in the order of a recording.
pub(super) fn read(recording: &Recording, path: &Path) -> Result<Vec<Record>, WhatifError> {
    let mut events = Events::default();
    let mut file = RecordingFile::open(path)?;
    let version = file.version();
    file.visit(&mut events, &mut |_, _| {})?;
    if events.kept_bytes > KEPT_BYTES_MAX {
        return Err(WhatifError::LegacyTooLarge {
            path: path.into(),
            version,
            max_mib: KEPT_BYTES_MAX >> 20,
        });
    }
    let window = recording.header.window.0.max(1);
    let cpi_milli = recording.machine.core.cpi_milli.into();
    Ok(events.log(window, cpi_milli))
}

/// Accesses and end of each thread, by time.
#[derive(Default)]
struct Events {
    accesses: BTreeMap<ThreadId, Vec<(Access, Outcome)>>,
    starts: Vec<Record>,
    /// Time of each thread's last exit record.
    ends: BTreeMap<ThreadId, Cycles>,
    /// Memory of all events; above the limit once one was refused.
    kept_bytes: usize,
}

impl Events {
    /// Returns true if there is room for an entry of so many bytes.
    fn admits(&mut self, bytes: usize) -> bool {
        if self.kept_bytes <= KEPT_BYTES_MAX {
            self.kept_bytes += bytes;
        }
        self.kept_bytes <= KEPT_BYTES_MAX
    }
}

impl Visitor for Events {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        if self.admits(size_of::<(Access, Outcome)>()) {
            let of_thread = self.accesses.entry(access.thread).or_default();
            of_thread.push((*access, *outcome));
        }
    }

    fn record(&mut self, record: Record) {
        if !self.admits(size_of::<Record>()) {
            return;
        }
        match record {
            Record::ThreadStart(_) | Record::ThreadPlaced(_) => self.starts.push(record),
            Record::ThreadExit(exit) => drop(self.ends.insert(exit.thread, exit.time)),
            _ => {}
        }
    }
}

/// Position up to which a thread has been written.
#[derive(Default)]
struct Progress {
    start: Cycles,
    is_started: bool,
    /// Number of accesses written.
    next: usize,
    insn: u64,
    stall: Cycles,
    stores: u64,
}

impl Events {
    fn log(mut self, window: u64, cpi_milli: u64) -> Vec<Record> {
        let mut times: Vec<u64> = Vec::new();
        for accesses in self.accesses.values_mut() {
            accesses.sort_by_key(|(access, _)| access.time);
            times.extend(accesses.iter().map(|(access, _)| access.time.0 / window));
            times.dedup();
        }
        times.extend(self.ends.values().map(|time| time.0 / window));
        times.extend(
            self.starts
                .iter()
                .filter_map(Record::time)
                .map(|time| time.0 / window),
        );
        times.sort_unstable();
        times.dedup();
        let mut log = Vec::new();
        let mut threads: BTreeMap<ThreadId, Progress> = BTreeMap::new();
        let mut starts = std::mem::take(&mut self.starts).into_iter().peekable();
        for number in times {
            let until = Cycles((number + 1).saturating_mul(window));
            while let Some(start) =
                starts.next_if(|start| start.time().is_some_and(|time| time < until))
            {
                if let Record::ThreadStart(start) = &start {
                    let progress = threads.entry(start.thread).or_default();
                    if !progress.is_started {
                        progress.start = start.time;
                        progress.is_started = true;
                    }
                }
                log.push(start);
            }
            for (thread, progress) in &mut threads {
                self.write_window(*thread, progress, (until, cpi_milli), &mut log);
            }
            log.push(Record::Turn(Turn::Priced));
        }
        log
    }

    /// Writes a thread's records up to `until`.
    fn write_window(
        &self,
        thread: ThreadId,
        progress: &mut Progress,
        (until, cpi_milli): (Cycles, u64),
        log: &mut Vec<Record>,
    ) {
        let all = self.accesses.get(&thread).map_or(&[][..], Vec::as_slice);
        let mut steps = Steps::default();
        let mut written = Vec::new();
        while let Some((access, outcome)) = all
            .get(progress.next)
            .filter(|(access, _)| access.time < until)
        {
            let insns = progress.own_work(access.time, cpi_milli);
            steps.push(Step {
                since: Stretch {
                    insns,
                    stores: std::mem::take(&mut progress.stores),
                },
                is_fence: access.op == AccessOp::Fence,
            });
            progress.insn += insns;
            progress.stores = u64::from(access.op == AccessOp::Store);
            progress.stall = Cycles(progress.stall.0.saturating_add(outcome.stall.0));
            progress.next += 1;
            if access.op != AccessOp::Fence {
                written.push(Record::Access {
                    access: *access,
                    outcome: *outcome,
                });
            }
        }
        let end = self.ends.get(&thread).copied().unwrap_or(until);
        let ahead = Stretch {
            insns: progress.own_work(until.min(end), cpi_milli),
            stores: progress.stores,
        };
        log.push(Record::Work(Work {
            thread,
            adoptions: Vec::new(),
            steps,
            ahead,
        }));
        if end < until {
            log.push(Record::Turn(Turn::Left { thread }));
        }
        log.append(&mut written);
    }
}

impl Progress {
    /// Instructions between the last access and `time`.
    fn own_work(&self, time: Cycles, cpi_milli: u64) -> u64 {
        let own = time.saturating_sub(self.start).saturating_sub(self.stall);
        let insns = u128::from(own.0) * 1000 / u128::from(cpi_milli.max(1));
        u64::try_from(insns)
            .unwrap_or(u64::MAX)
            .saturating_sub(self.insn)
    }
}
