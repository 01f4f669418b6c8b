//! From counted rows to perf's tables: choice and order of lines and rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hitm_base::LINE_SIZE;

use super::{
    C2c, Counts, CpuMode, Display, MapPlace, Maps, Means, NumberSet, Physical, RowData, RowKey,
    TaskId,
};

/// Lines below this part of all HITMs are not shown (`DISPLAY_LINE_LIMIT`).
const LINE_SHARE_MIN: f64 = 0.001;

/// The tables of `perf c2c report --stdio`.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    /// Sort key of the lines.
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
    /// Physical addresses of its samples.
    pub physical: Physical,
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
    pub process: TaskId,
    /// Counts of its samples.
    pub counts: Counts,
    /// Means of its weights.
    pub means: Means,
    /// The CPUs that the samples came from.
    pub cpus: NumberSet,
    /// Physical addresses of its samples.
    pub physical: Physical,
}

/// perf's key of a line, in the order of its tree: mode, true if the mapping is unknown, the file,
/// the process when the memory is its own, the place.
type LineKey = (u8, bool, [u64; 4], TaskId, u64);

#[derive(Debug, Default)]
struct Collected {
    address: u64,
    counts: Counts,
    physical: Physical,
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

    /// Sort key of the rows of one offset, largest first.
    fn row_order(self, counts: &Counts) -> (u64, u64) {
        match self {
            Display::TotalHitm | Display::Peer => (self.metric(counts), 0),
            Display::RemoteHitm => (counts.remote_hitm, counts.local_hitm),
            Display::LocalHitm => (counts.local_hitm, counts.remote_hitm),
        }
    }
}

impl C2c {
    /// Builds the tables.
    pub fn finish(self, maps: &dyn Maps, display: Display) -> Tables {
        let mut lines: BTreeMap<LineKey, Collected> = BTreeMap::new();
        let mut all = Counts::default();
        for (key, data) in self.rows {
            let mut counts = data.counts(key.addr);
            let process = key.process();
            let place = maps.find(process, key.mode, key.addr);
            if place.is_none() || maps.find(process, key.mode, key.ip).is_none() {
                // perf gives these up before it looks for a mapping, so they are not rejected for
                // lacking one.
                counts.no_mapping = counts.samples
                    - counts.load_no_address
                    - counts.store_no_address
                    - counts.unparsed;
            }
            all.merge(&counts);
            let line_key = line_key(place, process, key.mode, key.addr);
            lines.entry(line_key).or_default().add(&key, &data, &counts);
        }
        for ((line, process, mode), physical) in &self.lines {
            let addr = line * LINE_SIZE;
            let place = maps.find(*process, *mode, addr);
            if let Some(collected) = lines.get_mut(&line_key(place, *process, *mode, addr)) {
                collected.physical.merge(physical);
            }
        }
        Tables::choose(lines.into_values().collect(), all, display)
    }
}

/// The key of the line that holds an address of a process, at its place in a file if it has one.
fn line_key(place: Option<MapPlace>, process: TaskId, mode: CpuMode, addr: u64) -> LineKey {
    let mode = mode as u8;
    match place {
        Some(place) => {
            let process = if place.is_private {
                process
            } else {
                TaskId::default()
            };
            (mode, false, place.file, process, place.address / LINE_SIZE)
        }
        None => (mode, true, [0; 4], TaskId::default(), addr / LINE_SIZE),
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
            process: key.process(),
            counts: Counts::default(),
            means: Means::default(),
            cpus: NumberSet::default(),
            physical: Physical::default(),
        });
        row.counts.merge(counts);
        row.means.merge(&data.means);
        row.cpus.merge(&data.cpus);
        if let Some(physical) = &data.physical {
            row.physical.merge(physical);
        }
    }

    fn into_line(self, display: Display) -> Line {
        let is_shown = |row: &Row| row.counts.stores > 0 || display.metric(&row.counts) > 0;
        let mut rows: Vec<Row> = self.rows.into_values().filter(is_shown).collect();
        // Stable: rows of one offset that count alike stay in the order of their instructions.
        rows.sort_by_key(|row| (row.offset, Reverse(display.row_order(&row.counts))));
        Line {
            address: self.address,
            counts: self.counts,
            physical: self.physical,
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
