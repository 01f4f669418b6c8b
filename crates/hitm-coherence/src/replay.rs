//! Replay of a finished stream of accesses on a machine: every access at its own time, whatever the
//! others before it cost ("open loop").
//!
//! Loads and locked operations stall for what they take beyond a hit; plain stores are posted and
//! stall nobody. A request that finds its line taken waits in the line's queue. It is served when
//! its turn comes, before any later access is looked at.
//!
//! Lines that can meet in a cache set form a group: those whose addresses are equal modulo the
//! greatest common divisor of the set counts, at most [`GROUPS_MAX`] groups ([`LineParts`]). Each group has a
//! [`Directory`](crate::directory::Directory) of its own and sees its accesses in the order of the
//! stream. So groups may be served in any order and on any number of threads: the result is the
//! same, bit for bit. Batches are partitioned by group before they are priced, which also keeps the
//! lines at work in the host's caches.
//!
//! Not modelled, and why: what a longer or shorter wait would have changed in the stream (its times
//! are given; a closed loop is what the weave is for). The merging of several misses of one core to
//! one line. Memory grows with the requests that wait at one time. In a stream recorded from
//! waiting threads that is at most one for each of them and their posted stores.

mod check;
mod group;

use std::num::NonZeroUsize;
use std::sync::Arc;

use hitm_base::{Access, AccessOp, Machine};
use rayon::prelude::*;

use crate::directory::Capacity;
use crate::parts::LineParts;
use crate::prefetch::prefetch;
use crate::price::Prices;
use crate::stats::Statistics;

pub use check::ReplayError;
use check::{Limits, Position, TIME_MAX};
use group::Group;

/// The most groups of lines. More would spread a batch thinner, and few hosts have more cores.
pub const GROUPS_MAX: u64 = 64;

/// Accesses that are partitioned before the groups go to work, 32 bytes each (128 MiB). Enough that
/// each group works for tens of thousands of accesses on lines and rows that it has in the host's
/// caches.
const BATCH: usize = 1 << 22;

/// Least number of accesses in a part, when several threads partition a piece.
const PART_MIN: usize = 1 << 16;

/// Options of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Sizes of the caches: real or unlimited.
    pub capacity: Capacity,
    /// Pieces that the work is cut into, which rayon's threads share; 1 stays on the calling
    /// thread. No influence on the result.
    pub shards: NonZeroUsize,
}

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
    parts: LineParts,
    groups: Vec<Group>,
    /// Accesses by group, in parts that follow each other in the stream; the ones from `part_count`
    /// on are empty, and kept for their memory.
    hands: Vec<Hands>,
    part_count: usize,
    /// Accesses of the batch so far.
    dealt_count: usize,
    limits: Limits,
    /// Position of the first access that has not been partitioned.
    next: Position,
}

/// A part of a batch by group, in the order of the stream.
type Hands = Vec<Vec<Access>>;

impl Replay {
    /// A replay that has seen nothing.
    pub fn new(machine: &Machine, options: ReplayOptions) -> Replay {
        let parts = LineParts::of(machine, options.capacity, GROUPS_MAX);
        let prices = Arc::new(Prices::new(machine.clone()));
        let group = |_| Group::new(&prices, options.capacity, parts);
        Replay {
            shards: options.shards,
            parts,
            groups: (0..parts.count()).map(group).collect(),
            hands: Vec::new(),
            part_count: 0,
            dealt_count: 0,
            limits: Limits {
                cpu_count: machine.topology.cpu_count(),
            },
            next: Position::default(),
        }
    }

    /// Replays the next part of the stream. After an error the replay has seen some of it, and is
    /// of no more use.
    pub fn push(&mut self, accesses: &[Access]) -> Result<(), ReplayError> {
        let mut rest = accesses;
        while !rest.is_empty() {
            let room = BATCH - self.dealt_count;
            let (piece, later) = rest.split_at(room.min(rest.len()));
            if let Err(error) = self.deal(piece) {
                // Groups must not see what is not as it should be.
                self.hands.clear();
                self.part_count = 0;
                return Err(error);
            }
            if self.dealt_count == BATCH {
                self.run();
            }
            rest = later;
        }
        Ok(())
    }

