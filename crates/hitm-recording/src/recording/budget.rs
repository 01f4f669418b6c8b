//! A bound on the memory that a recording's tables may take, whatever the file says.
//!
//! Chunks are compressed: a file of kilobytes can hold gigabytes of records that are all alike. What
//! does not fit is left out, counted, and told in the report.

use std::collections::BTreeMap;

/// Memory for all tables of names together. A kernel of 480 CPUs has some 200,000 objects of
/// 150 bytes.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Memory of one entry beside the entry itself: its share of the tree's nodes and of an
/// allocation's header.
const OVERHEAD_BYTES: usize = 48;

/// The memory that is left for tables.
#[derive(Debug, Clone)]
pub struct Budget {
    bytes_left: usize,
    left_out: BTreeMap<&'static str, u64>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            bytes_left: TABLE_BYTES_MAX,
            left_out: BTreeMap::new(),
        }
    }
}

impl Budget {
    /// Returns true if there is room for an entry with `bytes` of its own; counts one of `what` as left out
    /// when there is not.
    pub(crate) fn admits(&mut self, what: &'static str, bytes: usize) -> bool {
        let needed = bytes.saturating_add(OVERHEAD_BYTES);
        match self.bytes_left.checked_sub(needed) {
            Some(left) => {
                self.bytes_left = left;
                true
            }
            None => {
                self.leave_out(what, 1);
                false
            }
        }
    }

    /// Counts entries that others have left out.
    pub(crate) fn leave_out(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            let sum = self.left_out.entry(what).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// A sentence for each table from which something was left out.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> + '_ {
        self.left_out.iter().map(|(what, count)| {
            format!(
                "{count} {what} of the recording are left out: tables of names may take {} MiB",
                TABLE_BYTES_MAX >> 20
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut budget = Budget::default();
        assert!(budget.admits("mappings", TABLE_BYTES_MAX / 2));
        assert!(!budget.admits("mappings", TABLE_BYTES_MAX));
        assert!(!budget.admits("threads", usize::MAX));
        assert!(budget.admits("threads", 16));
        let said: Vec<String> = budget.describe().collect();
        assert_eq!(
            said[0],
            "1 mappings of the recording are left out: tables of names may take 64 MiB"
        );
        assert_eq!(said.len(), 2);
    }
}
