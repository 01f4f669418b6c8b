//! Turns at locks: threads that fight over a lock win it in the order of their virtual clocks.
//!
//! Within its window a thread runs without the others, so it would find a lock taken or free as the host
//! happens to run the threads. A thread is in a fight after it has used a lock whose line others use, or has
//! slept or woken at a futex. Then it begins no block with a locked operation before its turn: until its
//! clock is no later than that of any other thread. This is the conservative order of parallel
//! simulations (Chandy and Misra 1979), for locked operations on locks alone.
//!
//! Locks are known by the futexes that their sleepers wait at. Any other line gets turns for its first locked
//! operations alone: so counters that many threads add to, and locks at which nobody sleeps, cost little.
//!
//! Additions in any order have one sum. So a block that only adds begins without a turn once the thread, while it
//! fought, has long used it for no lock. Which line a block will use is known afterwards.

use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::{CodeAddr, LineAddr};

/// Turns that a thread waits for after it was last seen in a fight. Assumed 16 (4 to 64): some four to
/// eight uses of a lock. A thread that fights again later than that wins or loses the first time by the
/// host's order.
const TURNS: u32 = 16;

/// Locked operations on a line that others use after which it is taken for no lock, if nobody has slept
/// there. Assumed 64 (16 to 256): each takes a round of all threads.
const TRIALS: u64 = 64;

/// Trials of a line with a word that threads sleep at: it is a lock.
const IS_LOCK: u64 = 0xff;

/// Uses of a block in a row, while its thread fights, none of a lock that others use, after which its next use
/// begins without a turn.
/// Assumed 32 (16 to 128; more than [`TURNS`]): the first use of a lock after that is won by the host's order.
const PEACEFUL: u8 = 32;

/// Places for blocks, of each thread; a power of two.
const BLOCKS: usize = 64;

/// Places for lines; a power of two. A program with more lines than that forgets some of them until
/// they are used again.
const PLACES: usize = 1 << 14;

/// Lines of memory that may have locks.
#[derive(Debug)]
pub(crate) struct LockLines {
    /// Each line, and below it the trials that it has had, in the place that its number says.
    places: Box<[AtomicU64]>,
}

impl LockLines {
    pub(crate) fn new() -> LockLines {
        LockLines {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A thread sleeps or wakes at a word in the line.
    fn add(&self, line: LineAddr) {
        self.place(line)
            .store(line.0 << 8 | IS_LOCK, Ordering::Relaxed);
    }

    /// A thread makes a locked operation on the line, which others use. True if it may be a lock.
    fn try_line(&self, line: LineAddr) -> bool {
        let place = self.place(line);
        let seen = place.load(Ordering::Relaxed);
        let trials = if seen >> 8 == line.0 { seen & 0xff } else { 0 };
        if trials < TRIALS {
            // Of two threads that come at once, one trial may be lost.
            place.store(line.0 << 8 | (trials + 1), Ordering::Relaxed);
        }
        trials != TRIALS
    }

    fn place(&self, line: LineAddr) -> &AtomicU64 {
        &self.places[line.0 as usize % PLACES]
    }
}

/// A block that adds by a locked operation, as a thread has used it.
#[derive(Debug, Clone, Copy)]
struct Block {
    addr: CodeAddr,
    /// Uses in a row, while the thread fought, of no lock that others use.
    without_fight: u8,
}

/// A thread's part in fights.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Each block in the place that its address says.
    blocks: [Block; BLOCKS],
    /// Place of the block that the thread began last, if that only adds.
    current: Option<usize>,
    /// That block has used a lock that others use.
    has_fought: bool,
    /// None where nobody takes turns.
    locks: Option<&'static LockLines>,
    /// Turns that it still waits for.
    left: u32,
    /// Its turn is over when it has run so many instructions.
    ends_at: u64,
}

impl Default for Turns {
    fn default() -> Turns {
        let block = Block {
            addr: CodeAddr(0),
            without_fight: 0,
        };
        Turns {
            blocks: [block; BLOCKS],
            current: None,
            has_fought: true,
            locks: None,
            left: 0,
            ends_at: 0,
        }
    }
}

impl Turns {
    pub(crate) fn at(locks: &'static LockLines) -> Turns {
        Turns {
            locks: Some(locks),
            ..Turns::default()
        }
    }

    /// The thread sleeps or wakes at the word at `addr`.
    pub(crate) fn note_futex(&mut self, addr: u64) {
        if let Some(locks) = self.locks {
            locks.add(LineAddr::of(addr));
            self.left = TURNS;
        }
    }

