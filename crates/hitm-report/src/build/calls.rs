//! Call paths to the instructions of a row: chains of calls through the same functions taken
//! together.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::{CodeAddr, LineAddr};
use hitm_coherence::stats::{CallCounts, CallStats, RowKey, RowStats};
use hitm_recording::CodeLabel;

use crate::Names;
use crate::model::{CallFrame, CallPath, share};

/// Makes the call paths of rows. Names are asked for once for each address.
pub(super) struct CallPaths<'a> {
    names: &'a dyn Names,
    are_samples: bool,
    calls: &'a CallStats,
    paths_max: usize,
    /// By return address: the function that called, and those that it is inlined in.
    known: RefCell<BTreeMap<CodeAddr, Rc<[CallFrame]>>>,
}

/// Chains through the same functions.
#[derive(Default)]
struct Group {
    counts: CallCounts,
    /// Those of the chain that weighs most, which stands for all.
    frames: Vec<CallFrame>,
    weight: (u64, u64),
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
    /// statistics, of the instruction at `code`. A path begins with the functions that the row's own is inlined in.
    pub(super) fn of_row(
        &self,
        line: LineAddr,
        keys: impl Iterator<Item = RowKey>,
        code: CodeAddr,
        row: &RowStats,
    ) -> (Vec<CallPath>, u64) {
        if self.paths_max == 0 || self.calls.is_empty() {
            return (Vec::new(), 0);
        }
        let own = self.names.code_outwards(code);
        let outer = self.call_frames(code, &own[1..]);
        let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
        let chains = keys.flat_map(|key| self.calls.of_row(line, key));
        for (chain, counts) in chains {
            let frames = self.path(&outer, chain, &own[0].function);
            let functions = frames.iter().map(|frame| frame.function.clone()).collect();
            let group = groups.entry(functions).or_default();
            group.counts.merge(&counts);
            if weight(&counts) >= group.weight {
                group.weight = weight(&counts);
                group.frames = frames;
            }
        }
        let count = groups.len() as u64;
        let mut groups: Vec<Group> = groups.into_values().collect();
        // Stable: paths of equal weight stay in the order of their functions' names.
        groups.sort_by_key(|group| Reverse(weight(&group.counts)));
        let paths = groups.into_iter().take(self.paths_max);
        let paths = paths.map(|group| CallPath {
            access_count: group.counts.access_count,
            access_share: share(group.counts.access_count, row.sources.total()),
            lost_share: share(group.counts.contention_stall.0, row.contention_stall.0),
            frames: group.frames,
        });
        (paths.collect(), count)
    }

    /// The frames of a chain to an instruction in `function`, after those that this is inlined in.
    fn path(&self, outer: &[CallFrame], chain: &[CodeAddr], function: &str) -> Vec<CallFrame> {
        let calls: Vec<Rc<[CallFrame]>> = chain.iter().map(|code| self.frames(*code)).collect();
        // Samples are taken a moment late, mostly in the same function: their first call is none.
        let is_none = self.are_samples
            && calls
                .first()
                .is_some_and(|first| first[0].function == function);
        let calls = calls.iter().skip(is_none.into());
        let calls = calls.flat_map(|frames| frames.iter());
        outer.iter().chain(calls).cloned().collect()
    }

    /// The frames of a call, by its return address.
    fn frames(&self, code: CodeAddr) -> Rc<[CallFrame]> {
        let mut known = self.known.borrow_mut();
        let frames = known.entry(code).or_insert_with(|| {
            // The call is the instruction before.
            let labels = self.names.code_outwards(CodeAddr(code.0.saturating_sub(1)));
            self.call_frames(code, &labels).into()
        });
        Rc::clone(frames)
    }

    /// The functions at an instruction as frames, each inlined in the next.
    fn call_frames(&self, code: CodeAddr, labels: &[CodeLabel]) -> Vec<CallFrame> {
        let frames = labels.iter().enumerate().map(|(place, label)| CallFrame {
            function: label.function.clone(),
            is_inlined: place + 1 < labels.len(),
            code: CodeAddr(self.names.shown(code.0)),
            source: label.source(),
        });
        frames.collect()
    }
}
