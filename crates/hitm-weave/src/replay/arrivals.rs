//! Recorded accesses on their way to the work that made them.

use std::collections::VecDeque;

use hitm_base::{Access, AccessOp, CodeAddr, ThreadId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::{ReplayError, THREADS_MAX};

/// An access as it was recorded, without its time and price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) addr: u64,
    pub(super) code: CodeAddr,
    pub(super) size: u8,
    pub(super) op: AccessOp,
}

impl Arrived {
    pub(super) fn of(access: &Access) -> Arrived {
        Arrived {
            addr: access.addr,
            code: access.code,
            size: access.size,
            op: access.op,
        }
    }
}

/// An access that was read ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Late {
    /// Its number among the thread's accesses.
    pub(super) ordinal: u64,
    /// The number of the work that takes it, among all works.
    pub(super) work: u64,
    pub(super) access: Arrived,
}

/// The accesses of one thread, numbered in program order.
#[derive(Debug, Default)]
pub(super) struct OfThread {
    /// Accesses that the file has delivered and no work has taken.
    arrived: VecDeque<Arrived>,
    /// Accesses that come later in the file, with gaps.
    ahead: VecDeque<Late>,
    /// Accesses that the file has delivered.
    pub(super) delivered: u64,
    /// Accesses that works have taken: more than were delivered when some were read ahead.
    pub(super) taken: u64,
    /// Accesses in the whole file, once it has been read ahead.
    total: Option<u64>,
}

impl OfThread {
    /// The thread's next access in the file. True when it has to wait for its work.
    fn deliver(&mut self, access: Arrived) -> bool {
        let ordinal = self.delivered;
        self.delivered += 1;
        if ordinal < self.taken {
            return false;
        }
        pop_if(&mut self.ahead, |late| late.ordinal == ordinal);
        self.arrived.push_back(access);
        true
    }

    /// Returns true if the next `count` accesses are known, or all that are left of the file.
    fn has(&self, count: usize) -> bool {
        let known = self.arrived.len();
        if known >= count {
            return true;
        }
        let left = self.total.map(|total| total.saturating_sub(self.taken));
        let wanted = left.map_or(count as u64, |left| left.min(count as u64));
        let next = self.taken + known as u64;
        let ordinals = self.ahead.iter().map(|late| late.ordinal);
        let run = ordinals.zip(next..self.taken + wanted);
        let run = run.take_while(|(found, expected)| found == expected);
        known as u64 + run.count() as u64 >= wanted
    }

    /// Takes what was read ahead from where the file is now.
    pub(super) fn set_ahead(&mut self, ahead: VecDeque<Late>, total: u64) {
        self.ahead = ahead;
        self.total = Some(total);
    }
}

/// The accesses of all threads that no work has taken yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    threads: IndexMap<ThreadId, OfThread, FxBuildHasher>,
    waiting: usize,
}

impl Arrivals {
    /// Memory of accesses that wait for their work, those that were read ahead not counted.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting * size_of::<Arrived>()
    }

    /// The next access of the file.
    pub(super) fn deliver(&mut self, thread: ThreadId, access: Arrived) -> Result<(), ReplayError> {
        let of_thread = match self.threads.get_mut(&thread) {
            Some(of_thread) => of_thread,
            None => self.of_thread(thread)?,
        };
        self.waiting += usize::from(of_thread.deliver(access));
        Ok(())
    }

    /// Returns true if the next `count` accesses of a thread are known, or all that are left.
    pub(super) fn has(&self, thread: ThreadId, count: usize) -> bool {
        match self.threads.get(&thread) {
            Some(of_thread) => of_thread.has(count),
            None => count == 0,
        }
    }

    /// The number of a thread's entry, for [`take`](Self::take).
    pub(super) fn index(&self, thread: ThreadId) -> Option<usize> {
        self.threads.get_index_of(&thread)
    }

    /// Takes the next access of the thread with this entry.
    pub(super) fn take(&mut self, index: usize) -> Option<Arrived> {
        let of_thread = &mut self.threads[index];
        let access = match of_thread.arrived.pop_front() {
            Some(access) => {
                self.waiting -= 1;
                access
            }
            None => {
                let next = of_thread.taken;
                let late = pop_if(&mut of_thread.ahead, |late| late.ordinal == next)?;
                late.access
            }
        };
        of_thread.taken += 1;
        Some(access)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ThreadId, &OfThread)> {
        self.threads
            .iter()
            .map(|(thread, accesses)| (*thread, accesses))
    }

    /// The accesses of a thread, which may be new.
    pub(super) fn of_thread(&mut self, thread: ThreadId) -> Result<&mut OfThread, ReplayError> {
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&thread) {
            return Err(ReplayError::TooManyThreads { thread: thread.0 });
        }
        Ok(self.threads.entry(thread).or_default())
    }
}

/// Takes the first entry if it is such a one.
pub(super) fn pop_if<T>(entries: &mut VecDeque<T>, is_such: impl Fn(&T) -> bool) -> Option<T> {
    entries
        .front()
        .is_some_and(is_such)
        .then(|| entries.pop_front())?
}
