//! From counted rows to perf's tables: lines, their rows, and which of them are shown.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::LINE_SIZE;

use super::{C2c, Counts, Cpus, Display, Maps, Means, RowData, RowKey};

/// Lines below this part of all HITMs are not shown (`DISPLAY_LINE_LIMIT`).
const LINE_SHARE_MIN: f64 = 0.001;

/// The tables of `perf c2c report --stdio`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    /// What lines are sorted by.
    pub display: Display,
    /// Sums over all samples.
    pub all: Counts,
    /// Lines with a HITM or a transfer from a peer.
    pub shared_line_count: u64,
    /// Sums over these lines.
    pub shared: Counts,
    /// The lines that are shown, most contended first.
    pub lines: Vec<Line>,
}

/// A line that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Address of its first byte.
    pub address: u64,
    /// Sums over its samples.
    pub counts: Counts,
    /// The rows that are shown, by offset and then by HITM.
    pub rows: Vec<Row>,
}

/// Samples of one instruction at one offset.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Offset in the line.
    pub offset: u8,
    /// The instruction.
    pub ip: u64,
    /// The process of the first sample.
    pub pid: u32,
    /// Counts of its samples.
    pub counts: Counts,
    /// Means of its weights.
    pub means: Means,
    /// The CPUs that the samples came from.
    pub cpus: Cpus,
}

/// What perf tells lines apart by, in the order of its tree: mode, whether a mapping is unknown,
/// the file, the process when the memory is its own, the place.
type LineKey = (u8, bool, [u64; 4], u32, u64);

#[derive(Debug, Default)]
struct Collected {
    address: u64,
    counts: Counts,
    rows: BTreeMap<(u8, u64), Row>,
}

impl Display {
    /// The count that lines are sorted and chosen by.
    pub fn metric(self, counts: &Counts) -> u64 {
        match self {
            Display::TotalHitm => counts.hitm(),
            Display::RemoteHitm => counts.remote_hitm,
            Display::LocalHitm => counts.local_hitm,
            Display::Peer => counts.peer(),
        }
    }

    /// By what rows of one offset are sorted, largest first.
    fn row_order(self, counts: &Counts) -> (u64, u64) {
        match self {
            Display::TotalHitm | Display::Peer => (self.metric(counts), 0),
            Display::RemoteHitm => (counts.remote_hitm, counts.local_hitm),
            Display::LocalHitm => (counts.local_hitm, counts.remote_hitm),
        }
    }
}

impl C2c {
    /// The tables.
    pub fn finish(self, maps: &dyn Maps, display: Display) -> Tables {
        let mut lines: BTreeMap<LineKey, Collected> = BTreeMap::new();
        let mut all = Counts::default();
        for (key, data) in self.rows {
            let mut counts = data.counts(key.addr);
            let place = maps.find(key.pid, key.mode, key.addr);
            if place.is_none() || maps.find(key.pid, key.mode, key.ip).is_none() {
                // Samples that perf gave up on before it asked for a mapping are not rejected for it.
                counts.no_mapping = counts.samples
                    - counts.load_no_address
                    - counts.store_no_address
                    - counts.unparsed;
            }
            all.merge(&counts);
            let line_key = match place {
                Some(place) => (
                    key.mode as u8,
                    false,
                    place.file,
                    if place.is_private { key.pid } else { 0 },
                    place.address / LINE_SIZE,
                ),
                None => (key.mode as u8, true, [0; 4], 0, key.addr / LINE_SIZE),
            };
            lines.entry(line_key).or_default().add(&key, &data, &counts);
        }
        Tables::choose(lines.into_values().collect(), all, display)
    }
}

impl Collected {
    fn add(&mut self, key: &RowKey, data: &RowData, counts: &Counts) {
        if self.rows.is_empty() {
            self.address = key.addr / LINE_SIZE * LINE_SIZE;
        }
        self.counts.merge(counts);
        let offset = (key.addr % LINE_SIZE) as u8;
        let row = self.rows.entry((offset, key.ip)).or_insert_with(|| Row {
            offset,
            ip: key.ip,
            pid: key.pid,
            counts: Counts::default(),
            means: Means::default(),
            cpus: Cpus::default(),
        });
        row.counts.merge(counts);
        row.means.merge(&data.means);
        row.cpus.merge(&data.cpus);
    }

    fn into_line(self, display: Display) -> Line {
        let is_shown = |row: &Row| row.counts.stores > 0 || display.metric(&row.counts) > 0;
        let mut rows: Vec<Row> = self.rows.into_values().filter(is_shown).collect();
        // Stable: rows of one offset that count alike stay in the order of their instructions.
        rows.sort_by_key(|row| (row.offset, Reverse(display.row_order(&row.counts))));
        Line {
            address: self.address,
            counts: self.counts,
            rows,
        }
    }
}

impl Tables {
    fn choose(mut lines: Vec<Collected>, all: Counts, display: Display) -> Tables {
        let mut shared = Counts::default();
        let mut shared_line_count = 0;
        for line in &lines {
            if line.counts.hitm() > 0 || line.counts.peer() > 0 {
                shared_line_count += 1;
                shared.merge(&line.counts);
            }
        }
        let whole = display.metric(&shared);
        lines.retain(|line| {
            let part = display.metric(&line.counts);
            whole > 0 && part as f64 / whole as f64 >= LINE_SHARE_MIN
        });
        lines.sort_by_key(|line| Reverse(display.metric(&line.counts)));
        Tables {
            display,
            all,
            shared_line_count,
            shared,
            lines: lines
                .into_iter()
                .map(|line| line.into_line(display))
                .collect(),
        }
    }
}