    /// A block with locked operations begins, which `adds` and does no other ones.
    #[inline(always)]
    pub(crate) fn enter(&mut self, addr: CodeAddr, adds: bool) {
        if let Some(place) = self.current.filter(|_| !self.has_fought && self.left > 0) {
            let before = &mut self.blocks[place];
            before.without_fight = (before.without_fight + 1).min(PEACEFUL);
        }
        self.has_fought = false;
        // Instructions of some architectures have four bytes each.
        let place = (addr.0 ^ addr.0 >> 6) as usize % BLOCKS;
        self.current = adds.then_some(place);
        if adds && self.blocks[place].addr != addr {
            self.blocks[place] = Block {
                addr,
                without_fight: 0,
            };
        }
    }

    /// The thread makes a locked operation on a line that others use.
    pub(crate) fn note_locked(&mut self, line: LineAddr) {
        if self.locks.is_some_and(|locks| locks.try_line(line)) {
            self.left = TURNS;
            self.has_fought = true;
            if let Some(place) = self.current {
                self.blocks[place].without_fight = 0;
            }
        }
    }

    /// The thread may fight until it has run so many instructions.
    pub(crate) fn begin(&mut self, until: u64) {
        self.ends_at = until;
    }

    /// The block that the thread has entered begins at instruction `insn`; `goes_on`: within the thread's
    /// budget. True if it has to wait for its turn.
    pub(crate) fn is_over(&mut self, insn: u64, goes_on: bool) -> bool {
        let peaceful = |place: usize| self.blocks[place].without_fight >= PEACEFUL;
        let may_fight = self.left > 0 && !self.current.is_some_and(peaceful);
        let is_over = may_fight && (insn >= self.ends_at || !goes_on);
        self.left -= u32::from(is_over);
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_in_a_fight_waits_for_its_turn() {
        let locks: &'static LockLines = Box::leak(Box::new(LockLines::new()));
        let lock = 0x7f00_0000_1048;
        let mut turns = Turns::at(locks);
        turns.begin(100);
        assert!(!turns.is_over(200, true), "there is no fight");
        turns.note_futex(lock);
        assert!(!turns.is_over(99, true));
        assert!(turns.is_over(99, false), "it goes to the others anyway");
        for _ in 1..TURNS {
            assert!(turns.is_over(100, true));
        }
        assert!(!turns.is_over(100, true), "it has not fought for long");
        turns.note_locked(LineAddr::of(lock));
        assert!(turns.is_over(100, true));
        assert!(!Turns::default().is_over(100, false));
    }

    #[test]
    fn a_block_that_no_fight_is_in_begins_without_a_turn() {
        let locks: &'static LockLines = Box::leak(Box::new(LockLines::new()));
        let mut turns = Turns::at(locks);
        let (lock, counter) = (LineAddr::of(0x1040), LineAddr::of(0x2040));
        for _ in 0..TRIALS {
            locks.try_line(counter);
        }
        let (adds, other) = (CodeAddr(0x400), CodeAddr(0x500));
        for _ in 0..PEACEFUL {
            turns.note_futex(0x1040);
            turns.enter(adds, true);
            assert!(turns.is_over(100, true), "nobody knows yet");
            turns.note_locked(counter);
        }
        turns.enter(adds, true);
        assert!(!turns.is_over(100, true), "it adds to a counter");
        turns.enter(other, true);
        assert!(turns.is_over(100, true), "another block");
        turns.enter(adds, true);
        turns.note_locked(lock);
        turns.enter(adds, true);
        assert!(turns.is_over(100, true), "it took a lock");
    }

    #[test]
    fn a_line_where_nobody_sleeps_is_no_lock_for_long() {
        let locks = LockLines::new();
        let lock = LineAddr::of(0x7f00_0000_1048);
        for _ in 0..TRIALS {
            assert!(locks.try_line(lock));
        }
        assert!(!locks.try_line(lock));
        assert!(locks.try_line(LineAddr(lock.0 + 1)), "another line");
        locks.add(lock);
        for _ in 0..2 * TRIALS {
            assert!(locks.try_line(lock));
        }
        // Another line in the same place.
        assert!(locks.try_line(LineAddr(lock.0 + PLACES as u64)));
        for _ in 0..TRIALS {
            assert!(locks.try_line(lock), "forgotten");
        }
        assert!(!locks.try_line(lock));
    }
}
