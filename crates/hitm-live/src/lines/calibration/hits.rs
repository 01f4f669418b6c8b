//! Hits of watches: whether debug registers count, and how dear that is.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::lines::event::{self, Sight, Whom};
use crate::lines::{WatchedAccess, record};
use crate::sampler::ring::Ring;

/// Accesses under watch, and how often they are made: the fastest time counts.
const ACCESSES: u32 = 50;
const RUNS: usize = 3;
const RING_BYTES: usize = 64 << 10;

/// Answers about watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hits {
    pub(super) watches_all: bool,
    pub(super) watches_writes: bool,
    /// None where nothing is counted.
    pub(super) hit_ns: Option<u64>,
}

/// A word of which nobody else has a part.
#[repr(align(8))]
struct Word(AtomicU64);

impl Word {
    fn read(&self) {
        black_box(self.0.load(Ordering::Relaxed));
    }

    fn write(&self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// Accesses that a watch saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    count: u32,
    ns: u64,
}

/// Measures. Watches are of this thread.
pub(super) fn measure() -> io::Result<Hits> {
    let word = Word(AtomicU64::new(0));
    let reads = best(&word, WatchedAccess::Any, Word::read)?;
    let writes = best(&word, WatchedAccess::Any, Word::write)?;
    let writes_alone = best(&word, WatchedAccess::Write, Word::write)?;
    let reads_alone = best(&word, WatchedAccess::Write, Word::read)?;
    let runs = [reads, writes, writes_alone];
    let seen = runs.iter().filter(|run| run.count == ACCESSES);
    Ok(Hits {
        watches_all: reads.count == ACCESSES && writes.count == ACCESSES,
        watches_writes: writes_alone.count == ACCESSES && reads_alone.count == 0,
        hit_ns: seen.map(|run| run.ns / u64::from(ACCESSES)).min(),
    })
}

fn best(word: &Word, access: WatchedAccess, touch: impl Fn(&Word)) -> io::Result<Run> {
    let address = word.0.as_ptr() as u64;
    let watch = Sight::Programs.watch(Whom::Thread(0), address, access)?;
    let mut ring = Ring::of(watch, RING_BYTES)?;
    let runs = (0..RUNS).map(|_| {
        event::arm(ring.file(), ACCESSES);
        let begun = Instant::now();
        (0..ACCESSES).for_each(|_| touch(word));
        let ns = begun.elapsed().as_nanos() as u64;
        event::enable(ring.file(), false);
        let mut bytes = Vec::new();
        ring.read(&mut bytes);
        let mut count = 0;
        record::parse(&bytes, |_| count += 1);
        Run { count, ns }
    });
    // Some accesses more than all are as good as all.
    let best = runs.min_by_key(|run| (ACCESSES.saturating_sub(run.count), run.ns));
    best.ok_or_else(|| io::Error::other("no run"))
}