    /// The statistics of the whole stream.
    pub fn finish(mut self) -> Statistics {
        self.run();
        let in_parallel = self.shards.get() > 1;
        let parts: Vec<Statistics> = if in_parallel {
            self.groups.into_par_iter().map(Group::finish).collect()
        } else {
            self.groups.into_iter().map(Group::finish).collect()
        };
        let lines = parts.into_iter().flat_map(|part| part.lines);
        Statistics {
            lines: lines.collect(),
            ..Statistics::default()
        }
    }

    /// Partitions a piece of the stream by group.
    fn deal(&mut self, piece: &[Access]) -> Result<(), ReplayError> {
        let (limits, cut, group_count) = (self.limits, self.parts, self.groups.len());
        let shards = self.shards.get().min(group_count);
        let new_count = shards.min(piece.len() / PART_MIN).max(1);
        // A piece that one thread partitions continues the last part.
        let first = if new_count == 1 {
            self.part_count.saturating_sub(1)
        } else {
            self.part_count
        };
        self.part_count = first + new_count;
        if self.hands.len() < self.part_count {
            self.hands
                .resize_with(self.part_count, || vec![Vec::new(); group_count]);
        }
        let parts = &mut self.hands[first..self.part_count];
        let start = self.next;
        self.next = start.after(piece);
        self.dealt_count += piece.len();
        let part_len = piece.len().div_ceil(new_count).max(1);
        let deal_part = |(index, hands): (usize, &mut Hands)| {
            let from = (index * part_len).min(piece.len());
            let to = (from + part_len).min(piece.len());
            let start = start.after(&piece[..from]);
            deal(hands, &piece[from..to], cut, limits, start)
        };
        if new_count == 1 {
            return parts.iter_mut().enumerate().try_for_each(deal_part);
        }
        // One by one: rayon would keep a quarter of them together on two threads, and at the end one
        // thread would wait for the other.
        let dealing = parts.par_iter_mut().enumerate().with_max_len(1);
        let results: Vec<Result<(), ReplayError>> = dealing.map(deal_part).collect();
        results.into_iter().collect()
    }

    /// Runs the groups on their parts of the batch.
    fn run(&mut self) {
        let parts = &mut self.hands[..self.part_count];
        let groups = &mut self.groups;
        if self.shards.get() == 1 {
            for (group, state) in groups.iter_mut().enumerate() {
                state.run(group, parts);
            }
        } else {
            let groups = groups.par_iter_mut().enumerate().with_max_len(1);
            groups.for_each(|(group, state)| state.run(group, parts));
        }
        parts.iter_mut().flatten().for_each(Vec::clear);
        (self.part_count, self.dealt_count) = (0, 0);
    }
}

/// Prefetch distance of a group, in accesses: four cache lines of the host.
const AHEAD: usize = 8;

/// Checks a piece of a batch and partitions it by group.
fn deal(
    hands: &mut Hands,
    piece: &[Access],
    parts: LineParts,
    limits: Limits,
    start: Position,
) -> Result<(), ReplayError> {
    // A remainder by a number known to be a power of two is a mask, ten times faster.
    let is_good = match parts.shifts() {
        Some((run, count)) => {
            let mask = (1 << count) - 1;
            let group_of = |line: u64| line >> run & mask;
            deal_by(hands, piece, limits, start, group_of)
        }
        None => deal_by(hands, piece, limits, start, |line| parts.part_of(line)),
    };
    match is_good {
        true => Ok(()),
        false => limits.check(piece, start),
    }
}

/// Partitions a piece; returns whether all of it surely keeps to the limits.
fn deal_by(
    hands: &mut Hands,
    piece: &[Access],
    limits: Limits,
    start: Position,
    group_of: impl Fn(u64) -> u64,
) -> bool {
    let mut before = start.before;
    let mut suspicion = 0;
    for access in piece {
        if access.op == AccessOp::Fence {
            suspicion |= limits.suspicion_of_fence(access, before);
        } else {
            suspicion |= limits.suspicion(access, before);
            let hand = &mut hands[group_of(access.line().0) as usize];
            prefetch(hand, hand.len() + AHEAD);
            hand.push(*access);
        }
        before = access.time;
    }
    suspicion >> 63 == 0 && before <= TIME_MAX
}
