//! The fights of a line weighed against each other, and the verdict that follows.

use std::cmp::Reverse;

use super::{
    DISJOINT_LARGE_PERMILLE, DISJOINT_SMALL_PERMILLE, FIGHT_SHARE_DIVISOR, Fight, FightKind,
    Verdict,
};

/// Fights of one line. They weigh what they lost, or their contended accesses where none lost a cycle.
#[derive(Debug, Clone, Copy)]
pub struct Weighed<'a>(pub &'a [Fight]);

/// Sums over several fights.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FightSum {
    pub(super) contended_count: u64,
    pub(super) lost_cycles: u64,
}

impl Weighed<'_> {
    /// Thousandths of all that fights of a kind weigh.
    pub fn permille_of(self, kind: FightKind) -> u64 {
        self.permille(|other| other == kind)
    }

    /// Thousandths of all that fights weigh which would end if the bytes lay on different lines.
    pub fn layout_permille(self) -> u64 {
        self.permille(FightKind::is_curable_by_layout)
    }

    /// The verdict on a line with these fights.
    pub fn verdict(self) -> Verdict {
        let costlier = |a, b| match self.permille_of(a) >= self.permille_of(b) {
            true => FightKind::verdict(a),
            false => FightKind::verdict(b),
        };
        let layout = self.layout_permille();
        if self.0.is_empty() {
            Verdict::NoContention
        } else if layout <= DISJOINT_SMALL_PERMILLE {
            costlier(FightKind::Lock, FightKind::TrueSharing)
        } else if layout >= DISJOINT_LARGE_PERMILLE
            && layout == self.permille_of(FightKind::PairSharing)
        {
            Verdict::PairSharing
        } else if layout >= DISJOINT_LARGE_PERMILLE {
            costlier(FightKind::FalseSharing, FightKind::ReadMostlyWithHotWriter)
        } else {
            Verdict::Mixed
        }
    }

    /// The kinds that are worth a word, the costliest first.
    pub(super) fn main_kinds(self) -> Vec<FightKind> {
        let whole = self.weight(self.sum_of(|_| true));
        let weight_of = |kind| self.weight(self.sum_of(|other| other == kind));
        let mut kinds: Vec<FightKind> = self.0.iter().map(|fight| fight.kind).collect();
        kinds.sort_by_key(|kind| (Reverse(weight_of(*kind)), *kind));
        kinds.dedup();
        kinds.retain(|kind| weight_of(*kind).saturating_mul(FIGHT_SHARE_DIVISOR) >= whole);
        kinds
    }

    /// Contended accesses and lost cycles of the fights of some kinds.
    pub(super) fn sum_of(self, is_wanted: impl Fn(FightKind) -> bool) -> FightSum {
        let mut sum = FightSum::default();
        for fight in self.0.iter().filter(|fight| is_wanted(fight.kind)) {
            sum.contended_count += fight.contended_count;
            sum.lost_cycles = sum.lost_cycles.saturating_add(fight.lost_cycles);
        }
        sum
    }

    fn weight(self, sum: FightSum) -> u64 {
        match self.0.iter().any(|fight| fight.lost_cycles > 0) {
            true => sum.lost_cycles,
            false => sum.contended_count,
        }
    }

    fn permille(self, is_wanted: impl Fn(FightKind) -> bool) -> u64 {
        let part = u128::from(self.weight(self.sum_of(is_wanted)));
        let whole = u128::from(self.weight(self.sum_of(|_| true)));
        (part * 1000).checked_div(whole).unwrap_or(0) as u64
    }
}
