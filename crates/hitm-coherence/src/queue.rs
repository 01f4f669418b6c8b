//! The queue of one contended line: the order in which its waiters are served.
//!
//! A line is served one request at a time. Requests that arrive while it is taken wait at the
//! line's home. When it becomes free, waiters under the current owner's last-level cache go first.
//! Each does so at most once per visit, and no more of them than the machine says. Then the oldest
//! waiter of all is served, and with it the line moves. A visit of one request is first come, first
//! served.

use std::collections::VecDeque;

use hitm_base::{CpuId, Cycles};

use crate::bits::bits;

/// A request that could not be served at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The requester.
    pub cpu: CpuId,
    /// True if the line is wanted for writing.
    pub exclusive: bool,
    /// Time at which the request left the core.
    pub issued: Cycles,
    /// Time at which it reached the line's home.
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
    /// Arrival of the first of all waiters; `Cycles::MAX` when nobody waits.
    first_arrival: Cycles,
    /// Waiters that arrived later than this do not belong to the current visit.
    visit_began: Cycles,
    /// Requests served in the current visit.
    visit_served: u16,
}

impl Default for LineQueue {
    fn default() -> LineQueue {
        LineQueue {
            groups: Vec::new(),
            waiting: 0,
            first_arrival: Cycles::MAX,
            visit_began: Cycles::ZERO,
            visit_served: 0,
        }
    }
}

impl LineQueue {
    /// Adds a waiter whose CPU is under the last-level cache `llc`; returns whether it arrived before
    /// all others.
    pub fn push(&mut self, request: Request, llc: u16) -> bool {
        let is_first = request.arrived < self.first_arrival;
        self.first_arrival = self.first_arrival.min(request.arrived);
        let group = usize::from(llc);
        if self.groups.len() <= group {
            self.groups.resize_with(group + 1, Group::default);
        }
        self.groups[group].push(request);
        self.waiting |= 1 << llc;
        is_first
    }

    /// Returns true if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.first_arrival == Cycles::MAX
    }

    /// Returns the time at which the next waiter can be served if the line is free from `free_at`
    /// on.
    pub fn next_service(&self, free_at: Cycles) -> Option<Cycles> {
        (!self.is_empty()).then(|| self.first_arrival.max(free_at))
    }

    /// The last-level cache whose first waiter is served next, with the line's present owner under
    /// the last-level cache `near`, and whether that begins a visit.
    #[inline]
    fn next_group(&self, near: u16, visit: Option<u16>) -> (usize, bool) {
        let near = usize::from(near);
        let may_stay = visit.is_none_or(|visit| self.visit_served < visit);
        // Later arrivals are for the next visit: CPUs that come back at once would keep the line
        // under their cache.
        let is_in_visit = |group: &Group| group.first.0 <= self.visit_began;
        if may_stay && self.groups.get(near).is_some_and(is_in_visit) {
            (near, false)
        } else {
            (self.oldest().unwrap_or(0), true)
        }
    }

    /// The CPU that [`LineQueue::take_next`] will serve, if no other request comes before.
    #[inline]
    pub fn next_cpu(&self, near: u16, visit: Option<u16>) -> Option<CpuId> {
        let (group, _) = self.next_group(near, visit);
        let first = self.groups.get(group)?.waiters.front()?;
        Some(first.cpu)
    }

    /// Takes the waiter that is served at `now`. The line's present owner is under the last-level
    /// cache `near`, and at most `visit` requests are served in one visit. Panics when nobody has
    /// arrived by `now`.
    pub fn take_next(&mut self, now: Cycles, near: u16, visit: Option<u16>) -> Request {
        let (index, begins) = self.next_group(near, visit);
        if begins {
            self.visit_began = now;
            self.visit_served = 0;
        }
        self.visit_served = self.visit_served.saturating_add(1);
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

    #[test]
    fn a_visit_ends_after_the_requests_that_it_may_serve() {
        // Under the first last-level cache CPUs 1, 2, 3 wait, under the other CPU 10, which came last.
        let order = |visit: Option<u16>| {
            let mut queue = LineQueue::default();
            for (cpu, arrived) in [(1, 1), (10, 2), (2, 3), (3, 4)] {
                queue.push(request(cpu, arrived), u16::from(cpu >= 10));
            }
            let mut near = 1;
            let served = (0..4).map(|turn| {
                assert!(queue.next_cpu(near, visit).is_some());
                let next = queue.next_cpu(near, visit);
                let request = queue.take_next(Cycles(10 + turn), near, visit);
                assert_eq!(next, Some(request.cpu), "as foretold");
                near = u16::from(request.cpu.0 >= 10);
                request.cpu.0
            });
            served.collect::<Vec<u16>>()
        };
        assert_eq!(order(Some(1)), [1, 10, 2, 3], "first come, first served");
        assert_eq!(order(Some(2)), [1, 2, 10, 3]);
        assert_eq!(order(None), [1, 2, 3, 10]);
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
        assert_eq!(queue.take_next(Cycles(10), 0, None).cpu, CpuId(10));
        push(&mut queue, 11, 8);
        push(&mut queue, 10, 12);
        assert_eq!(queue.take_next(Cycles(20), 1, None).cpu, CpuId(11));
        // CPU 10 came back after this visit began, so the other package has its turn.
        assert_eq!(queue.take_next(Cycles(30), 1, None).cpu, CpuId(1));
        assert_eq!(queue.take_next(Cycles(40), 0, None).cpu, CpuId(2));
        assert_eq!(queue.next_service(Cycles(50)), Some(Cycles(50)));
        assert_eq!(queue.take_next(Cycles(50), 0, None).cpu, CpuId(10));
        assert!(queue.is_empty());
    }
}
