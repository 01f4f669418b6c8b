//! The profile's knowledge of a changed type.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use hitm_layout::profile::Profile;
use hitm_layout::structs::MemberDiff;

use super::price::Priced;
use super::{Counted, Coverage, LINE};
use crate::accesses::Read;
use crate::inputs::Source;

pub(super) fn coverage(read: &Read, members: &[MemberDiff], sides: &[Priced; 2]) -> Coverage {
    let profile = &read.profile;
    let counts = counts(profile, members);
    let unknown = members.iter().zip(&counts);
    let unknown = unknown.filter(|(row, count)| row.after.is_some() && **count == 0);
    let functions: BTreeSet<&str> = profile
        .rows()
        .map(|(key, _)| key.function.as_str())
        .collect();
    let accesses = profile.rows().map(|(_, counts)| counts.total());
    let mut notes: Vec<String> = match read.source {
        Source::Published => read.notes.clone(),
        _ => read.counted.iter().cloned().collect(),
    };
    let shifted = read.bases.values().any(|base| base % LINE != 0);
    if shifted && sides[0].size_bytes != sides[1].size_bytes {
        notes.push(
            "instances begin inside lines: in the new build those of an array are taken to follow each \
             other, others to stay where they are"
                .to_owned(),
        );
    }
    Coverage {
        counted: match read.source {
            Source::Table => Counted::Stated,
            Source::Samples | Source::Published => Counted::Sampled,
            Source::Simulation => Counted::Simulated,
            Source::Recording => Counted::Recorded,
        },
        source: profile.source.clone(),
        access_count: accesses.fold(0, u64::saturating_add),
        function_count: functions.len() as u64,
        cpu_count: profile.cpus().len() as u64,
        unknown_members: unknown.map(|(row, _)| row.name.clone()).collect(),
        lacking: [0, 1].map(|side| sides[side].lacking.clone()),
        notes,
    }
}

/// Accesses of each member.
pub(super) fn counts(profile: &Profile, members: &[MemberDiff]) -> Vec<u64> {
    let mut counts = vec![0u64; members.len()];
    for (key, of_row) in profile.rows() {
        if let Some(at) = owner(members, &key.member) {
            counts[at] = counts[at].saturating_add(of_row.total());
        }
    }
    counts
}

/// The member that a path begins with, as an index: the one with the longest name. Of two with one
/// name, the one that is new is another member.
pub(super) fn owner<M: Borrow<MemberDiff>>(members: &[M], path: &str) -> Option<usize> {
    let begins = |name: &str| {
        let behind = path.strip_prefix(name);
        let ends = |behind: &str| behind.is_empty() || behind.starts_with(['.', '[']);
        !name.is_empty() && behind.is_some_and(ends)
    };
    let found = members.iter().enumerate();
    let found = found.map(|(at, row)| (at, row.borrow()));
    let found = found.filter(|(_, row)| begins(&row.name));
    found
        .max_by_key(|(_, row)| (row.name.len(), row.before.is_some()))
        .map(|(at, _)| at)
}
