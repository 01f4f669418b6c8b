//! Streams for replays.

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, ThreadId};

pub(super) const LINES: u64 = 10_000;
pub(super) const CPUS: u64 = 480;
pub(super) const ACCESS_COUNT: usize = 1 << 23;
/// Wait of a thread for the first access to a line: the times of a recorded stream include waits.
const WAIT_CYCLES: u64 = 1000;
/// Cycles between two accesses of a visit.
const STEP_CYCLES: u64 = 30;

/// Lines with the same use: ranks up to `rank_end`, by number of accesses.
struct Band {
    rank_end: u64,
    /// Share of all accesses, in thousandths.
    share: u64,
    /// CPUs that use each line.
    cpus: u64,
    /// Instructions through which each of them does.
    sites: u64,
    /// Accesses of a CPU, on average, before another one comes.
    visit: u64,
}

/// Measured by `cargo run --release -p hitm-trace --example shape` on a recording of Linux 6.12 on 32 CPUs of 2 sockets
/// under `guest/fifo_pool` (1.4 million accesses, 12,470 lines). Lines that most of the 32 CPUs use
/// are used by all 480 here; the others (run queues, tasks and their neighbours) by as many as there.
const RECORDED: [Band; 8] = [
    band(4, 57, CPUS, 17, 5),
    band(16, 66, CPUS, 25, 14),
    band(64, 122, 8, 18, 27),
    band(256, 206, 11, 19, 19),
    band(1024, 257, 8, 16, 14),
    band(2048, 115, 5, 15, 13),
    band(4096, 91, 2, 21, 18),
    band(LINES, 86, 2, 7, 8),
];

const fn band(rank_end: u64, share: u64, cpus: u64, sites: u64, visit: u64) -> Band {
    Band {
        rank_end,
        share,
        cpus,
        sites,
        visit,
    }
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

/// A stream with the shape of a recorded one ([`RECORDED`]), as fast as the hottest lines can just
/// serve it.
pub(super) fn recorded() -> Vec<Access> {
    const GAP_CYCLES: u64 = 4;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Bands are chosen by visits.
    let visits = RECORDED.map(|band| band.share * 1000 / band.visit);
    let total: u64 = visits.iter().sum();
    let mut accesses = Vec::with_capacity(ACCESS_COUNT + 64);
    let mut time = 0;
    while accesses.len() < ACCESS_COUNT {
        let mut point = random.below(total);
        let mut index = 0;
        while point >= visits[index] {
            point -= visits[index];
            index += 1;
        }
        let band = &RECORDED[index];
        let start = index
            .checked_sub(1)
            .map_or(0, |before| RECORDED[before].rank_end);
        let rank = start + random.below(band.rank_end - start);
        let cpu = (rank * 61 + random.below(band.cpus) * 37) % CPUS;
        let visit = 1 + random.below(2 * band.visit - 1);
        // A path through the code: instructions in sequence, from one of a few entries on.
        let first = cpu + random.below(4) * band.sites / 4;
        for step in 0..visit {
            let waited = if step == 0 { 0 } else { WAIT_CYCLES };
            let site = (first + step) % band.sites + cpu % 7;
            accesses.push(recorded_access(
                time + waited + step * STEP_CYCLES,
                rank,
                site,
                cpu,
            ));
        }
        time += random.below(2 * GAP_CYCLES * visit);
    }
    accesses.truncate(ACCESS_COUNT);
    accesses.sort_by_key(|access| access.time);
    accesses
}

/// An access by one of a line's instructions: 75 % load, 23.5 % store, 1.5 % lock, as recorded.
fn recorded_access(time: u64, rank: u64, site: u64, cpu: u64) -> Access {
    let of_site = (rank << 8 | site).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let op = match of_site % 200 {
        0..150 => AccessOp::Load,
        150..197 => AccessOp::Store,
        _ => AccessOp::LockedRmw,
    };
    Access {
        thread: ThreadId(cpu as u32),
        cpu: CpuId(cpu as u16),
        time: Cycles(time),
        addr: line_addr(rank) + (of_site >> 8) % 8 * 8,
        size: 8,
        op,
        code: CodeAddr(0x40_0000 + rank % 97 * 1024 + site * 5),
    }
}

/// Adjacent ranks are not adjacent in memory.
fn line_addr(rank: u64) -> u64 {
    0x10_0000 + rank * 4001 % LINES * 64
}

/// A stream of contention: lines popular by Zipf's law, the hottest used by all CPUs. Six
/// instructions use each line, with about four accesses a visit. The stream is as fast as the
/// hottest line can just serve it.
pub(super) fn contended() -> Vec<Access> {
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
            accesses.push(access(
                &mut random,
                time + waited + step * STEP_CYCLES,
                rank,
                cpu,
            ));
        }
        time += random.below(2 * GAP_CYCLES * visit);
    }
    accesses.truncate(ACCESS_COUNT);
    accesses.sort_by_key(|access| access.time);
    accesses
}

/// Line and CPU at random for every access.
pub(super) fn uniform() -> Vec<Access> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut one = |index: usize| {
        let (rank, cpu) = (random.below(LINES), random.below(CPUS));
        access(&mut random, index as u64 * GAP_CYCLES, rank, cpu)
    };
    (0..ACCESS_COUNT).map(&mut one).collect()
}

/// Mean cycles between two accesses of the whole machine.
const GAP_CYCLES: u64 = 12;

/// CPUs that use the line of this rank.
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
        addr: line_addr(rank) + site * 8,
        size: 8,
        op,
        code: CodeAddr(0x40_0000 + rank % 97 * 64 + site * 5),
    }
}
