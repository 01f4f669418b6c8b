//! Words that threads spin for: who has the lock is told by writes, who waits by samples.

use super::super::lock::{Holder, Key};
use super::super::thread::{State, Thread};
use super::super::{Spun, Write};
use super::{Accounts, ENTRIES_MAX, charge};

/// A sample is so many waiters for this time, as many as its period has such times: what it says is about its moment.
const MOMENT_NS: u64 = 1000;

impl Accounts {
    /// Returns true if threads sleep for the word in futex(2).
    pub(in super::super) fn is_slept_for(&self, key: Key) -> bool {
        let lock = self.locks.get(&key);
        lock.is_some_and(|lock| lock.is_watched.is_none())
    }

    /// From `at` on the writes of a word are seen.
    pub(in super::super) fn watch(&mut self, key: Key, at: u64) {
        self.now = self.now.max(at);
        if self.is_slept_for(key) || !self.has_room(key) {
            return;
        }
        let now = self.now;
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.is_watched = Some(false);
            lock.charge_unknown(now);
            lock.is_watched = Some(true);
            lock.holds.watch_from(now);
        }
    }

    /// From `at` on they are not.
    pub(in super::super) fn unwatch(&mut self, key: Key, at: u64) {
        self.now = self.now.max(at);
        let now = self.now;
        let Some(lock) = self.locks.get_mut(&key) else {
            return;
        };
        if lock.is_watched == Some(true) {
            charge(lock, &self.threads, now);
            lock.is_watched = Some(false);
            lock.holds.end_watch(now);
            self.set_holder(key, Holder::Unknown);
        }
    }

    /// A thread has written to a word.
    pub(in super::super) fn write(&mut self, key: Key, tid: u32, at: u64, write: Write) {
        self.now = self.now.max(at);
        let now = self.now;
        if !self.knows(tid) {
            return;
        }
        let Some(lock) = self.locks.get_mut(&key) else {
            return;
        };
        if lock.is_watched != Some(true) {
            return;
        }
        match (lock.holder == Holder::Known(tid), write) {
            (true, _) | (false, Write::Stored) => {
                lock.owners += 1;
                if let Some(thread) = self.threads.get(&tid) {
                    lock.holds.release(tid, thread, now);
                }
                self.release(key, tid, now);
            }
            (false, Write::Got) => {
                lock.owners += 1;
                if let Some(thread) = self.threads.get(&tid) {
                    lock.holds.begin(tid, thread, now);
                }
                charge(lock, &self.threads, now);
                self.set_holder(key, Holder::Known(tid));
            }
            (false, Write::Other) => {}
        }
    }

    /// A thread was sampled: in a loop that waits for a word, or elsewhere.
    pub(in super::super) fn sampled(&mut self, spun: &Spun) {
        self.now = self.now.max(spun.time_ns);
        let at = self.now;
        if !self.knows(spun.tid) {
            return;
        }
        let key = spun.word.map(|word| (spun.pid, word.address));
        if let Some(thread) = self.threads.get_mut(&spun.tid) {
            thread.spins_for = key.map(|key| (key, at.saturating_add(2 * spun.period_ns)));
        }
        let Some(key) = key.filter(|key| self.is_waited_for_by(*key, spun.tid)) else {
            return;
        };
        let waiters = (spun.period_ns / MOMENT_NS).cast_signed();
        self.change(key, waiters, at.saturating_sub(MOMENT_NS));
        self.change(key, -waiters, at);
    }

    /// A thread that spun up to now waits until it runs again.
    pub(super) fn wait_off_cpu(&mut self, tid: u32) {
        let at = self.now;
        let spins_for = self.threads.get(&tid).and_then(|thread| thread.spins_for);
        let Some((key, until)) = spins_for else {
            return;
        };
        if at > until || !self.is_waited_for_by(key, tid) {
            return;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.waits_for = Some(key);
            self.change(key, 1, at);
        }
    }

    /// Returns false where the thread has the lock since it was sampled, or the word is none of a spin lock.
    fn is_waited_for_by(&self, key: Key, tid: u32) -> bool {
        let lock = self.locks.get(&key);
        lock.is_some_and(|lock| lock.is_watched.is_some() && lock.holder != Holder::Known(tid))
    }

    /// Makes an entry for a thread that runs. Returns false where there is no room.
    fn knows(&mut self, tid: u32) -> bool {
        let has_room = self.threads.len() < ENTRIES_MAX || self.threads.contains_key(&tid);
        if has_room {
            let new = || Thread::new(State::Running);
            self.threads.entry(tid).or_insert_with(new);
        } else {
            self.lost_count += 1;
        }
        has_room
    }

    fn set_holder(&mut self, key: Key, holder: Holder) {
        let Some(lock) = self.locks.get_mut(&key) else {
            return;
        };
        let before = std::mem::replace(&mut lock.holder, holder);
        if let Holder::Known(tid) = before
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.holds.retain(|held| *held != key);
        }
        if let Holder::Known(tid) = holder
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.holds.push(key);
        }
    }
}
