//! Replay of a finished stream of accesses on a machine: every access at its own time, nobody waits
//! for anybody else's answer ("open loop").
//!
//! Loads and locked operations stall for what they take beyond a hit; plain stores are posted and
//! stall nobody. A request that finds its line taken waits in the line's queue and is served when
//! its turn comes, before any later access is looked at.
//!
//! Lines that can meet in a cache set form a group: those whose addresses are equal modulo the
//! greatest common divisor of the set counts, at most [`GROUPS_MAX`] groups. Each group has a
//! [`Directory`] of its own and sees its accesses in the order of the stream, so that groups may be
//! served in any order and on any number of threads: the result is the same, bit for bit. Batches
//! are dealt out to the groups before they are priced, which also keeps the lines at work in the
//! host's caches.
//!
//! Not modelled, and why: what a longer or shorter wait would have changed in the stream (its times
//! are given; a closed loop is what the weave is for); the merging of several misses of one core to
//! one line. Memory grows with the requests that wait at one time, which in a stream recorded from
//! waiting threads is at most one for each of them and their posted stores.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hitm_base::{Access, AccessOp, CpuId, Cycles, DataSource, LINE_SIZE, Machine};
use rayon::prelude::*;

use crate::cache::set_count;
use crate::directory::{Ask, Capacity, Directory, Grant, LineId};
use crate::price::Prices;
use crate::services::Services;
use crate::stats::{RowId, RowTable, Statistics};

/// The most groups of lines. More would spread a batch thinner, and few hosts have more cores.
pub const GROUPS_MAX: u64 = 64;

/// Accesses that are dealt out at a time, 32 bytes each: enough that each group works for some
/// thousand accesses on lines that it has in the host's caches.
const BATCH: usize = 1 << 21;

/// Accesses of a group whose rows are looked up together.
const BLOCK: usize = 32;

/// The last time at which an access may be: 46 years at 3 GHz, and far from the end of the numbers.
const TIME_MAX: Cycles = Cycles(1 << 62);

/// How to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Whether caches have their real sizes.
    pub capacity: Capacity,
    /// Into how many pieces the work is cut, which rayon's threads share; 1 stays on the calling
    /// thread. No influence on the result.
    pub shards: NonZeroUsize,
}

