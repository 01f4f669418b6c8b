//! One group of lines: its directory, its queues and its statistics.

use std::collections::VecDeque;
use std::sync::Arc;

use hitm_base::{Access, AccessOp, Cycles, DataSource};

use crate::directory::{Ask, Capacity, Directory, Grant, LineId, Use};
use crate::parts::LineParts;
use crate::prefetch::prefetch;
use crate::price::Prices;
use crate::services::Services;
use crate::stats::{RowId, RowTable, Statistics};

use super::Hands;

/// The lines of one group.
#[derive(Debug)]
pub(super) struct Group {
    directory: Directory,
    services: Services,
    rows: RowTable,
    /// Accesses in lines' queues by ticket, from `first_ticket` on; `None` when served.
    waiting: VecDeque<Option<Pending>>,
    first_ticket: u64,
    /// By line: the latest use whose row is known.
    last_uses: Vec<Use>,
    hits: HitLatencies,
}

/// Accesses that take a step together.
const BLOCK: usize = 16;

/// Blocks that are at work at a time.
const DEPTH: usize = 4;

/// Progress of the accesses of a block.
#[derive(Debug, Clone, Copy)]
struct Block {
    hashes: [u64; BLOCK],
    rows: [RowId; BLOCK],
    uses: [Use; BLOCK],
}

impl Default for Block {
    fn default() -> Block {
        Block {
            hashes: [0; BLOCK],
            rows: [RowId::default(); BLOCK],
            uses: [Use::NONE; BLOCK],
        }
    }
}

/// An access as the statistics need it when its line has come.
#[derive(Debug, Clone, Copy)]
struct Pending {
    row: RowId,
    op: AccessOp,
    time: Cycles,
}

