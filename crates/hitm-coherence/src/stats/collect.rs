//! Counting accesses as they come, and their statistics at the end.

use hitm_base::{Access, AccessOp, Cycles, DataSource, LineAddr, Outcome};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::rows::{RowId, RowTable};
use super::{Statistics, VisitsByLine};

/// Accesses that are counted together. Rows are found in tables that do not fit the host's caches.
/// The parts that so many accesses need are fetched at the same time, instead of one after another.
const BLOCK: usize = 32;

/// Counts accesses and their outcomes by line; [`Collector::finish`] puts them in order.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    ids: IndexSet<LineAddr, FxBuildHasher>,
    rows: RowTable,
    visits: VisitsByLine,
    /// At most [`BLOCK`], not counted yet.
    waiting: Vec<(Access, Outcome)>,
}

impl Collector {
    /// Counts one access and its outcome. Fences touch no line and are not counted.
    #[inline]
    pub fn add(&mut self, access: &Access, outcome: &Outcome) {
        if access.op != AccessOp::Fence {
            self.waiting.push((*access, *outcome));
            if self.waiting.len() == BLOCK {
                self.count_waiting();
            }
        }
    }

    #[inline(never)]
    fn count_waiting(&mut self) {
        let mut found = [(0, RowId::default()); BLOCK];
        for ((access, _), (hash, _)) in self.waiting.iter().zip(&mut found) {
            *hash = self.rows.prepare(access);
        }
        let found = &mut found[..self.waiting.len()];
        for (hash, row) in &mut *found {
            *row = self.rows.guess(*hash);
            self.rows.expect(*row);
        }
        for ((access, outcome), found) in self.waiting.iter().zip(&mut *found) {
            let ids = &mut self.ids;
            let line = || ids.insert_full(access.line()).0;
            let line = match self.rows.confirm(access, found.1) {
                Some(line) => line,
                None => {
                    found.1 = self.rows.find_or_insert(access, found.0, line);
                    self.rows.line(found.1)
                }
            };
            if outcome.source > DataSource::L2 {
                self.rows.expect_miss(line);
            }
        }
        for ((access, outcome), (_, row)) in self.waiting.drain(..).zip(found) {
            self.rows.add(*row, &outcome);
            let line = self.rows.line(*row);
            self.visits.add(line, &access, &outcome);
        }
    }

    /// Memory that the statistics will take, in rows: a line takes as much as sixteen. The last few
    /// accesses are not in it.
    pub fn size_in_rows(&self) -> usize {
        const ROWS_OF_LINE: usize = 16;
        self.rows.len() + self.visits.size_in_rows() + ROWS_OF_LINE * self.ids.len()
    }

    /// The statistics of everything that was counted.
    pub fn finish(mut self) -> Statistics {
        self.count_waiting();
        // Outcomes come with their own latencies: no hit is counted without.
        let lines = self.rows.finish(|_| Cycles::ZERO).enumerate();
        let lines = lines.map(|(index, mut stats)| {
            stats.visits = self.visits.take(index);
            stats
        });
        Statistics {
            lines: self.ids.into_iter().zip(lines).collect(),
            ..Statistics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use hitm_base::{CodeAddr, CpuId, ThreadId};

    use super::*;

    fn access(thread: u32, op: AccessOp, addr: u64) -> Access {
        Access {
            thread: ThreadId(thread),
            cpu: CpuId(thread as u16 + 7),
            time: Cycles::ZERO,
            addr,
            size: 4,
            op,
            code: CodeAddr(0x401000),
        }
    }

    fn outcome(source: DataSource, latency: u64) -> Outcome {
        Outcome::by_source(source, Cycles(latency), Cycles::ZERO, Cycles(latency))
    }

    #[test]
    fn one_line_with_a_writer_and_a_reader() {
        let mut collector = Collector::default();
        for _ in 0..3 {
            collector.add(
                &access(0, AccessOp::Store, 0x1008),
                &outcome(DataSource::L1, 1),
            );
            collector.add(
                &access(1, AccessOp::Load, 0x1010),
                &outcome(DataSource::RemoteHitm, 300),
            );
        }
        collector.add(
            &access(1, AccessOp::Load, 0x1010),
            &outcome(DataSource::L1, 4),
        );
        collector.add(&access(1, AccessOp::Fence, 0), &outcome(DataSource::L1, 0));
        let statistics = collector.finish();
        assert_eq!(statistics.lines.len(), 1);
        let line = &statistics.lines[&LineAddr::of(0x1000)];
        assert_eq!(
            (line.loads.total(), line.stores.total(), line.rmws.total()),
            (4, 3, 0)
        );
        assert_eq!(
            (line.stall, line.contention_stall),
            (Cycles(907), Cycles(900))
        );
        assert_eq!(
            (line.load_latency.count, line.load_latency.max),
            (4, Cycles(300))
        );
        assert_eq!(line.latency_histogram.count(), 3);
        expect![[r#"
            {
                ThreadId(
                    0,
                ): ByteUse {
                    read: 0,
                    written: 3840,
                    load_count: 0,
                    store_count: 3,
                },
                ThreadId(
                    1,
                ): ByteUse {
                    read: 983040,
                    written: 0,
                    load_count: 4,
                    store_count: 0,
                },
            }
        "#]]
        .assert_debug_eq(&line.threads);
        let cpus: Vec<CpuId> = line.rows.values().flat_map(|row| row.cpus.iter()).collect();
        assert_eq!(cpus, [CpuId(7), CpuId(8)]);
    }
}
