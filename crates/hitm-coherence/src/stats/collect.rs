//! Counting accesses as fast as they come.
//!
//! A line's counts live in one flat table of [`Cell`]s, one for each combination of thread, CPU,
//! instruction, place, operation and data source that occurred: an access changes one cell of 48
//! bytes, and for a miss one counter of the line's histogram. Everything else that [`LineStats`]
//! shows (the rows, the reader/writer matrix, the totals) is a sum over cells and is made at the end.

use std::collections::BTreeMap;

use hitm_base::{
    Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, LineAddr, Outcome, ThreadId,
};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::{
    LatencyHistogram, LatencySum, LineStats, RowKey, RowStats, Statistics, saturating_sum,
};

/// Counts accesses and their outcomes by line; [`Collector::finish`] puts them in order.
#[derive(Debug, Clone, Default)]
pub struct Collector {
    ids: IndexSet<LineAddr, FxBuildHasher>,
    lines: Vec<LineCells>,
}

impl Collector {
    /// Counts one access and its outcome. Fences touch no line and are not counted.
    pub fn add(&mut self, access: &Access, outcome: &Outcome) {
        if access.op == AccessOp::Fence {
            return;
        }
        let (index, new) = self.ids.insert_full(access.line());
        if new {
            self.lines.push(LineCells::default());
        }
        self.lines[index].add(access, outcome);
    }

    /// The statistics of everything that was counted.
    pub fn finish(self) -> Statistics {
        let lines = self.lines.into_iter().map(LineCells::finish);
        Statistics { lines: self.ids.into_iter().zip(lines).collect() }
    }
}

/// Accesses that differ in nothing but time and latency.
#[derive(Debug, Clone, Copy)]
struct Cell {
    code: u64,
    /// Thread, CPU, size, offset and operation; see [`pack_who`].
    who: u64,
    latency_sum: u64,
    latency_max: u64,
    stall: u64,
    /// 0 in a free cell.
    count: u32,
    source: DataSource,
}

impl Cell {
    const FREE: Cell = Cell {
        code: 0,
        who: 0,
        latency_sum: 0,
        latency_max: 0,
        stall: 0,
        count: 0,
        source: DataSource::StoreBuffer,
    };

    #[inline]
    fn is_of(&self, code: u64, who: u64, source: DataSource) -> bool {
        self.code == code && self.who == who && self.source == source
    }

    fn key(&self) -> RowKey {
        let [t0, t1, t2, t3, _, _, size, place] = self.who.to_le_bytes();
        RowKey {
            offset: place & 63,
            size,
            op: OPS[usize::from(place >> 6)],
            thread: ThreadId(u32::from_le_bytes([t0, t1, t2, t3])),
            code: CodeAddr(self.code),
        }
    }

    fn cpu(&self) -> CpuId {
        CpuId((self.who >> 32) as u16)
    }
}

/// Operations by the number that [`pack_who`] gives them.
const OPS: [AccessOp; 4] =
    [AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw, AccessOp::Fence];

/// Thread in bits 0 to 31, CPU 32 to 47, size 48 to 55, offset 56 to 61, operation 62 and 63.
#[inline]
fn pack_who(access: &Access) -> u64 {
    u64::from(access.thread.0)
        | u64::from(access.cpu.0) << 32
        | u64::from(access.size) << 48
        | u64::from(access.offset()) << 56
        | (access.op as u64) << 62
}

#[inline]
fn hash(code: u64, who: u64, source: DataSource) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (who ^ code.rotate_left(23)).wrapping_add(source as u64).wrapping_mul(ODD);
    (mixed ^ mixed >> 32) as usize
}

/// The cells of one line.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineCells {
    /// Open addressing, a power of two of them, at most three quarters in use.
    cells: Box<[Cell]>,
    used: usize,
    histogram: LatencyHistogram,
    /// What was counted before a cell's counter was full.
    earlier: BTreeMap<RowKey, RowStats>,
}

impl LineCells {
    /// Counts one access, which is no fence.
    #[inline]
    pub(crate) fn add(&mut self, access: &Access, outcome: &Outcome) {
        let (code, who, source) = (access.code.0, pack_who(access), outcome.source);
        let latency = outcome.latency.0;
        let mut index = self.find(code, who, source);
        if self.cells.get(index).is_none_or(|cell| cell.count.wrapping_sub(1) >= u32::MAX - 1) {
            index = self.make_room(code, who, source);
        }
        let cell = &mut self.cells[index];
        cell.count += 1;
        cell.latency_sum = cell.latency_sum.saturating_add(latency);
        cell.latency_max = cell.latency_max.max(latency);
        cell.stall = cell.stall.saturating_add(outcome.stall.0);
        if source > DataSource::L2 && access.op != AccessOp::Store {
            self.histogram.record(latency);
        }
    }

    /// Index of the cell, or of the free one that it belongs in; 0 when there are none.
    #[inline]
    fn find(&self, code: u64, who: u64, source: DataSource) -> usize {
        let mask = self.cells.len().wrapping_sub(1);
        let mut index = hash(code, who, source) & mask;
        while let Some(cell) = self.cells.get(index) {
            if cell.is_of(code, who, source) || cell.count == 0 {
                return index;
            }
            index = (index + 1) & mask;
        }
        0
    }