/// Latencies of hits in the core's L1.
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
    pub(super) fn new(prices: &Arc<Prices>, capacity: Capacity, parts: LineParts) -> Group {
        let machine = prices.machine();
        Group {
            hits: HitLatencies {
                plain: machine.caches.l1.latency,
                locked: machine.core.locked_hit,
            },
            directory: Directory::part(Arc::clone(prices), capacity, parts),
            services: Services::default(),
            rows: RowTable::default(),
            waiting: VecDeque::new(),
            first_ticket: 0,
            last_uses: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, group: usize, hands: &[Hands]) {
        for part in hands {
            self.run_part(&part[group]);
        }
    }

    /// Four blocks are at work at a time, each a step further than the one behind it. So what one
    /// step prefetches is in the host's cache when the next one reads it. Blocks are of a fixed
    /// size, so that no loop's end is mispredicted; what is left over takes all steps at once.
    fn run_part(&mut self, accesses: &[Access]) {
        let mut blocks = [Block::default(); DEPTH];
        let (whole, rest) = accesses.as_chunks::<BLOCK>();
        for next in 0..whole.len() + DEPTH - 1 {
            let of = |step: usize| {
                let index = next.wrapping_sub(step);
                (index % DEPTH, whole.get(index))
            };
            for pair in 0..BLOCK / 2 {
                prefetch(accesses, (next + 3) * BLOCK + 2 * pair);
            }
            if let (at, Some(asked)) = of(0) {
                self.prepare(asked, &mut blocks[at]);
            }
            if let (at, Some(_)) = of(1) {
                self.guess(&mut blocks[at]);
            }
            if let (at, Some(asked)) = of(2) {
                self.confirm(asked, &mut blocks[at]);
            }
            if let (at, Some(asked)) = of(3) {
                self.settle(asked, &mut blocks[at]);
            }
        }
        let block = &mut blocks[0];
        self.prepare(rest, block);
        self.guess(block);
        self.confirm(rest, block);
        self.settle(rest, block);
    }

    /// Hashes, by which rows are found.
    #[inline]
    fn prepare(&self, accesses: &[Access], block: &mut Block) {
        for (access, hash) in accesses.iter().zip(&mut block.hashes) {
            *hash = self.rows.prepare(access);
        }
    }

    /// Predicts the rows.
    #[inline]
    fn guess(&self, block: &mut Block) {
        for (hash, row) in block.hashes.iter().zip(&mut block.rows) {
            *row = self.rows.guess(*hash);
        }
    }

    /// Finds the rows where the prediction was wrong. An access that does not continue the line's
    /// latest use, as far as the stream tells, is probably a miss. A miss needs more of the host's
    /// memory.
    #[inline]
    fn confirm(&mut self, accesses: &[Access], block: &mut Block) {
        for (index, access) in accesses.iter().enumerate() {
            let line = match self.rows.confirm(access, block.rows[index]) {
                Some(line) => line,
                None => {
                    block.rows[index] = self.find(access, block.hashes[index]);
                    self.rows.line(block.rows[index])
                }
            };
            let line = LineId::from_index(line);
            let last = &mut self.last_uses[line.index()];
            let wanted = Use::new(access.cpu, line, access.op.is_write());
            block.uses[index] = wanted;
            if !last.covers(wanted) {
                *last = wanted;
                self.rows.expect(block.rows[index]);
                self.rows.expect_miss(line.index());
                self.directory.prefetch(access.cpu, line);
            }
        }
    }

    /// The row of an access for which the prediction was wrong.
    #[cold]
    #[inline(never)]
    fn find(&mut self, access: &Access, hash: u64) -> RowId {
        let line_of = || {
            let line = self.directory.line(access.line(), access.cpu).index();
            let known = self.last_uses.len().max(line + 1);
            self.last_uses.resize(known, Use::NONE);
            line
        };
        self.rows.find_or_insert(access, hash, line_of)
    }

    /// Counts the hits, and asks the directory about all else.
    #[inline]
    fn settle(&mut self, accesses: &[Access], block: &mut Block) {
        for (index, access) in accesses.iter().enumerate() {
            let (row, wanted) = (block.rows[index], block.uses[index]);
            if self.services.next_time() < access.time {
                self.serve_before(access.time);
            }
            if self.directory.goes_on(access.cpu, wanted) {
                self.rows.add_hit(row);
            } else {
                self.access(access, row, wanted.line());
            }
        }
    }

    #[inline(never)]
    fn access(&mut self, access: &Access, row: RowId, line: LineId) {
        match self.directory.hit(access.cpu, line, access.op.is_write()) {
            Some((source, latency)) => {
                self.directory.remember(access.cpu, line);
                if source == DataSource::L1 {
                    self.rows.add_hit(row);
                    return;
                }
                let latency = match access.op {
                    AccessOp::LockedRmw => self.hits.locked,
                    _ => latency,
                };
                let grant = Grant::own(source, access.time + latency);
                let outcome = grant.outcome(latency, Cycles::ZERO, Cycles::ZERO);
                self.rows.add(row, &outcome);
            }
            None => self.miss(access, row, line),
        }
    }

    #[inline]
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
            self.directory.remember(access.cpu, line);
            self.record(pending, grant);
        } else {
            self.waiting.push_back(Some(pending));
            self.services.note(&self.directory, line);
        }
    }

    /// Serves every waiter whose turn comes before `end`.
    #[inline(never)]
    fn serve_before(&mut self, end: Cycles) {
        while let Some((_, line)) = self.services.take_before(&self.directory, end) {
            let (request, grant) = self.directory.serve_next(line);
            self.directory.remember(request.cpu, line);
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

    #[inline]
    fn record(&mut self, pending: Pending, grant: Grant) {
        let latency = grant.done - pending.time;
        let stall = match pending.op {
            AccessOp::Store => Cycles::ZERO,
            op => latency.saturating_sub(self.hits.of(op)),
        };
        let outcome = grant.outcome(latency, stall, Cycles::ZERO);
        self.rows.add(pending.row, &outcome);
    }

    pub(super) fn finish(mut self) -> Statistics {
        self.serve_before(Cycles::MAX);
        let hits = self.hits;
        let lines = self.rows.finish(|op| hits.of(op));
        Statistics {
            lines: self.directory.addrs().zip(lines).collect(),
            ..Statistics::default()
        }
    }
}
