//! Members on quiet lines of a recording, and why they stay away from written ones.
//!
//! A recorder counts accesses to a line that one thread uses alone, or that all only read, without a record of
//! each. So little or nothing is known of members there, however often they are used: on a line with members that
//! others write each of these accesses could miss, and neither the model nor a replay would know. Members that lie
//! on a line with written ones now have all their accesses in the recording, and may lie anywhere.

use std::collections::BTreeSet;

use super::atoms::{Atom, LINE};
use super::bins::Weigher;
use super::plain::used;

/// Atoms by what is known of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Quiet {
    /// Those on quiet lines; empty where the profile has every access.
    quiet: BTreeSet<usize>,
    /// Those that are written often.
    written: BTreeSet<usize>,
}

impl Quiet {
    /// Finds the quiet atoms of a recording; `base` has the address of each instance.
    pub(super) fn find(weigher: &Weigher<'_>, base: &dyn Fn(u32) -> u64) -> Quiet {
        let all: Vec<usize> = (0..weigher.atoms.len()).collect();
        let written = used(weigher, &all).into_iter();
        let written: BTreeSet<usize> = written
            .filter(|used| used.is_written())
            .map(|used| used.atom)
            .collect();
        let mut instances: BTreeSet<u32> = BTreeSet::new();
        let mut busy: BTreeSet<(u32, u64)> = BTreeSet::new();
        for (spot, (atom, within, size)) in weigher.demand.spots.iter().zip(weigher.places) {
            instances.insert(spot.instance);
            if written.contains(atom) {
                let offset = weigher.atoms[*atom].old_offset + within;
                let lines = lines(base(spot.instance).saturating_add(offset), *size);
                busy.extend(lines.map(|line| (spot.instance, line)));
            }
        }
        let is_known = |atom: &Atom| {
            instances.iter().any(|instance| {
                let start = base(*instance).saturating_add(atom.old_offset);
                lines(start, atom.size).any(|line| busy.contains(&(*instance, line)))
            })
        };
        let quiet = all.into_iter();
        Quiet {
            quiet: quiet
                .filter(|atom| !is_known(&weigher.atoms[*atom]))
                .collect(),
            written,
        }
    }

    /// Returns true if little is known of an atom.
    pub(super) fn is_quiet(&self, atom: usize) -> bool {
        self.quiet.contains(&atom)
    }

    /// Returns true if a quiet atom and a written one are among these.
    pub(super) fn is_mixed(&self, atoms: &[usize]) -> bool {
        let has = |set: &BTreeSet<usize>| atoms.iter().any(|atom| set.contains(atom));
        has(&self.quiet) && has(&self.written)
    }

    /// Returns true if a quiet atom and a written one share a line where `offsets` puts the atoms.
    pub(super) fn is_mixed_at(&self, atoms: &[Atom], offsets: &[u64]) -> bool {
        let lines_of = |set: &BTreeSet<usize>| -> BTreeSet<u64> {
            let set = set.iter();
            set.flat_map(|atom| lines(offsets[*atom], atoms[*atom].size))
                .collect()
        };
        !lines_of(&self.quiet).is_disjoint(&lines_of(&self.written))
    }
}

fn lines(start: u64, size: u64) -> impl Iterator<Item = u64> {
    start / LINE..start.saturating_add(size.max(1)).div_ceil(LINE)
}