/// Why a stream cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// An access is earlier than the one before it.
    TimeGoesBack {
        /// Position of the access in the stream.
        index: u64,
        /// Its time.
        found: Cycles,
        /// The time of the access before it.
        before: Cycles,
    },
    /// An access so late that its end might not be a number any more.
    TooLate {
        /// Position of the access in the stream.
        index: u64,
        /// Its time.
        found: Cycles,
    },
    /// An access by a CPU that the machine does not have.
    UnknownCpu {
        /// Position of the access in the stream.
        index: u64,
        /// The CPU.
        found: CpuId,
        /// How many CPUs the machine has.
        cpu_count: usize,
    },
    /// An access to no byte, or to bytes of two lines.
    NotInOneLine {
        /// Position of the access in the stream.
        index: u64,
        /// Its first byte.
        addr: u64,
        /// Its size in bytes.
        size: u8,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::TimeGoesBack {
                index,
                found,
                before,
            } => {
                write!(
                    f,
                    "access {index} is at cycle {found}, expected {before} or later"
                )
            }
            ReplayError::TooLate { index, found } => {
                write!(
                    f,
                    "access {index} is at cycle {found}, expected at most {TIME_MAX}"
                )
            }
            ReplayError::UnknownCpu {
                index,
                found,
                cpu_count,
            } => {
                let cpu = found.0;
                write!(
                    f,
                    "access {index} is by CPU {cpu}, expected one below {cpu_count}"
                )
            }
            ReplayError::NotInOneLine { index, addr, size } => write!(
                f,
                "access {index} has {size} bytes at {addr:#x}, expected 1 to 64 within one line"
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

/// Replays a whole stream, which is in order of time.
pub fn replay(
    accesses: &[Access],
    machine: &Machine,
    options: ReplayOptions,
) -> Result<Statistics, ReplayError> {
    let mut replay = Replay::new(machine, options);
    replay.push(accesses)?;
    Ok(replay.finish())
}

/// A replay that takes its stream piece by piece.
#[derive(Debug)]
pub struct Replay {
    shards: NonZeroUsize,
    cpu_count: usize,
    groups: Vec<Group>,
    /// Accesses that are too few for a batch yet.
    pending: Vec<Access>,
    /// The parts of a batch, each dealt out to the groups; kept for their memory.
    dealt: Vec<Dealt>,
    pushed_count: u64,
    last_time: Cycles,
}

/// A part of a batch by group, in the order of the stream.
type Dealt = Vec<Vec<Access>>;

impl Replay {
    /// A replay that has seen nothing.
    pub fn new(machine: &Machine, options: ReplayOptions) -> Replay {
        let group_count = match options.capacity {
            Capacity::Finite => group_count(machine),
            Capacity::Infinite => GROUPS_MAX,
        };
        let prices = Arc::new(Prices::new(machine.clone()));
        let group = |_| Group::new(&prices, options.capacity, group_count);
        Replay {
            shards: options.shards,
            cpu_count: machine.topology.cpu_count(),
            groups: (0..group_count).map(group).collect(),
            pending: Vec::new(),
            dealt: Vec::new(),
            pushed_count: 0,
            last_time: Cycles::ZERO,
        }
    }

    /// Replays the next part of the stream. On an error nothing of the part has been replayed.
    pub fn push(&mut self, accesses: &[Access]) -> Result<(), ReplayError> {
        self.check(accesses)?;
        self.pushed_count += accesses.len() as u64;
        self.last_time = accesses.last().map_or(self.last_time, |last| last.time);
        let mut rest = accesses;
        if !self.pending.is_empty() {
            let missing = BATCH.saturating_sub(self.pending.len()).min(rest.len());
            let (first, others) = rest.split_at(missing);
            self.pending.extend_from_slice(first);
            rest = others;
            if self.pending.len() < BATCH {
                return Ok(());
            }
            let pending = std::mem::take(&mut self.pending);
            self.run(&pending);
        }
        let mut batches = rest.chunks_exact(BATCH);
        for batch in &mut batches {
            self.run(batch);
        }
        self.pending.extend_from_slice(batches.remainder());
        Ok(())
    }

    /// The statistics of the whole stream.
    pub fn finish(mut self) -> Statistics {
        let pending = std::mem::take(&mut self.pending);
        self.run(&pending);
        let in_parallel = self.shards.get() > 1;
        let parts: Vec<Statistics> = if in_parallel {
            self.groups.into_par_iter().map(Group::finish).collect()
        } else {
            self.groups.into_iter().map(Group::finish).collect()
        };
        let lines = parts.into_iter().flat_map(|part| part.lines);
        Statistics {
            lines: lines.collect(),
        }
    }

    fn check(&self, accesses: &[Access]) -> Result<(), ReplayError> {
        let mut before = self.last_time;
        for (index, access) in (self.pushed_count..).zip(accesses) {
            if access.time < before {
                return Err(ReplayError::TimeGoesBack {
                    index,
                    found: access.time,
                    before,
                });
            }
            before = access.time;
            if access.time > TIME_MAX {
                return Err(ReplayError::TooLate {
                    index,
                    found: access.time,
                });
            }
            if access.cpu.index() >= self.cpu_count {
                let cpu_count = self.cpu_count;
                return Err(ReplayError::UnknownCpu {
                    index,
                    found: access.cpu,
                    cpu_count,
                });
            }
            let end = u64::from(access.offset()) + u64::from(access.size);
            if access.op != AccessOp::Fence && (access.size == 0 || end > LINE_SIZE) {
                let (addr, size) = (access.addr, access.size);
                return Err(ReplayError::NotInOneLine { index, addr, size });
            }
        }
        Ok(())
    }

    fn run(&mut self, batch: &[Access]) {
        let groups = &mut self.groups;
        let group_count = groups.len();
        let piece_count = self.shards.get().min(group_count);
        self.dealt
            .resize_with(piece_count, || vec![Vec::new(); group_count]);
        let piece_len = batch.len().div_ceil(piece_count).max(1);
        let pieces = batch.chunks(piece_len).chain(std::iter::repeat(&[][..]));
        let dealing = self.dealt.iter_mut().zip(pieces);
        if piece_count == 1 {
            dealing.for_each(|(dealt, piece)| deal(dealt, piece));
            groups
                .iter_mut()
                .enumerate()
                .for_each(|(group, state)| state.run(group, &self.dealt));
        } else {
            let dealing: Vec<_> = dealing.collect();
            dealing
                .into_par_iter()
                .for_each(|(dealt, piece)| deal(dealt, piece));
            let dealt = &self.dealt;
            let shard_len = group_count.div_ceil(piece_count);
            groups
                .par_chunks_mut(shard_len)
                .enumerate()
                .for_each(|(shard, groups)| {
                    for (index, state) in groups.iter_mut().enumerate() {
                        state.run(shard * shard_len + index, dealt);
                    }
                });
        }
    }
}

/// How many groups of lines never meet in a cache set.
fn group_count(machine: &Machine) -> u64 {
    let caches = &machine.caches;
    let counts = [&caches.l1, &caches.l2, &caches.llc].map(set_count);
    let common = counts.into_iter().fold(0, gcd);
    (1..=GROUPS_MAX.min(common))
        .rev()
        .find(|count| common % count == 0)
        .unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn deal(dealt: &mut Dealt, piece: &[Access]) {
    dealt.iter_mut().for_each(Vec::clear);
    let group_count = dealt.len() as u64;
    let deal_by = |dealt: &mut Dealt, group_of: &dyn Fn(u64) -> u64| {
        for access in piece.iter().filter(|access| access.op != AccessOp::Fence) {
            dealt[group_of(access.line().0) as usize].push(*access);
        }
    };
    // A remainder by a number known to be a power of two is a mask, ten times faster.
    if group_count.is_power_of_two() {
        deal_by(dealt, &|line| line & (group_count - 1));
    } else {
        deal_by(dealt, &|line| line % group_count);
    }
}

/// The lines of one group.
#[derive(Debug)]
struct Group {
    directory: Directory,
    services: Services,
    rows: RowTable,
    /// Accesses in lines' queues by ticket, from `first_ticket` on; `None` when served.
    waiting: VecDeque<Option<Pending>>,
    first_ticket: u64,
    hits: HitLatencies,
}

/// What the statistics need to know of an access when its line has come.
#[derive(Debug, Clone, Copy)]
struct Pending {
    row: RowId,
    op: AccessOp,
    time: Cycles,
}

/// What hits in the core's L1 take.
#[derive(Debug, Clone, Copy)]
struct HitLatencies {
    plain: Cycles,
    locked: Cycles,
}

impl HitLatencies {
    fn of(self, op: AccessOp) -> Cycles {
        if op == AccessOp::LockedRmw {
            self.locked
        } else {
            self.plain
        }
    }
}

impl Group {
    fn new(prices: &Arc<Prices>, capacity: Capacity, group_count: u64) -> Group {
        let machine = prices.machine();
        Group {
            hits: HitLatencies {
                plain: machine.caches.l1.latency,
                locked: machine.core.locked_hit,
            },
            directory: Directory::part(Arc::clone(prices), capacity, group_count),
            services: Services::default(),
            rows: RowTable::default(),
            waiting: VecDeque::new(),
            first_ticket: 0,
        }
    }

    fn run(&mut self, group: usize, dealt: &[Dealt]) {
        let mut rows = [RowId::default(); BLOCK];
        for block in dealt.iter().flat_map(|part| part[group].chunks(BLOCK)) {
            // All rows of a block are looked up before any is counted in: the host's misses
            // overlap.
            for (access, row) in block.iter().zip(&mut rows) {
                let directory = &mut self.directory;
                let line = || directory.line(access.line(), access.cpu).index();
                *row = self.rows.row(access, line);
            }
            for (access, row) in block.iter().zip(rows) {
                self.access(access, row);
            }
        }
    }

    #[inline]
    fn access(&mut self, access: &Access, row: RowId) {
        self.serve_before(access.time);
        let line = LineId::from_index(self.rows.line(row));
        let exclusive = access.op.is_write();
        match self.directory.hit(access.cpu, line, exclusive) {
            Some((DataSource::L1, _)) => self.rows.add_hit(row),
            Some((source, latency)) => {
                let latency = match access.op {
                    AccessOp::LockedRmw => self.hits.locked,
                    _ => latency,
                };
                self.rows.add(row, source, latency, Cycles::ZERO);
            }
            None => self.miss(access, row, line),
        }
    }

    fn miss(&mut self, access: &Access, row: RowId, line: LineId) {
        let ticket = self.first_ticket + self.waiting.len() as u64;
        let ask = Ask {
            now: access.time,
            cpu: access.cpu,
            line,
            exclusive: access.op.is_write(),
            ticket,
        };
        let pending = Pending {
            row,
            op: access.op,
            time: access.time,
        };
        if let Some(grant) = self.directory.request(ask) {
            self.record(pending, grant);
        } else {
            self.waiting.push_back(Some(pending));
            self.services.note(&self.directory, line);
        }
    }

    /// Serves whoever's turn comes before `end`.
    #[inline]
    fn serve_before(&mut self, end: Cycles) {
        while let Some((_, line)) = self.services.take_before(&self.directory, end) {
            let (request, grant) = self.directory.serve_next(line);
            let index = (request.ticket - self.first_ticket) as usize;
            let pending = self.waiting[index]
                .take()
                .expect("a request is served once");
            while self.waiting.front().is_some_and(Option::is_none) {
                self.waiting.pop_front();
                self.first_ticket += 1;
            }
            self.record(pending, grant);
            self.services.note(&self.directory, line);
        }
    }

    fn record(&mut self, pending: Pending, grant: Grant) {
        let latency = grant.done - pending.time;
        let stall = match pending.op {
            AccessOp::Store => Cycles::ZERO,
            op => latency.saturating_sub(self.hits.of(op)),
        };
        self.rows.add(pending.row, grant.source, latency, stall);
    }

    fn finish(mut self) -> Statistics {
        self.serve_before(Cycles::MAX);
        let hits = self.hits;
        let lines = self.rows.finish(|op| hits.of(op));
        Statistics {
            lines: self.directory.addrs().zip(lines).collect(),
        }
    }
}
