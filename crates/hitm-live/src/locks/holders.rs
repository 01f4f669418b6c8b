//! States of holders, beside the locks of samples and tracepoints.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, Lock};
use crate::recording::{HolderTimes, LiveHeld, LiveRecording, LiveTaker, LiveThread};

/// Takers and other locks that are kept for each lock.
const ROWS_MAX: usize = 5;

/// Places of a lock's holders while others waited for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockHolders {
    /// Times of the waiters.
    pub times: HolderTimes,
    /// Processes that had the CPU of a preempted holder, longest first.
    pub takers: Vec<LiveTaker>,
    /// Locks that a sleeping holder waited for itself, longest first.
    pub chain: Vec<HolderChain>,
}

/// A lock that holders of another one waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderChain {
    /// Its class, name and object, or its address.
    pub title: String,
    /// Nanoseconds of the waiters of the first lock.
    pub ns: u64,
}

/// Adds the recorded states to the locks that they are of.
pub(super) fn add(recording: &LiveRecording, locks: &mut [Lock]) {
    let Some(holders) = &recording.holders else {
        return;
    };
    let known = holders.locks.iter();
    let known: BTreeMap<(u32, u64), &LiveHeld> =
        known.map(|held| ((held.pid, held.lock), held)).collect();
    let keys: Vec<Vec<(u32, u64)>> = locks.iter().map(keys).collect();
    let titles: BTreeMap<(u32, u64), String> = locks
        .iter()
        .zip(&keys)
        .flat_map(|(lock, keys)| keys.iter().map(|key| (*key, lock.title())))
        .collect();
    for (lock, keys) in locks.iter_mut().zip(&keys) {
        let mut sum = LockHolders::default();
        for held in keys.iter().filter_map(|key| known.get(key)) {
            sum.add(held, &titles);
        }
        sum.shorten();
        lock.holders = (sum.times.all_ns() > 0).then_some(sum);
    }
}

/// Owners that words of programs have named, by the ticks of a clock.
#[derive(Debug, Default)]
pub(super) struct Owners {
    tick_ns: u64,
    /// Ticks by process, thread and word: none for all of the thread's time.
    ticks: BTreeMap<(u32, u32, Option<u64>), u64>,
    /// Words that have named an owner, by process.
    naming: BTreeSet<(u32, u64)>,
}

impl Owners {
    pub(super) fn of(recording: &LiveRecording) -> Owners {
        let Some(holders) = &recording.holders else {
            return Owners::default();
        };
        let ticks = holders.ticks.iter();
        Owners {
            tick_ns: holders.tick_ns,
            ticks: ticks
                .map(|own| ((own.pid, own.tid, own.word), own.count))
                .collect(),
            naming: holders.naming(),
        }
    }

    /// Sets the times of a program's lock whose word names its owner. Waiters spun for `spun_ns` in the program, which
    /// is neither time held nor other work.
    pub(super) fn count(&self, lock: &mut Lock, spun_ns: u64) {
        let keys = keys(lock);
        let is_naming = keys.iter().any(|key| self.naming.contains(key));
        if lock.class != Class::Futex || !is_naming {
            return;
        }
        let (mut held, mut all) = (0, 0);
        for part in &mut lock.threads {
            let LiveThread { pid, tid, .. } = part.thread;
            let ticks = |word| self.ticks.get(&(pid, tid, word)).copied().unwrap_or(0);
            let of_thread: u64 = keys.iter().map(|(_, word)| ticks(Some(*word))).sum();
            part.held_ns = of_thread * self.tick_ns;
            held += of_thread;
            all += ticks(None);
        }
        lock.held_ns = held * self.tick_ns;
        let rest_ns = all.saturating_sub(held) * self.tick_ns;
        lock.other_ns = rest_ns.saturating_sub(spun_ns);
        lock.working_samples = all;
        lock.is_hold_known = all > 0;
    }
}

/// The process, zero for the kernel, and the address of each lock that a row is of.
fn keys(lock: &Lock) -> Vec<(u32, u64)> {
    let pid = match lock.class {
        class if class == Class::Futex || class.is_spun_for() => {
            lock.threads.first().map_or(0, |part| part.thread.pid)
        }
        _ => 0,
    };
    let traced = lock.traced.iter().flat_map(|traced| &traced.addresses);
    let addresses: BTreeSet<u64> = match lock.class {
        Class::Futex => traced.chain(&lock.words).copied().collect(),
        class if class.is_spun_for() => lock.words.clone(),
        _ => traced.copied().collect(),
    };
    let addresses = addresses.into_iter();
    addresses.map(|address| (pid, address)).collect()
}

impl LockHolders {
    fn add(&mut self, held: &LiveHeld, titles: &BTreeMap<(u32, u64), String>) {
        self.times.add(&held.times);
        for taker in &held.takers {
            let same = |own: &&mut LiveTaker| (own.pid, &own.comm) == (taker.pid, &taker.comm);
            match self.takers.iter_mut().find(same) {
                Some(own) => own.ns = own.ns.saturating_add(taker.ns),
                None => self.takers.push(taker.clone()),
            }
        }
        for next in &held.chain {
            let named = titles.get(&(next.pid, next.lock)).cloned();
            let title = named.unwrap_or_else(|| format!("a lock at {:#x}", next.lock));
            match self.chain.iter_mut().find(|own| own.title == title) {
                Some(own) => own.ns = own.ns.saturating_add(next.ns),
                None => self.chain.push(HolderChain { title, ns: next.ns }),
            }
        }
    }

    fn shorten(&mut self) {
        self.takers.sort_by(|a, b| {
            let order = b.ns.cmp(&a.ns);
            order.then_with(|| (a.pid, &a.comm).cmp(&(b.pid, &b.comm)))
        });
        self.takers.truncate(ROWS_MAX);
        self.chain
            .sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.title.cmp(&b.title)));
        self.chain.truncate(ROWS_MAX);
    }
}

impl HolderTimes {
    fn add(&mut self, other: &HolderTimes) {
        let sum = |own: &mut u64, more: u64| *own = own.saturating_add(more);
        sum(&mut self.running_ns, other.running_ns);
        sum(&mut self.preempted_ns, other.preempted_ns);
        sum(&mut self.throttled_ns, other.throttled_ns);
        sum(&mut self.minor_fault_ns, other.minor_fault_ns);
        sum(&mut self.major_fault_ns, other.major_fault_ns);
        sum(&mut self.asleep_ns, other.asleep_ns);
        sum(&mut self.waking_ns, other.waking_ns);
        sum(&mut self.unknown_ns, other.unknown_ns);
    }
}
