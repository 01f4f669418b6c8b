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

/// Records that wait in rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pending {
    pub(super) bytes: usize,
    /// Rings that have some.
    pub(super) rings: usize,
}

impl Pending {
    pub(super) fn of<'r>(rings: impl Iterator<Item = &'r Ring>) -> Pending {
        let bytes = rings.map(Ring::pending).filter(|bytes| *bytes > 0);
        bytes.fold(Pending::default(), |sum, bytes| Pending {
            bytes: sum.bytes + bytes,
            rings: sum.rings + 1,
        })
    }

    const fn and(self, other: Pending) -> Pending {
        Pending {
            bytes: self.bytes + other.bytes,
            rings: self.rings + other.rings,
        }
    }
}

/// A thread or CPU to watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bearer<'r> {
    pub(super) whom: Whom,
    pub(super) sight: Sight,
    /// Its ring, if it has one.
    pub(super) ring: Option<&'r Ring>,
}

/// The leader of the watches of a thread or CPU, which all count with it: to tell them one by one takes a running
/// thread ten times as long, and it has ended its first watch before the last one counts.
#[derive(Debug)]
struct Leader {
    whom: Whom,
    file: File,
}

/// Watches that are set together, by the numbers of their events.
#[derive(Debug, Default)]
pub(super) struct OpenWatches {
    // Watches and their rings are closed before their leaders, without which they would count again.
    open: BTreeMap<u64, OpenWatch>,
    /// Rings of those that found none.
    rings: Vec<Ring>,
    leaders: Vec<Leader>,
    refused_count: u64,
}

impl OpenWatches {
    /// Sets the watches of a line.
    pub(super) fn set(&mut self, bearer: Bearer<'_>, line: u64, watches: &[Watch]) {
        let mut own = None;
        let mut is_refused = false;
        let leader = match bearer.sight.leader(bearer.whom) {
            Ok(leader) => leader,
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return,
            Err(_) => {
                self.refused_count += 1;
                return;
            }
        };
        for (number, watch) in watches.iter().take(WATCHES_MAX).enumerate() {
            let opened = bearer
                .sight
                .watch_in(&leader, bearer.whom, line + watch.offset, watch.access)
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
        self.leaders.push(Leader {
            whom: bearer.whom,
            file: leader,
        });
    }

    /// Lets all count until the time is over, or there are enough hits in their rings and in those of which `pending`
    /// tells the bytes. Hits of one thread are not enough: the other one may wait for its CPU.
    pub(super) fn run(&self, limits: WatchLimits, pending: impl Fn() -> Pending) -> Watched {
        let pending = || Pending::of(self.rings.iter()).and(pending());
        let before = pending().bytes;
        let rings_enough = self.leaders.len().min(2);
        for watch in self.open.values() {
            event::arm(&watch.file, limits.hits_max);
        }
        let begun_ns = monotonic_ns();
        let start = Instant::now();
        let since_ns = self.begin();
        let armed_ns = monotonic_ns();
        let enough = before + limits.hits_enough * RECORD_BYTES;
        loop {
            let left = limits.time.saturating_sub(start.elapsed());
            let found = pending();
            if left.is_zero() || found.bytes >= enough && found.rings >= rings_enough {
                break;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
        let leaders = self.leaders.iter();
        leaders.for_each(|leader| event::enable(&leader.file, false));
        Watched {
            hits: Vec::new(),
            begun_ns,
            armed_ns,
            armed: self.armed(&since_ns),
            ended_ns: monotonic_ns(),
            refused_count: self.refused_count,
        }
    }

    /// Lets the watches of one bearer after the other count. Returns the times from which on they do.
    fn begin(&self) -> BTreeMap<Whom, u64> {
        let begin = |leader: &Leader| {
            event::enable(&leader.file, true);
            (leader.whom, monotonic_ns())
        };
        self.leaders.iter().map(begin).collect()
    }

    /// The watches of threads, which count no more.
    fn armed(&self, since_ns: &BTreeMap<Whom, u64>) -> Vec<ArmedWatch> {
        let armed = |watch: &OpenWatch| match watch.whom {
            Whom::Thread(tid) => Some(ArmedWatch {
                watch: watch.number,
                tid,
                since_ns: *since_ns.get(&watch.whom)?,
                counted_ns: event::counted_ns(&watch.file).ok()?,
            }),
            Whom::Cpu(_) => None,
        };
        self.open.values().filter_map(armed).collect()
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
