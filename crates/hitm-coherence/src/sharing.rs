//! What kind of fight a line sees: false sharing, true sharing, a lock, or none.
//!
//! [`judge`] looks at one line's rows (who touched which bytes, how often, and how often the line had
//! to come from another CPU) and answers with a [`Sharing`]. It weighs by *contended accesses*, those
//! whose data or whose right to write came from another CPU, never by mere presence: an initialiser
//! that wrote the whole line once does not turn false sharing into true sharing.
//!
//! # How it decides
//!
//! 1. Fewer than [`CONTENDED_COUNT_MIN`] contended accesses, or fewer than one in
//!    [`ACCESSES_PER_CONTENDED_MAX`]: *no contention*.
//! 2. Threads with less than 1/[`THREAD_SHARE_DIVISOR`] of the mean thread's contended accesses are
//!    dropped, then of each thread the places with less than 1/[`PLACE_SHARE_DIVISOR`] of its accesses
//!    and of its contended accesses. Fewer than two threads left: *no contention*.
//! 3. Every pair of threads, at least one of which writes, is a possible hand-over of the line. Its
//!    weight is the product of their contended accesses: how often the two follow each other when the
//!    order is random. The part of it that falls on bytes that the other one does not use (or that
//!    neither writes) is *disjoint*: it would vanish if the bytes lay on different lines.
//! 4. Two lockers of a lock in the line hand it over for the lock's sake: nothing of that is disjoint.
//!
//! | disjoint share of the hand-overs | further condition | verdict |
//! |---|---|---|
//! | at most [`DISJOINT_SMALL_PERMILLE`] | the line holds a contended lock | lock |
//! | at most [`DISJOINT_SMALL_PERMILLE`] | no lock | true sharing |
//! | above | fewer than 1/[`WRITERS_APART_DIVISOR`] of the disjoint pairs are two writers | read-mostly with a hot writer |
//! | at least [`DISJOINT_LARGE_PERMILLE`] | otherwise | false sharing |
//! | in between | otherwise | mixed |
//!
//! A lock is a place that two or more threads hit with locked operations, that takes part in at least
//! 1/[`LOCK_SHARE_DIVISOR`] of the line's contended accesses or of its lockers' accesses (which of the
//! accesses of a critical section finds the line gone is a matter of timing), with one of these signs: its
//! lockers also store to it plainly (the release of a spin lock); they store plainly to common bytes
//! beside it (the data it guards, or a mutex's own owner field); or they read it at least
//! [`SPIN_LOADS_PER_LOCKED`] times as often as they lock it, with two or more locked instructions
//! (acquire and release).
//!
//! Of samples ([`judge_samples`]) stores that do not say where the line was count as contended from step
//! 2 on: without them a thread that only writes would be nobody.
//!
//! # Not modelled, and why
//!
//! - A lock taken and released by locked operations only, without spinning and without data in its
//!   line, cannot be told from a reference count: it is called true sharing, and it is.
//! - Memory that one thread frees and another reuses counts as shared. The recorder knows of the reuse,
//!   the line statistics do not.
//! - Of several accesses to a line in a row, only the first one is contended: a thread that touches a
//!   shared byte and then its own one has all its contended accesses on the shared byte. The verdict
//!   says what a change of the first byte would save, which is the right order to work in.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{AccessOp, CodeAddr, ThreadId};

use crate::stats::{LineStats, RowStats, byte_mask};

