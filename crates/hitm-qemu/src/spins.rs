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
//! Looks at a line that only the thread uses are not seen: at a place in a queue that no other thread has come to yet,
//! or at a line that the thread has used alone for a while. So the recorder sees all accesses for a moment at the
//! start of each window and after each interrupt (`Vcpu::begin_glimpse`). A run that looks again and again in such a
//! moment goes on to the next one, and to the look that finds the line taken by another thread, while the thread does
//! little but load. What the thread changes itself there ends no wait. The last look may come between another
//! thread's write and its notice that the line is shared: then the line is looked up when the run is over.

mod run;

use hitm_base::CodeAddr;
use hitm_weave::Spin;

use self::run::{Queue, Run, WORDS_MAX, Way, Word};
use crate::first_touch::{FirstTouch, Toucher};

/// Instructions from one look to the next, beside those that pauses allow. Assumed 128 (64 to 256): the loops of
/// Linux and glibc have 5 to 30, compiled without optimisation some 80.
const GAP_INSNS: u64 = 128;

/// Instructions for each load where looks are not all seen. Assumed 32 (16 to 64): loops that wait do little but look.
const LOAD_INSNS: u64 = 32;

/// Instructions that one pause instruction allows in addition: loops of pauses count and compare. Assumed 16.
const PAUSE_INSNS: u64 = 16;

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

/// A look at shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Look {
    pub(crate) addr: u64,
    pub(crate) code: CodeAddr,
    pub(crate) is_locked: bool,
    /// Only this thread uses the line: few of its looks are seen.
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

/// A locked operation.
#[derive(Debug, Clone, Copy)]
struct Joined {
    addr: u64,
    at: Place,
    /// The word after it; none if the thread did not get the one before, as who joins does.
    value: Option<u64>,
}

/// Runs that were broken off and may go on: code of an interrupt may look at one word twice. Assumed 4 (2 to 8).
const BROKEN_OFF: usize = 4;

/// A thread's looks, and its waits that are over.
#[derive(Debug)]
pub(crate) struct Spins {
    run: Run,
    /// The last locked operations, the latest last.
    joined: [Option<Joined>; JOINED],
    /// Runs that something broke off, which may have been an interrupt, and how many there were.
    broken_off: [Run; BROKEN_OFF],
    broken_off_count: usize,
    /// A return from an interrupt after which the thread has not looked yet.
    returned: Option<Place>,
    /// The instruction of the last return.
    returned_at: u64,
    /// Since they were told last.
    pub(crate) over: Vec<Spin>,
    lines: &'static FirstTouch,
    me: Toucher,
}

