//! Spinning: a thread looks again and again at a word that nobody changes, and does nothing else meanwhile.
//!
//! A look is a load of shared memory, or a locked operation on it. It is one again if the same instruction looked
//! at the same bytes a few instructions before, and the thread has written nothing in between but its stack. A
//! run of looks is a wait when it ends with a look that finds another value: the thread waited for that. A loop
//! that ends by counting finds the same value at its end and is no wait, nor is one that finds another value
//! nearly every time. Locked operations that leave the word as it was are of no use but to wait.
//!
//! Waiters of queue locks look at a word of their own, which they have written just before (MCS, osq, qspinlock), or
//! at one of the waiter before them (CLH). They wait for the word by which they joined the queue: that of a locked
//! operation just before. If that left a pointer to what the thread had just written, it joined for certain; else it
//! may have by the last one, and the recorder decides, who knows if other threads wait for the same word.
//!
//! An interrupt of a kernel breaks a run off. It goes on after the interrupt's return, and the time of the interrupt
//! is no part of the wait.
//!
//! A line that only the thread has used for a while becomes its own, and of its looks there the recorder sees one a
//! window. A run goes on there while the thread does little but load. The last look, that finds what another thread
//! has just written, may be among those that are not seen: then the word is looked up when the run is over.

use hitm_base::CodeAddr;
use hitm_weave::{REPRIVATISE_RUN, Spin};

/// Instructions from one look to the next, beside those that pauses allow. Assumed 128 (64 to 256): the loops of
/// Linux and glibc have 5 to 30, compiled without optimisation some 80.
const GAP_INSNS: u64 = 128;

/// Instructions for each load where looks are not all seen. Assumed 32 (16 to 64): loops that wait do little but look.
const LOAD_INSNS: u64 = 32;

/// Instructions that one pause instruction allows in addition: loops of pauses count and compare. Assumed 16.
const PAUSE_INSNS: u64 = 16;

/// Words that one loop looks at: waiters for a lock of Linux look at the lock, at its owner and whether they are to
/// yield.
const WORDS_MAX: usize = 8;

/// Stores from joining a queue to the first look: the thread tells the one before it who is next. Not instructions,
/// as its first looks are not seen while no other thread has used its place. Assumed 4 (1 to 8).
const JOIN_STORES: u64 = 4;

/// Locked operations that are remembered: joining a queue may take some, as stores of C++ may be exchanges.
const JOINED: usize = 4;

/// A thread's last stores: those to its own place in a queue are among them.
pub(crate) type LastStores = [u64; LAST_STORES];
pub(crate) const LAST_STORES: usize = 8;

/// Bytes of a waiter's place in a queue.
const NODE_BYTES: u64 = 128;

/// Looks that find the same value for each that finds another one, in a run with several of those: other tickets
/// are served first. Assumed 4 (2 to 16).
const SAME_MIN: u64 = 4;

/// A look at shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Look {
    pub(crate) addr: u64,
    pub(crate) code: CodeAddr,
    pub(crate) size: u64,
    pub(crate) is_locked: bool,
    /// Only this thread uses the line: most of its looks are not seen.
    pub(crate) is_private: bool,
    /// The bytes that are there after it.
    pub(crate) value: u64,
    pub(crate) at: Place,
}

/// Progress of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) insn: u64,
    /// Stores outside of its stack so far.
    pub(crate) stores: u64,
    /// Pause instructions so far.
    pub(crate) pauses: u64,
    /// Loads and locked operations so far.
    pub(crate) loads: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Word {
    addr: u64,
    code: CodeAddr,
    size: u64,
    value: u64,
    looks: u64,
    /// The word of the lock: the same, or the one by which the thread joined a queue for certain.
    lock: u64,
    /// The one by which it may have.
    queue: Option<u64>,
}

