//! Costs of fights, and the fights of a line made of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{DISJOINT_SMALL_PERMILLE, Fight, FightKind, PLACE_SHARE_DIVISOR};

/// Contended accesses and lost cycles, of a place or of a part of its accesses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) contended: u64,
    pub(super) lost_cycles: u64,
}

impl Cost {
    /// `part` of `whole` of it. The parts of one whole, taken one after the other, add up to it.
    pub(super) fn part(self, part: u128, whole: u128) -> Cost {
        let of = |amount| (u128::from(amount) * part).checked_div(whole).unwrap_or(0) as u64;
        Cost {
            contended: of(self.contended),
            lost_cycles: of(self.lost_cycles),
        }
    }

    pub(super) fn without(self, other: Cost) -> Cost {
        Cost {
            contended: self.contended - other.contended,
            lost_cycles: self.lost_cycles - other.lost_cycles,
        }
    }

    pub(super) fn add(&mut self, other: Cost) {
        self.contended += other.contended;
        self.lost_cycles = self.lost_cycles.saturating_add(other.lost_cycles);
    }
}

/// Costs by the kind of fight and what tells fights of a kind apart, and by the bytes that they are over.
pub(super) type Costs = BTreeMap<(FightKind, u64), BTreeMap<u64, Cost>>;

/// The fights of some costs, the costliest first.
pub(super) fn fights_of(costs: Costs) -> Vec<Fight> {
    let mut fights: Vec<Fight> = Vec::new();
    for ((kind, _), places) in costs {
        let mut fight = fight_over(kind, &places);
        // A place that is truly shared as a word and as a part of it is one place.
        fights.retain(|other| {
            let same = kind == FightKind::TrueSharing
                && other.kind == kind
                && other.bytes & fight.bytes != 0;
            if same {
                fight.bytes |= other.bytes;
                fight.contended_count += other.contended_count;
                fight.lost_cycles = fight.lost_cycles.saturating_add(other.lost_cycles);
            }
            !same
        });
        fights.push(fight);
    }
    fights.retain(|fight| (fight.contended_count, fight.lost_cycles) != (0, 0));
    costliest_first(&mut fights);
    fights
}

fn costliest_first(fights: &mut [Fight]) {
    fights.sort_by_key(|fight| {
        (
            Reverse((fight.lost_cycles, fight.contended_count)),
            fight.kind,
            fight.bytes,
        )
    });
}

/// Fights of samples, which do not say what stores waited: where writers disturb one another through the line, the
/// readers beside them have no fight of their own.
pub(super) fn with_readers(fights: Vec<Fight>) -> Vec<Fight> {
    let is_of_layout = |fight: &Fight| fight.kind.is_curable_by_layout();
    let (of_layout, mut all): (Vec<Fight>, Vec<Fight>) = fights.into_iter().partition(is_of_layout);
    let contended = |fight: &Fight| u128::from(fight.contended_count);
    let falsely = of_layout
        .iter()
        .filter(|fight| fight.kind == FightKind::FalseSharing);
    let falsely: u128 = falsely.map(contended).sum();
    let whole: u128 = of_layout.iter().map(contended).sum();
    if falsely * 1000 <= whole * u128::from(DISJOINT_SMALL_PERMILLE) {
        all.extend(of_layout);
    } else {
        all.extend(of_layout.into_iter().reduce(|sum, fight| Fight {
            kind: FightKind::FalseSharing,
            bytes: sum.bytes | fight.bytes,
            contended_count: sum.contended_count + fight.contended_count,
            lost_cycles: sum.lost_cycles.saturating_add(fight.lost_cycles),
        }));
    }
    costliest_first(&mut all);
    all
}

/// A fight over places, those left out that hardly took part.
fn fight_over(kind: FightKind, places: &BTreeMap<u64, Cost>) -> Fight {
    let mut sum = Cost::default();
    places.values().for_each(|cost| sum.add(*cost));
    let takes_part = |cost: &Cost| {
        cost.contended.saturating_mul(PLACE_SHARE_DIVISOR) >= sum.contended.max(1)
            || cost.lost_cycles.saturating_mul(PLACE_SHARE_DIVISOR) >= sum.lost_cycles.max(1)
    };
    let taking_part = places.iter().filter(|(_, cost)| takes_part(cost));
    Fight {
        kind,
        bytes: taking_part.fold(0, |all, (mask, _)| all | mask),
        contended_count: sum.contended,
        lost_cycles: sum.lost_cycles,
    }
}
