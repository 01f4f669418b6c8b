//! Open watches of one turn.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant};

use super::event::{self, Sight, Whom};
use super::{ArmedWatch, Hit, Seen, WATCHES_MAX, Watch, WatchLimits, Watched, record};
use crate::clock::monotonic_ns;
use crate::sampler::ring::Ring;

/// Bytes of the ring of a thread that has none: hits of one turn.
const RING_BYTES: usize = 16 << 10;

/// A watch of one thread or CPU.
#[derive(Debug)]
struct OpenWatch {
    /// Number among the watched words.
    number: usize,
    whom: Whom,
    file: File,
}

/// Bytes of a record, some: its registers and a few callers.
const RECORD_BYTES: usize = 320;
/// Time between looks for hits.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A thread or CPU to watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bearer<'r> {
    pub(super) whom: Whom,
    pub(super) sight: Sight,
    /// Its ring, if it has one.
    pub(super) ring: Option<&'r Ring>,
}

/// Watches that are set together, by the numbers of their events.
#[derive(Debug, Default)]
pub(super) struct OpenWatches {
    open: BTreeMap<u64, OpenWatch>,
    /// Rings of those that found none.
    rings: Vec<Ring>,
    refused_count: u64,
}

impl OpenWatches {
    /// Sets the watches of a line.
    pub(super) fn set(&mut self, bearer: Bearer<'_>, line: u64, watches: &[Watch]) {
        let mut own = None;
        let mut is_refused = false;
        for (number, watch) in watches.iter().take(WATCHES_MAX).enumerate() {
            let opened = bearer
                .sight
                .watch(bearer.whom, line + watch.offset, watch.access)
                .and_then(|file| {
                    match bearer.ring.or(own.as_ref()) {
                        Some(ring) => event::output_to(&file, ring)?,
                        None => own = Some(Ring::of(file.try_clone()?, RING_BYTES)?),
                    }
                    Ok((event::id_of(&file)?, file))
                });
            match opened {
                Ok((id, file)) => {
                    let whom = bearer.whom;
                    self.open.insert(id, OpenWatch { number, whom, file });
                }
                // It has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                Err(_) => is_refused = true,
            }
        }
        self.rings.extend(own);
        self.refused_count += u64::from(is_refused);
    }

    /// Lets all count until the time is over, or there are enough hits in their rings and in those of which `pending`
    /// tells the bytes.
    pub(super) fn run(&self, limits: WatchLimits, pending: impl Fn() -> usize) -> Watched {
        let bytes = || self.rings.iter().map(Ring::pending).sum::<usize>() + pending();
        let before = bytes();
        let begun_ns = monotonic_ns();
        let start = Instant::now();
        let since_ns = self.arm(limits.hits_max);
        let armed_ns = monotonic_ns();
        let enough = before + limits.hits_enough * RECORD_BYTES;
        loop {
            let left = limits.time.saturating_sub(start.elapsed());
            if left.is_zero() || bytes() >= enough {
                break;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
        let files = self.open.values().map(|watch| &watch.file);
        files.for_each(|file| event::enable(file, false));
        Watched {
            hits: Vec::new(),
            begun_ns,
            armed_ns,
            armed: self.armed(&since_ns),
            ended_ns: monotonic_ns(),
            refused_count: self.refused_count,
        }
    }

    /// Lets all count, one after the other. Returns the times from which on they do.
    fn arm(&self, hits_max: u32) -> Vec<u64> {
        let watches = self.open.values();
        let arm = |watch: &OpenWatch| {
            event::arm(&watch.file, hits_max);
            monotonic_ns()
        };
        watches.map(arm).collect()
    }

    /// The watches of threads, which count no more.
    fn armed(&self, since_ns: &[u64]) -> Vec<ArmedWatch> {
        let watches = self.open.values().zip(since_ns);
        let armed = |(watch, since_ns): (&OpenWatch, &u64)| match watch.whom {
            Whom::Thread(tid) => Some(ArmedWatch {
                watch: watch.number,
                tid,
                since_ns: *since_ns,
                counted_ns: event::counted_ns(&watch.file).ok()?,
            }),
            Whom::Cpu(_) => None,
        };
        watches.filter_map(armed).collect()
    }

    /// The hit that a record tells of, if one of these watches made it.
    pub(super) fn hit(&self, seen: Seen) -> Option<Hit> {
        let watch = self.open.get(&seen.event)?.number;
        Some(Hit { watch, seen })
    }

    /// Passes on what is in the rings of those that found none, and returns the number of records that were lost.
    pub(super) fn drain(&mut self, mut sink: impl FnMut(Seen)) -> u64 {
        let mut bytes = Vec::new();
        self.rings.iter_mut().for_each(|ring| ring.read(&mut bytes));
        record::parse(&bytes, &mut sink)
    }
}