/// Looks so far at the words of one loop.
#[derive(Debug, Default)]
struct Run {
    words: [Word; WORDS_MAX],
    len: usize,
    first: Place,
    last: Place,
    /// The word of its last look, and if that was at a line that only the thread uses.
    last_word: usize,
    is_private: bool,
    looks: u64,
    locked: u64,
    same: u64,
    same_locked: u64,
    changed: u64,
    /// The word that was found changed last, and the look at which.
    found: (usize, u64),
    /// The word that a locked operation left as it was last.
    same_word: usize,
}

/// A locked operation.
#[derive(Debug, Clone, Copy)]
struct Joined {
    addr: u64,
    /// Stores before it.
    stores: u64,
    /// The word after it.
    value: u64,
}

/// A queue that a thread has joined, or may have.
#[derive(Debug, Clone, Copy)]
struct Queue {
    word: u64,
    is_certain: bool,
}

/// A thread's looks, and its waits that are over.
#[derive(Debug, Default)]
pub(crate) struct Spins {
    run: Run,
    /// The last locked operations, the latest last.
    joined: [Option<Joined>; JOINED],
    /// A run that something broke off, which may have been an interrupt.
    broken_off: Run,
    /// The last return from an interrupt.
    returned: Option<Place>,
    /// Since they were told last.
    pub(crate) over: Vec<Spin>,
    /// Looks up a word: address and bytes.
    now: Option<LookUp>,
}

/// Reads what is in memory at an address, so many bytes of it.
type LookUp = fn(u64, u64) -> Option<u64>;

impl Spins {
    /// Looks of which some are not seen.
    pub(crate) fn with(now: LookUp) -> Spins {
        Spins {
            now: Some(now),
            ..Spins::default()
        }
    }

    /// Returns true if the thread may look again at the word at `addr`, after so many stores.
    #[inline(always)]
    pub(crate) fn are_at(&self, addr: u64, stores: u64) -> bool {
        let words = &self.run.words[..self.run.len];
        self.run.last.stores == stores && words.iter().any(|word| word.addr == addr)
    }

    /// The thread looks, after these stores.
    pub(crate) fn look(&mut self, look: Look, stores: &LastStores) {
        if let Some(returned) = self.returned.take() {
            self.resume(&look, returned);
        }
        let writes_nothing = self.run.len > 0 && look.at.stores == self.run.last.stores;
        let goes_on = writes_nothing && look.at.is_near(self.run.last, false);
        let may_go_on = |place: &usize| {
            let may_be_unseen = look.is_private || self.run.may_be_private(*place);
            writes_nothing && look.at.is_near(self.run.last, may_be_unseen)
        };
        match self.run.place_of(&look).filter(may_go_on) {
            Some(index) => self.run.again(index, &look),
            // What only the thread changes is nothing to wait for, unless it was another's before.
            None if look.is_private => {}
            None => {
                if !goes_on || look.is_locked || self.run.len == WORDS_MAX {
                    self.end();
                }
                let queue = self.queue_of(&look, stores);
                self.run.first_look(&look, queue);
            }
        }
        if look.is_locked && !look.is_private {
            self.joined.rotate_left(1);
            self.joined[JOINED - 1] = Some(Joined {
                addr: look.addr,
                stores: look.at.stores,
                value: look.value,
            });
        }
    }

    /// Forgets what the thread did last, which is no part of its program.
    pub(crate) fn forget(&mut self) {
        self.run.len = 0;
    }

    /// An interrupt is over.
    pub(crate) fn returned(&mut self, at: Place) {
        self.end();
        self.returned = Some(at);
    }

    /// Goes on with what was broken off, if the thread looks as it did then.
    fn resume(&mut self, look: &Look, returned: Place) {
        let is_next = look.at.stores == returned.stores && look.at.is_near(returned, false);
        if is_next && self.broken_off.place_of(look).is_some() {
            self.run = std::mem::take(&mut self.broken_off);
            self.run.first.insn += look.at.insn - self.run.last.insn;
            self.run.last = look.at;
        }
    }

