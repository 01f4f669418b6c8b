//! Kinds of fight that a line sees: false sharing, true sharing, a lock, or none.
//!
//! [`judge`] looks at one line's rows: who touched which bytes, how often, and how often the line
//! had to come from another CPU. It answers with a [`Sharing`]: the line's fights, each with its
//! contended accesses and lost cycles, and a verdict made of them. It weighs by *contended
//! accesses*, those whose data or whose right to write came from another CPU, never by mere
//! presence. An initialiser that wrote the whole line once does not turn false sharing into true
//! sharing.
//!
//! # How it decides
//!
//! 1. Fewer than [`CONTENDED_COUNT_MIN`] contended accesses, or fewer than one in
//!    [`ACCESSES_PER_CONTENDED_MAX`]: *no contention*.
//! 2. Threads with less than 1/[`THREAD_SHARE_DIVISOR`] of the mean thread's contended accesses are
//!    dropped. So are, of each thread, the places with less than 1/[`PLACE_SHARE_DIVISOR`] of its
//!    accesses and of its contended accesses. Fewer than two threads left: *no contention*.
//! 3. Locks are found (`locks`): the parts of one lock object count as one place.
//! 4. What the line lost goes to fights. Where accesses come in their order, each visit of a thread says
//!    whom it met, and on which bytes (`visits`, [`crate::stats::Visit`]). In samples it is divided among
//!    the threads that can have taken the line, by their contended accesses (`matrix`):
//!
//! | the two threads | fight |
//! |---|---|
//! | meet on the place, which is part of a lock that both take | lock |
//! | meet on the place | true sharing |
//! | meet on the line only, one side at read-mostly bytes | read-mostly with a hot writer |
//! | meet on the line only | false sharing |
//!
//! 5. The verdict follows from the fights' shares of the lost cycles. Up to
//!    [`DISJOINT_SMALL_PERMILLE`] through the line only: the costlier of lock and true sharing.
//!    From [`DISJOINT_LARGE_PERMILLE`] on: the costlier of the other two. In between: *mixed*.
//!
//! A line that one thread alone uses can lose it to a prefetcher, where the machine fetches the other line of an
//! aligned pair as well ([`Known::other_of_pair`], `pair`). Its fight is over the pair.
//!
//! Of samples ([`Known::are_samples`]) stores that do not say where the line was count as contended
//! from step 2 on. Without them a thread that only writes would be nobody. No sample says what a store
//! waited, so that writers that disturb one another seem to lose less than they do. Where their false sharing
//! has more than [`DISJOINT_SMALL_PERMILLE`] of the accesses contended through the line, what readers lose beside
//! them is part of it: what ends the one ends the other, and written bytes that are put together still disturb
//! one another.
//!
//! # Not modelled, and why
//!
//! - A lock taken and released by locked operations only, without spinning and without data in its
//!   line, cannot be told from a reference count. It is called true sharing, and it is.
//! - Memory that one thread frees and another reuses counts as shared. The recorder knows of the reuse,
//!   the line statistics do not.
//! - Another layout changes the length of a line's queue and how often a poller looks as well. What a fight
//!   lost is what its accesses took here; `hitm whatif` prices the layout.
//! - Of samples, only the first of several accesses to a line in a row is contended. A thread that touches
//!   a shared byte and then its own one has all its contended accesses on the shared byte.

mod costs;
mod locks;
mod matrix;
mod pair;
#[cfg(test)]
mod tests;
mod uses;
mod verdict;
mod visits;
mod weighed;

use crate::stats::LineStats;
use costs::Cost;
use matrix::Matrix;
pub use verdict::{FightKind, Verdict, VerdictFacts};
pub use weighed::Weighed;

