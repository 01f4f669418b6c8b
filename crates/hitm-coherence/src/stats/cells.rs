//! The tables behind [`Collector`](super::Collector): what one line's accesses add up to, in as few
//! bytes and as few cache misses as possible.
//!
//! Each line has a table of [`Cell`]s, one for each combination of thread, CPU, site (instruction,
//! place and operation) and data source that occurred: an access changes one cell of 32 bytes, and
//! for a miss one counter of the line's histogram. Everything else that [`LineStats`] shows (the
//! rows, the reader/writer matrix, the totals) is a sum over cells and is made at the end.
//!
//! With hundreds of CPUs the cells do not fit the host's caches. So each line saves its accesses up
//! and counts them a lot at a time, which brings its cells into the cache once for the whole lot.

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};

use super::{LatencyHistogram, LatencySum, LineStats, RowKey, RowStats, saturating_sum};

/// A line's lot is a quarter of its cells, but at least this many accesses.
const LOT_MIN: usize = 16;
/// And at most this many: by then bringing in the cells does not count any more.
const LOT_MAX: usize = 2048;

/// Tables of many lines, by the caller's dense line index.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineTables {
    lines: Vec<LineCells>,
}

impl LineTables {
    /// Counts one access to the line with this index, which is no fence.
    #[inline]
    pub(crate) fn add(&mut self, line: usize, access: &Access, outcome: &Outcome) {
        if line >= self.lines.len() {
            self.lines.resize_with(line + 1, LineCells::default);
        }
        self.lines[line].add(access, outcome);
    }

    /// The statistics of the lines, by index.
    pub(crate) fn finish(self) -> impl Iterator<Item = LineStats> {
        self.lines.into_iter().map(LineCells::finish)
    }
}

/// An access that is to be counted in its line's cells.
#[derive(Debug, Clone, Copy)]
struct Counted {
    key: u64,
    latency: u64,
    stall: u64,
    in_histogram: bool,
}

/// Instructions at one place of a line, numbered in order of first use.
///
/// Open addressing, a power of two of entries, at most half of them in use.
#[derive(Debug, Clone, Default)]
struct Sites {
    entries: Box<[Site]>,
    count: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Site {
    code: u64,
    /// Offset and operation, in a free entry all ones.
    place: u8,
    size: u8,
    number: u16,
}

impl Site {
    /// No access has the operation that this place would mean.
    const FREE: Site = Site {
        code: 0,
        place: u8::MAX,
        size: 0,
        number: 0,
    };

    #[inline]
    fn of(access: &Access, number: u16) -> Site {
        let place = access.offset() | (access.op as u8) << 6;
        Site {
            code: access.code.0,
            place,
            size: access.size,
            number,
        }
    }

    #[inline]
    fn hash(self) -> usize {
        let who = u64::from(self.place) | u64::from(self.size) << 8;
        mix(self.code.rotate_left(16) ^ who)
    }

    fn op(self) -> AccessOp {
        match self.place >> 6 {
            0 => AccessOp::Load,
            1 => AccessOp::Store,
            _ => AccessOp::LockedRmw,
        }
    }
}

impl Sites {
    /// As many as fit into a cell's key.
    const COUNT_MAX: u16 = 1 << 12;

    /// The number of the site of an access, if it is known.
    #[inline]
    fn number(&self, access: &Access) -> Option<u16> {
        let wanted = Site::of(access, 0);
        let entry = self.entries.get(self.find(wanted))?;
        (entry.place != Site::FREE.place).then_some(entry.number)
    }

    /// Index of the site's entry, or of the free one that it belongs in; 0 when there are none.
    #[inline]
    fn find(&self, wanted: Site) -> usize {
        let mask = self.entries.len().wrapping_sub(1);
        let mut index = wanted.hash() & mask;
        while let Some(entry) = self.entries.get(index) {
            let is_wanted = Site {
                number: 0,
                ..*entry
            } == wanted;
            if is_wanted || entry.place == Site::FREE.place {
                return index;
            }
            index = (index + 1) & mask;
        }
        0
    }

    /// Gives a site the next number.
    fn insert(&mut self, access: &Access) -> u16 {
        if (usize::from(self.count) + 1) * 2 > self.entries.len() {
            let capacity = (self.entries.len() * 2).max(8);
            let old = std::mem::replace(&mut self.entries, vec![Site::FREE; capacity].into());
            for site in old
                .into_iter()
                .filter(|site| site.place != Site::FREE.place)
            {
                self.entries[self.find(Site { number: 0, ..site })] = site;
            }
        }
        let site = Site::of(access, self.count);
        self.entries[self.find(Site { number: 0, ..site })] = site;
        self.count += 1;
        site.number
    }