    /// The queue that the thread has joined, if it looks so.
    fn queue_of(&self, look: &Look, stores: &LastStores) -> Option<Queue> {
        let is_late = |joined: &&Joined| look.at.stores.wrapping_sub(joined.stores) <= JOIN_STORES;
        let joined = self.joined.iter().flatten().filter(is_late);
        let mut joined = joined.filter(|joined| joined.addr != look.addr);
        // Stores of C++ may be exchanges.
        let exchanged = self.joined.iter().flatten().map(|joined| joined.addr);
        let mut written = stores.iter().copied().chain(exchanged);
        let is_node = |joined: &&Joined| {
            let mut written = written.clone();
            written.any(|addr| addr.wrapping_sub(joined.value) < NODE_BYTES)
        };
        let certain = joined.clone().find(is_node);
        let other = || {
            joined
                .next_back()
                .filter(|_| written.any(|addr| addr == look.addr))
        };
        let by = certain.or_else(other)?;
        Some(Queue {
            // Linux joins by the upper half of the word.
            word: by.addr & !3,
            is_certain: certain.is_some(),
        })
    }

    /// The thread does something else.
    pub(crate) fn end(&mut self) {
        let unseen = || self.run.waited_unseen(self.now?);
        if let Some(index) = self.run.waited_for().or_else(unseen) {
            let word = self.run.words[index];
            let spin = Spin {
                word: word.lock,
                queue: word.queue,
                code: word.code,
                count: 1,
                insns: self.run.last.insn - self.run.first.insn,
                locked: self.run.locked,
            };
            self.keep(spin);
        } else if self.run.len > 0 && self.run.same > 0 {
            std::mem::swap(&mut self.run, &mut self.broken_off);
        }
        self.run.len = 0;
    }

    fn keep(&mut self, spin: Spin) {
        let place = |spin: &Spin| (spin.word, spin.queue, spin.code);
        let is_it = |kept: &&mut Spin| place(kept) == place(&spin);
        let is_full = self.over.len() == Spin::KINDS_MAX;
        let kept = match self.over.iter_mut().find(is_it) {
            Some(kept) => kept,
            None if !is_full => return self.over.push(spin),
            None => {
                let last = &mut self.over[Spin::KINDS_MAX - 1];
                (last.word, last.queue, last.code) = (0, None, CodeAddr(0));
                last
            }
        };
        kept.count += spin.count;
        kept.insns += spin.insns;
        kept.locked += spin.locked;
    }
}

impl Place {
    /// Returns true if the thread may have done nothing since `last` but wait, as far as instructions tell; by looks
    /// that were not seen, too, where there may be some.
    fn is_near(self, last: Place, may_be_unseen: bool) -> bool {
        let by_pauses = self
            .pauses
            .wrapping_sub(last.pauses)
            .saturating_mul(PAUSE_INSNS);
        let by_loads = match may_be_unseen {
            true => self
                .loads
                .wrapping_sub(last.loads)
                .saturating_mul(LOAD_INSNS),
            false => 0,
        };
        let allowed = GAP_INSNS.saturating_add(by_pauses).saturating_add(by_loads);
        self.insn.wrapping_sub(last.insn) <= allowed
    }
}

impl Run {
    /// Returns true if the recorder may have given the line of a word to the thread by now, which looked at no
    /// other last.
    fn may_be_private(&self, place: usize) -> bool {
        let looks = self.words[place].looks;
        self.last_word == place && (self.is_private || looks >= u64::from(REPRIVATISE_RUN))
    }

    /// The place of the word among those that the run looks at, by the same instruction.
    fn place_of(&self, look: &Look) -> Option<usize> {
        let mut words = self.words[..self.len].iter();
        words.position(|word| (word.addr, word.code) == (look.addr, look.code))
    }