/// Contended accesses that a line needs before it is worth a verdict. Handing a buffer to another
/// thread, creating and joining a thread, or a barrier cost a line fewer. Lower values flag start-up
/// code, higher ones miss contention in very short runs.
pub const CONTENDED_COUNT_MIN: u64 = 32;
/// At most this many accesses for each contended one. At a transfer of about 150 cycles, one in a
/// thousand is 0.15 cycles an access, 3 % of an L1 hit. That is not worth a change of layout.
pub const ACCESSES_PER_CONTENDED_MAX: u64 = 1000;
/// A thread counts when it has at least this fraction (one in ...) of the mean thread's contended
/// accesses. Separates workers, whose counts are alike, from a main thread that initialises and
/// collects.
pub const THREAD_SHARE_DIVISOR: u64 = 20;
/// A place counts when it has at least this fraction (one in ...) of its thread's accesses, or of its
/// contended ones. Separates the loop from the set-up that precedes it in the same thread.
pub const PLACE_SHARE_DIVISOR: u64 = 100;
/// Up to this share of the lost cycles, in thousandths, what threads lose through the line only
/// does not matter. Moving bytes apart would save a fifth at best.
pub const DISJOINT_SMALL_PERMILLE: u64 = 200;
/// From this share on, in thousandths, it is the whole story.
pub const DISJOINT_LARGE_PERMILLE: u64 = 800;
/// A fight with less than this fraction (one in ...) of its line's lost cycles is not worth a word.
/// Assumed; 5 to 20 change no verdict of the table in docs/models/sharing.md.
pub const FIGHT_SHARE_DIVISOR: u64 = 10;
/// Bytes are read-mostly when threads read them at least this many times as often as they write them.
/// Assumed; 4 to 32 change no verdict of the table in docs/models/sharing.md.
pub const READS_PER_WRITE_MIN: u64 = 10;
/// Loads for each locked operation that look like spinning. A compare-and-swap loop has one.
pub const SPIN_LOADS_PER_LOCKED: u64 = 2;

/// Accesses under a lock are sampled at most this many times as often as the lock is taken. Loads and stores are
/// sampled apart, each in its own rhythm. Assumed, 2 to 4.
pub const SAMPLED_PACE_MAX: u64 = 2;

/// One fight in a line. Bit i of a mask is byte i of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fight {
    /// Its kind.
    pub kind: FightKind,
    /// The bytes at which threads found the line gone.
    pub bytes: u64,
    /// Accesses that found it gone.
    pub contended_count: u64,
    /// Cycles that threads lost by it.
    pub lost_cycles: u64,
}

/// The verdict on one line, its fights, and the bytes that it rests on (bit i is byte i of the line).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    /// Verdict from the fights' shares.
    pub verdict: Verdict,
    /// Accesses whose data, or whose right to write, came from another CPU.
    pub contended_count: u64,
    /// Thousandths of the contended accesses that lost the line to a thread with no byte in common.
    pub disjoint_permille: u64,
    /// The fights, the costliest first: at most one of false sharing and of read-mostly bytes, one for
    /// each lock and for each truly shared place.
    pub fights: Vec<Fight>,
    /// Bytes that contending threads write.
    pub written: u64,
    /// Bytes that contending threads read at least [`READS_PER_WRITE_MIN`] times as often as they write
    /// them, and that are part of no lock.
    pub read_mostly: u64,
    /// The word of the costliest lock, 0 when the line holds no contended lock.
    pub lock_word: u64,
    /// Bytes beside it that its lockers share: the data that it guards.
    pub guarded: u64,
}

impl Sharing {
    /// The fights, weighed against each other.
    pub fn weighed(&self) -> Weighed<'_> {
        Weighed(&self.fights)
    }

    /// The line's only user fights for the pair that the line is in.
    fn take_pair(&mut self, fight: Fight, threads: &uses::Threads) {
        self.written = threads.values().fold(0, |mask, t| mask | t.written());
        self.disjoint_permille = 1_000;
        self.fights.push(fight);
        self.verdict = self.weighed().verdict();
    }

    /// Cycles lost in fights that would end if the bytes lay on different lines.
    pub fn layout_cycles(&self) -> u64 {
        self.lost_cycles_of(FightKind::is_curable_by_layout)
    }

    /// Cycles lost in fights of some kinds.
    pub fn lost_cycles_of(&self, is_wanted: impl Fn(FightKind) -> bool) -> u64 {
        self.weighed().sum_of(is_wanted).lost_cycles
    }

    /// Returns true if fights that would end if the bytes lay on different lines are more than
    /// [`DISJOINT_SMALL_PERMILLE`] of all.
    pub fn has_layout_fight(&self) -> bool {
        self.weighed().layout_permille() > DISJOINT_SMALL_PERMILLE
    }

    /// The kinds of fights that are worth a word, those with at least one part in
    /// [`FIGHT_SHARE_DIVISOR`] of all; the costliest first.
    pub fn main_kinds(&self) -> Vec<FightKind> {
        self.weighed().main_kinds()
    }
}

