//! Recordings that lack the work of threads between accesses: those of format 1.0, and of later
//! formats where another tool wrote them.
//!
//! The work is derived from times: the time between two accesses of a thread that no access is
//! charged with is the thread's own work, waits in system calls included. Stores to private lines
//! are unknown. Accesses of one time keep the order of the file.
//!
//! The records are made window by window and not kept. A window has records of the threads that do
//! something in it, and of one more: the *holder*, the thread that ends last. Idle threads are told
//! ahead up to their next access, and the holder keeps the weave from running into windows in which
//! other threads still start. So the work is linear in what the file has, not in threads times windows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::path::Path;

use hitm_base::{Access, AccessOp, Cycles, Outcome, ThreadId};
use hitm_recording::{Recording, RecordingFile};
use hitm_trace::{Record, Step, Steps, Stretch, ThreadStart, Turn, Visitor, Work};

use super::WhatifError;

/// Note beside the figures.
pub(super) const NOTE: &str = "the recording does not say what threads did between accesses: the threads' own work is taken from the times of their accesses, and both runs are replays; record again for exact figures";

/// Returns true if the recording has no positions.
pub(super) fn is_legacy(recording: &Recording) -> bool {
    !recording.has_work
}

/// Limit on memory for the accesses, starts and ends of such a recording, which are all kept.
const KEPT_BYTES_MAX: usize = 48 << 20;

/// Memory of a thread's end in its tree.
const END_BYTES: usize = 48;

/// Reads the events of the recording at `path`.
pub(super) fn read(recording: &Recording, path: &Path) -> Result<Log, WhatifError> {
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
    Ok(Log::new(events, window, cpi_milli))
}

/// Accesses, starts and ends, in the order of the file.
#[derive(Default)]
struct Events {
    accesses: Vec<(Access, Outcome)>,
    starts: Vec<Record>,
    /// Time of each thread's last exit record.
    ends: BTreeMap<ThreadId, Cycles>,
    /// Memory of all events; above the limit once one was refused.
    kept_bytes: usize,
}

impl Events {
    /// Returns true if there is room for an entry of so many bytes, and for the number of its window.
    fn admits(&mut self, bytes: usize) -> bool {
        if self.kept_bytes <= KEPT_BYTES_MAX {
            self.kept_bytes += bytes + size_of::<u64>();
        }
        self.kept_bytes <= KEPT_BYTES_MAX
    }
}

impl Visitor for Events {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        if self.admits(size_of::<(Access, Outcome)>()) {
            self.accesses.push((*access, *outcome));
        }
    }

    fn record(&mut self, record: Record) {
        let name_bytes = match &record {
            Record::ThreadStart(start) => start.name.len(),
            _ => 0,
        };
        match record {
            Record::ThreadStart(_) | Record::ThreadPlaced(_)
                if self.admits(size_of::<Record>() + name_bytes) =>
            {
                self.starts.push(record);
            }
            Record::ThreadExit(exit) if self.admits(END_BYTES) => {
                self.ends.insert(exit.thread, exit.time);
            }
            _ => {}
        }
    }
}

/// The events of such a recording, sorted.
pub(super) struct Log {
    /// By thread, then by time.
    accesses: Vec<(Access, Outcome)>,
    starts: Vec<Record>,
    ends: BTreeMap<ThreadId, Cycles>,
    /// Numbers of the windows that have events, ascending.
    windows: Vec<u64>,
    /// Cycles of a window.
    window: u64,
    cpi_milli: u64,
}

/// A window under way.
struct Window {
    number: u64,
    until: Cycles,
    /// Number of the next one.
    following: Option<u64>,
}

/// Threads that have started.
#[derive(Default)]
struct Threads {
    progress: BTreeMap<ThreadId, Progress>,
    /// For each thread the next window in which it has records, the earliest first.
    due: BinaryHeap<Reverse<(u64, ThreadId)>>,
    /// The thread that ends last, with its end.
    holder: Option<(Cycles, ThreadId)>,
}

/// Position up to which a thread has been shown.
struct Progress {
    thread: ThreadId,
    start: Cycles,
    end: Cycles,
    /// Accesses to come, by their place in the log.
    accesses: Range<usize>,
    insn: u64,
    stall: Cycles,
    stores: u64,
}

impl Log {
    fn new(events: Events, window: u64, cpi_milli: u64) -> Log {
        let mut accesses = events.accesses;
        accesses.sort_by_key(|(access, _)| (access.thread, access.time));
        let of_accesses = accesses.iter().map(|(access, _)| access.time);
        let of_starts = events.starts.iter().filter_map(Record::time);
        let of_ends = events.ends.values().copied();
        let times = of_accesses.chain(of_starts).chain(of_ends);
        let mut windows: Vec<u64> = times.map(|time| time.0 / window).collect();
        windows.sort_unstable();
        windows.dedup();
        Log {
            accesses,
            starts: events.starts,
            ends: events.ends,
            windows,
            window,
            cpi_milli,
        }
    }

