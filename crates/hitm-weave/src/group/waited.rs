//! Time that threads waited for one another: spinning, and asleep for a lock.
//!
//! A futex is a lock's if those that sleep there wake others there: who waits for a mutex gives it back later,
//! and then wakes the next one. A pool's idle threads, and one that joins others, are woken by those that
//! never slept there. Nothing else tells them apart from outside of the program.
//!
//! If each sleeper has a futex of its own, the sleep is one for the lock that the thread then tries again
//! ([`super::parked`]), by the same rule. Others are summed up: they may be for a lock or for work.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, Cycles, Machine, ThreadId};
use hitm_trace::{WaitKind, Waits};

use super::parked::Parked;
use crate::Slot;

/// Different waits that are told apart. Assumed: a program with more of them has too many to look at.
const PLACES_MAX: usize = 1 << 14;

/// Futexes that are remembered.
const FUTEXES_MAX: usize = 1 << 16;

/// A condition variable of glibc has two futexes in eight bytes, used in turn.
const FUTEX_MASK: u64 = !7;

/// Waits of a thread that are over, by looking at one word with one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spin {
    /// Address of the word that it looked at.
    pub word: u64,
    /// Address of the word by which it may have joined a queue before. It has if no other thread looks at `word`.
    pub queue: Option<u64>,
    /// The instruction.
    pub code: CodeAddr,
    /// Waits.
    pub count: u64,
    /// Instructions from the first look of each to its last.
    pub insns: u64,
    /// The looks that were locked operations.
    pub locked: u64,
}

impl Spin {
    /// Different ones that a thread may tell at a time.
    pub const KINDS_MAX: usize = 64;
}

/// A sleep of a kernel's task for one of the kernel's locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockSleep {
    /// Address of the lock.
    pub lock: u64,
    /// The call of the scheduler.
    pub code: CodeAddr,
    /// Its length.
    pub time: Cycles,
}

/// A sleep at a futex that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slept {
    pub(super) futex: u64,
    /// The instruction by which the thread went there.
    pub(super) code: CodeAddr,
    pub(super) time: Cycles,
    /// A wake ended it, and not its own time.
    pub(super) is_woken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    slot: usize,
    kind: WaitKind,
    word: u64,
    queue: Option<u64>,
    code: u64,
}

