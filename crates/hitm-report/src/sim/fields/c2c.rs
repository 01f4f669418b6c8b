//! The quantities of a line of the simulated kernel's memory, and of a member and a function in it.

use hitm::sim::{C2cCounts, C2cLine, C2cRow};
use hitm_fields::fields;

fields! {
    /// Of a line of the kernel's memory.
    pub line for C2cLine {
        /// Type of the object, all objects of a type together; with `->` what the member points to.
        object => known name "Object";
        /// Objects of the type that were in use.
        object_count => count "Objects";
        /// Offset of the line in the object.
        offset_bytes => offset "Offset";
        /// Loads that found the line modified in another package.
        remote_hitm_count => count "Rmt HITM", |l| l.counts.remote_hitm;
        /// Loads that found it modified in another core of the package.
        local_hitm_count => count "Lcl HITM", |l| l.counts.local_hitm;
        /// Loads that found it modified in another NUMA node, of the package or not.
        node_hitm_count => count "Node HITM", |l| l.counts.node_hitm;
        ..Accesses: load_count, store_count;
        /// Cycles that its loads took.
        load_cycles => cycles "Load cycles", |l| l.counts.load_cycles.0;
        /// Mean cycles of a load.
        load_cycles_mean => cycles "Cycles/load", |l| l.counts.load_cycles_mean();
        /// The least mean of a row with 1 % of the loads.
        load_cycles_row_min => cycles "Least", |l| l.load_cycles_range().map(|range| range.0);
        /// The largest mean of such a row.
        load_cycles_row_max => cycles "Largest", |l| l.load_cycles_range().map(|range| range.1);
    }
}

fields! {
    /// A row with its parts of the line.
    #[derive(Debug, Clone)]
    pub struct RowView in row {
        /// The row.
        row: C2cRow;
        /// Accesses to the whole line.
        whole: C2cCounts;
        /// Offset of the member in the line.
        offset_bytes => offset "Offset", |r| r.row.offset_bytes;
        /// The member's path in the object.
        member => known name "Member", |r| r.row.member;
        /// The kernel's function.
        function => name "Function", |r| r.row.function;
        /// Its part of the line's remote HITMs.
        remote_hitm_share => share "Rmt", |r| r.share(|counts| counts.remote_hitm);
        /// Its part of the line's local HITMs.
        local_hitm_share => share "Lcl", |r| r.share(|counts| counts.local_hitm);
        /// Its part of the line's HITMs from another NUMA node.
        node_hitm_share => share "Node", |r| r.share(|counts| counts.node_hitm);
        /// Its part of the line's stores.
        store_share => share "Store", |r| r.share(|counts| counts.stores);
        /// Mean cycles of its loads.
        load_cycles_mean => cycles "Cycles/load", |r| {
            let some = r.row.counts.loads > 0;
            some.then(|| r.row.counts.load_cycles_mean())
        };
        /// The longest of its loads, warm-up included.
        load_cycles_max => cycles "Max", |r| r.row.load_cycles_max.0;
        ..Accesses: load_count, store_count;
        /// Locked operations, which are among the loads and the stores.
        locked_count => count "Locked", |r| r.row.locked;
        /// CPUs that did it, warm-up included: numbers and ranges with spaces between.
        cpus => label "CPUs", |r| r.row.cpus.to_string();
    }
}

impl RowView {
    /// The rows of a line.
    pub fn of_line(line: &C2cLine) -> Vec<RowView> {
        let view = |row: &C2cRow| RowView {
            row: row.clone(),
            whole: line.counts,
        };
        line.rows.iter().map(view).collect()
    }

    /// The row's part of what the whole line has.
    fn share(&self, of: impl Fn(&C2cCounts) -> u64) -> f64 {
        match of(&self.whole) {
            0 => 0.0,
            all => of(&self.row.counts) as f64 / all as f64,
        }
    }
}

/// Whatever counts the accesses that it is about.
trait Accessed {
    fn counts(&self) -> &C2cCounts;
}

impl Accessed for C2cLine {
    fn counts(&self) -> &C2cCounts {
        &self.counts
    }
}

impl Accessed for RowView {
    fn counts(&self) -> &C2cCounts {
        &self.row.counts
    }
}

fields! {
    /// Counts of accesses.
    Accesses for T: Accessed {
        /// Loads and locked operations.
        load_count => count "Loads", |item| item.counts().loads;
        /// Stores and locked operations.
        store_count => count "Stores", |item| item.counts().stores;
    }
}