    fn first_look(&mut self, look: &Look, queue: Option<Queue>) {
        if self.len == 0 {
            *self = Run {
                words: self.words,
                first: look.at,
                ..Run::default()
            };
        }
        let certain = queue.filter(|queue| queue.is_certain);
        let uncertain = queue.filter(|queue| !queue.is_certain);
        self.words[self.len] = Word {
            addr: look.addr,
            code: look.code,
            size: look.size,
            value: look.value,
            looks: 0,
            lock: certain.map_or(look.addr, |queue| queue.word),
            queue: uncertain.map(|queue| queue.word),
        };
        self.len += 1;
        self.note(self.len - 1, look);
    }

    fn again(&mut self, index: usize, look: &Look) {
        let word = &mut self.words[index];
        let is_same = std::mem::replace(&mut word.value, look.value) == look.value;
        self.note(index, look);
        match is_same {
            true if look.is_locked => {
                self.same += 1;
                self.same_locked += 1;
                self.same_word = index;
            }
            true => self.same += 1,
            false => {
                self.changed += 1;
                self.found = (index, self.looks);
            }
        }
    }

    fn note(&mut self, index: usize, look: &Look) {
        self.words[index].looks += 1;
        self.last_word = index;
        self.last = look.at;
        self.is_private = look.is_private;
        self.looks += 1;
        self.locked += u64::from(look.is_locked);
    }

    /// The word that the thread waited for, if it was changed after the last look that was seen.
    fn waited_unseen(&self, now: LookUp) -> Option<usize> {
        let is_wait = self.len > 0 && self.may_be_private(self.last_word) && self.finds_the_same();
        if !is_wait {
            return None;
        }
        let word = &self.words[self.last_word];
        (now(word.addr, word.size) != Some(word.value)).then_some(self.last_word)
    }

    /// The word that the thread waited for, if it did.
    fn waited_for(&self) -> Option<usize> {
        if self.len == 0 || self.same == 0 {
            return None;
        }
        if self.same_locked > 0 && self.changed * SAME_MIN <= self.same_locked {
            return Some(self.same_word);
        }
        let (index, look) = self.found;
        // The value is read a moment after the program's look, which may have been in time for the old one.
        let is_last = self.changed > 0 && self.looks - look <= self.len as u64;
        (is_last && self.finds_the_same()).then_some(index)
    }

