//! One group of lines: its directory, its queues and its statistics.

use std::collections::VecDeque;
use std::sync::Arc;

use hitm_base::{Access, AccessOp, Cycles, DataSource};

use crate::directory::{Ask, Capacity, Directory, Grant, LineId};
use crate::prefetch::prefetch;
use crate::price::Prices;
use crate::services::Services;
use crate::stats::{RowId, RowTable, Statistics};

use super::Dealt;

/// The lines of one group.
#[derive(Debug)]
pub(super) struct Group {
    directory: Directory,
    services: Services,
    rows: RowTable,
    /// Accesses in lines' queues by ticket, from `first_ticket` on; `None` when served.
    waiting: VecDeque<Option<Pending>>,
    first_ticket: u64,
    hits: HitLatencies,
}

/// Accesses that take a step together.
const BLOCK: usize = 16;

/// Steps of an access: preparing, guessing and confirming its row, and the access itself.
const STEPS: usize = 4;

/// How far the accesses of a block are.
#[derive(Debug, Clone, Copy)]
struct Block {
    hashes: [u64; BLOCK],
    rows: [RowId; BLOCK],
}

impl Default for Block {
    fn default() -> Block {
        Block {
            hashes: [0; BLOCK],
            rows: [RowId::default(); BLOCK],
        }
    }
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
    pub(super) fn new(prices: &Arc<Prices>, capacity: Capacity, group_count: u64) -> Group {
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

    pub(super) fn run(&mut self, group: usize, dealt: &[Dealt]) {
        for part in dealt {
            self.run_part(&part[group]);
        }
    }

    /// Four blocks are at work at a time, each a step further than the one behind it, so that what
    /// one step asked the host's memory for is there when the next one looks at it.
    fn run_part(&mut self, accesses: &[Access]) {
        let mut blocks = [Block::default(); STEPS];
        let count = accesses.len().div_ceil(BLOCK);
        for next in 0..count + STEPS - 1 {
            let of = |step: usize| {
                let index = next.wrapping_sub(step);
                let from = index.saturating_mul(BLOCK).min(accesses.len());
                let to = (from + BLOCK).min(accesses.len());
                (index % STEPS, &accesses[from..to])
            };
            for ahead in (0..BLOCK).step_by(2) {
                prefetch(accesses, (next + 1) * BLOCK + ahead);
            }
            let (at, asked) = of(0);
            self.prepare(asked, &mut blocks[at]);
            let (at, asked) = of(1);
            self.guess(asked.len(), &mut blocks[at]);
            let (at, asked) = of(2);
            self.confirm(asked, &mut blocks[at]);
            let (at, asked) = of(3);
            for (access, row) in asked.iter().zip(blocks[at].rows) {
                self.access(access, row);
            }
        }
    }

    fn prepare(&self, accesses: &[Access], block: &mut Block) {
        for (access, hash) in accesses.iter().zip(&mut block.hashes) {
            *hash = self.rows.prepare(access);
        }
    }

    fn guess(&self, count: usize, block: &mut Block) {
        for (hash, row) in block.hashes.iter().zip(&mut block.rows).take(count) {
            *row = self.rows.guess(*hash);
        }
    }

    fn confirm(&mut self, accesses: &[Access], block: &mut Block) {
        let found = block.hashes.iter().zip(&mut block.rows);
        for (access, (hash, row)) in accesses.iter().zip(found) {
            let directory = &mut self.directory;
            let line_of = || directory.line(access.line(), access.cpu).index();
            *row = self.rows.confirm(access, (*hash, *row), line_of);
            let line = LineId::from_index(self.rows.line(*row));
            self.directory.prefetch(access.cpu, line);
        }
    }

    #[inline]
    fn access(&mut self, access: &Access, row: RowId) {
        if self.services.next_time() < access.time {
            self.serve_before(access.time);
        }
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
    #[inline(never)]
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