impl Place {
    /// Asleep for a word, from an instruction on.
    const fn asleep(slot: Slot, word: u64, code: CodeAddr) -> Place {
        Place {
            slot: slot.0,
            kind: WaitKind::Asleep,
            word,
            queue: None,
            code: code.0,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    insns: u64,
    locked: u64,
    slept: Cycles,
}

impl Sum {
    /// Cycles of its spins.
    fn spun(&self, machine: &Machine) -> Cycles {
        let core = &machine.core;
        let ran = u128::from(self.insns) * u128::from(core.cpi_milli) / 1000;
        let locked = u128::from(self.locked) * u128::from(core.locked_hit.0);
        Cycles(u64::try_from(ran + locked).unwrap_or(u64::MAX))
    }
}

/// Sleepers and wakers at a futex.
#[derive(Debug, Clone, Default)]
struct Users {
    /// Sleeps that a wake ended.
    sleeps: u64,
    sleepers: BTreeSet<Slot>,
    /// Wakes by threads that have slept there.
    wakes: u64,
    /// A kernel's lock.
    is_kernels: bool,
}

#[derive(Debug, Default)]
pub(super) struct Waited {
    sums: BTreeMap<Place, Sum>,
    /// The words that threads looked at, with the thread if there is only one.
    words: BTreeMap<u64, Option<usize>>,
    /// Count and cycles that were told of each place.
    told: BTreeMap<Place, (u64, Cycles)>,
    futexes: BTreeMap<u64, Users>,
    /// The lock for which a thread slept last at a futex of its own.
    locks: BTreeMap<u64, u64>,
}

impl Waited {
    pub(super) fn spun(&mut self, slot: Slot, spins: &[Spin]) {
        for spin in spins {
            let sum = self.sum(Place {
                slot: slot.0,
                kind: WaitKind::Spinning,
                word: spin.word,
                queue: spin.queue,
                code: spin.code.0,
            });
            // What a process says may be anything.
            sum.count = sum.count.saturating_add(spin.count);
            sum.insns = sum.insns.saturating_add(spin.insns);
            sum.locked = sum.locked.saturating_add(spin.locked);
        }
    }

    pub(super) fn slept(&mut self, slot: Slot, slept: &Slept) {
        let Some(users) = self.users_of(slept.futex) else {
            return;
        };
        // Who looks again after a while has not been let go.
        users.sleeps += u64::from(slept.is_woken);
        users.sleepers.insert(slot);
        let sum = self.sum(Place::asleep(slot, slept.futex, slept.code));
        sum.count += 1;
        sum.slept += slept.time;
    }

    /// The sleep was for a lock, at a futex that only this thread has.
    pub(super) fn slept_for(&mut self, slot: Slot, parked: &Parked, lock: u64) {
        let is_own = |users: &Users| users.sleepers.len() == 1;
        let users = self.futexes.get(&(parked.futex & FUTEX_MASK));
        if !users.is_some_and(is_own) {
            return;
        }
        // Who finds the lock taken again sleeps without a mark on it, and changes its queue's lock alone. So does a
        // thread that queues up for work, and waits for no lock.
        let lock = match self.locks.get(&parked.futex) {
            Some(known) if parked.may_be_queue(lock) => *known,
            None if parked.may_be_queue(lock) => return,
            _ => lock,
        };
        let Some(users) = self.users_of(lock) else {
            return;
        };
        users.sleeps += 1;
        users.sleepers.insert(slot);
        if self.locks.len() < FUTEXES_MAX || self.locks.contains_key(&parked.futex) {
            self.locks.insert(parked.futex, lock);
        }
        let own = self.sum(Place::asleep(slot, parked.futex, parked.code));
        own.count = own.count.saturating_sub(1);
        own.slept = own.slept.saturating_sub(parked.time);
        let sum = self.sum(Place::asleep(slot, lock, parked.code));
        sum.count += 1;
        sum.slept += parked.time;
    }

    /// Cycles asleep at words that no other thread sleeps at, of which nothing says if they were for a lock; without
    /// those at which threads wake others when they end.
    pub(super) fn parked_cycles(&self, ends: &BTreeSet<u64>) -> u64 {
        let of_one = |place: &Place| {
            let users = self.futexes.get(&(place.word & FUTEX_MASK));
            let is_own = users.is_some_and(|users| users.sleepers.len() == 1 && !users.is_lock());
            is_own && !ends.contains(&place.word)
        };
        let asleep = self.sums.iter();
        let asleep = asleep.filter(|(place, _)| place.kind == WaitKind::Asleep && of_one(place));
        asleep.fold(0, |all, (_, sum)| all.saturating_add(sum.slept.0))
    }

    /// A task that went to sleep on a CPU has slept for a lock of its kernel.
    pub(super) fn slept_in_kernel(&mut self, slot: Slot, slept: &LockSleep) {
        let Some(users) = self.users_of(slept.lock) else {
            return;
        };
        users.is_kernels = true;
        let sum = self.sum(Place::asleep(slot, slept.lock, slept.code));
        sum.count += 1;
        sum.slept += slept.time;
    }

    /// Knowledge of a futex; none if there are too many.
    fn users_of(&mut self, futex: u64) -> Option<&mut Users> {
        let word = futex & FUTEX_MASK;
        if self.futexes.len() >= FUTEXES_MAX && !self.futexes.contains_key(&word) {
            return None;
        }
        Some(self.futexes.entry(word).or_default())
    }

    /// The thread wakes those that sleep at a futex.
    pub(super) fn wakes(&mut self, slot: Slot, futex: u64) {
        let lock = self.locks.get(&futex).copied();
        for word in [Some(futex), lock].into_iter().flatten() {
            if let Some(users) = self.futexes.get_mut(&(word & FUTEX_MASK))
                && users.sleepers.contains(&slot)
            {
                users.wakes += 1;
            }
        }
    }

    fn sum(&mut self, mut place: Place) -> &mut Sum {
        if self.sums.len() >= PLACES_MAX && !self.sums.contains_key(&place) {
            (place.word, place.queue, place.code) = (0, None, 0);
        }
        if place.kind == WaitKind::Spinning {
            self.looked_at(place.word, place.slot);
        }
        self.sums.entry(place).or_default()
    }

    fn looked_at(&mut self, word: u64, slot: usize) {
        if self.words.len() >= PLACES_MAX && !self.words.contains_key(&word) {
            return;
        }
        let only = self.words.entry(word).or_insert(Some(slot));
        *only = only.filter(|one| *one == slot);
    }

    /// Tells of the sums that have changed since it was asked last.
    pub(super) fn take_news(&mut self, machine: &Machine, tell: &mut impl FnMut(Waits)) {
        let mut found: BTreeMap<Place, (u64, Cycles)> = BTreeMap::new();
        for (place, sum) in &self.sums {
            if !self.is_of_lock(place) {
                continue;
            }
            let spun = sum.spun(machine);
            let place = Place {
                word: self.lock_of(place),
                queue: None,
                ..*place
            };
            let all = found.entry(place).or_default();
            let cycles = spun.0.saturating_add(sum.slept.0);
            *all = (
                all.0.saturating_add(sum.count),
                Cycles(all.1.0.saturating_add(cycles)),
            );
        }
        // Another thread may have come to a word that was taken for a part of a queue: then that is taken back.
        for place in self.told.keys() {
            found.entry(*place).or_default();
        }
        for (place, news) in &found {
            if self.told.get(place) == Some(news) {
                continue;
            }
            tell(Waits {
                thread: ThreadId(place.slot as u32),
                kind: place.kind,
                word: place.word,
                code: CodeAddr(place.code),
                count: news.0,
                cycles: news.1,
            });
        }
        self.told = found;
    }

    fn is_of_lock(&self, place: &Place) -> bool {
        let users = self.futexes.get(&(place.word & FUTEX_MASK));
        place.kind == WaitKind::Spinning || users.is_some_and(Users::is_lock)
    }

    fn lock_of(&self, place: &Place) -> u64 {
        let is_own = self.words.get(&place.word) == Some(&Some(place.slot));
        place.queue.filter(|_| is_own).unwrap_or(place.word)
    }
}

impl Users {
    /// Half of the sleeps, at least, end with a wake of the next one by those that slept: fewer at a
    /// barrier, where one wakes all.
    fn is_lock(&self) -> bool {
        self.is_kernels || self.wakes > 0 && self.wakes * 2 >= self.sleeps
    }
}

#[cfg(test)]
mod tests {
    use super::super::parked::LastLocked;
    use super::*;

    const WORD: u64 = 0x1040;
    const CODE: CodeAddr = CodeAddr(0x40);

    fn slept(futex: u64, cycles: u64, is_woken: bool) -> Slept {
        Slept {
            futex,
            code: CODE,
            time: Cycles(cycles),
            is_woken,
        }
    }

    fn news(waited: &mut Waited) -> Vec<(u32, WaitKind, u64, u64)> {
        let toml = hitm_base::machine::preset("broadwell-4s").unwrap();
        let machine = Machine::from_toml(toml, "broadwell-4s").unwrap();
        let mut found = Vec::new();
        waited.take_news(&machine, &mut |waits| {
            found.push((waits.thread.0, waits.kind, waits.word, waits.cycles.0));
        });
        found
    }

    #[test]
    fn sums_are_told_when_they_change() {
        let mut waited = Waited::default();
        let spin = Spin {
            word: WORD,
            code: CODE,
            count: 1,
            insns: 1000,
            ..Spin::default()
        };
        waited.spun(Slot(3), &[spin, spin]);
        let first = news(&mut waited);
        let [(3, WaitKind::Spinning, WORD, cycles)] = first[..] else {
            panic!("{first:?}");
        };
        assert!(news(&mut waited).is_empty());
        waited.spun(Slot(3), &[spin, spin]);
        assert_eq!(news(&mut waited)[0].3, 2 * cycles);
    }

    #[test]
    fn what_a_process_says_wrongly_overflows_no_sum() {
        let mut waited = Waited::default();
        let spin = Spin {
            word: WORD,
            count: u64::MAX,
            insns: u64::MAX,
            locked: u64::MAX,
            ..Spin::default()
        };
        waited.spun(Slot(0), &[spin, spin, Spin { code: CODE, ..spin }]);
        assert!(news(&mut waited).iter().all(|told| told.3 == u64::MAX));
    }

    #[test]
    fn a_word_of_ones_own_is_a_part_of_a_queue() {
        let mut waited = Waited::default();
        let spin = |word| Spin {
            word,
            queue: Some(WORD),
            code: CODE,
            count: 1,
            insns: 1000,
            locked: 0,
        };
        waited.spun(Slot(0), &[spin(0x2000)]);
        waited.spun(Slot(1), &[spin(0x3000)]);
        let words = |waited| {
            news(waited)
                .into_iter()
                .map(|(thread, _, word, _)| (thread, word))
        };
        assert!(words(&mut waited).eq([(0, WORD), (1, WORD)]));
        waited.spun(Slot(1), &[spin(0x2000)]);
        let told = news(&mut waited);
        let of = |thread, word| {
            let found = told.iter().find(|told| (told.0, told.2) == (thread, word));
            found.map(|told| told.3)
        };
        assert_eq!(of(0, WORD), Some(0), "taken back: it is a ticket lock");
        assert!(of(0, 0x2000) > Some(0) && of(1, 0x2000) > Some(0));
        assert_eq!(of(1, WORD), None, "0x3000 is its own still");
    }

    #[test]
    fn who_waits_for_a_mutex_wakes_the_next_one() {
        let mut waited = Waited::default();
        for slot in [0, 1, 0, 1].map(Slot) {
            // An interpreter's thread looks again every 5 ms.
            for _ in 0..5 {
                waited.slept(slot, &slept(WORD, 80, false));
            }
            waited.slept(slot, &slept(WORD, 100, true));
            waited.wakes(slot, WORD + 4);
        }
        let asleep = |thread| (thread, WaitKind::Asleep, WORD, 1000);
        assert_eq!(news(&mut waited), [asleep(0), asleep(1)]);
    }

    #[test]
    fn sleepers_with_a_futex_each_sleep_for_the_lock_that_they_try_again() {
        let mut waited = Waited::default();
        let own = |slot: Slot| 0x9000 + 64 * slot.0 as u64;
        for slot in [0, 1, 0, 1].map(Slot) {
            waited.wakes(Slot(1 - slot.0), own(slot));
            waited.slept(slot, &slept(own(slot), 100, true));
            let last = LastLocked::default();
            let parked = Parked::new(own(slot), CODE, Cycles(100), &last).unwrap();
            waited.slept_for(slot, &parked, WORD);
        }
        // Nobody knows what this one slept for.
        waited.slept(Slot(2), &slept(own(Slot(2)), 700, true));
        let asleep = |thread| (thread, WaitKind::Asleep, WORD, 200);
        assert_eq!(news(&mut waited), [asleep(0), asleep(1)]);
        assert_eq!(waited.parked_cycles(&BTreeSet::new()), 700);
        assert_eq!(waited.parked_cycles(&BTreeSet::from([own(Slot(2))])), 0);
    }

    #[test]
    fn a_kernels_lock_is_one_whoever_wakes() {
        let mut waited = Waited::default();
        let lock = 0xffff_8880_0012_3458;
        for time in [300, 500].map(Cycles) {
            waited.slept_in_kernel(
                Slot(2),
                &LockSleep {
                    lock,
                    code: CODE,
                    time,
                },
            );
        }
        assert_eq!(news(&mut waited), [(2, WaitKind::Asleep, lock, 800)]);
    }

    #[test]
    fn idle_pools_and_barriers_wait_for_no_lock() {
        let mut waited = Waited::default();
        for slot in [0, 1, 0, 1].map(Slot) {
            waited.slept(slot, &slept(WORD, 500, true));
            waited.wakes(Slot(2), WORD);
        }
        // Three of four sleep until the last one comes.
        for round in 0..8 {
            for slot in 0..3 {
                waited.slept(Slot((round + slot) % 4), &slept(WORD + 64, 500, true));
            }
            waited.wakes(Slot((round + 3) % 4), WORD + 64);
        }
        assert!(news(&mut waited).is_empty());
    }

    #[test]
    fn waits_at_too_many_places_are_summed_up() {
        let mut waited = Waited::default();
        for number in 0..PLACES_MAX as u64 + 10 {
            let spin = Spin {
                word: 64 * number,
                count: 1,
                insns: 1000,
                ..Spin::default()
            };
            waited.spun(Slot(0), &[spin]);
        }
        assert!(waited.sums.len() <= PLACES_MAX + 1);
    }
}