    /// The index of a cell that is new, or whose counter is full.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, code: u64, who: u64, source: DataSource) -> usize {
        let index = self.find(code, who, source);
        if self.cells.get(index).is_some_and(|cell| cell.count > 0) {
            self.put_aside();
        } else if (self.used + 1) * 4 > self.cells.len() * 3 {
            self.grow();
        }
        let index = self.find(code, who, source);
        self.cells[index] = Cell { code, who, source, ..Cell::FREE };
        self.used += 1;
        index
    }

    fn grow(&mut self) {
        let capacity = (self.cells.len() * 2).max(4);
        let old = std::mem::replace(&mut self.cells, vec![Cell::FREE; capacity].into());
        for cell in old.into_iter().filter(|cell| cell.count > 0) {
            let index = self.find(cell.code, cell.who, cell.source);
            self.cells[index] = cell;
        }
    }

    /// Moves all cells into `earlier`.
    fn put_aside(&mut self) {
        let mut cells: Vec<Cell> =
            self.cells.iter().copied().filter(|cell| cell.count > 0).collect();
        self.cells.fill(Cell::FREE);
        self.used = 0;
        for (key, row) in rows_of(&mut cells) {
            self.earlier.entry(key).or_default().merge(&row);
        }
    }

    /// The line's statistics.
    pub(crate) fn finish(mut self) -> LineStats {
        let rows = if self.earlier.is_empty() {
            let cells = std::mem::take(&mut self.cells).into_iter();
            let mut cells: Vec<Cell> = cells.filter(|cell| cell.count > 0).collect();
            rows_of(&mut cells).into_iter().collect()
        } else {
            self.put_aside();
            self.earlier
        };
        let latency_histogram = self.histogram;
        let mut stats = LineStats { rows, latency_histogram, ..LineStats::default() };
        stats.sum_up_rows();
        stats
    }
}

/// The rows that the cells add up to, ascending.
fn rows_of(cells: &mut [Cell]) -> Vec<(RowKey, RowStats)> {
    cells.sort_unstable_by_key(|cell| (cell.key(), cell.source, cell.cpu()));
    let mut rows: Vec<(RowKey, RowStats)> = Vec::new();
    for cell in cells {
        let key = cell.key();
        if rows.last().is_none_or(|(last, _)| *last != key) {
            rows.push((key, RowStats::default()));
        }
        if let Some((_, row)) = rows.last_mut() {
            add_cell(row, cell);
        }
    }
    rows
}

fn add_cell(row: &mut RowStats, cell: &Cell) {
    let latency = LatencySum {
        count: cell.count.into(),
        sum: Cycles(cell.latency_sum),
        max: Cycles(cell.latency_max),
    };
    row.sources.0[cell.source as usize] += latency.count;
    row.latency.merge(&latency);
    match cell.source {
        DataSource::RemoteHitm => row.remote_hitm.merge(&latency),
        DataSource::LocalHitm => row.local_hitm.merge(&latency),
        _ => {}
    }
    row.stall = saturating_sum(row.stall, Cycles(cell.stall));
    if cell.source.is_contention() {
        row.contention_stall = saturating_sum(row.contention_stall, Cycles(cell.stall));
    }
    row.cpus.insert(cell.cpu());
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

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
        Outcome { source, latency: Cycles(latency), queued: Cycles::ZERO, stall: Cycles(latency) }
    }

    #[test]
    fn one_line_with_a_writer_and_a_reader() {
        let mut collector = Collector::default();
        for _ in 0..3 {
            collector.add(&access(0, AccessOp::Store, 0x1008), &outcome(DataSource::L1, 1));
            collector.add(&access(1, AccessOp::Load, 0x1010), &outcome(DataSource::RemoteHitm, 300));
        }
        collector.add(&access(1, AccessOp::Load, 0x1010), &outcome(DataSource::L1, 4));
        collector.add(&access(1, AccessOp::Fence, 0), &outcome(DataSource::L1, 0));
        let statistics = collector.finish();
        assert_eq!(statistics.lines.len(), 1);
        let line = &statistics.lines[&LineAddr::of(0x1000)];
        assert_eq!((line.loads.total(), line.stores.total(), line.rmws.total()), (4, 3, 0));
        assert_eq!((line.stall, line.contention_stall), (Cycles(907), Cycles(900)));
        assert_eq!((line.load_latency.count, line.load_latency.max), (4, Cycles(300)));
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

    #[test]
    fn a_full_counter_loses_nothing() {
        let mut cells = LineCells::default();
        let load = access(3, AccessOp::Load, 0x2000);
        let (hit, miss) = (outcome(DataSource::L1, 4), outcome(DataSource::LocalHitm, 100));
        cells.add(&load, &hit);
        cells.add(&load, &miss);
        cells.cells.iter_mut().filter(|cell| cell.count == 1).for_each(|cell| cell.count = u32::MAX);
        cells.add(&load, &hit);
        cells.add(&load, &miss);
        cells.add(&load, &miss);
        let stats = cells.finish();
        let full = u64::from(u32::MAX);
        assert_eq!(stats.loads.get(DataSource::L1), full + 1);
        assert_eq!(stats.loads.get(DataSource::LocalHitm), full + 2);
        assert_eq!(stats.rows.len(), 1);
        assert_eq!(stats.stall, Cycles(4 + 4 + 300));
    }
}
