//! The rows of all lines while they are counted: one for each (place, operation, thread, CPU,
//! instruction) that occurred.
//!
//! The number of the host's cache lines that an access touches decides the speed. One hash of a
//! row's whole identity finds the row and the line that it belongs to. That reads a slot of the
//! index (4 bytes) and the row's key (32 bytes). A hit in the core's L1 in its fixed time is one
//! counter beside the key. Everything else changes the row's [`Counts`] (64 bytes) and, for a miss
//! that somebody waits for, the line's histogram. All else that [`LineStats`] shows is a sum over
//! rows and is made at the end.

use std::collections::BTreeMap;

use hitm_base::{
    Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, LINE_SIZE, Outcome, ThreadId,
};
use zerocopy::transmute;

use crate::prefetch::prefetch;

use super::counts::Counts;
use super::{LatencyHistogram, LatencySum, LineStats, RowKey, RowStats, saturating_product};

/// A row of a [`RowTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct RowId(u32);

/// The parts of an access that tell its row from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    addr: u64,
    code: u64,
    /// The bytes of thread (4), CPU (2), size (1) and operation (1), as they lie in an [`Access`].
    how: u64,
}

impl Identity {
    #[inline]
    fn of(access: &Access) -> Identity {
        let [_time, addr, code, how]: [u64; 4] = transmute!(*access);
        Identity { addr, code, how }
    }

    #[inline]
    fn hash(self) -> u64 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let how = self.how.wrapping_mul(SPREAD);
        let product = u128::from(self.addr ^ how) * u128::from(self.code ^ SPREAD.rotate_left(32));
        let folded = product as u64 ^ (product >> 64) as u64;
        folded.wrapping_mul(SPREAD) ^ how >> 32
    }

    #[inline]
    fn op(self) -> AccessOp {
        match self.how.to_ne_bytes()[7] {
            0 => AccessOp::Load,
            1 => AccessOp::Store,
            _ => AccessOp::LockedRmw,
        }
    }

    fn row_key(self) -> RowKey {
        RowKey {
            offset: (self.addr % LINE_SIZE) as u8,
            size: self.how.to_ne_bytes()[6],
            op: self.op(),
            thread: self.thread(),
            code: CodeAddr(self.code),
        }
    }

    fn thread(self) -> ThreadId {
        let [a, b, c, d, ..] = self.how.to_ne_bytes();
        ThreadId(u32::from_ne_bytes([a, b, c, d]))
    }

    fn cpu(self) -> CpuId {
        let [_, _, _, _, a, b, ..] = self.how.to_ne_bytes();
        CpuId(u16::from_ne_bytes([a, b]))
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Head {
    identity: Identity,
    line: u32,
    /// Hits in the core's L1, each of the latency that [`RowTable::finish`] gets.
    hit_count: u32,
}

/// Rows of many lines, by the caller's dense line index.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowTable {
    /// Open addressing, a power of two of slots, at most a quarter of them in use. A slot has 1 +
    /// the row in as many low bits as number the slots. Above them it has those bits of the row's
    /// [`tag_of`]. A free slot has 0.
    index: Box<[u32]>,
    heads: Vec<Head>,
    counts: Vec<Counts>,
    /// By line.
    histograms: Vec<LatencyHistogram>,
    /// Sums that did not fit into small counters any more.
    aside: BTreeMap<RowId, RowStats>,
    /// Hits that did not fit.
    hits_aside: BTreeMap<RowId, u64>,
}

impl RowTable {
    /// First step towards the row of an access, which is no fence: its hash, which the other steps
    /// use.
    ///
    /// Between the steps the caller does something else, and the host's memory gets ready what the
    /// next one needs.
    #[inline]
    pub(crate) fn prepare(&self, access: &Access) -> u64 {
        let hash = Identity::of(access).hash();
        prefetch(
            &self.index,
            hash as usize & self.index.len().wrapping_sub(1),
        );
        hash
    }

