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

mod account;
mod lock;
mod thread;

#[cfg(test)]
mod tests;

use hitm_bpf::{Filter, HeldTicks, HolderEvents};

use crate::procfs;
use crate::recording::{LiveHolders, LiveTicks};
use crate::tracepoints::Waiters;
use account::Accounts;

/// Observes holders while it lives.
#[derive(Debug)]
pub struct Holders {
    events: HolderEvents,
    accounts: Accounts,
    /// Lost events of earlier windows.
    lost_before: u64,
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
        })
    }

    /// Reason why page faults are not seen, if they are not: they count as running.
    pub fn without_faults(&self) -> Option<&str> {
        self.events.without_faults.as_deref()
    }

    /// Takes the events since the last call. Must be called some ten times a second.
    pub fn drain(&mut self) {
        let accounts = &mut self.accounts;
        self.events.drain(|event| accounts.take(&event));
    }

    /// Returns the times of all locks since the last call.
    ///
    /// # Errors
    /// Tables of the kernel cannot be read: the reason.
    pub fn end_window(&mut self) -> Result<LiveHolders, String> {
        self.drain();
        let lost_count = self.events.lost().map_err(|error| error.to_string())?;
        let ticks = self.events.take_ticks();
        let ticks = ticks.map_err(|error| error.to_string())?;
        let mut seen = self.accounts.end_window(hitm_bpf::monotonic_ns());
        seen.lost_count += lost_count - self.lost_before;
        self.lost_before = lost_count;
        seen.tick_ns = HolderEvents::TICK_NS;
        seen.ticks = ticks.into_iter().map(LiveTicks::from).collect();
        Ok(seen)
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
