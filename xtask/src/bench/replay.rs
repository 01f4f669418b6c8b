//! How fast a stream of accesses is replayed with full statistics, on the 480-CPU machine.
//!
//! The stream is what a recording of a contended program looks like: 10^4 shared lines, popular by
//! Zipf's law; the hottest used by all 480 CPUs, the rest by a few; six instructions for each line;
//! a thread that comes to a line touches it four times on average; 30 % stores, 5 % locked
//! operations; as many requests a cycle as the hottest line can just serve. The worst case is the
//! same with line and CPU chosen at random for every access, so that nearly each one misses, waits
//! and has a row of its own.

use std::fs;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use anyhow::{Context, Result};
use hitm_base::machine::preset;
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, Machine, ThreadId};
use hitm_coherence::directory::Capacity;
use hitm_coherence::replay::{Replay, ReplayOptions};
use rayon::ThreadPoolBuilder;

const LINES: u64 = 10_000;
const CPUS: u64 = 480;
const ACCESS_COUNT: usize = 1 << 23;
/// Mean cycles between two accesses of the whole machine.
const GAP_CYCLES: u64 = 12;
/// What a thread waits for the first access to a line before it goes on: the times of a recorded
/// stream have the waiting in them.
const WAIT_CYCLES: u64 = 1000;

/// Millions of accesses a second of CPU time, once every row exists.
pub(super) fn one_core() -> Result<f64> {
    let (mut replay, accesses) = warmed_up(1)?;
    let start = cpu_seconds()?;
    replay.push(&accesses)?;
    let taken = cpu_seconds()? - start;
    black_box(&replay);
    Ok(ACCESS_COUNT as f64 / taken / 1e6)
}

/// Millions of accesses a second of real time on one thread.
pub(super) fn one_thread() -> Result<f64> {
    rate_on_threads(1)
}

/// The same on two threads.
pub(super) fn two_threads() -> Result<f64> {
    rate_on_threads(2)
}

/// Millions of accesses a second of CPU time from an empty start to the ordered statistics.
pub(super) fn from_cold() -> Result<f64> {
    cold_rate(&realistic())
}

/// The same for accesses of random CPUs to random lines.
pub(super) fn worst_case() -> Result<f64> {
    cold_rate(&uniform())
}

fn machine() -> Result<Machine> {
    let text = preset("xeon-480").context("no preset xeon-480")?;
    Ok(Machine::from_toml(text, "preset xeon-480")?)
}

fn new_replay(shards: usize) -> Result<Replay> {
    let shards = NonZeroUsize::new(shards).context("no shards")?;
    Ok(Replay::new(
        &machine()?,
        ReplayOptions {
            capacity: Capacity::Finite,
            shards,
        },
    ))
}

/// A replay that has seen the stream once, and the stream to go on with.
fn warmed_up(shards: usize) -> Result<(Replay, Vec<Access>)> {
    let mut accesses = realistic();
    let mut replay = new_replay(shards)?;
    replay.push(&accesses)?;
    let span = accesses.last().map_or(0, |last| last.time.0);
    accesses.iter_mut().for_each(|access| access.time.0 += span);
    Ok((replay, accesses))
}

fn rate_on_threads(threads: usize) -> Result<f64> {
    // More shards than threads, so that a thread that is done can take over.
    let (mut replay, accesses) = warmed_up(if threads == 1 { 1 } else { 32 })?;
    let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
    let start = Instant::now();
    pool.install(|| replay.push(&accesses))?;
    let taken = start.elapsed();
    black_box(&replay);
    Ok(ACCESS_COUNT as f64 / taken.as_secs_f64() / 1e6)
}

fn cold_rate(accesses: &[Access]) -> Result<f64> {
    let mut replay = new_replay(1)?;
    let start = cpu_seconds()?;
    replay.push(accesses)?;
    black_box(replay.finish());
    Ok(ACCESS_COUNT as f64 / (cpu_seconds()? - start) / 1e6)
}

/// CPU time of this thread: on a host with other work, real time says little about one thread.
fn cpu_seconds() -> Result<f64> {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let nanos = text.split(' ').next().context("schedstat is empty")?;
    Ok(nanos
        .parse::<f64>()
        .with_context(|| format!("{path} has no number"))?
        / 1e9)
}

/// A small generator (xorshift64*): the streams are the same on every host.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * end) >> 32
    }
}

fn realistic() -> Vec<Access> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut cumulative = Vec::new();
    let mut total = 0;
    for rank in 1..=LINES {
        total += (1 << 20) / rank;
        cumulative.push(total);
    }
    let mut accesses = Vec::with_capacity(ACCESS_COUNT + 8);
    let mut time = 0;
    while accesses.len() < ACCESS_COUNT {
        let point = random.below(total);
        let rank = cumulative.partition_point(|end| *end <= point) as u64;
        let cpu = (rank * 61 + random.below(users(rank)) * 37) % CPUS;
        let visit = 1 + random.below(7);
        for step in 0..visit {
            let waited = if step == 0 { 0 } else { WAIT_CYCLES };
            accesses.push(access(&mut random, time + waited + step * 30, rank, cpu));
        }
        time += random.below(2 * GAP_CYCLES * visit);
    }
    accesses.truncate(ACCESS_COUNT);
    accesses.sort_by_key(|access| access.time);
    accesses
}

fn uniform() -> Vec<Access> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut one = |index: usize| {
        let (rank, cpu) = (random.below(LINES), random.below(CPUS));
        access(&mut random, index as u64 * GAP_CYCLES, rank, cpu)
    };
    (0..ACCESS_COUNT).map(&mut one).collect()
}

/// How many CPUs use the line of this rank.
fn users(rank: u64) -> u64 {
    match rank {
        0..16 => CPUS,
        16..256 => 64,
        256..2048 => 16,
        _ => 4,
    }
}

/// One access by one of the six instructions that use the line: three load, two store, one locks.
fn access(random: &mut Random, time: u64, rank: u64, cpu: u64) -> Access {
    let (op, site) = match random.below(100) {
        0..65 => (AccessOp::Load, random.below(3)),
        65..95 => (AccessOp::Store, 3 + random.below(2)),
        _ => (AccessOp::LockedRmw, 5),
    };
    Access {
        thread: ThreadId(cpu as u32),
        cpu: CpuId(cpu as u16),
        time: Cycles(time),
        // Neighbouring ranks are no neighbours in memory.
        addr: 0x10_0000 + rank * 4001 % LINES * 64 + site * 8,
        size: 8,
        op,
        code: CodeAddr(0x40_0000 + rank % 97 * 64 + site * 5),
    }
}
