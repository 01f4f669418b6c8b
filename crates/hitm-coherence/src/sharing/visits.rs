//! The fights in a line by its visits, one by one: what each would have cost if every byte had a line of its
//! own.
//!
//! A visit that met others on the place is a fight over what it met first; the others are lost through the
//! line only. All bytes of a lock count as one place: a visit to one part of it meets those that were at
//! another part meanwhile.

use std::collections::BTreeMap;

use super::costs::{Cost, Costs, fights_of};
use super::locks::Lock;
use super::uses::ByteCounts;
use super::{Fight, FightKind};
use crate::stats::{Ahead, Visit, VisitSum, Visits};

/// The bytes that are read-mostly: threads fetched the line for them, unchanged, at least
/// [`READS_PER_WRITE_MIN`] times as often as a visit wrote them.
pub(super) fn read_mostly(visits: &Visits) -> u64 {
    let mut counts = ByteCounts::default();
    for (visit, sum) in visits {
        let unchanged = if visit.met == 0 { visit.read } else { 0 };
        counts.add_reads(unchanged, sum.count);
        counts.add_writes(visit.written, sum.count);
    }
    counts.read_mostly()
}

/// Knowledge of a line's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    /// The locks.
    pub(super) locks: &'a [Lock],
    /// The bytes that are read-mostly.
    pub(super) read_mostly: u64,
}

/// Subject of a fight.
#[derive(Debug, Clone, Copy)]
struct Subject {
    kind: FightKind,
    /// Tells fights of a kind apart.
    id: u64,
    /// The bytes that it is over.
    bytes: u64,
}

/// The fights, the costliest first. `all` is what the line lost: of some visits the kind is not known, and they are
/// taken to be as the others.
pub(super) fn fights(visits: &Visits, of: Bytes<'_>, all: Cost) -> Vec<Fight> {
    let mut costs = Costs::new();
    let mut add = |subject: Subject, cost: Cost| {
        if cost != Cost::default() {
            let places = costs.entry((subject.kind, subject.id)).or_default();
            places.entry(subject.bytes).or_default().add(cost);
        }
    };
    for (visit, sum) in visits {
        let own = of.subject(visit);
        let mut rest = cost_of(sum);
        for (ahead, cycles) in sum.behind.iter() {
            let waited = Cost {
                contended: 0,
                lost_cycles: cycles.0.min(rest.lost_cycles),
            };
            rest = rest.without(waited);
            add(of.subject_behind(own, visit, &ahead), waited);
        }
        add(own, rest);
    }
    scale(&mut costs, all);
    fights_of(costs)
}

/// Makes the costs add up to those of all visits.
fn scale(costs: &mut Costs, all: Cost) {
    let places = costs.values().flat_map(BTreeMap::values);
    let known = places.fold(Cost::default(), |mut known, cost| {
        known.add(*cost);
        known
    });
    let part = |amount: u64, all: u64, known: u64| {
        let scaled = (u128::from(amount) * u128::from(all)).checked_div(known.into());
        scaled.unwrap_or(0) as u64
    };
    let scaled = |upto: Cost| Cost {
        contended: part(upto.contended, all.contended, known.contended),
        lost_cycles: part(upto.lost_cycles, all.lost_cycles, known.lost_cycles),
    };
    // What is left over by rounding goes to the next one.
    let mut upto = Cost::default();
    for cost in costs.values_mut().flat_map(BTreeMap::values_mut) {
        let given = scaled(upto);
        upto.add(*cost);
        *cost = scaled(upto).without(given);
    }
}

fn cost_of(sum: &VisitSum) -> Cost {
    Cost {
        contended: sum.contended_count,
        lost_cycles: sum.lost.0,
    }
}

impl Bytes<'_> {
    /// Subject of the fight that a visit belongs to.
    fn subject(self, visit: &Visit) -> Subject {
        let own = if visit.met == 0 {
            visit.read | visit.written
        } else {
            visit.met
        };
        // What meets others on more than a lock meets them on the rest.
        let is_at = |lock: &&Lock| lock.scope & own != 0 && (visit.met & !lock.scope == 0);
        let lock = self.locks.iter().find(is_at);
        match lock.map(|lock| (lock, is_met(visit, lock))) {
            Some((lock, true)) => {
                let bytes = if visit.met == 0 { visit.at } else { visit.met };
                return Subject::lock(lock, bytes);
            }
            None if visit.met != 0 => return Subject::shared(visit.met),
            _ => {}
        }
        Subject::line(visit, is_beside_read_mostly(visit, self.read_mostly))
    }

    /// Subject of the fight that a wait belongs to, of a visit to the fight over `own`, behind another visit.
    fn subject_behind(self, own: Subject, visit: &Visit, ahead: &Ahead) -> Subject {
        let mut locks = self.locks.iter();
        let lock = locks.find(|lock| lock.scope & ahead.used != 0);
        let is_needed = ahead.met != 0 || lock.is_some();
        if is_needed && own.kind.is_curable_by_layout() {
            // It would not have been there, but the line serves no more of those ahead in any time.
            return match lock {
                Some(lock) => Subject::lock(lock, ahead.used & lock.scope),
                None => Subject::shared(ahead.met),
            };
        }
        let is_of_lock =
            own.kind == FightKind::Lock && lock.is_some_and(|lock| lock.word == own.id);
        let common = ahead.used & (visit.read | visit.written) & !self.read_mostly;
        if is_needed && (is_of_lock || common != 0) {
            return own;
        }
        Subject::line(visit, ahead.used & !self.read_mostly == 0)
    }
}

impl Subject {
    fn lock(lock: &Lock, bytes: u64) -> Subject {
        Subject {
            kind: FightKind::Lock,
            id: lock.word,
            bytes,
        }
    }

    fn shared(bytes: u64) -> Subject {
        Subject {
            kind: FightKind::TrueSharing,
            id: bytes,
            bytes,
        }
    }

    /// The line alone, at the bytes where a visit found it gone.
    fn line(visit: &Visit, is_beside_read_mostly: bool) -> Subject {
        Subject {
            kind: match is_beside_read_mostly {
                true => FightKind::ReadMostlyWithHotWriter,
                false => FightKind::FalseSharing,
            },
            id: 0,
            bytes: visit.at,
        }
    }
}

/// Returns true if others have used a lock since the thread used it last.
fn is_met(visit: &Visit, lock: &Lock) -> bool {
    let has_used = visit.before & lock.scope != 0 && visit.others != 0;
    visit.others & lock.scope != 0 || (visit.met != 0 && !has_used)
}

/// Returns true if the visit reads what is read-mostly, or writes and lost the line to nobody but such readers.
fn is_beside_read_mostly(visit: &Visit, read_mostly: u64) -> bool {
    let others = visit.others;
    visit.at & !read_mostly == 0 || (others != 0 && others & !read_mostly == 0)
}