    /// Second step: predicts the row.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> RowId {
        // 0 for a free slot turns into a row that no table has.
        let row = RowId(self.likely_entry(hash).wrapping_sub(1));
        prefetch(&self.heads, row.0 as usize);
        row
    }

    /// Third step: the row's line, if the prediction was right; else [`RowTable::find_or_insert`].
    #[inline]
    pub(crate) fn confirm(&self, access: &Access, guess: RowId) -> Option<usize> {
        let head = self.heads.get(guess.0 as usize)?;
        (head.identity == Identity::of(access)).then_some(head.line as usize)
    }

    /// The row of an access for which the prediction was wrong. A new one belongs to the line that
    /// `line_of` names.
    pub(crate) fn find_or_insert(
        &mut self,
        access: &Access,
        hash: u64,
        line_of: impl FnOnce() -> usize,
    ) -> RowId {
        let identity = Identity::of(access);
        match self.find(identity, hash) {
            Some(row) => row,
            None => self.insert(identity, hash, line_of()),
        }
    }

    /// Prefetches for [`RowTable::add`].
    #[inline]
    pub(crate) fn expect(&self, row: RowId) {
        prefetch(&self.counts, row.0 as usize);
    }

    /// Prefetches what a miss changes beside that.
    #[inline]
    pub(crate) fn expect_miss(&self, line: usize) {
        prefetch(&self.histograms, line);
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// The line that a row belongs to.
    #[inline]
    pub(crate) fn line(&self, row: RowId) -> usize {
        self.heads[row.0 as usize].line as usize
    }

    /// Counts a hit in the core's L1, of the latency that [`RowTable::finish`] gets.
    #[inline]
    pub(crate) fn add_hit(&mut self, row: RowId) {
        let head = &mut self.heads[row.0 as usize];
        head.hit_count = head.hit_count.wrapping_add(1);
        if head.hit_count == 0 {
            self.put_hits_aside(row);
        }
    }

    /// Counts an access and what became of it.
    #[inline]
    pub(crate) fn add(&mut self, row: RowId, outcome: &Outcome) {
        let counts = &mut self.counts[row.0 as usize];
        if counts.add(outcome).is_err() {
            self.add_aside(row, outcome);
        }
        let head = &self.heads[row.0 as usize];
        if outcome.source > DataSource::L2 && head.identity.op() != AccessOp::Store {
            self.histograms[head.line as usize].record(outcome.latency.0);
        }
    }

    /// The probable entry of the index for the row with this hash: 1 + the row.
    #[inline]
    fn likely_entry(&self, hash: u64) -> u32 {
        let mask = self.index.len().wrapping_sub(1);
        let at = |index: usize| self.index.get(index & mask).copied().unwrap_or(0);
        let first = at(hash as usize);
        // A choice of places, not of ways through the program: nothing to mispredict.
        let is_other = usize::from(!has_tag(first, hash, mask));
        at(hash as usize + is_other) & mask as u32
    }

    #[inline]
    fn find(&self, identity: Identity, hash: u64) -> Option<RowId> {
        let mask = self.index.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        while let Some(slot) = self.index.get(at).filter(|slot| **slot != 0) {
            let row = (slot & mask as u32) - 1;
            if has_tag(*slot, hash, mask) && self.heads[row as usize].identity == identity {
                return Some(RowId(row));
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn insert(&mut self, identity: Identity, hash: u64, line: usize) -> RowId {
        let row = u32::try_from(self.heads.len()).unwrap_or(u32::MAX);
        assert!(row < 1 << 31, "rows are fewer than 2^31");
        let line = u32::try_from(line).expect("lines are fewer than 2^32");
        if self.histograms.len() <= line as usize {
            self.histograms
                .resize_with(line as usize + 1, Default::default);
        }
        self.heads.push(Head {
            identity,
            line,
            hit_count: 0,
        });
        self.counts.push(Counts::default());
        if self.heads.len() * 4 > self.index.len() {
            self.index = vec![0; (self.index.len() * 2).max(16)].into();
            for (row, head) in (0..row).zip(&self.heads) {
                note(&mut self.index, row, head.identity.hash());
            }
        }
        note(&mut self.index, row, hash);
        RowId(row)
    }

    #[cold]
    #[inline(never)]
    fn put_hits_aside(&mut self, row: RowId) {
        *self.hits_aside.entry(row).or_default() += 1 << 32;
    }

    #[cold]
    #[inline(never)]
    fn add_aside(&mut self, row: RowId, outcome: &Outcome) {
        let full = self.aside.entry(row).or_default();
        self.counts[row.0 as usize].empty_into(full);
        full.add(outcome);
    }

    /// The statistics of the lines, by index. `hit_latency` is what a hit took that was counted by
    /// [`RowTable::add_hit`].
    pub(crate) fn finish(
        mut self,
        hit_latency: impl Fn(AccessOp) -> Cycles,
    ) -> impl Iterator<Item = LineStats> {
        let histograms = std::mem::take(&mut self.histograms);
        let (order, ends) = self.by_line(histograms.len());
        let mut from = 0;
        histograms
            .into_iter()
            .zip(ends)
            .map(move |(latency_histogram, end)| {
                let rows = &order[from..end];
                from = end;
                let mut stats = LineStats {
                    rows: self.rows_of(rows, &hit_latency).into_iter().collect(),
                    latency_histogram,
                    ..LineStats::default()
                };
                stats.sum_up_rows();
                stats
            })
    }

    /// All rows, those of one line together, and where the rows of each line end.
    fn by_line(&self, line_count: usize) -> (Vec<RowId>, Vec<usize>) {
        let mut ends = vec![0; line_count];
        for head in &self.heads {
            ends[head.line as usize] += 1;
        }
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let mut order = vec![RowId::default(); self.heads.len()];
        for (row, head) in (0..).map(RowId).zip(&self.heads) {
            let place = &mut ends[head.line as usize];
            order[*place] = row;
            *place += 1;
        }
        (order, ends)
    }

    /// The rows of one line as they are shown, ascending.
    fn rows_of(
        &mut self,
        rows: &[RowId],
        hit_latency: &impl Fn(AccessOp) -> Cycles,
    ) -> Vec<(RowKey, RowStats)> {
        // Rows lie in the order in which they occurred first, all over the host's memory.
        for row in rows {
            prefetch(&self.counts, row.0 as usize);
        }
        let identity = |row: &RowId| self.heads[row.0 as usize].identity;
        let keyed = rows.iter().map(|row| (identity(row).row_key(), *row));
        let mut keyed: Vec<(RowKey, RowId)> = keyed.collect();
        keyed.sort_unstable();
        // One line may have all rows: a list that doubles would take twice their memory.
        let mut shown: Vec<(RowKey, RowStats)> = Vec::with_capacity(keyed.len());
        for (key, row) in keyed {
            if shown.last().is_none_or(|(last, _)| *last != key) {
                shown.push((key, RowStats::default()));
            }
            if let Some((_, stats)) = shown.last_mut() {
                self.empty_into(row, stats, hit_latency(key.op));
            }
        }
        shown
    }

    fn empty_into(&mut self, row: RowId, stats: &mut RowStats, hit_latency: Cycles) {
        self.counts[row.0 as usize].empty_into(stats);
        if let Some(full) = self.aside.remove(&row) {
            stats.merge(&full);
        }
        let head = &self.heads[row.0 as usize];
        let hit_count = u64::from(head.hit_count) + self.hits_aside.remove(&row).unwrap_or(0);
        if hit_count > 0 {
            stats.sources.0[DataSource::L1 as usize] += hit_count;
            stats.latency.merge(&LatencySum {
                count: hit_count,
                sum: saturating_product(hit_latency, hit_count),
                max: hit_latency,
            });
        }
        stats.cpus.insert(head.identity.cpu());
    }
}

/// The part of a hash that tells rows apart whose places in the index are the same.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Returns true if a slot of an index with this mask may be that of the row with this hash.
#[inline]
fn has_tag(slot: u32, hash: u64, mask: usize) -> bool {
    (slot ^ tag_of(hash)) & !(mask as u32) == 0
}

/// Puts a row into a free slot.
fn note(index: &mut [u32], row: u32, hash: u64) {
    let mask = index.len() - 1;
    let mut at = hash as usize & mask;
    while index[at] != 0 {
        at = (at + 1) & mask;
    }
    index[at] = tag_of(hash) & !(mask as u32) | (row + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(op: AccessOp, addr: u64, code: u64) -> Access {
        Access {
            thread: ThreadId(3),
            cpu: CpuId(8191),
            time: Cycles::ZERO,
            addr,
            size: 4,
            op,
            code: CodeAddr(code),
        }
    }

    impl RowTable {
        /// All steps at once.
        fn row(&mut self, access: &Access, line_of: impl FnOnce() -> usize) -> RowId {
            let hash = self.prepare(access);
            let guess = self.guess(hash);
            match self.confirm(access, guess) {
                Some(_) => guess,
                None => self.find_or_insert(access, hash, line_of),
            }
        }
    }

    fn only_line(table: RowTable) -> LineStats {
        let mut lines = table.finish(|_| Cycles(4));
        let line = lines.next().unwrap();
        assert!(lines.next().is_none());
        line
    }

    #[test]
    fn a_full_counter_loses_nothing() {
        let mut table = RowTable::default();
        let row = table.row(&access(AccessOp::Load, 0x2000, 1), || 0);
        for _ in 0..200_000 {
            table.add(
                row,
                &Outcome::by_source(
                    DataSource::LocalHitm,
                    Cycles(50_000),
                    Cycles::ZERO,
                    Cycles(49_996),
                ),
            );
        }
        table.add_hit(row);
        table.heads[0].hit_count = u32::MAX;
        table.add_hit(row);
        table.add_hit(row);
        let stats = only_line(table);
        let hits = u64::from(u32::MAX) + 2;
        assert_eq!(stats.loads.get(DataSource::L1), hits);
        assert_eq!(stats.loads.get(DataSource::LocalHitm), 200_000);
        assert_eq!(stats.load_latency.sum, Cycles(hits * 4 + 10_000_000_000));
        assert_eq!(stats.contention_stall, Cycles(200_000 * 49_996));
        assert_eq!(
            (stats.rows.len(), stats.latency_histogram.count()),
            (1, 200_000)
        );
    }

    #[test]
    fn a_latency_beyond_32_bits_is_exact() {
        let mut table = RowTable::default();
        let row = table.row(&access(AccessOp::Load, 0x2000, 1), || 0);
        for latency in [7, 1 << 40, 9] {
            table.add(
                row,
                &Outcome::by_source(
                    DataSource::RemoteHitm,
                    Cycles(latency),
                    Cycles::ZERO,
                    Cycles::ZERO,
                ),
            );
        }
        let stats = only_line(table);
        let expected = LatencySum {
            count: 3,
            sum: Cycles((1 << 40) + 16),
            max: Cycles(1 << 40),
        };
        assert_eq!(stats.load_latency, expected);
        assert_eq!(stats.rows.values().next().unwrap().remote_hitm, expected);
        let largest = stats.latency_histogram.value_at_quantile(1.0);
        assert_eq!(largest, Some((17 << 36) - 1));
    }

    #[test]
    fn every_difference_makes_a_row_of_its_own() {
        let mut table = RowTable::default();
        let base = access(AccessOp::Store, 0x2000, 1);
        let others = [
            Access {
                addr: 0x2004,
                ..base
            },
            Access { size: 8, ..base },
            Access {
                op: AccessOp::LockedRmw,
                ..base
            },
            Access {
                thread: ThreadId(4),
                ..base
            },
            Access {
                code: CodeAddr(2),
                ..base
            },
        ];
        let same_row = Access {
            cpu: CpuId(0),
            ..base
        };
        for access in [&[base, base, same_row][..], &others].concat() {
            let row = table.row(&access, || 0);
            table.add(
                row,
                &Outcome::by_source(DataSource::L1, Cycles(4), Cycles::ZERO, Cycles::ZERO),
            );
        }
        let stats = only_line(table);
        let counts: Vec<u64> = stats.rows.values().map(|row| row.sources.total()).collect();
        assert_eq!(counts, [3, 1, 1, 1, 1, 1]);
        assert_eq!(stats.rows.values().next().unwrap().cpus.len(), 2);
    }

    #[test]
    fn many_rows_of_many_lines_are_found_again() {
        let mut table = RowTable::default();
        for _ in 0..2 {
            for code in 0..5000 {
                let line = code % 7;
                let access = access(AccessOp::Load, line * 64 + code % 60, code);
                let row = table.row(&access, || line as usize);
                assert_eq!(table.line(row), line as usize);
                table.add_hit(row);
            }
        }
        let lines: Vec<LineStats> = table.finish(|_| Cycles(4)).collect();
        assert_eq!(
            lines.iter().map(|line| line.rows.len()).sum::<usize>(),
            5000
        );
        let rows = lines.iter().flat_map(|line| line.rows.values());
        assert!(rows.into_iter().all(|row| row.latency.sum == Cycles(8)));
    }
}
