//! Places in the program that contend for something, by what they lose.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::{CodeAddr, LineAddr};
use hitm_coherence::stats::{CallStats, LineStats, RowKey};
use hitm_recording::CodeLabel;

use super::functions::Functions;
use crate::model::{FindingPlace, share};

/// Places that are listed.
const PLACES_MAX: usize = 3;

/// Sums by place.
pub(super) struct Users<'a> {
    functions: &'a Functions<'a>,
    calls: &'a CallStats,
    /// By function and source.
    users: BTreeMap<(String, String), User>,
}

/// A place, and what it does.
#[derive(Default)]
struct User {
    label: CodeLabel,
    lost: u64,
    accesses: u64,
}

impl<'a> Users<'a> {
    pub(super) fn new(functions: &'a Functions<'a>, calls: &'a CallStats) -> Users<'a> {
        Users {
            functions,
            calls,
            users: BTreeMap::new(),
        }
    }

    /// Returns true as long as nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Adds the rows of a line that are wanted, by their call chains.
    pub(super) fn add_rows(
        &mut self,
        line: LineAddr,
        stats: &LineStats,
        is_wanted: impl Fn(&RowKey) -> bool,
    ) {
        let (functions, calls) = (self.functions, self.calls);
        for (key, row) in stats.rows.iter().filter(|(key, _)| is_wanted(key)) {
            for (chain, counts) in calls.parts_of_row(line, key, row) {
                let label = functions.place(key.code, chain.unwrap_or_default());
                self.add(label, counts.contention_stall.0, counts.access_count);
            }
        }
    }

    /// Adds accesses of an instruction whose callers are not known.
    pub(super) fn add_code(&mut self, code: CodeAddr, lost: u64, accesses: u64) {
        self.add(self.functions.place(code, &[]), lost, accesses);
    }

    fn add(&mut self, label: Option<CodeLabel>, lost: u64, accesses: u64) {
        let Some(label) = label else { return };
        let place = (label.function.clone(), label.source());
        let user = self.users.entry(place).or_default();
        user.label = label;
        user.lost = user.lost.saturating_add(lost);
        user.accesses = user.accesses.saturating_add(accesses);
    }

    /// The costliest places.
    pub(super) fn into_places(self) -> Vec<FindingPlace> {
        let sum = |of: fn(&User) -> u64| self.users.values().map(of).fold(0, u64::saturating_add);
        // Stores may lose nothing, and take the line from those who do.
        let (weight, all): (fn(&User) -> u64, u64) = match sum(|one| one.lost) {
            0 => (|one| one.accesses, sum(|one| one.accesses)),
            lost => (|one| one.lost, lost),
        };
        let mut users: Vec<User> = self.users.into_values().collect();
        // Stable: places of equal weight stay in the order of their names.
        users.sort_by_key(|one| Reverse(weight(one)));
        let users = users.into_iter().filter(|one| weight(one) > 0);
        let places = users.take(PLACES_MAX).map(|one| FindingPlace {
            source: one.label.source(),
            source_short: one.label.source_short(),
            lost_share: share(weight(&one), all),
            function: one.label.function,
        });
        places.collect()
    }
}