/// Contended accesses that a line needs before it is worth a verdict. Handing a buffer to another
/// thread, creating and joining a thread, or a barrier cost a line fewer. Lower values flag start-up
/// code, higher ones miss contention in very short runs.
pub const CONTENDED_COUNT_MIN: u64 = 32;
/// At most this many accesses for each contended one. At a transfer of about 150 cycles, one in a
/// thousand is 0.15 cycles an access, 3 % of an L1 hit: not worth a change of layout.
pub const ACCESSES_PER_CONTENDED_MAX: u64 = 1000;
/// A thread counts when it has at least this fraction (one in ...) of the mean thread's contended
/// accesses. Separates workers, whose counts are alike, from a main thread that initialises and
/// collects.
pub const THREAD_SHARE_DIVISOR: u64 = 20;
/// A place counts when it has at least this fraction (one in ...) of its thread's accesses, or of its
/// contended ones. Separates the loop from the set-up that precedes it in the same thread.
pub const PLACE_SHARE_DIVISOR: u64 = 100;
/// Up to this share, in thousandths, disjoint hand-overs do not matter: moving bytes apart would save
/// a fifth at best.
pub const DISJOINT_SMALL_PERMILLE: u64 = 200;
/// From this share on, in thousandths, disjoint hand-overs are the whole story.
pub const DISJOINT_LARGE_PERMILLE: u64 = 800;
/// False sharing needs at least this fraction (one in ...) of its pairs to be two threads that both
/// write; with fewer, readers of one place suffer from the writers of another.
pub const WRITERS_APART_DIVISOR: u64 = 5;
/// A lock word takes part in at least this fraction (one in ...) of a line's contended accesses.
/// A mutex is often entered by reading its kind first, so it is well below one half.
pub const LOCK_SHARE_DIVISOR: u64 = 4;
/// Loads for each locked operation that look like spinning. A compare-and-swap loop has one.
pub const SPIN_LOADS_PER_LOCKED: u64 = 2;

/// What kind of contention a line sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Nothing worth a change: private, read only, or handed over now and then.
    NoContention,
    /// Threads take the line from each other although they use different bytes.
    FalseSharing,
    /// Threads take the line from each other for the same bytes.
    TrueSharing,
    /// Both, neither dominating.
    Mixed,
    /// Readers of bytes that are hardly ever written lose the line to writers of other bytes.
    ReadMostlyWithHotWriter,
    /// A contended lock, perhaps with the data that it guards.
    Lock,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 6] = [
        Verdict::NoContention,
        Verdict::FalseSharing,
        Verdict::TrueSharing,
        Verdict::Mixed,
        Verdict::ReadMostlyWithHotWriter,
        Verdict::Lock,
    ];

    /// The name in files and on the command line.
    pub const fn id(self) -> &'static str {
        match self {
            Verdict::NoContention => "no-contention",
            Verdict::FalseSharing => "false-sharing",
            Verdict::TrueSharing => "true-sharing",
            Verdict::Mixed => "mixed",
            Verdict::ReadMostlyWithHotWriter => "read-mostly-with-hot-writer",
            Verdict::Lock => "lock",
        }
    }

    /// Whether a good part of the contention would vanish if the bytes lay on different lines.
    pub const fn is_curable_by_layout(self) -> bool {
        matches!(
            self,
            Verdict::FalseSharing | Verdict::Mixed | Verdict::ReadMostlyWithHotWriter
        )
    }
}

/// The verdict on one line, and the bytes that it rests on (bit i is byte i of the line).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// The verdict.
    pub verdict: Verdict,
    /// Accesses whose data, or whose right to write, came from another CPU.
    pub contended_count: u64,
    /// Thousandths of the hand-overs between threads that have no byte in common.
    pub disjoint_permille: u64,
    /// Bytes that contending threads write.
    pub written: u64,
    /// Bytes that contending threads read and none of them writes.
    pub read_mostly: u64,
    /// The lock word, 0 when the line holds no contended lock.
    pub lock_word: u64,
    /// Bytes beside the lock word that its lockers share: the data that it guards.
    pub guarded: u64,
}

/// Judges one line. Cost: a pass over its rows, and the square of the number of different ways in
/// which threads use it (not of the number of threads).
pub fn judge(line: &LineStats) -> Sharing {
    judge_threads(threads_of(line), false)
}

/// Judges a line of which samples are known. Samples of stores seldom say that the line was elsewhere
/// (Intel's say whether the L1 had it, and count a store when it has left): where none of a place does,
/// each counts as one that took the line.
pub fn judge_samples(line: &LineStats) -> Sharing {
    judge_threads(threads_of(line), true)
}

