//! Costs of fights, and the fights of a line made of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Fight, FightKind, PLACE_SHARE_DIVISOR};

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
    fights.sort_by_key(|fight| {
        (
            Reverse((fight.lost_cycles, fight.contended_count)),
            fight.kind,
            fight.bytes,
        )
    });
    fights
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
