//! A line that one thread uses, taken away because another thread fetches the other line of its pair.

use super::uses::{Threads, threads_of};
use super::{CONTENDED_COUNT_MIN, Fight, FightKind, Known};
use crate::stats::LineStats;

/// The fight over the pair that `line` is in, if its only thread has lost it to threads that fetch the other line.
/// Samples tell no pair: threads that only write have hardly any.
pub(super) fn fight(line: &LineStats, threads: &Threads, known: &Known<'_>) -> Option<Fight> {
    let other = known.other_of_pair.filter(|_| !known.are_samples)?;
    let (own, used) = threads.first_key_value()?;
    let fetching = threads_of(other).into_iter();
    let fetches = fetching.filter(|(thread, _)| thread != own);
    let fetched: u64 = fetches.map(|(_, used)| used.contended).sum();
    let places = used.places.iter().filter(|(_, used)| used.contended > 0);
    let fight = Fight {
        kind: FightKind::PairSharing,
        bytes: places.fold(0, |bytes, (place, _)| bytes | place.mask),
        contended_count: used.contended,
        lost_cycles: line.contention_stall.0,
    };
    (fetched >= CONTENDED_COUNT_MIN).then_some(fight)
}
