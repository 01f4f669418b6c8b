//! Contended lines with their verdicts, before they are named.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::LineAddr;
use hitm_coherence::sharing::{Known, Sharing, judge};
use hitm_coherence::stats::{LineStats, RowKey};
use hitm_recording::SyncKind;

use super::locks::{self, LineLock, LineObjects};
use crate::Names;
use crate::model::{Flagged, Totals, share};

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
    pub(super) sharing: Sharing,
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
            no_locks: counts.iter().fold(plain, |all, count| all | count.mask),
        };
        Judged {
            sharing: judge(self.stats, &known),
            locks,
            ..self
        }
    }
}

impl Judged<'_> {
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

    /// Kind of the object at which most was lost.
    fn kind(&self, names: &dyn Names) -> String {
        let places = self.lost_by(|key| key.offset);
        let kind = places.first().and_then(|(offset, _)| {
            let addr = self.line.first_byte() + u64::from(*offset);
            names.kind(addr)
        });
        kind.unwrap_or_default()
    }
}

/// All contended lines in brief.
pub(super) fn flagged(judged: &[Judged<'_>], names: &dyn Names, totals: &Totals) -> Vec<Flagged> {
    let lines = judged.iter().map(|one| Flagged {
        line: one.line,
        verdict: one.sharing.verdict,
        lost_cycles: one.stats.contention_stall.0,
        run_share: share(one.stats.contention_stall.0, totals.thread_cycles),
        false_sharing_cycles: one.sharing.layout_cycles(),
        false_sharing_run_share: share(one.sharing.layout_cycles(), totals.thread_cycles),
        has_false_sharing: one.sharing.has_layout_fight(),
        is_runtime: one.is_runtime(names),
        kind: one.kind(names),
    });
    lines.collect()
}
