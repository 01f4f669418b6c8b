//! Waits for kernel locks, as the tracepoints lock:contention_begin and lock:contention_end tell of them.
//!
//! They see waiters of mutexes (spinning and sleeping), spinlocks, rtmutexes and sleeping waiters of rwsems and
//! percpu_rwsems. They do not see who spins for an rwsem: its slow path returns before the tracepoint.

use aya::maps::{HashMap, StackTraceMap};

use crate::object::{Hook, Object, image};
use crate::{Error, Filter, comm, halves, monotonic_ns};

/// Waits of one task for one lock from one call chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockWait {
    /// The lock's address in the kernel.
    pub lock: u64,
    /// The waiting thread. Idle CPUs and the interrupts on them are thread 0.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name at the first of these waits.
    pub comm: String,
    /// LCB_F_* of the kernel's tracepoint: 1 spins, 2 reads, 4 writes, 8 rtmutex, 16 percpu_rwsem, 32 mutex.
    pub flags: u32,
    /// The number of its waits, with the wait that goes on.
    pub count: u64,
    /// The sum of its waits, with the time so far of the one that goes on.
    pub wait_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// True when the thread still waits.
    pub is_waiting: bool,
    /// Addresses in the kernel from the lock's slow path outwards, at most 48. Before it may stand `__traceiter_*`,
    /// where others trace as well. Empty when the chain was lost.
    pub stack: Vec<u64>,
}

/// Sums over all waits, and what did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockWaitCounts {
    /// Waits that ended.
    pub ended: u64,
    /// Waits that are missing, since more tasks waited at once than the table holds (8,192).
    pub lost_begins: u64,
    /// Ended waits that are missing, since the table of waits was full (16,384 rows).
    pub lost_waits: u64,
    /// Waits without call chain, since the table of chains was full (8,192 slots by hash).
    pub lost_stacks: u64,
    /// Ends without a beginning: waits from before the programs were attached, or of tasks that are not observed.
    pub unmatched: u64,
    /// Children that were not followed, since the table of processes was full (4,096).
    pub lost_processes: u64,
}

/// All counts up to now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockWaitTable {
    /// Rows in the order of lock, thread and call chain.
    pub waits: Vec<LockWait>,
    /// Sums, and what did not fit.
    pub counts: LockWaitCounts,
}

/// Programs that count waits for locks until this is dropped.
#[derive(Debug)]
pub struct LockWaits {
    object: Object,
}

impl LockWaits {
    /// Starts to count the waits of the tasks of `filter`. Processes are followed to what they start from now on.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(filter: &Filter) -> Result<LockWaits, Error> {
        let mut object = Object::open_filtered(image::LOCKS, filter, &[])?;
        if matches!(filter, Filter::Processes(_)) {
            object.attach("forget_process", Hook::Typed("sched_process_free"))?;
            object.attach("follow_fork", Hook::Typed("sched_process_fork"))?;
        }
        // Ends first: each beginning has its end then.
        object.attach("contention_end", Hook::Typed("contention_end"))?;
        object.attach("contention_begin", Hook::Typed("contention_begin"))?;
        Ok(LockWaits { object })
    }

    /// Returns all waits since the start. Counting goes on.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn read(&self) -> Result<LockWaitTable, Error> {
        let chains = StackTraceMap::try_from(self.object.map("stacks")?)?;
        let mut waits = Vec::new();
        let ended: HashMap<_, [u64; 2], [u64; 6]> = HashMap::try_from(self.object.map("waits")?)?;
        for row in ended.iter() {
            let (key, value) = row?;
            waits.push(LockWait::ended(key, value, &chains));
        }
        let now = monotonic_ns();
        let begun: HashMap<_, [u64; 2], [u64; 5]> = HashMap::try_from(self.object.map("begins")?)?;
        for row in begun.iter() {
            let (key, value) = row?;
            waits.push(LockWait::begun(key, value, now, &chains));
        }
        waits.sort();
        let [
            ended,
            lost_begins,
            lost_waits,
            lost_stacks,
            unmatched,
            lost_processes,
        ] = self.object.counts()?;
        Ok(LockWaitTable {
            waits: merged(waits),
            counts: LockWaitCounts {
                ended,
                lost_begins,
                lost_waits,
                lost_stacks,
                unmatched,
                lost_processes,
            },
        })
    }
}

