//! The rest of a recording, read ahead for accesses that come long after their work.
//!
//! A thread that sleeps holds its last accesses back: nothing retires them, so they are priced when
//! it wakes, millions of records later. The records between need not wait for that. One look through
//! the rest of the file finds such accesses, which are few: what a core has under way for each sleep.

use std::collections::VecDeque;

use hitm_base::{Access, Outcome, ThreadId};
use hitm_trace::{Record, Visitor, Work};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::arrivals::{Arrivals, Arrived, Late, pop_if};
use super::{Call, THREADS_MAX, work_bytes};

/// Accesses that a work record takes.
#[derive(Debug, Clone, Copy)]
struct Claim {
    /// The number of the work among all works.
    work: u64,
    /// Its place: memory of all records before it, from the first work that waits on.
    at: usize,
    /// The number of the first access that it does not take.
    end: u64,
}

#[derive(Debug, Default)]
struct OfThread {
    /// Accesses of the file so far.
    delivered: u64,
    /// Accesses that works have taken before this look.
    taken: u64,
    /// Accesses that works take so far.
    claimed: u64,
    /// Works whose accesses have not come.
    claims: VecDeque<Claim>,
    late: VecDeque<Late>,
}

impl OfThread {
    /// Forgets what works from `until` on need.
    fn forget_from(&mut self, until: u64) {
        let claims = self.claims.partition_point(|claim| claim.work < until);
        self.claims.truncate(claims);
        let late = self.late.partition_point(|late| late.work < until);
        self.late.truncate(late);
    }

    fn bytes(&self) -> usize {
        self.claims.len() * size_of::<Claim>() + self.late.len() * size_of::<Late>()
    }
}

/// A look through the rest of a recording: see [`Replay::read_ahead`](super::Replay::read_ahead).
#[derive(Debug)]
pub struct ReadAhead {
    threads: IndexMap<ThreadId, OfThread, FxBuildHasher>,
    /// The work that waits.
    first_work: u64,
    next_work: u64,
    /// Works before this one get all their late accesses.
    until_work: u64,
    /// Memory of all records so far, as if all of them waited.
    at: usize,
    /// An access is late when it comes so many bytes after its work.
    late_after: usize,
    /// Memory of claims and late accesses, and the most of it.
    kept_bytes: usize,
    kept_bytes_max: usize,
}

impl ReadAhead {
    /// A look from where the file is now. `calls` and `arrivals` wait, and `work_count` works do not
    /// any more. What comes within half of `patience` bytes after its work is not late, and late accesses
    /// take `patience` bytes at most.
    pub(super) fn new<'c>(
        calls: impl Iterator<Item = &'c Call>,
        arrivals: &Arrivals,
        work_count: u64,
        patience: usize,
    ) -> ReadAhead {
        let of_thread = |(thread, accesses): (ThreadId, &super::arrivals::OfThread)| {
            let of_thread = OfThread {
                delivered: accesses.delivered,
                taken: accesses.taken,
                claimed: accesses.taken,
                ..OfThread::default()
            };
            (thread, of_thread)
        };
        let mut ahead = ReadAhead {
            threads: arrivals.iter().map(of_thread).collect(),
            first_work: work_count,
            next_work: work_count,
            until_work: u64::MAX,
            at: 0,
            late_after: patience / 2,
            kept_bytes: 0,
            kept_bytes_max: patience,
        };
        for call in calls {
            match call {
                Call::Work(work) => ahead.work(work),
                _ => ahead.at += size_of::<Call>(),
            }
        }
        ahead.at += arrivals.waiting_bytes();
        ahead
    }

    /// The end of the works whose late accesses have all been found.
    pub(super) fn until_work(&self) -> u64 {
        self.until_work
    }

    /// The late accesses of each thread, and how many accesses it has in the whole file.
    pub(super) fn into_late(self) -> impl Iterator<Item = (ThreadId, VecDeque<Late>, u64)> {
        let threads = self.threads.into_iter();
        threads.map(|(thread, of_thread)| (thread, of_thread.late, of_thread.delivered))
    }

    /// The entry of a thread. A replay refuses recordings with more threads than have one.
    fn of_thread(&mut self, thread: ThreadId) -> Option<&mut OfThread> {
        if self.threads.len() >= THREADS_MAX {
            return self.threads.get_mut(&thread);
        }
        Some(self.threads.entry(thread).or_default())
    }

    fn work(&mut self, work: &Work) {
        let (number, at) = (self.next_work, self.at);
        self.next_work += 1;
        self.at += work_bytes(work);
        let steps = work.steps.iter();
        let count = steps.filter(|step| !step.is_fence).count() as u64;
        if count == 0 || number >= self.until_work {
            return;
        }
        let Some(of_thread) = self.of_thread(work.thread) else {
            return;
        };
        of_thread.claimed += count;
        let end = of_thread.claimed;
        if end > of_thread.delivered && self.make_room() && number < self.until_work {
            let claims = &mut self.threads[&work.thread].claims;
            claims.push_back(Claim {
                work: number,
                at,
                end,
            });
            self.kept_bytes += size_of::<Claim>();
        }
    }

    fn late_access(&mut self, thread: ThreadId, late: Late) {
        if self.make_room() && late.work < self.until_work {
            self.threads[&thread].late.push_back(late);
            self.kept_bytes += size_of::<Late>();
        }
    }

    /// Returns true if there is room for one more, perhaps because later works get a look of their
    /// own. There is none when a single work has too many accesses: no recorder writes such works.
    fn make_room(&mut self) -> bool {
        if self.kept_bytes < self.kept_bytes_max {
            return true;
        }
        while self.kept_bytes > self.kept_bytes_max / 2 && self.until_work > self.first_work + 1 {
            let works = self.until_work.min(self.next_work) - self.first_work;
            self.until_work = self.first_work + (works / 2).max(1);
            for of_thread in self.threads.values_mut() {
                of_thread.forget_from(self.until_work);
            }
            self.kept_bytes = self.threads.values().map(OfThread::bytes).sum();
        }
        self.kept_bytes < self.kept_bytes_max
    }
}

impl Visitor for ReadAhead {
    fn access(&mut self, access: &Access, _: &Outcome) {
        self.at += size_of::<Arrived>();
        let (at, late_after) = (self.at, self.late_after);
        let Some(of_thread) = self.of_thread(access.thread) else {
            return;
        };
        let ordinal = of_thread.delivered;
        of_thread.delivered += 1;
        let mut done = 0;
        while pop_if(&mut of_thread.claims, |claim| claim.end <= ordinal).is_some() {
            done += 1;
        }
        let claim = of_thread.claims.front().copied();
        let is_taken = ordinal < of_thread.taken;
        self.kept_bytes -= done * size_of::<Claim>();
        if let Some(claim) = claim
            && !is_taken
            && at - claim.at > late_after
        {
            let late = Late {
                ordinal,
                work: claim.work,
                access: Arrived::of(access),
            };
            self.late_access(access.thread, late);
        }
    }

    fn record(&mut self, record: Record) {
        match record {
            Record::Work(work) => self.work(&work),
            // Some of them are no calls: then what follows is late a little sooner.
            _ => self.at += size_of::<Call>(),
        }
    }
}