    /// The sites by number.
    fn in_order(&self) -> Vec<Site> {
        let used = self
            .entries
            .iter()
            .filter(|site| site.place != Site::FREE.place);
        let mut sites: Vec<Site> = used.copied().collect();
        sites.sort_unstable_by_key(|site| site.number);
        sites
    }
}

/// Accesses that differ in nothing but time and latency.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(32))]
struct Cell {
    /// See [`pack_key`].
    key: u64,
    /// 0 in a free cell.
    count: u32,
    latency_max: u32,
    latency_sum: u64,
    stall: u64,
}

/// Thread in bits 0 to 31, CPU 32 to 47, site 48 to 59, source 60 to 63.
#[inline]
fn pack_key(access: &Access, site: u16, source: DataSource) -> u64 {
    u64::from(access.thread.0)
        | u64::from(access.cpu.0) << 32
        | u64::from(site) << 48
        | (source as u64) << 60
}

/// Spreads the bits of `value` into the low bits of the result.
#[inline]
fn mix(value: u64) -> usize {
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32) as usize
}

impl Cell {
    fn thread(&self) -> ThreadId {
        ThreadId(self.key as u32)
    }

    fn cpu(&self) -> CpuId {
        CpuId((self.key >> 32) as u16)
    }

    fn site(&self) -> usize {
        (self.key >> 48 & 0xfff) as usize
    }

    fn source(&self) -> DataSource {
        DataSource::from_index((self.key >> 60) as u8).expect("a key was made from a source")
    }
}

/// The cells of one line.
#[derive(Debug, Clone, Default)]
struct LineCells {
    /// Open addressing, a power of two of them, at most five eighths in use.
    cells: Box<[Cell]>,
    used: usize,
    /// What has not been counted yet.
    lot: Vec<Counted>,
    sites: Sites,
    histogram: LatencyHistogram,
    /// What did not fit into cells any more.
    aside: BTreeMap<RowKey, RowStats>,
}

impl LineCells {
    #[inline]
    fn add(&mut self, access: &Access, outcome: &Outcome) {
        let site = match self.sites.number(access) {
            Some(site) => site,
            None => self.new_site(access),
        };
        let left_the_core = outcome.source > DataSource::L2;
        if self.lot.len() == self.lot.capacity() {
            self.count_lot();
        }
        self.lot.push(Counted {
            key: pack_key(access, site, outcome.source),
            latency: outcome.latency.0,
            stall: outcome.stall.0,
            in_histogram: left_the_core && access.op != AccessOp::Store,
        });
    }

    /// Counts what was saved up, and makes the lot as large as the cells want it.
    #[inline(never)]
    fn count_lot(&mut self) {
        let mut lot = std::mem::take(&mut self.lot);
        for counted in lot.drain(..) {
            self.count(&counted);
        }
        let wanted = (self.cells.len() / 4).clamp(LOT_MIN, LOT_MAX);
        lot.reserve_exact(wanted);
        self.lot = lot;
    }

    #[inline]
    fn count(&mut self, counted: &Counted) {
        let mut index = self.find(counted.key);
        let is_usable = |cell: &Cell| cell.count.wrapping_sub(1) < u32::MAX - 1;
        if !self.cells.get(index).is_some_and(is_usable) {
            index = self.make_room(counted.key);
        }
        let cell = &mut self.cells[index];
        cell.count += 1;
        cell.latency_sum = cell.latency_sum.saturating_add(counted.latency);
        cell.stall = cell.stall.saturating_add(counted.stall);
        if counted.latency > u64::from(cell.latency_max) {
            self.raise_max(index, counted.latency);
        }
        if counted.in_histogram {
            self.histogram.record(counted.latency);
        }
    }

    /// Index of the cell, or of the free one that it belongs in; 0 when there are none.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let mask = self.cells.len().wrapping_sub(1);
        let mut index = mix(key) & mask;
        while let Some(cell) = self.cells.get(index) {
            if cell.key == key || cell.count == 0 {
                return index;
            }
            index = (index + 1) & mask;
        }
        0
    }

    /// The index of a cell that is new, or whose counter is full.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, key: u64) -> usize {
        let index = self.find(key);
        if self.cells.get(index).is_some_and(|cell| cell.count > 0) {
            self.put_aside();
        } else if (self.used + 1) * 8 > self.cells.len() * 5 {
            let capacity = (self.cells.len() * 2).max(4);
            let old = std::mem::replace(&mut self.cells, vec![Cell::default(); capacity].into());
            for cell in old.into_iter().filter(|cell| cell.count > 0) {
                self.cells[self.find(cell.key)] = cell;
            }
        }
        let index = self.find(key);
        self.cells[index] = Cell {
            key,
            ..Cell::default()
        };
        self.used += 1;
        index
    }

    /// The largest latency of a cell; one that needs more than 32 bits is kept aside.
    fn raise_max(&mut self, index: usize, latency: u64) {
        let cell = &mut self.cells[index];
        if let Ok(latency) = u32::try_from(latency) {
            cell.latency_max = latency;
            return;
        }
        let key = row_key(&self.sites.in_order(), cell);
        let huge = LatencySum {
            max: Cycles(latency),
            ..LatencySum::default()
        };
        let row = self.aside.entry(key).or_default();
        row.add_latency(cell.source(), &huge);
    }

    /// Gives the site of an access a number.
    #[cold]
    #[inline(never)]
    fn new_site(&mut self, access: &Access) -> u16 {
        if self.sites.count == Sites::COUNT_MAX {
            self.count_lot();
            self.put_aside();
            self.sites = Sites::default();
        }
        self.sites.insert(access)
    }

    /// Moves all cells into rows.
    fn put_aside(&mut self) {
        let rows = rows_of(&self.cells, &self.sites);
        self.cells.fill(Cell::default());
        self.used = 0;
        for (key, row) in rows {
            self.aside.entry(key).or_default().merge(&row);
        }
    }

    /// The line's statistics.
    fn finish(mut self) -> LineStats {
        self.count_lot();
        let rows = if self.aside.is_empty() {
            rows_of(&self.cells, &self.sites).into_iter().collect()
        } else {
            self.put_aside();
            self.aside
        };
        let latency_histogram = self.histogram;
        let mut stats = LineStats {
            rows,
            latency_histogram,
            ..LineStats::default()
        };
        stats.sum_up_rows();
        stats
    }
}

