//! Places of samples: a clock that ticks fast, over loops whose accesses wait.

use std::io;
use std::time::{Duration, Instant};

use super::Stand;
use super::loops::{COUNT, Code, Kind, Walk};
use crate::lines::event::{self, Sight, Whom};
use crate::lines::record;
use crate::sampler::ring::Ring;

/// CPU time between samples. The kernel makes 10 us of less.
const PERIOD_NS: u64 = 40_000;
/// Longest time of a loop, and samples after which it ends.
const TIME_MAX: Duration = Duration::from_millis(15);
const SAMPLES: usize = 72;
/// Samples that tell nothing: they are too few.
const SAMPLES_MIN: usize = 24;
/// Bytes of the ring, and of a sample without callers, some.
const RING_BYTES: usize = 64 << 10;
const SAMPLE_BYTES: usize = 240;
/// Samples at one of the two places for each at the other one that decide for it.
const CLEAR: usize = 16;
/// Least part of a loop's samples, in percent, that decides. An AMD EPYC shows stores that wait at the first
/// instruction of each group of eight: a third to a half of them at the one behind.
const PERCENT: usize = 75;
/// Runs of which the fastest counts.
const RUNS: u32 = 16;

/// Places of samples, and the price of a locked operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stands {
    pub(super) load: Stand,
    pub(super) store: Stand,
    pub(super) locked: Stand,
    pub(super) locked_ps: u64,
}

/// Samples of a loop by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Places {
    pub(super) at: usize,
    pub(super) behind: usize,
    pub(super) all: usize,
}

impl Places {
    /// Returns the place that samples decide for; none where they are too few.
    pub(super) fn stand(self) -> Option<Stand> {
        if self.all < SAMPLES_MIN {
            return None;
        }
        let wins =
            |one: usize, other: usize| one * 100 >= self.all * PERCENT && one >= other * CLEAR;
        Some(match self {
            _ if wins(self.at, self.behind) => Stand::At,
            _ if wins(self.behind, self.at) => Stand::Behind,
            _ => Stand::Either,
        })
    }
}

/// Measures; none where this CPU has no loops, or too few samples came.
pub(super) fn measure() -> io::Result<Option<Stands>> {
    let clock = Sight::Programs.clock(Whom::Thread(0), PERIOD_NS)?;
    let mut ring = Ring::of(clock, RING_BYTES)?;
    let Some(mut walk) = Walk::new() else {
        return Ok(None);
    };
    let mut stand = |kind| places(&mut ring, &mut walk, kind).stand();
    let found = [Kind::Load, Kind::Store, Kind::Locked].map(&mut stand);
    let [Some(load), Some(store), Some(locked)] = found else {
        return Ok(None);
    };
    let all = fastest_ps(&mut walk, Kind::Locked);
    let rest = fastest_ps(&mut walk, Kind::Nothing);
    Ok(Some(Stands {
        load,
        store,
        locked,
        locked_ps: all.saturating_sub(rest),
    }))
}

/// Samples of a loop.
fn places(ring: &mut Ring, walk: &mut Walk, kind: Kind) -> Places {
    let mut code = walk.run(kind);
    event::enable(ring.file(), true);
    let begun = Instant::now();
    while begun.elapsed() < TIME_MAX && ring.pending() < SAMPLES * SAMPLE_BYTES {
        code = walk.run(kind);
    }
    event::enable(ring.file(), false);
    let mut bytes = Vec::new();
    ring.read(&mut bytes);
    let mut places = Places::default();
    record::parse(&bytes, |seen| places.add(code, seen.code));
    places
}

impl Places {
    fn add(&mut self, code: Code, sampled: u64) {
        self.at += usize::from(sampled == code.at);
        self.behind += usize::from(sampled == code.behind);
        self.all += usize::from((code.at..code.end).contains(&sampled));
    }
}

/// Least time of an access and what is around it.
fn fastest_ps(walk: &mut Walk, kind: Kind) -> u64 {
    let run = |_| {
        let begun = Instant::now();
        walk.run(kind);
        begun.elapsed().as_nanos() as u64 * 1000 / COUNT
    };
    (0..RUNS).map(run).min().unwrap_or(0)
}