    /// Returns true if most looks found what was there before.
    fn finds_the_same(&self) -> bool {
        self.changed <= 1 || self.changed * SAME_MIN <= self.same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: u64 = 0x1000;
    const CODE: CodeAddr = CodeAddr(0x40);
    const NO_STORES: LastStores = [0; 8];

    fn load(insn: u64, addr: u64, value: u64) -> Look {
        let at = Place {
            insn,
            ..Place::default()
        };
        Look {
            addr,
            code: CODE,
            value,
            at,
            ..Look::default()
        }
    }

    fn locked(insn: u64, addr: u64, value: u64) -> Look {
        Look {
            is_locked: true,
            code: CodeAddr(0x80),
            ..load(insn, addr, value)
        }
    }

    /// The waits of a thread that looks so, and then does something else.
    fn waits(looks: impl IntoIterator<Item = Look>) -> Vec<Spin> {
        let mut spins = Spins::default();
        looks
            .into_iter()
            .for_each(|look| spins.look(look, &NO_STORES));
        spins.end();
        spins.over
    }

    /// The word that it waited for, and for how many instructions, if that was one wait.
    fn wait(looks: impl IntoIterator<Item = Look>) -> Option<(u64, u64)> {
        match waits(looks)[..] {
            [spin] if spin.count == 1 => Some((spin.word, spin.insns)),
            _ => None,
        }
    }

    #[test]
    fn a_wait_for_a_flag() {
        let run = (0..100).map(|n| load(10 + 3 * n, WORD, u64::from(n == 99)));
        assert_eq!(wait(run), Some((WORD, 297)));
        // The value was read a moment later than the program did.
        let run = (0..100).map(|n| load(10 + 3 * n, WORD, u64::from(n >= 98)));
        assert_eq!(wait(run), Some((WORD, 297)));
    }

    #[test]
    fn a_loop_that_counts_is_no_wait() {
        assert_eq!(wait((0..100).map(|n| load(3 * n, WORD, 7))), None);
        let changes_all_the_time = (0..100).map(|n| load(3 * n, WORD, n / 2));
        assert_eq!(wait(changes_all_the_time), None);
    }

    #[test]
    fn a_ticket_lock_serves_others_first() {
        let run = (0..100).map(|n| load(3 * n, WORD, (n + 1) / 20));
        assert_eq!(wait(run), Some((WORD, 297)));
    }

    #[test]
    fn work_between_looks_is_no_wait() {
        let run = |gap: u64, stores: u64, pauses: u64| {
            (0..100).map(move |n| {
                let at = Place {
                    insn: gap * n,
                    stores: stores * n,
                    pauses: pauses * n,
                    loads: n,
                };
                let look = load(0, WORD, u64::from(n == 99));
                Look { at, ..look }
            })
        };
        assert_eq!(wait(run(3, 1, 0)), None, "it writes");
        assert_eq!(wait(run(3000, 0, 0)), None, "it computes");
        assert_eq!(wait(run(3000, 0, 1000)), Some((WORD, 297_000)), "it pauses");
    }

    #[test]
    fn an_interrupt_is_no_part_of_a_wait() {
        let mut spins = Spins::default();
        (0..10).for_each(|n| spins.look(load(3 * n, WORD, 0), &NO_STORES));
        let in_interrupt = |insn| Place {
            insn,
            stores: 50,
            ..Place::default()
        };
        let other = Look {
            at: in_interrupt(500),
            ..load(0, 64, 3)
        };
        spins.look(other, &NO_STORES);
        spins.returned(in_interrupt(1000));
        for n in 0..10 {
            let look = load(0, WORD, u64::from(n == 9));
            let at = in_interrupt(1001 + 3 * n);
            spins.look(Look { at, ..look }, &NO_STORES);
        }
        spins.end();
        let [spin] = spins.over[..] else {
            panic!("{:?}", spins.over);
        };
        assert_eq!((spin.word, spin.insns), (WORD, 27 + 27));
    }

    #[test]
    fn test_and_set_waits() {
        let spins = waits((0..100).map(|n| locked(4 * n, WORD, 1)));
        assert_eq!((spins[0].insns, spins[0].locked), (396, 100));
        let counter = (0..100).map(|n| locked(4 * n, WORD, n));
        assert_eq!(wait(counter), None);
        let mut uncontended = Spins::default();
        for n in 0..100 {
            uncontended.look(locked(10 * n, WORD, 1), &NO_STORES);
            uncontended.end();
        }
        assert_eq!(uncontended.over, []);
    }

    #[test]
    fn test_and_test_and_set_waits_between_its_attempts() {
        let round = |start: u64| {
            let looks = (1..=10).map(move |n| load(start + 3 * n, WORD, u64::from(n < 10)));
            looks.chain([locked(start + 32, WORD, 1)])
        };
        let spins = waits((0..3).flat_map(|n| round(30 * n)));
        // From the first attempt on it is one run, which its attempts belong to.
        let insns: u64 = spins.iter().map(|spin| spin.insns).sum();
        assert_eq!((insns, spins.len()), (27 + 60, 1));
    }

    #[test]
    fn a_queue_locks_waiter_waits_for_its_tail() {
        let (tail, node, before) = (0x2000, 0x3000, 0x4000);
        let queue = |word: u64, joins_as: u64| {
            let mut spins = Spins::default();
            let stores = [node + 8, before + 16, 0, 0, 0, 0, 0, 0];
            spins.look(locked(5, tail, joins_as), &stores);
            spins.end();
            for n in 0..50 {
                spins.look(load(20 + 3 * n, word, u64::from(n == 49)), &stores);
            }
            spins.end();
            (spins.over[0].word, spins.over[0].queue)
        };
        assert_eq!(queue(before, node), (tail, None), "CLH");
        assert_eq!(queue(node + 8, node), (tail, None), "MCS");
        let own = node + 8;
        assert_eq!(queue(own, 17), (own, Some(tail)), "osq, or a ticket lock");
        assert_eq!(queue(before, 17), (before, None), "no queue");
        // C++: each store is an exchange.
        let mut spins = Spins::default();
        spins.look(locked(1, node, 0), &NO_STORES);
        spins.look(locked(5, tail, node), &NO_STORES);
        spins.look(locked(9, before, node), &NO_STORES);
        for n in 0..50 {
            spins.look(load(20 + 3 * n, node, u64::from(n == 49)), &NO_STORES);
        }
        spins.end();
        assert_eq!((spins.over[0].word, spins.over[0].queue), (tail, None));
    }

    #[test]
    fn looks_at_ones_own_line_are_not_all_seen() {
        let look = |insn, loads, value, is_private| Look {
            is_private,
            at: Place {
                insn,
                loads,
                ..Place::default()
            },
            ..load(0, WORD, value)
        };
        let looks = |loads| {
            let first = look(0, 0, 0, false);
            let private = [1, 2].map(|n| look(10_000 * n, loads * n, 0, true));
            let last = look(30_000, 3 * loads, 1, false);
            [&[first], &private[..], &[last]].concat()
        };
        assert_eq!(wait(looks(3000)), Some((WORD, 30_000)));
        assert_eq!(wait(looks(30)), None, "it computes");
        // The last one that is seen finds the old value.
        let unseen = |now| {
            let mut spins = Spins::with(now);
            looks(3000)[..3]
                .iter()
                .for_each(|look| spins.look(*look, &NO_STORES));
            spins.end();
            spins.over.len()
        };
        assert_eq!([unseen(|_, _| Some(1)), unseen(|_, _| Some(0))], [1, 0]);
        // Many looks at a word do not make another one's change a wait.
        let mut spins = Spins::with(|addr, _| Some(u64::from(addr == WORD)));
        spins.look(load(0, WORD, 0), &NO_STORES);
        (1..1000).for_each(|n| spins.look(load(3 * n, WORD + 64, 0), &NO_STORES));
        spins.end();
        assert_eq!(spins.over, []);
    }

    #[test]
    fn a_loop_that_finds_other_values_all_the_time_does_not_wait_for_what_it_did_not_see() {
        let counts = (0..1000).flat_map(|n| {
            let beside = Look {
                code: CodeAddr(0x44),
                ..load(9 * n + 3, WORD + 64, 5)
            };
            [locked(9 * n, WORD, n), beside]
        });
        let mut spins = Spins::with(|_, _| Some(6));
        counts.for_each(|look| spins.look(look, &NO_STORES));
        spins.run.is_private = true;
        spins.end();
        assert_eq!(spins.over, []);
    }

    #[test]
    fn a_loop_may_look_at_several_words() {
        let run = (0..60).flat_map(|n| {
            let beside = Look {
                code: CodeAddr(0x44),
                ..load(9 * n + 3, WORD + 64, 5)
            };
            [load(9 * n, WORD, u64::from(n == 59)), beside]
        });
        assert_eq!(wait(run), Some((WORD, 534)));
    }

    #[test]
    fn waits_for_more_words_than_can_be_told_are_summed_up() {
        let mut spins = Spins::default();
        for word in 0..2 * Spin::KINDS_MAX as u64 {
            for n in 0..4 {
                let look = load(1000 * word + n, WORD + 64 * word, u64::from(n == 3));
                spins.look(look, &NO_STORES);
            }
        }
        spins.end();
        let count: u64 = spins.over.iter().map(|spin| spin.count).sum();
        assert_eq!((spins.over.len(), count), (Spin::KINDS_MAX, 128));
    }
}
