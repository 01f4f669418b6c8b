//! Time to count one access with its outcome, once every row of every line exists.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_coherence::stats::Collector;

const ACCESS_COUNT: u64 = 1 << 20;
const THREAD_COUNT: u64 = 480;

/// 10^4 lines, each used by four of 480 threads.
pub(super) fn add_many_lines() -> Result<f64> {
    Ok(nanos_per_access(10_000))
}

/// Like [`add_many_lines`], all to one line.
pub(super) fn add_one_line() -> Result<f64> {
    Ok(nanos_per_access(1))
}

fn nanos_per_access(line_count: u64) -> f64 {
    let accesses: Vec<(Access, Outcome)> =
        (0..ACCESS_COUNT).map(|i| access(i, line_count)).collect();
    let mut collector = Collector::default();
    let mut add_all = || {
        for (access, outcome) in &accesses {
            collector.add(access, outcome);
        }
    };
    add_all();
    let start = Instant::now();
    add_all();
    let taken = start.elapsed();
    black_box(&collector);
    taken.as_nanos() as f64 / ACCESS_COUNT as f64
}

/// The i-th access of a fixed stream: a multiplicative hash picks line and user.
fn access(i: u64, line_count: u64) -> (Access, Outcome) {
    let hash = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let line = hash % line_count;
    let user = (hash >> 24) % 4;
    let thread = (line + user * 97) % THREAD_COUNT;
    let op = if hash >> 30 & 1 == 0 {
        AccessOp::Load
    } else {
        AccessOp::Store
    };
    let access = Access {
        thread: ThreadId(thread as u32),
        cpu: CpuId(thread as u16),
        time: Cycles(i),
        addr: 0x10_0000 + line * 64 + user * 8,
        size: 8,
        op,
        code: CodeAddr(0x40_0000 + user * 16),
    };
    let outcome = Outcome::by_source(
        DataSource::ALL[(hash % 13) as usize],
        Cycles(hash % 1000),
        Cycles::ZERO,
        Cycles(hash % 1000),
    );
    (access, outcome)
}