fn judge_threads(mut threads: BTreeMap<ThreadId, ThreadUse>, are_samples: bool) -> Sharing {
    let contended_count = threads.values().map(|t| t.contended).sum();
    let access_count: u64 = threads.values().map(|t| t.accesses).sum();
    let mut sharing = Sharing {
        verdict: Verdict::NoContention,
        contended_count,
        disjoint_permille: 0,
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
    if are_samples {
        threads
            .values_mut()
            .for_each(ThreadUse::count_silent_stores);
    }
    keep_what_counts(&mut threads);
    if threads.len() < 2 {
        return sharing;
    }
    let lock = find_lock(&threads);
    let handovers = Handovers::count(&threads, lock.word);
    sharing.written = threads.values().fold(0, |mask, t| mask | t.written());
    sharing.read_mostly = threads.values().fold(0, |mask, t| mask | t.read()) & !sharing.written;
    sharing.lock_word = lock.word;
    sharing.guarded = lock.guarded;
    sharing.disjoint_permille = handovers.disjoint_permille();
    sharing.verdict = handovers.verdict(lock.word != 0);
    sharing
}

/// A place in the line, used in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    mask: u64,
    op: AccessOp,
}

impl Place {
    fn reads(self) -> bool {
        self.op != AccessOp::Store
    }

    fn writes(self) -> bool {
        self.op.is_write()
    }
}

#[derive(Debug, Default, Clone)]
struct PlaceUse {
    accesses: u64,
    contended: u64,
    codes: BTreeSet<CodeAddr>,
}

#[derive(Debug, Default, Clone)]
struct ThreadUse {
    accesses: u64,
    contended: u64,
    places: BTreeMap<Place, PlaceUse>,
}

impl ThreadUse {
    fn add(&mut self, place: Place, code: CodeAddr, row: &RowStats) {
        let accesses = row.sources.total();
        let contended = row.sources.contended();
        self.accesses += accesses;
        self.contended += contended;
        let used = self.places.entry(place).or_default();
        used.accesses += accesses;
        used.contended += contended;
        used.codes.insert(code);
    }

    fn count_silent_stores(&mut self) {
        let stores = self.places.iter_mut();
        let stores = stores.filter(|(place, _)| place.op == AccessOp::Store);
        for (_, silent) in stores.filter(|(_, used)| used.contended == 0) {
            silent.contended = silent.accesses;
            self.contended += silent.accesses;
        }
    }

    fn mask_of(&self, wanted: impl Fn(Place) -> bool) -> u64 {
        let places = self.places.keys().filter(|place| wanted(**place));
        places.fold(0, |mask, place| mask | place.mask)
    }

    fn read(&self) -> u64 {
        self.mask_of(Place::reads)
    }

    fn written(&self) -> u64 {
        self.mask_of(Place::writes)
    }

    fn locked(&self) -> u64 {
        self.mask_of(|place| place.op == AccessOp::LockedRmw)
    }

    fn stored_plainly(&self) -> u64 {
        self.mask_of(|place| place.op == AccessOp::Store)
    }
}

fn threads_of(line: &LineStats) -> BTreeMap<ThreadId, ThreadUse> {
    let mut threads: BTreeMap<ThreadId, ThreadUse> = BTreeMap::new();
    for (key, row) in &line.rows {
        let place = Place {
            mask: byte_mask(key.offset, key.size),
            op: key.op,
        };
        let thread = threads.entry(key.thread).or_default();
        thread.add(place, key.code, row);
    }
    threads
}

