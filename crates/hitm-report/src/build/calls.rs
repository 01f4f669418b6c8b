//! Call paths to the instructions of a row: chains of calls through the same functions taken
//! together.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::{CodeAddr, LineAddr};
use hitm_coherence::stats::{CallCounts, CallStats, RowKey, RowStats};

use crate::Names;
use crate::model::{CallFrame, CallPath, share};

/// Makes the call paths of rows. Names are asked for once for each address.
pub(super) struct CallPaths<'a> {
    names: &'a dyn Names,
    are_samples: bool,
    calls: &'a CallStats,
    paths_max: usize,
    known: RefCell<Known>,
}

/// Calls that have names.
#[derive(Default)]
struct Known {
    frames: BTreeMap<CodeAddr, (u32, CallFrame)>,
    /// Numbers of functions.
    functions: BTreeMap<String, u32>,
}

/// Chains through the same functions.
#[derive(Default)]
struct Group<'a> {
    counts: CallCounts,
    /// The one of them that weighs most, which stands for all.
    chain: &'a [CodeAddr],
    chain_weight: (u64, u64),
}

fn weight(counts: &CallCounts) -> (u64, u64) {
    (counts.contention_stall.0, counts.access_count)
}

impl<'a> CallPaths<'a> {
    pub(super) fn new(
        names: &'a dyn Names,
        are_samples: bool,
        calls: &'a CallStats,
        paths_max: usize,
    ) -> Self {
        CallPaths {
            names,
            are_samples,
            calls,
            paths_max,
            known: RefCell::default(),
        }
    }

    /// The hottest paths to a row, and how many there are in all. The row may be several of the
    /// statistics, in one function.
    pub(super) fn of_row(
        &self,
        line: LineAddr,
        keys: impl Iterator<Item = RowKey>,
        function: &str,
        row: &RowStats,
    ) -> (Vec<CallPath>, u64) {
        if self.paths_max == 0 || self.calls.is_empty() {
            return (Vec::new(), 0);
        }
        let mut groups: BTreeMap<Vec<u32>, Group<'_>> = BTreeMap::new();
        let chains = keys.flat_map(|key| self.calls.of_row(line, key));
        for (chain, counts) in chains {
            let chain = self.without_row(chain, function);
            let functions = chain.iter().map(|code| self.function(*code)).collect();
            let group = groups.entry(functions).or_default();
            group.counts.merge(&counts);
            if weight(&counts) >= group.chain_weight {
                group.chain_weight = weight(&counts);
                group.chain = chain;
            }
        }
        let count = groups.len() as u64;
        let mut groups: Vec<Group<'_>> = groups.into_values().collect();
        // Stable: paths of equal weight stay in the order of their functions' first appearance.
        groups.sort_by_key(|group| Reverse(weight(&group.counts)));
        let paths = groups.into_iter().take(self.paths_max);
        let paths = paths.map(|group| CallPath {
            access_count: group.counts.access_count,
            access_share: share(group.counts.access_count, row.sources.total()),
            lost_share: share(group.counts.contention_stall.0, row.contention_stall.0),
            frames: group.chain.iter().map(|code| self.frame(*code).1).collect(),
        });
        (paths.collect(), count)
    }

    /// Without a first call that is none: samples are taken a moment late, mostly in the same function.
    fn without_row<'c>(&self, chain: &'c [CodeAddr], function: &str) -> &'c [CodeAddr] {
        match chain.split_first() {
            Some((first, rest))
                if self.are_samples && self.frame(*first).1.function == function =>
            {
                rest
            }
            _ => chain,
        }
    }

    fn function(&self, code: CodeAddr) -> u32 {
        self.frame(code).0
    }

    /// A call and the number of its function.
    fn frame(&self, code: CodeAddr) -> (u32, CallFrame) {
        if let Some(known) = self.known.borrow().frames.get(&code) {
            return known.clone();
        }
        // A return address: the call is the instruction before.
        let name = self.names.code(CodeAddr(code.0.saturating_sub(1)));
        let mut known = self.known.borrow_mut();
        let next = known.functions.len() as u32;
        let number = *known.functions.entry(name.function.clone()).or_insert(next);
        let frame = CallFrame {
            code: CodeAddr(self.names.shown(code.0)),
            source: name.source(),
            function: name.function,
        };
        known.frames.insert(code, (number, frame.clone()));
        (number, frame)
    }
}
