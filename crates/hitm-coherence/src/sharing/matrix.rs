//! The reader/writer matrix of a line: which place's accesses lost the line to whom, and for what.
//!
//! A row is a place as a group of threads uses it, a column another thread of the same or of
//! another group. A contended access lost the line to a thread that wrote in it (or, when it writes
//! itself, that used it at all). To which one nobody recorded. So the thread's own contended
//! accesses are its weight: how often it is the one before when the order is random. Two threads
//! *meet* on the place when the other uses one of its bytes and one of the two writes. All bytes of
//! a lock count as one.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::CodeAddr;

use super::costs::{Cost, Costs, fights_of};
use super::locks::Lock;
use super::uses::{Place, PlaceUse, ThreadUse, Threads};
use super::{Fight, FightKind};

/// Threads that use the same places in the same ways, taken together.
#[derive(Debug, Default)]
struct Group {
    thread_count: u64,
    contended: u64,
    places: BTreeMap<Place, PlaceUse>,
    /// By instruction: the bytes it touches and its accesses.
    codes: BTreeMap<CodeAddr, (u64, u64)>,
    touched: u64,
    written: u64,
}

impl Group {
    fn add(&mut self, thread: &ThreadUse) {
        self.thread_count += 1;
        self.contended += thread.contended;
        self.touched |= thread.touched();
        self.written |= thread.written();
        for (place, used) in &thread.places {
            self.places.entry(*place).or_default().merge(used);
            for (code, accesses) in &used.codes {
                let of_code = self.codes.entry(*code).or_default();
                of_code.0 |= place.mask;
                of_code.1 += accesses;
            }
        }
    }

    /// Contended accesses of the threads that are not the one that asks.
    fn weight_for(&self, is_own: bool) -> u64 {
        match is_own {
            true => self.contended - self.contended / self.thread_count,
            false => self.contended,
        }
    }

    /// Accesses and contended accesses to places that overlap `bytes`.
    fn use_of(&self, bytes: u64) -> (u64, u64) {
        let places = self
            .places
            .iter()
            .filter(|(place, _)| place.mask & bytes != 0);
        places.fold((0, 0), |(accesses, contended), (_, used)| {
            (accesses + used.accesses, contended + used.contended)
        })
    }

    /// Probability, in thousandths, that a thread of this group that held the line touched a
    /// place for which `meets` holds.
    ///
    /// It is taken for certain, but for an instruction that touches several places, such as one
    /// that counts in the element of its own thread. It touches one at a time.
    fn chance_of(&self, meets: impl Fn(Place) -> bool) -> u64 {
        let met: Vec<(&Place, &PlaceUse)> =
            self.places.iter().filter(|(p, _)| meets(**p)).collect();
        let codes: BTreeSet<CodeAddr> = met
            .iter()
            .flat_map(|(_, used)| used.codes.keys().copied())
            .collect();
        let of_code = |code: CodeAddr| {
            let of_it = met
                .iter()
                .filter(|(_, used)| used.codes.contains_key(&code));
            let mask = of_it.clone().fold(0, |all, (place, _)| all | place.mask);
            let accesses = of_it.map(|(_, used)| used.codes[&code]).sum();
            self.chance_of_code(code, mask, accesses)
        };
        codes.into_iter().map(of_code).max().unwrap_or(0)
    }

    /// The same for the places `met` of one instruction, which it touched `accesses` times.
    fn chance_of_code(&self, code: CodeAddr, met: u64, accesses: u64) -> u64 {
        let (all, all_accesses) = self.codes[&code];
        if all & !met == 0 {
            return 1000;
        }
        let (pool, pool_contended) = self.use_of(all);
        let (_, met_contended) = self.use_of(met);
        let share = |part: u64, whole: u64| permille(part, whole);
        let (of_accesses, of_contended) = (
            share(accesses, all_accesses),
            share(met_contended, pool_contended),
        );
        let outside = self.places.values().map(|used| used.accesses).sum::<u64>() - pool;
        let outside_contended = self.contended - pool_contended;
        // A loop over several places touches all of them on each visit: visits begin elsewhere, or at
        // its first place.
        let visits_begin_elsewhere =
            outside_contended.saturating_mul(pool) > (2 * pool_contended).saturating_mul(outside);
        if visits_begin_elsewhere || 2 * of_contended < of_accesses {
            return 1000;
        }
        of_accesses.max(of_contended)
    }
}

fn permille(part: u64, whole: u64) -> u64 {
    let share = (u128::from(part) * 1000).checked_div(u128::from(whole));
    share.unwrap_or(0) as u64
}

/// A place as a group uses it: a row of the matrix.
#[derive(Debug, Clone, Copy)]
struct Row {
    group: usize,
    /// Index into the places of the matrix.
    place: usize,
    cost: Cost,
}

/// Reasons for which a place's accesses lost the line to a group.
#[derive(Debug, Clone, Copy, Default)]
struct Reason {
    /// The lock that the place is part of, when the group uses it too and one of the two writes.
    lock: Option<usize>,
    /// Probability, in thousandths, that they met on the place.
    chance: u64,
    /// The part with read-mostly bytes on one side, where they met on the line only; the second number is
    /// the whole.
    read_mostly: (u128, u128),
}

