//! Lines with waiters, by the time at which the next of them is served.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hitm_base::Cycles;

use crate::directory::{Directory, LineId};

/// The lines of one [`Directory`] that have waiters, the earliest service first.
///
/// A line's service may be put off after it was noted ([`Directory::hold`]); it is noted again when
/// its old time comes.
#[derive(Debug, Clone)]
pub struct Services {
    /// The least time in the heap; `Cycles::MAX` when it is empty.
    next: Cycles,
    /// An entry whose time is not the line's in `noted` is stale.
    heap: BinaryHeap<Reverse<(Cycles, LineId)>>,
    /// By line index; `Cycles::MAX` for a line without waiters.
    noted: Vec<Cycles>,
}

impl Default for Services {
    fn default() -> Services {
        Services {
            next: Cycles::MAX,
            heap: BinaryHeap::new(),
            noted: Vec::new(),
        }
    }
}

impl Services {
    /// Notes when the line's next waiter can be served, if it has one.
    pub fn note(&mut self, directory: &Directory, line: LineId) {
        let Some(time) = directory.next_service(line) else {
            return;
        };
        if self.noted.len() <= line.index() {
            self.noted.resize(line.index() + 1, Cycles::MAX);
        }
        if time < self.noted[line.index()] {
            self.noted[line.index()] = time;
            self.heap.push(Reverse((time, line)));
            self.next = self.next.min(time);
        }
    }

    /// No line is served before this time; `Cycles::MAX` when no line has waiters. It may be early,
    /// never late.
    #[inline]
    pub fn next_time(&self) -> Cycles {
        self.next
    }

    /// Takes the earliest service before `end`, if there is one. The caller serves the line and
    /// notes it again.
    #[inline]
    pub fn take_before(&mut self, directory: &Directory, end: Cycles) -> Option<(Cycles, LineId)> {
        while let Some(Reverse((time, line))) = self.heap.peek().copied() {
            if time >= end {
                return None;
            }
            self.heap.pop();
            self.next = self.heap.peek().map_or(Cycles::MAX, |first| first.0.0);
            if self.noted[line.index()] != time {
                continue;
            }
            self.noted[line.index()] = Cycles::MAX;
            match directory.next_service(line) {
                Some(actual) if actual > time => self.note(directory, line),
                Some(_) => return Some((time, line)),
                None => {}
            }
        }
        None
    }
}
