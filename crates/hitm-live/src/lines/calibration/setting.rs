//! Time that a thread loses to a watch beside its hits: when it is set, and when it has ended.
//!
//! A thread that does nothing but touch the watched word has no time of its own.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::switches::{current_cpu, pin};
use crate::lines::event::{Sight, Whom};
use crate::lines::watches::{Bearer, OpenWatches, Pending};
use crate::lines::{Watch, WatchLimits, WatchedAccess};

/// Turns of each kind, of which the least time counts.
const TURNS: usize = 10;
/// Hits of a turn, as many as those that count, and time for them.
const HITS: u32 = 6;
const TIME_MAX: Duration = Duration::from_millis(3);

/// Least times; zero where no turn told any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) armed_ns: u64,
    pub(super) begun_ns: u64,
}

/// A turn in which the watch ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) since_ns: u64,
    pub(super) counted_ns: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

impl Ended {
    /// Returns true if the thread ran all the time.
    fn ran(self) -> bool {
        self.counted_ns >= self.last_ns.saturating_sub(self.since_ns)
    }

    fn to_first_ns(self) -> u64 {
        self.first_ns.saturating_sub(self.since_ns)
    }

    fn beside_hits_ns(self) -> u64 {
        let hits_ns = self.last_ns - self.first_ns;
        self.counted_ns.saturating_sub(hits_ns)
    }
}

/// Measures with a thread on another CPU, and with one on this CPU, which does not run while a watch is set.
pub(super) fn measure() -> io::Result<Setting> {
    let cpu = current_cpu()?;
    let other = (0..cpu).rev().chain(cpu + 1..cpu + 8);
    pin(cpu)?;
    let aside = turns(other.collect())?;
    let beneath = turns(vec![cpu])?;
    Ok(Setting {
        armed_ns: armed_ns(&aside),
        begun_ns: begun_ns(&beneath),
    })
}

/// Least time to the first hit of a thread that ran when it was set.
pub(super) fn armed_ns(turns: &[Ended]) -> u64 {
    let ran = turns.iter().filter(|turn| turn.ran());
    ran.map(|turn| turn.to_first_ns()).min().unwrap_or(0)
}

/// Least time beside hits of a thread that did not run.
pub(super) fn begun_ns(turns: &[Ended]) -> u64 {
    let began = turns.iter().filter(|turn| !turn.ran());
    began.map(|turn| turn.beside_hits_ns()).min().unwrap_or(0)
}

/// Watches a thread on the first one of some CPUs that it may have.
fn turns(cpus: Vec<usize>) -> io::Result<Vec<Ended>> {
    #[repr(align(64))]
    struct Line(AtomicU64);
    let line = Line(AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let (line, stop) = (&line, &stop);
        let touch = move || {
            let has_cpu = cpus.into_iter().any(|cpu| pin(cpu).is_ok());
            // SAFETY: a system call without arguments.
            let tid = unsafe { libc::gettid() } as u32;
            let told = sender.send(has_cpu.then_some(tid));
            while has_cpu && told.is_ok() && !stop.load(Ordering::Relaxed) {
                // Seldom enough for the word of the end, which is not watched, to take no time.
                for _ in 0..256 {
                    black_box(line.0.load(Ordering::Relaxed));
                }
            }
        };
        thread::Builder::new().spawn_scoped(scope, touch)?;
        let turns = match receiver.recv() {
            Ok(Some(tid)) => (0..TURNS)
                .filter_map(|_| turn(tid, line.0.as_ptr() as u64))
                .collect(),
            _ => Vec::new(),
        };
        stop.store(true, Ordering::Relaxed);
        Ok(turns)
    })
}

fn turn(tid: u32, line: u64) -> Option<Ended> {
    let mut open = OpenWatches::default();
    let bearer = Bearer {
        whom: Whom::Thread(tid),
        sight: Sight::Programs,
        ring: None,
    };
    let watch = Watch {
        offset: 0,
        access: WatchedAccess::Any,
    };
    open.set(bearer, line, &[watch]);
    let limits = WatchLimits {
        time: TIME_MAX,
        hits_enough: HITS as usize,
        hits_max: HITS,
    };
    let armed = *open.run(limits, Pending::default).armed.first()?;
    let mut times = Vec::new();
    open.drain(|seen| times.push(seen.time_ns));
    let behind = times.iter().filter(|time| **time >= armed.since_ns);
    (times.len() == HITS as usize).then_some(Ended {
        since_ns: armed.since_ns,
        counted_ns: armed.counted_ns,
        first_ns: *behind.min()?,
        last_ns: *times.iter().max()?,
    })
}