    /// Shows `visitor` the accesses and the missing records, in the order of a recording.
    pub(super) fn visit(&self, visitor: &mut impl Visitor) {
        let mut threads = Threads::default();
        let mut starts = self.starts.iter().peekable();
        for (index, number) in self.windows.iter().enumerate() {
            let window = Window {
                number: *number,
                until: self.start_of(number.saturating_add(1)),
                following: self.windows.get(index + 1).copied(),
            };
            let is_due = |start: &&Record| start.time().is_some_and(|time| time < window.until);
            while let Some(record) = starts.next_if(is_due) {
                if let Record::ThreadStart(start) = record {
                    self.start(start, &window, &mut threads);
                }
                visitor.record(record.clone());
            }
            while let Some(thread) = threads.take_due(window.number) {
                let is_holder = threads.holder.is_some_and(|holder| holder.1 == thread);
                let progress = threads.progress.get_mut(&thread);
                let progress = progress.expect("threads that are due have started");
                let next = self.visit_thread(progress, &window, is_holder, visitor);
                let due = next.map(|next| Reverse((next, thread)));
                threads.due.extend(due);
            }
            visitor.record(Record::Turn(Turn::Priced));
        }
    }

    fn start_of(&self, window: u64) -> Cycles {
        Cycles(window.saturating_mul(self.window))
    }

    /// Starts a thread, unless it was only renamed.
    fn start(&self, start: &ThreadStart, window: &Window, threads: &mut Threads) {
        let thread = start.thread;
        if threads.progress.contains_key(&thread) {
            return;
        }
        let number_of = |(access, _): &(Access, Outcome)| access.thread;
        let first = self.accesses.partition_point(|one| number_of(one) < thread);
        let after = self
            .accesses
            .partition_point(|one| number_of(one) <= thread);
        let end = self.ends.get(&thread).copied().unwrap_or(Cycles::MAX);
        let progress = Progress {
            thread,
            start: start.time,
            end,
            accesses: first..after,
            insn: 0,
            stall: Cycles::ZERO,
            stores: 0,
        };
        threads.progress.insert(thread, progress);
        threads.due.push(Reverse((window.number, thread)));
        threads.holder = threads.holder.max(Some((end, thread)));
    }

    /// Shows a thread's records of a window. Returns the next window in which it has some.
    fn visit_thread(
        &self,
        progress: &mut Progress,
        window: &Window,
        is_holder: bool,
        visitor: &mut impl Visitor,
    ) -> Option<u64> {
        let thread = progress.thread;
        let own = &self.accesses[progress.accesses.clone()];
        let own = &own[..own.partition_point(|(access, _)| access.time < window.until)];
        let mut steps = Steps::default();
        for (access, outcome) in own {
            steps.push(progress.step(access, outcome, self.cpi_milli));
        }
        progress.accesses.start += own.len();
        let has_left = progress.end < window.until;
        let next = match is_holder && !has_left {
            true => window.following,
            false => self.next_window(progress, has_left),
        };
        let told = match next {
            Some(_) if is_holder => window.until,
            Some(next) => self.start_of(next),
            None => self.end(),
        };
        let ahead = Stretch {
            insns: progress.own_work(told.min(progress.end), self.cpi_milli),
            stores: progress.stores,
        };
        visitor.record(Record::Work(Work {
            thread,
            adoptions: Vec::new(),
            steps,
            ahead,
        }));
        if has_left {
            visitor.record(Record::Turn(Turn::Left { thread }));
        }
        let written = own
            .iter()
            .filter(|(access, _)| access.op != AccessOp::Fence);
        for (access, outcome) in written {
            visitor.access(access, outcome);
        }
        next
    }

    /// The next window in which a thread accesses memory or ends.
    fn next_window(&self, progress: &Progress, has_left: bool) -> Option<u64> {
        let next = self.accesses[progress.accesses.clone()].first();
        let access = next.map(|(access, _)| access.time);
        let end = (!has_left && progress.end < Cycles::MAX).then_some(progress.end);
        let next = access.into_iter().chain(end).min()?;
        Some(next.0 / self.window)
    }

    /// The end of the last window.
    fn end(&self) -> Cycles {
        let last = self.windows.last().copied().unwrap_or(0);
        self.start_of(last.saturating_add(1))
    }
}

impl Threads {
    /// Takes the next thread that has records in a window.
    fn take_due(&mut self, window: u64) -> Option<ThreadId> {
        let Reverse((number, _)) = self.due.peek()?;
        if *number > window {
            return None;
        }
        self.due.pop().map(|Reverse((_, thread))| thread)
    }
}

impl Progress {
    /// The step to an access, which has been shown then.
    fn step(&mut self, access: &Access, outcome: &Outcome, cpi_milli: u64) -> Step {
        let insns = self.own_work(access.time, cpi_milli);
        self.insn += insns;
        self.stall = Cycles(self.stall.0.saturating_add(outcome.stall.0));
        let is_store = u64::from(access.op == AccessOp::Store);
        Step {
            since: Stretch {
                insns,
                stores: std::mem::replace(&mut self.stores, is_store),
            },
            is_fence: access.op == AccessOp::Fence,
        }
    }

    /// Instructions between the last access and `time`.
    fn own_work(&self, time: Cycles, cpi_milli: u64) -> u64 {
        let own = time.saturating_sub(self.start).saturating_sub(self.stall);
        let insns = u128::from(own.0) * 1000 / u128::from(cpi_milli.max(1));
        u64::try_from(insns)
            .unwrap_or(u64::MAX)
            .saturating_sub(self.insn)
    }
}
