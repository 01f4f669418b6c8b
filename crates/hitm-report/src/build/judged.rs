//! Contended lines with their verdicts, before they are named.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, CodeAddr, LineAddr};
use hitm_coherence::sharing::{Known, Sharing, Verdict, judge};
use hitm_coherence::stats::{HoldPlan, LineStats, RowKey, byte_mask};
use hitm_recording::SyncKind;

use super::locks::{self, LineLock, LineObjects};
use crate::model::{Totals, share};
use crate::{Names, WORTH_SHARE_MIN};

/// A line is a runtime's if the program's own accesses lost less than this part (one in ...) of what it lost.
const OWN_SHARE_DIVISOR: u64 = 20;

/// Cycles that accesses lost, and those of them that found the line gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Lost {
    cycles: u64,
    contended: u64,
}

/// A line with its verdict, before it is named.
pub(super) struct Judged<'a> {
    pub(super) line: LineAddr,
    pub(super) stats: &'a LineStats,
    /// The other line of its pair, where the machine fetches both.
    pub(super) other_of_pair: Option<&'a LineStats>,
    pub(super) sharing: Sharing,
    /// True if a runtime alone contends on it, for something of its own.
    pub(super) is_of_runtime: bool,
    /// Its lock objects, as far as they are known.
    pub(super) locks: Vec<LineLock>,
}

impl<'a> Judged<'a> {
    /// Judges a line once more, with its lock objects.
    pub(super) fn with_locks(self, names: &dyn Names, are_samples: bool) -> Judged<'a> {
        let LineObjects { locks, plain } = locks::lock_objects(names, self.line, self.stats);
        if locks.is_empty() && plain == 0 {
            return self;
        }
        let (counts, of_locks): (Vec<&LineLock>, Vec<&LineLock>) = locks
            .iter()
            .partition(|object| object.kind == SyncKind::Count);
        let masks: Vec<u64> = of_locks.iter().map(|lock| lock.mask).collect();
        let known = Known {
            are_samples,
            lock_objects: &masks,
            other_of_pair: self.other_of_pair,
            no_locks: counts.iter().fold(plain, |all, count| all | count.mask),
        };
        Judged {
            sharing: judge(self.stats, &known),
            locks,
            ..self
        }
    }
}

impl<'a> Judged<'a> {
    /// Losses at each place that `key` tells apart, the most first.
    fn lost_by<K: Ord>(&self, key: impl Fn(&RowKey) -> K) -> Vec<(K, Lost)> {
        let mut places: BTreeMap<K, Lost> = BTreeMap::new();
        for (row_key, row) in &self.stats.rows {
            let lost = places.entry(key(row_key)).or_default();
            lost.cycles = lost.cycles.saturating_add(row.contention_stall.0);
            lost.contended += row.sources.contended();
        }
        let mut places: Vec<(K, Lost)> = places.into_iter().collect();
        places.sort_by_key(|(_, lost)| Reverse(*lost));
        places
    }

