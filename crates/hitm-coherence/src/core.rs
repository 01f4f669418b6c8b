//! Latency hiding of a core: the store buffer and the window of overlapped loads.
//!
//! A store retires into the store buffer at once; the buffer drains in program order (TSO), one
//! line at a time. Stores that wait at the head for the same line commit together, one a cycle,
//! when the line arrives. A load that misses does not stop the core: instructions continue to issue
//! until the reorder buffer is full. Locked operations and fences wait for both.
//!
//! Not modelled, and why: merging of stores within the buffer before they reach its head (x86 cores
//! keep one entry a store; merging happens at the head). Data dependences between loads: the
//! recorder sees addresses, not registers. A chain of dependent misses is priced as if it
//! overlapped within the window. That understates pointer chasing over contended lines.

use std::collections::VecDeque;

use hitm_base::{Access, Cycles, DataSource, LINE_SIZE};

use crate::directory::{Grant, LineId};

/// Latency of a load that is answered by an older store in the store buffer.
///
/// Assumed: 5 cycles (range 0 to 6: Golden Cove forwards some loads for nothing, Skylake takes 4 to
/// 5, Zen 7 without renaming). The window hides it; it only shows as a load latency.
pub const STORE_FORWARD_LATENCY: Cycles = Cycles(5);

/// A place in a thread's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Instructions run before it.
    pub insn: u64,
    /// Stores made before it.
    pub stores: u64,
}

/// A store that has retired and waits for its line.
#[derive(Debug, Clone, Copy)]
pub struct PendingStore {
    /// The store.
    pub access: Access,
    /// The line that it touches.
    pub line: LineId,
    /// Place in the program: older loads must complete first.
    pub position: Position,
    /// The store's number among the thread's accesses, in program order.
    pub ordinal: u64,
    /// Completion of the last of the older loads that have retired meanwhile.
    pub older_loads_done: Cycles,
    /// Cycles that the thread lost because the buffer was full with this store at its head.
    pub stall: Cycles,
}

/// State of the store at the head of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// Not issued yet.
    Idle,
    /// Its request waits in the line's queue since the given time.
    Queued(Cycles),
    /// Its line arrives as the grant says; the request left the core at the given time.
    Granted(Cycles, Grant),
}

/// The store buffer of one hardware thread.
#[derive(Debug, Clone)]
pub struct StoreBuffer {
    entries: VecDeque<PendingStore>,
    capacity: u64,
    /// State of the oldest entry's request.
    pub head: Head,
    /// The cache is busy committing earlier stores until then.
    pub commit_free_at: Cycles,
}

impl StoreBuffer {
    /// An empty buffer of `capacity` entries.
    pub fn new(capacity: u64) -> StoreBuffer {
        StoreBuffer {
            entries: VecDeque::new(),
            capacity,
            head: Head::Idle,
            commit_free_at: Cycles::ZERO,
        }
    }

    /// Number of stores, kept or counted, that may wait.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns true if no store waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The oldest store.
    pub fn oldest(&self) -> Option<&PendingStore> {
        self.entries.front()
    }

    /// The oldest store, to charge a stall to.
    pub fn oldest_mut(&mut self) -> Option<&mut PendingStore> {
        self.entries.front_mut()
    }

    /// Adds the youngest store. Panics when the buffer is full: the caller stalls first.
    pub fn push(&mut self, store: PendingStore) {
        let oldest = self.entries.front().unwrap_or(&store);
        let waiting = store.position.stores - oldest.position.stores;
        assert!(
            waiting < self.capacity,
            "a store may not enter a full store buffer"
        );
        self.entries.push_back(store);
    }

    /// The load at `insn` retires; it completes at `done`, which may be later than now. Younger
    /// stores must not commit before.
    pub fn note_retired_load(&mut self, insn: u64, done: Cycles) {
        let younger = self
            .entries
            .iter_mut()
            .rev()
            .take_while(|store| store.position.insn > insn);
        for store in younger {
            store.older_loads_done = store.older_loads_done.max(done);
        }
    }

    /// Removes the oldest store.
    pub fn pop(&mut self) -> Option<PendingStore> {
        self.entries.pop_front()
    }

    /// Stores younger than access number `ordinal` run again, each when `time_of` its instruction says.
    pub fn run_again_after(&mut self, ordinal: u64, time_of: impl Fn(u64) -> Cycles) {
        let younger = self.entries.iter_mut().rev();
        for store in younger.take_while(|store| store.ordinal > ordinal) {
            store.access.time = time_of(store.position.insn);
        }
    }

    /// Returns true if the youngest store that is older than `load`, which is access number `ordinal`,
    /// and overlaps its bytes answers it.
    pub fn forwards(&self, load: &Access, ordinal: u64) -> bool {
        let (addr, end) = (load.addr, load.addr + u64::from(load.size));
        let mut older = self.entries.iter().rev();
        let overlapping = older.find(|store| {
            let from = store.access.addr;
            let overlaps = from < end && addr < from + u64::from(store.access.size);
            overlaps && store.ordinal < ordinal
        });
        overlapping.is_some_and(|store| {
            store.access.addr <= addr && end <= store.access.addr + u64::from(store.access.size)
        })
    }
}

