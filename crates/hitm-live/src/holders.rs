//! Holders of locks while others wait: what they do, by the events of `hitm-bpf`.
//!
//! Time is that of waiters: a second in which three threads wait is three. A wait goes from leaving the CPU to running
//! again, and from the beginning to the end of a wait for a lock of the kernel.
//!
//! The owner is in the lock's word, behind it (`pthread_mutex_t`), or in the kernel's structure, and is read when somebody
//! begins to wait and when somebody is woken. Who wakes waiters by a system call has had the lock until then. Between a
//! release and the next look the lock was free until its next owner first ran: a thread that takes it again at once is
//! its holder all the time, and a woken thread is waking up until it runs.
//!
//! A clock of each CPU asks which words name the running thread. That is the share of its time for which a thread holds
//! a lock, also while nobody waits.
//!
//! Of words that threads spin for, all writes are watched in turns ([`WordWatches`]), and the last one that found the
//! lock free is the holder's. Waits are samples in loops that wait for the word, and the time in which a thread that
//! was sampled there last has no CPU.

mod account;
mod holds;
mod lock;
mod queue;
mod thread;

#[cfg(test)]
mod tests;

use hitm_bpf::{Filter, HeldTicks, HolderEvents};

use crate::lines::{Seen, WordWatches};
use crate::procfs;
use crate::recording::{LiveHolders, LiveTicks};
use crate::tracepoints::Waiters;
use account::Accounts;
use queue::{Item, Queue};

/// A sample of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spun {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Nanoseconds of CPU time for which the sample stands.
    pub period_ns: u64,
    /// The word that the thread spun for, if it did.
    pub word: Option<SpunWord>,
}

/// A word that a thread spins for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpunWord {
    /// Its address in the process.
    pub address: u64,
    /// Bytes that the loop looks at.
    pub bytes: u64,
}

/// A write to such a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// It has found the lock free.
    Got,
    /// It stores, whatever was there: the release of a lock.
    Stored,
    /// It has found the lock taken, or does not tell.
    Other,
}

/// Observes holders while it lives.
#[derive(Debug)]
pub struct Holders {
    events: HolderEvents,
    accounts: Accounts,
    /// Lost events of earlier windows.
    lost_before: u64,
    queue: Queue,
    watches: WordWatches,
}

impl Holders {
    /// Starts to observe.
    ///
    /// # Errors
    /// The reason: BPF programs do not work here, or no processes were named.
    pub fn attach(waiters: &Waiters) -> Result<Holders, String> {
        let filter = waiters.filter();
        if filter == Filter::All {
            let reason = "events of all threads are too many: name a process or a cgroup that has the cpu controller";
            return Err(reason.to_owned());
        }
        let events = HolderEvents::attach(&filter).map_err(|error| error.to_string())?;
        Ok(Holders {
            events,
            accounts: Accounts::new(present),
            lost_before: 0,
            queue: Queue::default(),
            watches: WordWatches::default(),
        })
    }

    /// Reason why page faults are not seen, if they are not: they count as running.
    pub fn without_faults(&self) -> Option<&str> {
        self.events.without_faults.as_deref()
    }

    /// Takes the events since the last call, and the samples up to it. Must be called some ten times a second. `tell`
    /// says what a thread behind an instruction has written.
    pub fn look(&mut self, spun: Vec<Spun>, tell: &mut dyn FnMut(&Seen) -> Write) {
        let until = self.queue.begin_look(hitm_bpf::monotonic_ns());
        let queue = &mut self.queue;
        self.events
            .drain(|event| queue.add(event.at_ns, Item::Event(event)));
        for sample in spun {
            queue.add(sample.time_ns, Item::Sample(sample));
        }
        for word in queue.words_to_leave(&self.accounts) {
            self.watches.remove(word);
            queue.add(until, Item::Ends(word));
        }
        if cfg!(target_arch = "x86_64") {
            for (word, bytes) in queue.words_to_watch(&self.accounts) {
                self.watches.add(word, bytes);
            }
        }
        let events = &self.events;
        self.watches
            .look(&|event| events.tell_of(event), |word, event| {
                queue.add_word(word, event, tell);
            });
        self.queue.pass(until, &mut self.accounts);
    }

    /// Takes the events since the last call. Nobody is watched for what they spin for.
    pub fn drain(&mut self) {
        self.look(Vec::new(), &mut |_| Write::Other);
    }

    /// Returns the times of all locks since the last call.
    ///
    /// # Errors
    /// Tables of the kernel cannot be read: the reason.
    pub fn end_window(&mut self) -> Result<LiveHolders, String> {
        self.drain();
        self.close()
    }

    /// Returns the times of all locks, those of `spun` as well, as for [`Holders::look`].
    ///
    /// # Errors
    /// Tables of the kernel cannot be read: the reason.
    pub fn finish(
        mut self,
        spun: Vec<Spun>,
        tell: &mut dyn FnMut(&Seen) -> Write,
    ) -> Result<LiveHolders, String> {
        self.look(spun, tell);
        let now = hitm_bpf::monotonic_ns();
        for word in self.watches.words() {
            self.queue.add(now, Item::Ends(word));
        }
        self.close()
    }

    fn close(&mut self) -> Result<LiveHolders, String> {
        let now = hitm_bpf::monotonic_ns();
        self.queue.pass(u64::MAX, &mut self.accounts);
        let lost_count = self.events.lost().map_err(|error| error.to_string())?;
        let ticks = self.events.take_ticks();
        let ticks = ticks.map_err(|error| error.to_string())?;
        let mut seen = self.accounts.end_window(now);
        seen.lost_count += lost_count - self.lost_before;
        self.lost_before = lost_count;
        seen.tick_ns = HolderEvents::TICK_NS;
        seen.ticks = ticks.into_iter().map(LiveTicks::from).collect();
        Ok(seen)
    }

    /// Threads whose writes to words that others spun for could not be watched: their number and a reason.
    pub fn unwatched(&self) -> Option<(u64, &str)> {
        let refused = self.watches.refused.as_ref();
        refused.map(|(count, reason)| (*count, reason.as_str()))
    }
}

impl From<HeldTicks> for LiveTicks {
    fn from(ticks: HeldTicks) -> LiveTicks {
        let HeldTicks {
            pid,
            tid,
            word,
            count,
        } = ticks;
        LiveTicks {
            pid,
            tid,
            word,
            count,
        }
    }
}

/// A thread that was there before its first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Present {
    tid: u32,
    is_running: bool,
}

/// Finds a thread of a process by its number in its PID namespace.
fn present(pid: u32, virtual_tid: u32) -> Option<Present> {
    let numbers = |tid: u32| -> Option<Vec<u32>> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_ascii_whitespace()
            .map(|number| number.parse().ok())
            .collect()
    };
    let is_in_namespace = numbers(pid)?.len() > 1;
    let is_it = |tid: &u32| numbers(*tid).is_some_and(|all| all.last() == Some(&virtual_tid));
    let tid = match is_in_namespace {
        false => Some(virtual_tid).filter(is_it),
        true => procfs::threads(pid).ok()?.into_iter().find(is_it),
    }?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    let state = stat.rsplit(')').next()?.trim_start().chars().next()?;
    Some(Present {
        tid,
        is_running: state == 'R',
    })
}