    /// Marks a line that a runtime alone contends on.
    pub(super) fn with_runtime(self, names: &dyn Names) -> Judged<'a> {
        Judged {
            is_of_runtime: self.is_runtime(names),
            ..self
        }
    }

    /// Returns true if hardly any access of the program's own contends. It asks for no more names than it must.
    fn is_runtime(&self, names: &dyn Names) -> bool {
        let places = self.lost_by(|key| (key.offset, key.code));
        let measure = |lost: Lost| match places.first() {
            Some((_, most)) if most.cycles > 0 => lost.cycles,
            _ => lost.contended,
        };
        let all: u64 = places.iter().map(|(_, lost)| measure(*lost)).sum();
        let mut own = 0_u64;
        let mut left = all;
        for ((offset, code), lost) in &places {
            // The rest is too little to decide.
            if own.saturating_add(left).saturating_mul(OWN_SHARE_DIVISOR) < all {
                break;
            }
            left -= measure(*lost);
            let addr = self.line.first_byte() + u64::from(*offset);
            if !names.is_of_runtime(addr, *code) {
                own += measure(*lost);
            }
            if own.saturating_mul(OWN_SHARE_DIVISOR) >= all {
                return false;
            }
        }
        all > 0
    }

    /// The line's costliest lock, if one thread at a time holds it, with the instructions that give it back: plain
    /// stores, and writes in functions that say so.
    pub(super) fn held_lock(&self, names: &dyn Names) -> Option<HoldPlan> {
        let mask = self.sharing.lock_word;
        let known = self.locks.iter().filter(|lock| lock.mask & mask != 0);
        let kinds: Vec<SyncKind> = known.map(|lock| lock.kind).collect();
        let of_several = [SyncKind::ReadWriteLock, SyncKind::ConditionVariable];
        let is_of_several = kinds.iter().any(|kind| of_several.contains(kind));
        if self.sharing.verdict != Verdict::Lock || mask == 0 || is_of_several {
            return None;
        }
        let writes = self
            .stats
            .rows
            .keys()
            .filter(|key| key.op.is_write() && byte_mask(key.offset, key.size) & mask != 0);
        let releases = writes.filter(|key| {
            key.op == AccessOp::Store && kinds.is_empty()
                || names
                    .code_frames(key.code)
                    .iter()
                    .any(|frame| gives_back(&frame.function))
        });
        let releases: BTreeSet<CodeAddr> = releases.map(|key| key.code).collect();
        (!releases.is_empty()).then_some(HoldPlan {
            line: self.line,
            mask,
            releases,
        })
    }

    /// Offset and size of the place at which most was lost; of a lock with its data, the lock's.
    pub(super) fn dearest_place(&self) -> (u8, u8) {
        if self.sharing.verdict == Verdict::Lock && self.sharing.lock_word != 0 {
            return (self.sharing.lock_word.trailing_zeros() as u8, 1);
        }
        let places = self.lost_by(|key| (key.offset, key.size));
        places.first().map_or((0, 1), |(place, _)| *place)
    }
}

/// Returns true for a function that gives a lock back, by its name.
pub(crate) fn gives_back(function: &str) -> bool {
    let function = function.to_ascii_lowercase();
    ["unlock", "release", "sem_post", "up_read", "up_write"]
        .iter()
        .any(|part| function.contains(part))
}

/// Lines of which none alone is worth a word, parted in those of objects that are worth a change together, and the
/// others.
pub(super) fn worth_together<'a>(
    small: Vec<Judged<'a>>,
    names: &dyn Names,
    totals: &Totals,
) -> (Vec<Judged<'a>>, Vec<Judged<'a>>) {
    let is_worth = |lost: u64| share(lost, totals.thread_cycles) >= WORTH_SHARE_MIN;
    let lost = small.iter().map(|one| one.stats.contention_stall.0);
    // Most often there is no name to ask for.
    if !is_worth(lost.fold(0, u64::saturating_add)) {
        return (Vec::new(), small);
    }
    let mut lost: BTreeMap<Option<String>, u64> = BTreeMap::new();
    let kinds = small.iter().map(|one| {
        let (offset, _) = one.dearest_place();
        names.kind(one.line.first_byte() + u64::from(offset))
    });
    let kinds: Vec<Option<String>> = kinds.collect();
    for (one, kind) in small.iter().zip(&kinds) {
        let sum = lost.entry(kind.clone()).or_default();
        *sum = sum.saturating_add(one.stats.contention_stall.0);
    }
    let (together, apart): (Vec<_>, Vec<_>) = small
        .into_iter()
        .zip(kinds)
        .partition(|(_, kind)| kind.is_some() && is_worth(lost[kind]));
    let without_kinds =
        |lines: Vec<(Judged<'a>, _)>| lines.into_iter().map(|(one, _)| one).collect();
    (without_kinds(together), without_kinds(apart))
}
