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

use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::LineAddr;

/// Turns that a thread waits for after it was last seen in a fight. Assumed 16 (4 to 64): some four to
/// eight uses of a lock. A thread that fights again later than that wins or loses the first time by the
/// host's order.
const TURNS: u32 = 16;

/// Locked operations on a line that others use after which it is taken for no lock, if nobody has slept
/// there. Assumed 64 (16 to 256): each takes a round of all threads.
const TRIALS: u64 = 64;

/// Trials of a line with a word that threads sleep at: it is a lock.
const IS_LOCK: u64 = 0xff;

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

/// A thread's part in fights.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// None where nobody takes turns.
    locks: Option<&'static LockLines>,
    /// Turns that it still waits for.
    left: u32,
    /// Its turn is over when it has run so many instructions.
    ends_at: u64,
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

    /// The thread makes a locked operation on a line that others use.
    pub(crate) fn note_locked(&mut self, line: LineAddr) {
        if self.locks.is_some_and(|locks| locks.try_line(line)) {
            self.left = TURNS;
        }
    }

    /// The thread may fight until it has run so many instructions.
    pub(crate) fn begin(&mut self, until: u64) {
        self.ends_at = until;
    }

    /// A block with a locked operation begins at instruction `insn`; `goes_on`: within the thread's budget.
    /// True if it has to wait for its turn.
    pub(crate) fn is_over(&mut self, insn: u64, goes_on: bool) -> bool {
        let is_over = self.left > 0 && (insn >= self.ends_at || !goes_on);
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
