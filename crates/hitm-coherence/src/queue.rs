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

use hitm_base::{CpuId, Cycles};

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

/// The waiters of one line.
#[derive(Debug, Clone, Default)]
pub struct LineQueue {
    waiters: Vec<Request>,
    /// Waiters that arrived later than this do not belong to the current visit.
    visit_began: Cycles,
}

impl LineQueue {
    /// Adds a waiter.
    pub fn push(&mut self, request: Request) {
        self.waiters.push(request);
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// When the next waiter can be served if the line is free from `free_at` on.
    pub fn next_service(&self, free_at: Cycles) -> Option<Cycles> {
        let first_arrival = self.waiters.iter().map(|request| request.arrived).min()?;
        Some(first_arrival.max(free_at))
    }

    /// Takes the waiter that is served at `now`. `is_near` says whether a CPU is under the same
    /// last-level cache as the line's present owner. Panics when nobody has arrived by `now`.
    pub fn take_next(&mut self, now: Cycles, is_near: impl Fn(CpuId) -> bool) -> Request {
        let oldest = |waiters: &[Request], eligible: &dyn Fn(&Request) -> bool| {
            let candidates = waiters.iter().enumerate().filter(|(_, request)| eligible(request));
            candidates.min_by_key(|(_, r)| (r.arrived, r.ticket)).map(|(index, _)| index)
        };
        let in_visit = |r: &Request| r.arrived <= self.visit_began && is_near(r.cpu);
        if let Some(index) = oldest(&self.waiters, &in_visit) {
            return self.waiters.swap_remove(index);
        }
        self.visit_began = now;
        let index = oldest(&self.waiters, &|r| r.arrived <= now)
            .expect("a line is served only when somebody waits at its home");
        self.waiters.swap_remove(index)
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

    /// CPUs 0 to 9 in one package, 10 and up in the other; the line starts in the first.
    #[test]
    fn near_waiters_go_first_but_only_once_per_visit() {
        let mut queue = LineQueue::default();
        for waiter in [request(10, 5), request(1, 6), request(2, 7)] {
            queue.push(waiter);
        }
        let near_first_package = |cpu: CpuId| cpu.0 < 10;
        // Nobody arrived before the last visit began at 0: the oldest goes, a new visit begins.
        assert_eq!(queue.take_next(Cycles(10), near_first_package).cpu, CpuId(10));
        let near_second_package = |cpu: CpuId| cpu.0 >= 10;
        queue.push(request(11, 8));
        queue.push(request(10, 12));
        assert_eq!(queue.take_next(Cycles(20), near_second_package).cpu, CpuId(11));
        // CPU 10 came back after this visit began, so the other package has its turn.
        assert_eq!(queue.take_next(Cycles(30), near_second_package).cpu, CpuId(1));
        assert_eq!(queue.take_next(Cycles(40), near_first_package).cpu, CpuId(2));
        assert_eq!(queue.next_service(Cycles(50)), Some(Cycles(50)));
        assert_eq!(queue.take_next(Cycles(50), near_first_package).cpu, CpuId(10));
        assert!(queue.is_empty());
    }
}