fn row_key(sites: &[Site], cell: &Cell) -> RowKey {
    let site = sites[cell.site()];
    RowKey {
        offset: site.place & 63,
        size: site.size,
        op: site.op(),
        thread: cell.thread(),
        code: CodeAddr(site.code),
    }
}

/// The rows that the cells add up to, ascending.
fn rows_of(cells: &[Cell], sites: &Sites) -> Vec<(RowKey, RowStats)> {
    let sites = sites.in_order();
    let used = cells.iter().filter(|cell| cell.count > 0);
    let mut keyed: Vec<(RowKey, &Cell)> = used.map(|cell| (row_key(&sites, cell), cell)).collect();
    keyed.sort_unstable_by_key(|(key, cell)| (*key, cell.key));
    let mut rows: Vec<(RowKey, RowStats)> = Vec::new();
    for (key, cell) in keyed {
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
        max: Cycles(cell.latency_max.into()),
    };
    let source = cell.source();
    row.sources.0[source as usize] += latency.count;
    row.add_latency(source, &latency);
    row.stall = saturating_sum(row.stall, Cycles(cell.stall));
    if source.is_contention() {
        row.contention_stall = saturating_sum(row.contention_stall, Cycles(cell.stall));
    }
    row.cpus.insert(cell.cpu());
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

    fn outcome(source: DataSource, latency: u64) -> Outcome {
        Outcome {
            source,
            latency: Cycles(latency),
            queued: Cycles::ZERO,
            stall: Cycles(latency),
        }
    }

    fn only_line(tables: LineTables) -> LineStats {
        tables.finish().next().unwrap()
    }

    #[test]
    fn a_full_counter_loses_nothing() {
        let mut tables = LineTables::default();
        let load = access(AccessOp::Load, 0x2000, 1);
        let (hit, miss) = (
            outcome(DataSource::L1, 4),
            outcome(DataSource::LocalHitm, 100),
        );
        tables.add(0, &load, &hit);
        tables.add(0, &load, &miss);
        tables.lines[0].count_lot();
        let cells = tables.lines[0].cells.iter_mut();
        cells
            .filter(|cell| cell.count == 1)
            .for_each(|cell| cell.count = u32::MAX);
        tables.add(0, &load, &hit);
        tables.add(0, &load, &miss);
        tables.add(0, &load, &miss);
        let stats = only_line(tables);
        let full = u64::from(u32::MAX);
        assert_eq!(stats.loads.get(DataSource::L1), full + 1);
        assert_eq!(stats.loads.get(DataSource::LocalHitm), full + 2);
        assert_eq!((stats.rows.len(), stats.stall), (1, Cycles(4 + 4 + 300)));
    }

    #[test]
    fn a_line_used_by_more_instructions_than_cells_can_number() {
        let mut tables = LineTables::default();
        for code in 0..2 * u64::from(Sites::COUNT_MAX) + 10 {
            for _ in 0..2 {
                let op = if code % 2 == 0 {
                    AccessOp::Store
                } else {
                    AccessOp::LockedRmw
                };
                tables.add(
                    0,
                    &access(op, 0x2000 + code % 50, code),
                    &outcome(DataSource::L1, 1),
                );
            }
        }
        let stats = only_line(tables);
        assert_eq!(stats.rows.len(), 8202);
        assert!(stats.rows.values().all(|row| row.sources.total() == 2));
    }

    #[test]
    fn a_latency_beyond_32_bits_is_exact() {
        let mut tables = LineTables::default();
        for latency in [7, 1 << 40, 9] {
            let outcome = outcome(DataSource::RemoteHitm, latency);
            tables.add(0, &access(AccessOp::Load, 0x2000, 1), &outcome);
        }
        let stats = only_line(tables);
        let expected = LatencySum {
            count: 3,
            sum: Cycles((1 << 40) + 16),
            max: Cycles(1 << 40),
        };
        assert_eq!(stats.load_latency, expected);
        assert_eq!(stats.rows.values().next().unwrap().remote_hitm, expected);
        assert_eq!(
            stats.latency_histogram.value_at_quantile(1.0),
            Some((17 << 36) - 1)
        );
    }
}
