//! Partners of a structure's members: by name, as the user states, or by a place that leaves no doubt.

use std::collections::{BTreeMap, BTreeSet};

use hitm_layout::structs::{MemberDiff, MemberPlace, Pairing, Part};

use super::LINE;
use super::renames::{Rename, Renames};

/// Most candidates for a member without a partner.
const CANDIDATES_MAX: usize = 5;

/// A touched member of the first build that has no partner in the second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatched {
    /// Its name.
    pub member: String,
    /// Its accesses in the profile.
    pub access_count: u64,
    /// Its place in the first build.
    pub place: MemberPlace,
    /// Members of the second build without a partner, the likest first.
    pub candidates: Vec<Alike>,
}

/// A member that another one may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alike {
    /// Its name.
    pub member: String,
    /// Its place.
    pub place: MemberPlace,
    /// True if the offsets are the same.
    pub has_offset: bool,
    /// True if the sizes are.
    pub has_size: bool,
    /// True if the types are, by name.
    pub has_type: bool,
}

/// Pairs members by name and by `renames`. Pairs have the names of the first build.
pub(super) fn rows(old: &[Part], new: &[Part], renames: &Renames) -> Vec<MemberDiff> {
    let renames = renames.0.iter();
    let taken: BTreeSet<&str> = renames.clone().map(|rename| rename.old.as_str()).collect();
    let mut by_new: BTreeMap<&str, &str> = BTreeMap::new();
    for rename in renames {
        if let Some(new) = &rename.new {
            by_new.entry(new).or_insert(&rename.old);
        }
    }
    let members = Pairing {
        old,
        new,
        line_size: LINE,
    };
    members.by(&|part| {
        match by_new.get(part.name.as_str()) {
            Some(old) => Some(*old),
            // The first build's member of this name is called otherwise now, and this one is new.
            None => (!taken.contains(part.name.as_str())).then_some(&*part.name),
        }
    })
}

/// Finds members that have another name and nothing else: same offset, size and type, between the same
/// neighbours. Layout files name no types, so none is found there.
pub(super) fn automatic(old: &[Part], new: &[Part], stated: &Renames) -> Vec<Rename> {
    let names = |parts: &[Part]| -> BTreeSet<String> {
        parts.iter().map(|part| part.name.clone()).collect()
    };
    let (old_names, new_names) = (names(old), names(new));
    let is_stated = |part: &Part| {
        let mut stated = stated.0.iter();
        stated.any(|rename| rename.old == part.name || rename.new.as_deref() == Some(&*part.name))
    };
    let mut by_start: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (at, part) in new.iter().enumerate() {
        by_start.entry(part.bits.start).or_default().push(at);
    }
    let mut found = Vec::new();
    for (at, part) in old.iter().enumerate() {
        if new_names.contains(&part.name) || is_stated(part) || part.type_name.is_empty() {
            continue;
        }
        let is_it = |other: &Part| {
            other.bits == part.bits
                && other.type_name == part.type_name
                && !old_names.contains(&other.name)
                && !is_stated(other)
        };
        let there = by_start.get(&part.bits.start).into_iter().flatten();
        let there = there.map(|at| (*at, &new[*at]));
        let mut like = there.filter(|(_, other)| is_it(other));
        let (Some((there, other)), None) = (like.next(), like.next()) else {
            continue;
        };
        if has_same_neighbours(old, at, new, there) {
            found.push(Rename {
                old: part.name.clone(),
                new: Some(other.name.clone()),
                is_stated: false,
            });
        }
    }
    found
}

/// Returns true if the members beside `old[at]` have the names of those beside `new[there]`.
fn has_same_neighbours(old: &[Part], at: usize, new: &[Part], there: usize) -> bool {
    let name = |parts: &[Part], at: Option<usize>| {
        let part = at.and_then(|at| parts.get(at));
        part.map(|part| part.name.clone())
    };
    name(old, at.checked_sub(1)) == name(new, there.checked_sub(1))
        && name(old, Some(at + 1)) == name(new, Some(there + 1))
}

/// Members of the second build without a partner that one of the first may be, the likest first: of one
/// offset, then of one size, then of one type, then the nearest.
pub(super) fn candidates(place: &MemberPlace, rows: &[MemberDiff]) -> Vec<Alike> {
    let added = rows.iter().filter(|row| row.before.is_none());
    let mut alike: Vec<Alike> = added
        .filter_map(|row| {
            let there = row.after.clone()?;
            Some(Alike {
                member: row.name.clone(),
                has_offset: there.bit_offset == place.bit_offset,
                has_size: there.bit_size == place.bit_size,
                has_type: !there.type_name.is_empty() && there.type_name == place.type_name,
                place: there,
            })
        })
        .collect();
    alike.sort_by_key(|one| {
        let apart = one.place.bit_offset.abs_diff(place.bit_offset);
        (!one.has_offset, !one.has_size, !one.has_type, apart)
    });
    alike.truncate(CANDIDATES_MAX);
    alike
}