/// A load that has issued and not retired.
#[derive(Debug, Clone, Copy)]
pub struct PendingLoad {
    /// The load.
    pub access: Access,
    /// The line that it touches.
    pub line: LineId,
    /// Program position.
    pub insn: u64,
    /// The load's number among the thread's accesses, in program order.
    pub ordinal: u64,
    /// Source of its data and time of its completion; unknown while the request is queued.
    pub grant: Option<Grant>,
    /// True if it has no fill of its own: it hits, or waits for an older miss of its line.
    pub merged: bool,
    /// True if a store of this core answers it: no other core can take its data away.
    pub forwarded: bool,
    /// Cycles that were lost because it lost its line and had to issue again.
    pub lost: Cycles,
}

/// The loads of one hardware thread that have not retired, oldest first.
#[derive(Debug, Clone)]
pub struct LoadWindow {
    loads: VecDeque<PendingLoad>,
    window_insns: u64,
    fill_buffers: usize,
    miss_count: usize,
}

impl LoadWindow {
    /// An empty window: `window_insns` may issue past a load, `fill_buffers` misses be under way.
    pub fn new(window_insns: u64, fill_buffers: usize) -> LoadWindow {
        LoadWindow {
            loads: VecDeque::new(),
            window_insns,
            fill_buffers,
            miss_count: 0,
        }
    }

    /// Returns true if every load has retired.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// The oldest load.
    pub fn oldest(&self) -> Option<&PendingLoad> {
        self.loads.front()
    }

    /// The program position by which the oldest load must have completed for the instruction at
    /// `insn` to issue, if it must.
    pub fn blocking_limit(&self, insn: u64) -> Option<u64> {
        let limit = self.loads.front()?.insn + self.window_insns;
        (limit <= insn).then_some(limit)
    }

    /// Returns true if one more miss has to wait for an older one.
    pub fn fill_buffers_full(&self) -> bool {
        self.miss_count == self.fill_buffers
    }

    /// The miss under way for `line`, if there is one that is not over at `now`.
    pub fn miss_for(&self, line: LineId, now: Cycles) -> Option<&PendingLoad> {
        let misses = self
            .loads
            .iter()
            .rev()
            .filter(|load| !load.merged && load.line == line);
        let mut under_way = misses.filter(|load| load.grant.is_none_or(|grant| grant.done > now));
        under_way.next()
    }

    /// Adds the youngest load.
    pub fn push(&mut self, load: PendingLoad) {
        self.miss_count += usize::from(!load.merged);
        self.loads.push_back(load);
    }

    /// Removes the oldest load.
    pub fn pop(&mut self) -> Option<PendingLoad> {
        let load = self.loads.pop_front()?;
        self.miss_count -= usize::from(!load.merged);
        Some(load)
    }

    /// Removes the youngest load.
    pub fn pop_youngest(&mut self) -> Option<PendingLoad> {
        let load = self.loads.pop_back()?;
        self.miss_count -= usize::from(!load.merged);
        Some(load)
    }

    /// Number of misses that have no data at `now`, and the most that there can be.
    pub fn fills_under_way(&self, now: Cycles) -> (usize, usize) {
        let is_under_way =
            |load: &&PendingLoad| !load.merged && load.grant.is_none_or(|grant| grant.done > now);
        let count = self.loads.iter().filter(is_under_way).count();
        (count, self.fill_buffers)
    }

    /// The queued miss for `line` has been served: it and the loads merged with it know their time.
    pub fn resolve(&mut self, line: LineId, grant: Grant) {
        for load in self
            .loads
            .iter_mut()
            .filter(|load| load.line == line && load.grant.is_none())
        {
            let source = if load.merged {
                DataSource::FillBuffer
            } else {
                grant.source
            };
            load.grant = Some(Grant { source, ..grant });
        }
    }

    /// Returns the time at which all loads older than `insn` have completed; `None` while one of
    /// them is queued.
    pub fn done_before(&self, insn: u64) -> Option<Cycles> {
        let older = self.loads.iter().take_while(|load| load.insn < insn);
        older
            .map(|load| load.grant.map(|grant| grant.done))
            .try_fold(Cycles::ZERO, |latest, done| {
                done.map(|done| latest.max(done))
            })
    }
}

/// Splits an access that straddles line boundaries: (address, size) of each part.
pub fn split_by_line(addr: u64, size: u64) -> impl Iterator<Item = (u64, u8)> {
    let end = addr.saturating_add(size);
    let mut from = addr;
    std::iter::from_fn(move || {
        if from >= end {
            return None;
        }
        let line_end = (from / LINE_SIZE + 1).saturating_mul(LINE_SIZE);
        let to = line_end.min(end);
        let part = (from, (to - from) as u8);
        from = to;
        Some(part)
    })
}
