//! Waits for the kernel's locks, as its tracepoints tell of them, from look to look.

use std::collections::BTreeMap;

use hitm_bpf::{Filter, LockWait, LockWaits as Programs};

/// Waits of one thread for one lock from one place since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelWait {
    /// The lock's address.
    pub lock: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Waits that began.
    pub count: u64,
    /// Time waited, with that of a wait that goes on.
    pub wait_ns: u64,
    /// The longest wait of this place, with those before the last look.
    pub longest_ns: u64,
    /// Addresses in the kernel, from the lock's slow path outwards.
    pub stack: Vec<u64>,
}

/// BPF programs that count waits.
#[derive(Debug)]
pub struct LockWaits {
    programs: Programs,
    filter: Filter,
    seen: Seen,
}

impl LockWaits {
    /// Counts the waits of a process's threads from now on, or of all threads.
    ///
    /// # Errors
    /// BPF programs do not work here: the reason.
    pub fn attach(process: Option<u32>) -> Result<LockWaits, String> {
        let filter = process.map_or(Filter::All, |pid| Filter::Processes(vec![pid]));
        let programs = Programs::attach(&filter).map_err(|error| error.to_string())?;
        Ok(LockWaits {
            programs,
            filter,
            seen: Seen::default(),
        })
    }

    /// Returns the waits since the last look. When the tables in the kernel were full, they begin anew.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn take(&mut self) -> Result<Vec<KernelWait>, String> {
        let table = self.programs.read().map_err(|error| error.to_string())?;
        let grown = self.seen.growth(table.waits);
        if table.counts.lost_begins > 0 || table.counts.lost_waits > 0 {
            let programs = Programs::attach(&self.filter);
            self.programs = programs.map_err(|error| error.to_string())?;
            self.seen = Seen::default();
        }
        Ok(grown)
    }
}

/// Sums at the last look, by lock, thread and place.
#[derive(Debug, Default)]
struct Seen(BTreeMap<(u64, u32, Vec<u64>), (u64, u64)>);

impl Seen {
    /// Sums only grow; rows that did not are left out.
    fn growth(&mut self, rows: Vec<LockWait>) -> Vec<KernelWait> {
        let mut grown = Vec::new();
        for row in rows {
            let key = (row.lock, row.tid, row.stack);
            let last = self.0.get(&key).copied().unwrap_or_default();
            let wait = KernelWait {
                lock: row.lock,
                tid: row.tid,
                pid: row.pid,
                count: row.count.saturating_sub(last.0),
                wait_ns: row.wait_ns.saturating_sub(last.1),
                longest_ns: row.longest_ns,
                stack: key.2.clone(),
            };
            self.0.insert(key, (row.count, row.wait_ns));
            if wait.wait_ns > 0 {
                grown.push(wait);
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: u32, count: u64, wait_ns: u64) -> LockWait {
        LockWait {
            lock: 1,
            tid,
            pid: 7,
            comm: String::new(),
            flags: 0,
            count,
            wait_ns,
            longest_ns: wait_ns,
            is_waiting: true,
            stack: vec![10],
        }
    }

    #[test]
    fn a_look_has_the_waits_since_the_one_before() {
        let mut seen = Seen::default();
        let mut looks = |rows| {
            let waits = seen.growth(rows).into_iter();
            let shown = waits.map(|wait| (wait.tid, wait.count, wait.wait_ns));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(looks(vec![row(8, 1, 30)]), [(8, 1, 30)]);
        // One wait goes on, another thread begins.
        let both = vec![row(8, 1, 50), row(9, 2, 5)];
        assert_eq!(looks(both.clone()), [(8, 0, 20), (9, 2, 5)]);
        assert_eq!(looks(both), []);
    }
}