/// The matrix, filled: costs by fight and by the bytes where the line was missed.
#[derive(Debug)]
pub(super) struct Matrix<'a> {
    locks: &'a [Lock],
    read_mostly: u64,
    groups: Vec<Group>,
    places: Vec<Place>,
    /// By place and group, once known.
    reasons: Vec<Option<Reason>>,
    costs: Costs,
}

impl<'a> Matrix<'a> {
    pub(super) fn of(threads: &Threads, locks: &'a [Lock], read_mostly: u64) -> Matrix<'a> {
        let mut groups: BTreeMap<Vec<Place>, Group> = BTreeMap::new();
        for thread in threads.values() {
            let profile = thread.places.keys().copied().collect();
            groups.entry(profile).or_default().add(thread);
        }
        let groups: Vec<Group> = groups.into_values().collect();
        let places: BTreeSet<Place> = groups
            .iter()
            .flat_map(|group| group.places.keys().copied())
            .collect();
        let mut matrix = Matrix {
            locks,
            read_mostly,
            reasons: vec![None; groups.len() * places.len()],
            groups,
            places: places.into_iter().collect(),
            costs: BTreeMap::new(),
        };
        for row in matrix.rows() {
            matrix.divide(row);
        }
        matrix
    }

    fn rows(&self) -> Vec<Row> {
        let index_of = |place: &Place| self.places.binary_search(place).expect("it is one of them");
        let groups = self.groups.iter().enumerate();
        let rows = groups.flat_map(|(group, uses)| {
            uses.places.iter().map(move |(place, used)| Row {
                group,
                place: index_of(place),
                cost: Cost {
                    contended: used.contended,
                    lost_cycles: used.lost_cycles,
                },
            })
        });
        rows.filter(|row| row.cost != Cost::default()).collect()
    }

    /// Divides the cost of a row among the groups that can have taken the line.
    fn divide(&mut self, row: Row) {
        let writes = self.places[row.place].writes();
        let weights: Vec<u128> = self
            .groups
            .iter()
            .enumerate()
            .map(|(other, group)| match writes || group.written != 0 {
                true => group.weight_for(other == row.group).into(),
                false => 0,
            })
            .collect();
        let whole: u128 = weights.iter().sum();
        let (mut upto, mut given) = (0, Cost::default());
        for (other, weight) in weights.into_iter().enumerate() {
            upto += weight;
            let cost = row.cost.part(upto, whole).without(given);
            given.add(cost);
            if cost != Cost::default() {
                self.add(row.place, other, cost);
            }
        }
    }

    /// Adds what a place lost to a group: the part that met on the place, and the part that did not.
    fn add(&mut self, place: usize, other: usize, cost: Cost) {
        let index = other * self.places.len() + place;
        let place = self.places[place];
        let reason = match self.reasons[index] {
            Some(known) => known,
            None => {
                let found = self.reason(place, &self.groups[other]);
                *self.reasons[index].insert(found)
            }
        };
        let met = cost.part(reason.chance.into(), 1000);
        let through_line = cost.without(met);
        let (part, whole) = reason.read_mostly;
        let beside_readers = through_line.part(part, whole);
        let on_place = match reason.lock {
            Some(lock) => (FightKind::Lock, self.locks[lock].word),
            None => (FightKind::TrueSharing, place.mask),
        };
        let mut add = |fight, cost: Cost| {
            if cost != Cost::default() {
                let places = self.costs.entry(fight).or_default();
                places.entry(place.mask).or_default().add(cost);
            }
        };
        add(on_place, met);
        add((FightKind::ReadMostlyWithHotWriter, 0), beside_readers);
        add(
            (FightKind::FalseSharing, 0),
            through_line.without(beside_readers),
        );
    }

    fn reason(&self, place: Place, other: &Group) -> Reason {
        let lock = self.lock_of(place.mask);
        let lock = lock.filter(|&lock| {
            let scope = self.locks[lock].scope;
            let is_written = place.writes() || other.written & scope != 0;
            is_written && other.touched & scope != 0
        });
        let is_read_mostly = |place: Place| place.mask & !self.read_mostly == 0;
        let concerns = |taken: Place| place.writes() || taken.writes();
        // All bytes of a lock are one place.
        let (own, is_free) = match lock {
            Some(lock) => (self.locks[lock].scope, true),
            None => (place.mask, false),
        };
        let meets = |taken: Place| taken.mask & own != 0 && (is_free || concerns(taken));
        let takers = other.places.iter();
        let apart = takers.filter(|(taken, _)| concerns(**taken) && !meets(**taken));
        let read_mostly = match is_read_mostly(place) {
            true => (1, 1),
            false => apart.fold((0, 0), |(part, whole), (taken, used)| {
                let weight = u128::from(used.contended);
                let counted = if is_read_mostly(*taken) { weight } else { 0 };
                (part + counted, whole + weight)
            }),
        };
        Reason {
            lock,
            chance: other.chance_of(meets),
            read_mostly,
        }
    }

    fn lock_of(&self, bytes: u64) -> Option<usize> {
        self.locks.iter().position(|lock| lock.scope & bytes != 0)
    }

    /// The fights, the costliest first.
    pub(super) fn fights(self) -> Vec<Fight> {
        fights_of(self.costs)
    }
}