/// Facts about a line beside its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known<'a> {
    /// True if the rows are samples. Samples of stores seldom say that the line was elsewhere.
    /// Intel's say whether the L1 had it, and count a store when it has left. Where none of a place
    /// says so, each counts as one that took the line.
    pub are_samples: bool,
    /// The bytes of each object that is known to be a lock or a condition variable. No two overlap.
    pub lock_objects: &'a [u64],
    /// The bytes that are known to be no locks, whatever is done to them: counts of references and the like, and a
    /// kernel's members of other types.
    pub no_locks: u64,
    /// The other line of the aligned pair of 128 bytes, where the machine fetches it together with this one.
    pub other_of_pair: Option<&'a LineStats>,
}

/// Judges one line. Cost: a pass over its rows, and the square of the number of different ways in
/// which threads use it (not of the number of threads).
pub fn judge(line: &LineStats, known: &Known<'_>) -> Sharing {
    let mut threads = uses::threads_of(line);
    let contended_count = threads.values().map(|t| t.contended).sum();
    let access_count: u64 = threads.values().map(|t| t.accesses).sum();
    let mut sharing = Sharing {
        verdict: Verdict::NoContention,
        contended_count,
        disjoint_permille: 0,
        fights: Vec::new(),
        written: 0,
        read_mostly: 0,
        lock_word: 0,
        guarded: 0,
    };
    if contended_count < CONTENDED_COUNT_MIN
        || contended_count.saturating_mul(ACCESSES_PER_CONTENDED_MAX) < access_count
    {
        return sharing;
    }
    if known.are_samples {
        let all = threads.values_mut();
        all.for_each(uses::ThreadUse::count_silent_stores);
    }
    uses::keep_what_counts(&mut threads);
    if threads.len() < 2 {
        if let Some(fight) = pair::fight(line, &threads, known) {
            sharing.take_pair(fight, &threads);
        }
        return sharing;
    }
    let locks = locks::find(&threads, known);
    // A lock that is polled, and a mutex's kind, are no data that one would keep with other data, be the mutex
    // one thread's own or not.
    let objects = known.lock_objects.iter();
    let scopes = locks.iter().map(|lock| &lock.scope);
    let of_locks = objects.chain(scopes).fold(0, |all, one| all | one);
    let is_in_order = !known.are_samples && !line.visits.is_empty();
    let read_mostly = match is_in_order {
        true => visits::read_mostly(&line.visits),
        false => uses::read_mostly(&threads),
    } & !of_locks;
    let fights = match is_in_order {
        true => {
            let all = Cost {
                contended: contended_count,
                lost_cycles: line.contention_stall.0,
            };
            let of = visits::Bytes {
                locks: &locks,
                read_mostly,
            };
            visits::fights(&line.visits, of, all)
        }
        false => Matrix::of(&threads, &locks, read_mostly).fights(),
    };
    let fights = match known.are_samples {
        true => costs::with_readers(fights),
        false => fights,
    };
    sharing.written = threads.values().fold(0, |mask, t| mask | t.written());
    sharing.read_mostly = read_mostly;
    let of_lock = fights.iter().find(|fight| fight.kind == FightKind::Lock);
    let lock = of_lock.and_then(|fight| locks.iter().find(|lock| lock.scope & fight.bytes != 0));
    sharing.lock_word = lock.map_or(0, |lock| lock.word);
    sharing.guarded = lock.map_or(0, |lock| lock.guarded);
    sharing.fights = fights;
    let disjoint = sharing.weighed().sum_of(FightKind::is_curable_by_layout);
    let all = sharing.weighed().sum_of(|_| true);
    sharing.disjoint_permille = (u128::from(disjoint.contended_count) * 1000)
        .checked_div(u128::from(all.contended_count))
        .unwrap_or(0) as u64;
    sharing.verdict = sharing.weighed().verdict();
    sharing
}
