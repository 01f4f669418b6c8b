//! The queue of one contended line: who gets it next.
//!
//! A line is served one request at a time. Requests that arrive while it is taken wait at the
//! line's home. When it becomes free, the waiters under the current owner's last-level cache go
//! first, each at most once per visit, then the oldest waiter of all, and with it the line moves.
//! The reason is how coherence is built: a request is resolved by the snoop filter next to the
//! owner before the rest of the machine sees it. The published atomic-increment figures of an
//! 8-socket Xeon 8176 show it: 28 CPUs of one socket 22.3 ns a transfer, 56 CPUs of two sockets
//! 23.7 ns, though a transfer between sockets takes three times as long as one inside; with first
//! come, first served every second transfer would cross.

use std::collections::VecDeque;

use hitm_base::{CpuId, Cycles};

use crate::bits::bits;

/// A request that could not be served at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub cpu: CpuId,
    /// Whether the line is wanted for writing.
    pub exclusive: bool,
    /// When the request left the core.
    pub issued: Cycles,
    /// When it reached the line's home.
    pub arrived: Cycles,
    /// The caller's own mark, handed back when the request is served; breaks ties.
    pub ticket: u64,
}

/// The waiters under one last-level cache, in the order in which they are served: by arrival, then
/// by ticket, then as they came. Requests come nearly in that order, so that a new one belongs at
/// the back or close to it.
#[derive(Debug, Clone)]
struct Group {
    /// The order of the first waiter; [`NOBODY`] when there is none.
    first: (Cycles, u64),
    waiters: VecDeque<Request>,
}

/// Behind every waiter.
const NOBODY: (Cycles, u64) = (Cycles::MAX, u64::MAX);

impl Request {
    #[inline]
    fn order(&self) -> (Cycles, u64) {
        (self.arrived, self.ticket)
    }
}

impl Default for Group {
    fn default() -> Group {
        Group {
            first: NOBODY,
            waiters: VecDeque::new(),
        }
    }
}

impl Group {
    #[inline]
    fn push(&mut self, request: Request) {
        let is_later = |waiter: &Request| waiter.order() > request.order();
        if self.waiters.back().is_some_and(is_later) {
            let place = self.waiters.partition_point(|waiter| !is_later(waiter));
            self.waiters.insert(place, request);
        } else {
            self.waiters.push_back(request);
        }
        self.first = self.first.min(request.order());
    }

    fn pop(&mut self) -> Option<Request> {
        let waiter = self.waiters.pop_front();
        self.first = self.waiters.front().map_or(NOBODY, Request::order);
        waiter
    }
}

/// The waiters of one line.
#[derive(Debug, Clone)]
pub struct LineQueue {
    /// By last-level cache, up to the last one that ever waited: at most 64.
    groups: Vec<Group>,
    /// The last-level caches with waiters, as bits.
    waiting: u64,
    /// When the first of all waiters arrived; `Cycles::MAX` when nobody waits.
    first_arrival: Cycles,
    /// Waiters that arrived later than this do not belong to the current visit.
    visit_began: Cycles,
}

impl Default for LineQueue {
    fn default() -> LineQueue {
        LineQueue {
            groups: Vec::new(),
            waiting: 0,
            first_arrival: Cycles::MAX,
            visit_began: Cycles::ZERO,
        }
    }
}

impl LineQueue {
    /// Adds a waiter whose CPU is under the last-level cache `llc`.
    pub fn push(&mut self, request: Request, llc: u16) {
        self.first_arrival = self.first_arrival.min(request.arrived);
        let group = usize::from(llc);
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Group::default);
        }
        self.groups[group].push(request);
        self.waiting |= 1 << llc;
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.first_arrival == Cycles::MAX
    }

    /// When the next waiter can be served if the line is free from `free_at` on.
    pub fn next_service(&self, free_at: Cycles) -> Option<Cycles> {
        (!self.is_empty()).then(|| self.first_arrival.max(free_at))
    }

    /// Takes the waiter that is served at `now`, with the line's present owner under the last-level
    /// cache `near`. Panics when nobody has arrived by `now`.
    pub fn take_next(&mut self, now: Cycles, near: u16) -> Request {
        let near = usize::from(near);
        let is_in_visit = |group: &Group| group.first.0 <= self.visit_began;
        let index = if self.groups.get(near).is_some_and(is_in_visit) {
            near
        } else {
            self.visit_began = now;
            self.oldest().unwrap_or(0)
        };
        let waiter = self.groups.get_mut(index).and_then(Group::pop);
        let waiter = waiter.expect("a line is served only when somebody waits for it");
        assert!(
            waiter.arrived <= now,
            "a request is served after it has arrived"
        );
        if self.groups[index].first == NOBODY {
            self.waiting &= !(1 << index);
        }
        let arrivals = self
            .waiting_groups()
            .map(|group| self.groups[group].first.0);
        self.first_arrival = arrivals.min().unwrap_or(Cycles::MAX);
        waiter
    }

    /// The group whose first waiter came before those of the others.
    fn oldest(&self) -> Option<usize> {
        self.waiting_groups()
            .min_by_key(|group| self.groups[*group].first)
    }

    fn waiting_groups(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.waiting).map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cpu: u16, arrived: u64) -> Request {
        Request {
            cpu: CpuId(cpu),
            exclusive: true,
            issued: Cycles(arrived),
            arrived: Cycles(arrived),
            ticket: u64::from(cpu),
        }
    }

    /// CPUs 0 to 9 are under one last-level cache, 10 and up under the other; the line starts under
    /// the first.
    #[test]
    fn near_waiters_go_first_but_only_once_per_visit() {
        let mut queue = LineQueue::default();
        let push = |queue: &mut LineQueue, cpu, arrived| {
            queue.push(request(cpu, arrived), u16::from(cpu >= 10));
        };
        push(&mut queue, 10, 5);
        push(&mut queue, 1, 6);
        push(&mut queue, 2, 7);
        // Nobody arrived before the last visit began at 0: the oldest goes, a new visit begins.
        assert_eq!(queue.take_next(Cycles(10), 0).cpu, CpuId(10));
        push(&mut queue, 11, 8);
        push(&mut queue, 10, 12);
        assert_eq!(queue.take_next(Cycles(20), 1).cpu, CpuId(11));
        // CPU 10 came back after this visit began, so the other package has its turn.
        assert_eq!(queue.take_next(Cycles(30), 1).cpu, CpuId(1));
        assert_eq!(queue.take_next(Cycles(40), 0).cpu, CpuId(2));
        assert_eq!(queue.next_service(Cycles(50)), Some(Cycles(50)));
        assert_eq!(queue.take_next(Cycles(50), 0).cpu, CpuId(10));
        assert!(queue.is_empty());
    }
}