type Chains<'a> = StackTraceMap<&'a aya::maps::MapData>;

impl LockWait {
    /// Reads `struct wait_key` and `struct wait` of locks.bpf.c.
    fn ended([lock, task]: [u64; 2], value: [u64; 6], chains: &Chains<'_>) -> LockWait {
        let [wait_ns, count, longest_ns, packed, name @ ..] = value;
        let (tid, stack) = halves(task);
        let (flags, pid) = halves(packed);
        LockWait {
            lock,
            tid,
            pid,
            comm: comm(name),
            flags,
            count,
            wait_ns,
            longest_ns,
            is_waiting: false,
            stack: frames(stack, chains),
        }
    }

    /// Reads `struct begin_key` and `struct begin` of locks.bpf.c.
    fn begun([lock, task]: [u64; 2], value: [u64; 5], now: u64, chains: &Chains<'_>) -> LockWait {
        let [at, packed, name @ .., process] = value;
        let (tid, _) = halves(task);
        let (stack, flags) = halves(packed);
        let wait_ns = now.saturating_sub(at);
        LockWait {
            lock,
            tid,
            pid: halves(process).0,
            comm: comm(name),
            flags,
            count: 1,
            wait_ns,
            longest_ns: wait_ns,
            is_waiting: true,
            stack: frames(stack, chains),
        }
    }

    fn is_same_place(&self, other: &LockWait) -> bool {
        (self.lock, self.tid) == (other.lock, other.tid) && self.stack == other.stack
    }
}

/// The kernel's number of a chain that could not be kept is -1; one that was overwritten is not found.
fn frames(stack: u32, chains: &Chains<'_>) -> Vec<u64> {
    let frames = chains.get(&stack, 0).ok();
    frames.map_or(Vec::new(), |chain| {
        chain.frames().iter().map(|frame| frame.ip).collect()
    })
}

/// Adds waits that go on to the row of those that ended at the same place.
fn merged(waits: Vec<LockWait>) -> Vec<LockWait> {
    let mut rows: Vec<LockWait> = Vec::with_capacity(waits.len());
    for wait in waits {
        let same = rows.iter_mut().rev();
        let same = same.take_while(|row| (row.lock, row.tid) == (wait.lock, wait.tid));
        match same.into_iter().find(|row| row.is_same_place(&wait)) {
            Some(row) => {
                row.count += wait.count;
                row.wait_ns += wait.wait_ns;
                row.longest_ns = row.longest_ns.max(wait.longest_ns);
                row.is_waiting |= wait.is_waiting;
                row.flags |= wait.flags;
            }
            None => rows.push(wait),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(lock: u64, stack: &[u64], wait_ns: u64) -> LockWait {
        LockWait {
            lock,
            tid: 7,
            pid: 7,
            comm: "hog".to_owned(),
            flags: 1,
            count: 1,
            wait_ns,
            longest_ns: wait_ns,
            is_waiting: false,
            stack: stack.to_vec(),
        }
    }

    #[test]
    fn a_wait_that_goes_on_joins_those_of_its_place() {
        let going_on = LockWait {
            is_waiting: true,
            flags: 2,
            ..wait(1, &[10], 50)
        };
        let rows = merged(vec![wait(1, &[10], 30), wait(1, &[11], 5), going_on]);
        assert_eq!(rows.len(), 2);
        let row = &rows[0];
        assert_eq!((row.count, row.wait_ns, row.longest_ns), (2, 80, 50));
        assert_eq!((row.flags, row.is_waiting), (3, true));
    }

    #[test]
    fn locks_and_chains_stay_apart() {
        let rows = vec![wait(1, &[10], 1), wait(1, &[11], 1), wait(2, &[10], 1)];
        assert_eq!(merged(rows.clone()), rows);
    }
}
