//! Growth of the tables of waits between readings.

use std::collections::BTreeMap;

use super::LockWait;

/// Sums at the last reading, by lock, thread and place.
#[derive(Debug, Default)]
pub struct Growth(BTreeMap<(u64, u32, Vec<u64>), (u64, u64)>);

impl Growth {
    /// Returns the waits since the last reading, with the part so far of unfinished ones.
    /// `longest_ns` is the maximum since the start. Sums only grow; unchanged rows are left out.
    pub fn since_last(&mut self, rows: Vec<LockWait>) -> Vec<LockWait> {
        let mut grown = Vec::new();
        for row in rows {
            let key = (row.lock, row.tid, row.stack.clone());
            let sums = (row.count, row.wait_ns);
            let last = self.0.insert(key, sums).unwrap_or_default();
            let wait = LockWait {
                count: row.count.saturating_sub(last.0),
                wait_ns: row.wait_ns.saturating_sub(last.1),
                ..row
            };
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
        let mut seen = Growth::default();
        let mut looks = |rows| {
            let waits = seen.since_last(rows).into_iter();
            let shown = waits.map(|wait| (wait.tid, wait.count, wait.wait_ns));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(looks(vec![row(8, 1, 30)]), [(8, 1, 30)]);
        // One wait continues, another thread begins.
        let both = vec![row(8, 1, 50), row(9, 2, 5)];
        assert_eq!(looks(both.clone()), [(8, 0, 20), (9, 2, 5)]);
        assert_eq!(looks(both), []);
    }
}