/// Step 2 of the decision: drops bystanders, and what a thread did only in passing.
fn keep_what_counts(threads: &mut BTreeMap<ThreadId, ThreadUse>) {
    threads.retain(|_, thread| thread.contended > 0);
    let total: u64 = threads.values().map(|t| t.contended).sum();
    let count = threads.len() as u64;
    threads.retain(|_, thread| {
        thread
            .contended
            .saturating_mul(THREAD_SHARE_DIVISOR * count)
            >= total
    });
    for thread in threads.values_mut() {
        let (accesses, contended) = (thread.accesses, thread.contended);
        thread.places.retain(|_, place| {
            place.accesses.saturating_mul(PLACE_SHARE_DIVISOR) >= accesses
                || place.contended.saturating_mul(PLACE_SHARE_DIVISOR) >= contended
        });
        thread.contended = thread.places.values().map(|p| p.contended).sum();
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct LockFound {
    word: u64,
    guarded: u64,
}

/// The bytes that at least two of the masks contain.
fn in_two(masks: impl Iterator<Item = u64>) -> u64 {
    let (_, twice) = masks.fold((0, 0), |(once, twice), mask| {
        (once | mask, twice | (once & mask))
    });
    twice
}

fn find_lock(threads: &BTreeMap<ThreadId, ThreadUse>) -> LockFound {
    let word = in_two(threads.values().map(ThreadUse::locked));
    if word == 0 {
        return LockFound::default();
    }
    let lockers: Vec<&ThreadUse> = threads
        .values()
        .filter(|thread| thread.locked() & word != 0)
        .collect();
    let total: u64 = threads.values().map(|t| t.contended).sum();
    let on_word = |op: Option<AccessOp>| {
        let places = lockers.iter().flat_map(|thread| &thread.places);
        places
            .filter(move |(place, _)| place.mask & word != 0 && op.is_none_or(|op| place.op == op))
    };
    let contended_on_word: u64 = on_word(None).map(|(_, used)| used.contended).sum();
    let on_word_at_all: u64 = on_word(None).map(|(_, used)| used.accesses).sum();
    let all: u64 = lockers.iter().map(|thread| thread.accesses).sum();
    let is_small = |part: u64, whole| part.saturating_mul(LOCK_SHARE_DIVISOR) < whole;
    if is_small(contended_on_word, total) && is_small(on_word_at_all, all) {
        return LockFound::default();
    }
    let stored = in_two(lockers.iter().map(|thread| thread.stored_plainly()));
    let loads: u64 = on_word(Some(AccessOp::Load))
        .map(|(_, used)| used.accesses)
        .sum();
    let locked: u64 = on_word(Some(AccessOp::LockedRmw))
        .map(|(_, used)| used.accesses)
        .sum();
    let codes: BTreeSet<CodeAddr> = on_word(Some(AccessOp::LockedRmw))
        .flat_map(|(_, used)| used.codes.iter().copied())
        .collect();
    let spins = codes.len() >= 2 && loads >= locked.saturating_mul(SPIN_LOADS_PER_LOCKED);
    // `stored` covers both signs: a release on the word, and guarded data beside it.
    if stored == 0 && !spins {
        return LockFound::default();
    }
    let written = lockers
        .iter()
        .fold(0, |mask, thread| mask | thread.written());
    let touched_by_two = in_two(
        lockers
            .iter()
            .map(|thread| thread.read() | thread.written()),
    );
    LockFound {
        word,
        guarded: touched_by_two & written & !word,
    }
}

/// Threads that use the same places in the same ways, taken together.
#[derive(Debug, Default)]
struct Group {
    thread_count: u64,
    contended: u64,
    /// Sum of the squares of the threads' contended accesses.
    squares: u128,
    places: BTreeMap<Place, u64>,
    read: u64,
    written: u64,
}

impl Group {
    fn add(&mut self, thread: &ThreadUse) {
        self.thread_count += 1;
        self.contended += thread.contended;
        self.squares += u128::from(thread.contended) * u128::from(thread.contended);
        self.read |= thread.read();
        self.written |= thread.written();
        for (place, used) in &thread.places {
            *self.places.entry(*place).or_default() += used.contended;
        }
    }

    /// Whether a use of `place` by this group concerns `other`.
    fn meets(place: Place, other: &Group) -> bool {
        let concerned = if place.writes() {
            other.read | other.written
        } else {
            other.written
        };
        place.mask & concerned != 0
    }

    /// Contended accesses to places that do not concern `other`.
    fn disjoint_from(&self, other: &Group) -> u64 {
        let apart = self
            .places
            .iter()
            .filter(|(place, _)| !Group::meets(**place, other));
        apart.map(|(_, contended)| contended).sum()
    }

    fn writes_apart_from(&self, other: &Group) -> bool {
        let mut places = self.places.keys();
        places.any(|place| place.writes() && !Group::meets(*place, other))
    }
}

/// Hand-overs of the line between threads, in arbitrary units of weight.
#[derive(Debug, Default)]
struct Handovers {
    total: u128,
    disjoint: u128,
    /// Pairs with a good part of disjoint hand-overs in which both sides write bytes of their own.
    pairs_both_write: u64,
    /// The other pairs with a good part of disjoint hand-overs.
    pairs_one_reads: u64,
}

impl Handovers {
    fn count(threads: &BTreeMap<ThreadId, ThreadUse>, lock_word: u64) -> Handovers {
        let mut groups: BTreeMap<Vec<Place>, Group> = BTreeMap::new();
        for thread in threads.values() {
            let profile = thread.places.keys().copied().collect();
            groups.entry(profile).or_default().add(thread);
        }
        let groups: Vec<Group> = groups.into_values().collect();
        let is_locker = |group: &Group| {
            let mut places = group.places.keys();
            places.any(|place| place.op == AccessOp::LockedRmw && place.mask & lock_word != 0)
        };
        let mut handovers = Handovers::default();
        for (index, a) in groups.iter().enumerate() {
            for b in &groups[index..] {
                handovers.add(a, b, is_locker(a) && is_locker(b));
            }
        }
        handovers
    }

    fn add(&mut self, a: &Group, b: &Group, both_lock: bool) {
        let same = std::ptr::eq(a, b);
        let (pairs, weight) = if same {
            let square = u128::from(a.contended) * u128::from(a.contended);
            (
                a.thread_count * (a.thread_count - 1) / 2,
                (square - a.squares) / 2,
            )
        } else {
            let weight = u128::from(a.contended) * u128::from(b.contended);
            (a.thread_count * b.thread_count, weight)
        };
        let contended = u128::from(a.contended) + u128::from(b.contended);
        if pairs == 0 || contended == 0 || (a.written | b.written) == 0 {
            return;
        }
        let disjoint = if both_lock {
            0
        } else {
            u128::from(a.disjoint_from(b)) + u128::from(b.disjoint_from(a))
        };
        // Thousandths, so that the division loses nothing that matters; the sums stay far below
        // 2^128 for any count below 2^40.
        let per_access = weight * 1000 / contended;
        self.total += per_access * contended;
        self.disjoint += per_access * disjoint;
        if disjoint * 1000 > contended * u128::from(DISJOINT_SMALL_PERMILLE) {
            if a.writes_apart_from(b) && b.writes_apart_from(a) {
                self.pairs_both_write += pairs;
            } else {
                self.pairs_one_reads += pairs;
            }
        }
    }

    fn disjoint_permille(&self) -> u64 {
        let share = (self.disjoint * 1000).checked_div(self.total);
        share.unwrap_or(0) as u64
    }

    fn verdict(&self, has_lock: bool) -> Verdict {
        let disjoint = self.disjoint_permille();
        let pairs = self.pairs_both_write + self.pairs_one_reads;
        if self.total == 0 {
            Verdict::NoContention
        } else if disjoint <= DISJOINT_SMALL_PERMILLE {
            if has_lock {
                Verdict::Lock
            } else {
                Verdict::TrueSharing
            }
        } else if self.pairs_both_write * WRITERS_APART_DIVISOR < pairs {
            Verdict::ReadMostlyWithHotWriter
        } else if disjoint >= DISJOINT_LARGE_PERMILLE {
            Verdict::FalseSharing
        } else {
            Verdict::Mixed
        }
    }
}

#[cfg(test)]
mod tests;