impl Spins {
    /// A thread's, at the lines of a process.
    pub(crate) fn new(lines: &'static FirstTouch, me: Toucher) -> Spins {
        Spins {
            run: Run::default(),
            joined: [None; JOINED],
            broken_off: std::array::from_fn(|_| Run::default()),
            broken_off_count: 0,
            returned: None,
            returned_at: 0,
            over: Vec::new(),
            lines,
            me,
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
        let way = self.run.way_to(&look);
        match self.run.place_of(&look).filter(|_| way.is_some()) {
            Some(index) => self.run.again(index, &look, way == Some(Way::Seen)),
            None if look.is_private && way.is_some() && self.run.len == WORDS_MAX => {}
            None => {
                let goes_on = match look.is_private {
                    true => way.is_some() && self.run.waited_for().is_none(),
                    false => way == Some(Way::Seen) && !look.is_locked && self.run.len < WORDS_MAX,
                };
                if !goes_on {
                    self.end(look.at.stores);
                }
                let queue = self.queue_of(&look, stores);
                self.run.first_look(&look, queue);
                self.run.is_dense &= way == Some(Way::Seen);
            }
        }
        if look.is_locked && !look.is_private {
            self.keep_locked(Joined {
                addr: look.addr,
                at: look.at,
                value: Some(look.value),
            });
        }
    }

    /// The thread writes to shared memory by a locked operation, and does not get what was there.
    pub(crate) fn write(&mut self, addr: u64, at: Place) {
        self.end(at.stores);
        let value = None;
        self.keep_locked(Joined { addr, at, value });
    }

    fn keep_locked(&mut self, joined: Joined) {
        self.joined.rotate_left(1);
        self.joined[JOINED - 1] = Some(joined);
    }

    /// Forgets what the thread did last, which is no part of its program.
    pub(crate) fn forget(&mut self) {
        self.run.len = 0;
    }

    /// An interrupt is over.
    pub(crate) fn returned(&mut self, at: Place) {
        self.end(at.stores);
        // This one broke off what went on after the one before it.
        let is_over = |run: &&mut Run| run.last.insn < self.returned_at;
        self.broken_off
            .iter_mut()
            .filter(is_over)
            .for_each(|run| run.len = 0);
        self.returned = Some(at);
        self.returned_at = at.insn;
    }

    /// Goes on with what was broken off, if the thread looks as it did then.
    fn resume(&mut self, look: &Look, returned: Place) {
        let is_next = look.at.stores == returned.stores && look.at.is_near(returned, false);
        let is_it = |run: &&mut Run| run.place_of(look).is_some();
        if is_next && let Some(run) = self.broken_off.iter_mut().find(is_it) {
            self.run = std::mem::take(run);
            self.run.go_on(look.at);
        }
    }

    /// The queue that the thread has joined, if it looks so.
    fn queue_of(&self, look: &Look, stores: &LastStores) -> Option<Queue> {
        let is_late =
            |joined: &&Joined| look.at.stores.wrapping_sub(joined.at.stores) <= JOIN_STORES;
        let joined = self.joined.iter().flatten().filter(is_late);
        let mut joined = joined.filter(|joined| joined.addr != look.addr && joined.value.is_some());
        // Stores of C++ may be exchanges.
        let exchanged = self.joined.iter().flatten().map(|joined| joined.addr);
        let mut written = stores.iter().copied().chain(exchanged);
        let is_node = |joined: &&Joined| {
            let mut written = written.clone();
            let is_at = |value: u64| written.any(|addr| addr.wrapping_sub(value) < NODE_BYTES);
            joined.value.is_some_and(is_at)
        };
        let certain = joined.clone().find(is_node);
        // It may have joined by the same word in the turn before.
        let certain = certain.and_then(|first| joined.clone().rfind(|by| by.addr == first.addr));
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
            joined_at: by.at,
        })
    }

    /// The thread does something else, after so many stores.
    pub(crate) fn end(&mut self, stores: u64) {
        let unseen = || {
            let is_soon = stores.wrapping_sub(self.run.last.stores) <= JOIN_STORES;
            let is_taken = |word: &Word| self.lines.is_anothers(word.addr, self.me);
            let index = self.run.taken(is_taken).filter(|_| is_soon)?;
            Some((index, self.run.end_unseen(index)))
        };
        let seen = self.run.waited_for();
        let seen = seen.map(|index| (index, self.run.last.insn));
        if let Some((index, end)) = seen.or_else(unseen) {
            let word = self.run.words[index];
            let spin = Spin {
                word: word.lock,
                queue: word.queue,
                code: word.code,
                count: 1,
                insns: end - self.run.first.insn,
                locked: self.run.locked,
            };
            self.keep(spin);
        } else if self.run.looks_again() {
            let place = self.broken_off_count % BROKEN_OFF;
            std::mem::swap(&mut self.run, &mut self.broken_off[place]);
            self.broken_off_count += 1;
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

#[cfg(test)]
mod tests {
    use hitm_base::Cycles;

    use super::*;
    use crate::first_touch::Tag;

    const WORD: u64 = 0x1000;
    const CODE: CodeAddr = CodeAddr(0x40);
    const NO_STORES: LastStores = [0; 8];

    fn spins() -> Spins {
        let lines: &'static FirstTouch = Box::leak(Box::new(FirstTouch::new()));
        Spins::new(lines, lines.toucher(Tag::of_thread(0), Cycles::ZERO))
    }

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
        let mut spins = spins();
        looks
            .into_iter()
            .for_each(|look| spins.look(look, &NO_STORES));
        spins.end(0);
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
        let mut spins = spins();
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
        // It looks at words of its own twice.
        for word in 1..BROKEN_OFF as u64 {
            for insn in [600 * word, 600 * word + 1] {
                let look = load(insn, 4096 * word, 3);
                spins.look(look, &NO_STORES);
            }
        }
        spins.returned(in_interrupt(1000));
        for n in 0..10 {
            let look = load(0, WORD, u64::from(n == 9));
            let at = in_interrupt(1001 + 3 * n);
            spins.look(Look { at, ..look }, &NO_STORES);
        }
        spins.end(0);
        let [spin] = spins.over[..] else {
            panic!("{:?}", spins.over);
        };
        assert_eq!((spin.word, spin.insns), (WORD, 27 + 27));
    }

    #[test]
    fn test_and_set_waits() {
        let waits = waits((0..100).map(|n| locked(4 * n, WORD, 1)));
        assert_eq!((waits[0].insns, waits[0].locked), (396, 100));
        let counter = (0..100).map(|n| locked(4 * n, WORD, n));
        assert_eq!(wait(counter), None);
        let mut uncontended = spins();
        for n in 0..100 {
            uncontended.look(locked(10 * n, WORD, 1), &NO_STORES);
            uncontended.end(0);
        }
        assert_eq!(uncontended.over, []);
    }

    #[test]
    fn bits_that_are_set_again_and_again_are_no_wait() {
        let mut spins = spins();
        for n in 0..100 {
            let at = locked(4 * n, WORD, 1).at;
            spins.write(WORD, at);
        }
        spins.end(0);
        assert_eq!(spins.over, []);
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
            let mut spins = spins();
            let stores = [node + 8, before + 16, 0, 0, 0, 0, 0, 0];
            spins.look(locked(5, tail, joins_as), &stores);
            spins.end(0);
            for n in 0..50 {
                spins.look(load(20 + 3 * n, word, u64::from(n == 49)), &stores);
            }
            spins.end(0);
            (spins.over[0].word, spins.over[0].queue)
        };
        assert_eq!(queue(before, node), (tail, None), "CLH");
        assert_eq!(queue(node + 8, node), (tail, None), "MCS");
        let own = node + 8;
        assert_eq!(queue(own, 17), (own, Some(tail)), "osq, or a ticket lock");
        assert_eq!(queue(before, 17), (before, None), "no queue");
        // C++: each store is an exchange.
        let mut spins = spins();
        spins.look(locked(1, node, 0), &NO_STORES);
        spins.look(locked(5, tail, node), &NO_STORES);
        spins.look(locked(9, before, node), &NO_STORES);
        for n in 0..50 {
            spins.look(load(20 + 3 * n, node, u64::from(n == 49)), &NO_STORES);
        }
        spins.end(0);
        assert_eq!((spins.over[0].word, spins.over[0].queue), (tail, None));
    }

    /// Looks at the start of a window, after `loads` of them for each 10,000 instructions.
    fn glimpse(window: u64, loads: u64, value: u64) -> impl Iterator<Item = Look> {
        (0..3).map(move |n| Look {
            is_private: true,
            at: Place {
                insn: 10_000 * window + 3 * n,
                loads: loads * window + n,
                ..Place::default()
            },
            ..load(0, WORD, value)
        })
    }

    /// A look that finds what another thread has written.
    fn found(window: u64, loads: u64, value: u64) -> Look {
        let [look, ..] = glimpse(window, loads, value).collect::<Vec<_>>()[..] else {
            panic!("three looks");
        };
        Look {
            is_private: false,
            ..look
        }
    }

    #[test]
    fn looks_at_ones_own_line_are_not_all_seen() {
        let glimpses = |loads| (1..5).flat_map(move |window| glimpse(window, loads, 0));
        let run = |loads| glimpses(loads).chain([found(5, loads, 1)]);
        assert_eq!(wait(run(3000)), Some((WORD, 40_000)));
        assert_eq!(wait(run(30)), None, "it computes");
        let same = glimpses(3000).chain([found(5, 3000, 0)]);
        assert_eq!(wait(same), None, "another word of the line has changed");
        let by_itself = glimpses(3000).chain(glimpse(5, 3000, 1));
        assert_eq!(wait(by_itself), None, "the thread has changed it");
        let once_a_window = (1..5).filter_map(|window| glimpse(window, 3000, 0).next());
        let seldom = once_a_window.chain([found(5, 3000, 1)]);
        assert_eq!(wait(seldom), None, "it works between its looks");
        // It was another's before: the first looks were seen.
        let run = (0..300).map(|n| load(9_000 + 3 * n, WORD, 0));
        let run = run.chain(glimpses(3000)).chain([found(5, 3000, 1)]);
        assert_eq!(wait(run), Some((WORD, 41_000)));
    }

    #[test]
    fn the_last_look_may_come_before_the_line_is_taken() {
        let unseen = |takes: bool, value, stores| {
            let mut spins = spins();
            spins.lines.touch(WORD, spins.me, true);
            let looks = (1..5).flat_map(|window| glimpse(window, 3000, 0));
            let looks = looks.chain(glimpse(5, 3000, value).take(1));
            looks.for_each(|look| spins.look(look, &NO_STORES));
            if takes {
                let other = spins.lines.toucher(Tag::of_thread(1), Cycles::ZERO);
                spins.lines.touch(WORD, other, true);
            }
            spins.end(stores);
            spins.over.len()
        };
        assert_eq!(unseen(true, 0, 1), 1);
        assert_eq!(unseen(true, 1, 1), 1, "it sees the value before the take");
        assert_eq!(unseen(false, 0, 1), 0);
        assert_eq!(unseen(true, 0, 50), 0, "it was taken later");
    }

    #[test]
    fn work_behind_a_look_that_was_not_seen_is_no_part_of_the_wait() {
        let (mut spins, own) = (spins(), WORD + 64);
        spins.lines.touch(WORD, spins.me, true);
        let waits = (1..5).flat_map(|window| glimpse(window, 3000, 0));
        let works = (5..20).flat_map(|window| glimpse(window, 3000, window));
        let works = works.map(|look| Look { addr: own, ..look });
        for look in waits.chain(works) {
            spins.look(look, &NO_STORES);
        }
        let other = spins.lines.toucher(Tag::of_thread(1), Cycles::ZERO);
        spins.lines.touch(WORD, other, true);
        spins.end(1);
        // From 10,000 to between 40,006 and 50,000.
        let [spin] = spins.over[..] else {
            panic!("{:?}", spins.over);
        };
        assert_eq!((spin.word, spin.insns), (WORD, 35_003));
    }

    #[test]
    fn an_interrupt_is_no_part_of_a_wait_whose_end_was_not_seen() {
        let (mut spins, own) = (spins(), WORD + 64);
        spins.lines.touch(WORD, spins.me, true);
        let private = |insn, addr| Look {
            is_private: true,
            ..load(insn, addr, 0)
        };
        for (insn, addr) in [(10, WORD), (13, WORD), (16, own), (19, own)] {
            spins.look(private(insn, addr), &NO_STORES);
        }
        let returned = Place {
            insn: 100_000,
            ..Place::default()
        };
        spins.returned(returned);
        spins.look(private(100_001, own), &NO_STORES);
        let other = spins.lines.toucher(Tag::of_thread(1), Cycles::ZERO);
        spins.lines.touch(WORD, other, true);
        spins.end(0);
        let [spin] = spins.over[..] else {
            panic!("{:?}", spins.over);
        };
        // From 10 to between 13 and 16.
        assert_eq!((spin.word, spin.insns), (WORD, 4));
    }

    #[test]
    fn a_wait_in_a_queue_begins_where_it_was_joined() {
        let (tail, node) = (0x2000, WORD);
        let mut spins = spins();
        let join = Look {
            at: Place {
                insn: 9_000,
                loads: 2_700,
                ..Place::default()
            },
            ..locked(0, tail, node)
        };
        let stores = [node, 0, 0, 0, 0, 0, 0, 0];
        spins.look(join, &stores);
        let looks = (1..5).flat_map(|window| glimpse(window, 3000, 0));
        let looks = looks.chain([found(5, 3000, 1)]);
        looks.for_each(|look| spins.look(look, &stores));
        spins.end(0);
        let [spin] = spins.over[..] else {
            panic!("{:?}", spins.over);
        };
        assert_eq!((spin.word, spin.insns), (tail, 41_000));
    }

    #[test]
    fn a_wait_in_a_queue_does_not_begin_at_the_turn_before() {
        let (tail, node) = (0x2000, 0x3000);
        let mut spins = spins();
        let at = |insn: u64, stores| Place {
            insn,
            stores,
            loads: 3 * insn / 10,
            ..Place::default()
        };
        // Its turns write little: the one before is near by its stores.
        for (insn, stores) in [(1_000, 0), (9_000, 2)] {
            let join = Look {
                at: at(insn, stores),
                ..locked(0, tail, node)
            };
            spins.look(join, &[node, 0, 0, 0, 0, 0, 0, 0]);
            spins.end(stores + 1);
        }
        let looks = (1..5).flat_map(|window| glimpse(window, 3000, 0));
        let looks = looks.chain([found(5, 3000, 1)]);
        let looks = looks.map(|look| Look {
            at: Place {
                stores: 3,
                ..look.at
            },
            ..look
        });
        looks.for_each(|look| spins.look(look, &[node, 0, 0, 0, 0, 0, 0, 0]));
        spins.end(3);
        let [spin] = spins.over[..] else {
            panic!("{:?}", spins.over);
        };
        assert_eq!((spin.word, spin.insns), (tail, 41_000));
    }

    #[test]
    fn a_loop_that_finds_other_values_all_the_time_does_not_wait_for_what_it_did_not_see() {
        let mut spins = spins();
        let (counter, own) = (WORD, WORD + 64);
        spins.lines.touch(own, spins.me, true);
        for n in 0..100 {
            spins.look(locked(9 * n, counter, n), &NO_STORES);
            let beside = load(9 * n + 3, own, 5);
            let is_private = true;
            spins.look(
                Look {
                    is_private,
                    ..beside
                },
                &NO_STORES,
            );
        }
        let other = spins.lines.toucher(Tag::of_thread(1), Cycles::ZERO);
        spins.lines.touch(own, other, true);
        spins.end(0);
        assert_eq!(spins.over, []);
    }

    #[test]
    fn what_a_thread_sees_of_its_own_does_not_make_a_run_of_changes_a_wait() {
        let counts = (0..100).flat_map(|n| {
            let beside = |m: u64| Look {
                code: CodeAddr(0x44 + 4 * m),
                is_private: true,
                ..load(9 * n + m + 1, WORD + 64 + 8 * m, 5)
            };
            [load(9 * n, WORD, n)]
                .into_iter()
                .chain((0..6).map(beside))
                .collect::<Vec<_>>()
        });
        assert_eq!(wait(counts), None);
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
        let mut spins = spins();
        for word in 0..2 * Spin::KINDS_MAX as u64 {
            for n in 0..4 {
                let look = load(1000 * word + n, WORD + 64 * word, u64::from(n == 3));
                spins.look(look, &NO_STORES);
            }
        }
        spins.end(0);
        let count: u64 = spins.over.iter().map(|spin| spin.count).sum();
        assert_eq!((spins.over.len(), count), (Spin::KINDS_MAX, 128));
    }
}
