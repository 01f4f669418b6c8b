//! Waits for locks of the kernel and of programs, summed by lock, task and call chain.

use aya::maps::{HashMap, StackTraceMap};

use crate::object::Object;
use crate::{Error, comm, halves, monotonic_ns};

/// Waits of one task for one lock from one call chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockWait {
    /// The lock's address in the kernel, or that of a futex word in its process.
    pub lock: u64,
    /// The waiting thread. Idle CPUs and the interrupts on them are thread 0.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name at the first of these waits.
    pub comm: String,
    /// LCB_F_* of the kernel's tracepoint: 1 spins, 2 reads, 4 writes, 8 rtmutex, 16 percpu_rwsem,
    /// 32 mutex. Zero for a futex.
    pub flags: u32,
    /// Number of its waits, an unfinished one included.
    pub count: u64,
    /// Sum of its waits, with the time so far of an unfinished one.
    pub wait_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
    /// True when the thread still waits.
    pub is_waiting: bool,
    /// Kernel addresses from the lock's slow path outwards, at most 48. A `__traceiter_*` function
    /// may precede them while other tracers are attached. Empty when the chain was lost.
    pub stack: Vec<u64>,
}

/// Sums over all waits, and waits that did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockWaitCounts {
    /// Waits that ended. The rows may have some that ended later, never fewer.
    pub ended: u64,
    /// Waits that are missing because more tasks waited at once than the table holds (8,192).
    pub lost_begins: u64,
    /// Ended waits that are missing because the table of waits was full (16,384 rows).
    pub lost_waits: u64,
    /// Waits without call chain, because the table of chains was full (8,192 slots by hash).
    pub lost_stacks: u64,
    /// Ends without a beginning: waits from before the programs were attached, or of unobserved
    /// tasks.
    pub unmatched: u64,
    /// Children that were not followed because the table of processes was full (4,096).
    pub lost_processes: u64,
}

/// All counts up to now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockWaitTable {
    /// Rows in the order of lock, thread and call chain.
    pub waits: Vec<LockWait>,
    /// Sums, and waits that did not fit.
    pub counts: LockWaitCounts,
}

impl LockWaitTable {
    /// Decodes the tables of waits.h.
    pub(crate) fn read(object: &Object) -> Result<LockWaitTable, Error> {
        // Waits go on ending. Counts of before the rows have no wait that is in no row.
        let [
            ended,
            lost_begins,
            lost_waits,
            lost_stacks,
            lost_processes,
            unmatched,
        ] = object.counts()?;
        let chains = StackTraceMap::try_from(object.map("stacks")?)?;
        let mut waits = Vec::new();
        let rows: HashMap<_, [u64; 2], [u64; 6]> = HashMap::try_from(object.map("waits")?)?;
        for row in rows.iter() {
            let (key, value) = row?;
            waits.push(LockWait::ended(key, value, &chains));
        }
        let now = monotonic_ns();
        let begun: HashMap<_, [u64; 2], [u64; 6]> = HashMap::try_from(object.map("begins")?)?;
        for row in begun.iter() {
            let (key, value) = row?;
            waits.push(LockWait::begun(key, value, now, &chains));
        }
        waits.sort();
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

/// The table of call chains.
type Chains<'a> = StackTraceMap<&'a aya::maps::MapData>;

impl LockWait {
    /// Decodes `struct wait_key` and `struct wait` of waits.h.
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

    /// Decodes `struct begin_key` and `struct begin` of waits.h.
    fn begun([_, task]: [u64; 2], value: [u64; 6], now: u64, chains: &Chains<'_>) -> LockWait {
        let [at, packed, name @ .., lock, process] = value;
        let (stack, flags) = halves(packed);
        let wait_ns = now.saturating_sub(at);
        LockWait {
            lock,
            tid: halves(task).0,
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

/// The kernel's number of a lost chain is -1; an overwritten one is not found.
fn frames(stack: u32, chains: &Chains<'_>) -> Vec<u64> {
    let frames = chains.get(&stack, 0).ok();
    frames.map_or(Vec::new(), |chain| {
        chain.frames().iter().map(|frame| frame.ip).collect()
    })
}

/// Adds unfinished waits to the row of those that ended at the same place.
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
