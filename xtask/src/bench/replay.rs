//! Speed of replaying a stream of accesses with full statistics, on the 480-CPU machine.
//!
//! Streams of 10^4 shared lines by 480 CPUs ([`super::streams`]): one with the shape of a
//! recording, one of contended lines only, and a random one.

use std::fs;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use anyhow::{Context, Result};
use hitm_base::machine::preset;
use hitm_base::{Access, Machine};
use hitm_coherence::directory::Capacity;
use hitm_coherence::replay::{Replay, ReplayOptions};
use rayon::ThreadPoolBuilder;

use super::streams::{ACCESS_COUNT, contended, recorded, uniform};

/// Millions of accesses a second of CPU time, once every row exists.
pub(super) fn one_core() -> Result<f64> {
    warm_rate(recorded())
}

/// Like [`one_core`], for a stream of contention.
pub(super) fn contended_one_core() -> Result<f64> {
    warm_rate(contended())
}

fn warm_rate(accesses: Vec<Access>) -> Result<f64> {
    let (mut replay, accesses) = warmed_up(accesses, 1)?;
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

/// Like [`one_thread`], on two threads.
pub(super) fn two_threads() -> Result<f64> {
    rate_on_threads(2)
}

/// Millions of accesses a second of CPU time from an empty start to the ordered statistics.
pub(super) fn from_cold() -> Result<f64> {
    cold_rate(&recorded())
}

/// Like [`from_cold`], for accesses of random CPUs to random lines.
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

/// A replay that has seen the stream once, and the stream that follows.
fn warmed_up(mut accesses: Vec<Access>, shards: usize) -> Result<(Replay, Vec<Access>)> {
    let mut replay = new_replay(shards)?;
    replay.push(&accesses)?;
    let span = accesses.last().map_or(0, |last| last.time.0);
    accesses.iter_mut().for_each(|access| access.time.0 += span);
    Ok((replay, accesses))
}

fn rate_on_threads(threads: usize) -> Result<f64> {
    // More shards than threads, so that a thread that is done can take over.
    let (mut replay, accesses) = warmed_up(recorded(), if threads == 1 { 1 } else { 32 })?;
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
