//! One row of a Pareto: the accesses of an instruction to an offset.

use super::columns::{Column, Columns};
use super::{Place, PublishedError, PublishedLine, address};

/// A row: what one instruction did at one offset of a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishedRow {
    /// Line of the text in which it begins.
    pub place: usize,
    /// Offset in the line.
    pub offset: u8,
    /// Its part of the line's remote HITM, rounded to the nearest.
    pub remote: u64,
    /// Its part of the line's local HITM, rounded to the nearest.
    pub local: u64,
    /// Its part of the line's stores, rounded to the nearest for each of their kinds.
    pub stores: u64,
    /// Address of the instruction.
    pub code: Option<u64>,
    /// Mean weight of remote HITM, local HITM and other loads, in cycles.
    pub cycles: [u64; 3],
    /// Samples; none where the text ends before that column.
    pub records: Option<u64>,
    /// Distinct CPUs that the samples came from.
    pub cpu_count: Option<u32>,
    /// Those CPUs, where the text lists them (`perf c2c report -NN`); ascending.
    pub cpus: Vec<u16>,
    /// Name of the function; empty where the text has none.
    pub symbol: String,
    /// Name of the program or library; empty where the text has none.
    pub object: String,
    /// Source file and line; empty where the text has none.
    pub source: String,
}

impl PublishedRow {
    /// Loads among the samples: those that are no stores, at least the HITM.
    pub fn loads(&self) -> u64 {
        let hitm = self.remote + self.local;
        let others = self.records.unwrap_or(0).saturating_sub(self.stores);
        others.max(hitm)
    }

    /// Cycles that the sampled loads took.
    pub fn load_cycles(&self) -> u128 {
        let [remote, local, load] = self.cycles.map(u128::from);
        let others = self.loads() - self.remote - self.local;
        u128::from(self.remote) * remote
            + u128::from(self.local) * local
            + u128::from(others) * load
    }
}

/// A row as it is read.
pub(super) struct Partial {
    pub(super) row: PublishedRow,
    /// True once its offset was there.
    pub(super) has_offset: bool,
    /// True once all columns of the table were there.
    pub(super) is_complete: bool,
}

/// Reads a row of `line` from its words.
pub(super) fn parse(
    words: &[&str],
    columns: &Columns,
    line: &Counts,
    place: Place<'_>,
) -> Result<Partial, PublishedError> {
    let mut row = PublishedRow {
        place: place.line,
        ..PublishedRow::default()
    };
    let mut rest = words.iter().copied();
    let mut counts = line.0.iter();
    let mut has_offset = false;
    for figure in &columns.figures {
        let Some(mut word) = rest.next() else {
            return Ok(Partial {
                row,
                has_offset,
                is_complete: false,
            });
        };
        has_offset |= figure.column == Column::Offset;
        let key = figure.title;
        match figure.column {
            Column::Remote | Column::Local | Column::Stores => {
                let count = counts.next().copied().unwrap_or(0);
                let part = PublishedLine::part(count, place.share(word, key)?);
                match figure.column {
                    Column::Remote => row.remote += part,
                    Column::Local => row.local += part,
                    _ => row.stores += part,
                }
            }
            Column::Offset => row.offset = offset(word, key, place)?,
            Column::Code => row.code = Some(place.address(word, key)?),
            Column::Tid => {
                // A thread's name may have spaces; the address of the code ends it.
                while rest
                    .clone()
                    .next()
                    .is_some_and(|next| address(next).is_none())
                {
                    word = rest.next().unwrap_or(word);
                }
            }
            Column::RemoteCycles => row.cycles[0] = place.number(word, key)?,
            Column::LocalCycles => row.cycles[1] = place.number(word, key)?,
            Column::LoadCycles => row.cycles[2] = place.number(word, key)?,
            Column::Records => row.records = Some(place.number(word, key)?),
            Column::CpuCount => {
                let count = place.number(word, key)?;
                row.cpu_count = Some(u32::try_from(count).unwrap_or(u32::MAX));
            }
            _ => {}
        }
    }
    let is_complete = names(&mut row, columns, &rest.collect::<Vec<_>>(), place)?;
    Ok(Partial {
        row,
        has_offset,
        is_complete,
    })
}

/// Counts of a cache line, in the order of its columns.
pub(super) struct Counts(pub(super) Vec<u64>);

fn offset(word: &str, key: &str, place: Place<'_>) -> Result<u8, PublishedError> {
    let number = place.address(word, key)?;
    let number = u8::try_from(number).ok();
    number.ok_or_else(|| place.error(key, word, "an offset in a cache line, up to 0xff"))
}

/// Reads the names behind the figures, from their end: only the symbol has spaces inside. Returns
/// true if all were there.
fn names(
    row: &mut PublishedRow,
    columns: &Columns,
    words: &[&str],
    place: Place<'_>,
) -> Result<bool, PublishedError> {
    let mut words = words;
    let mut is_complete = true;
    if columns.has_name(Column::Nodes) {
        let front = without_nodes(words);
        is_complete &= front.len() < words.len();
        row.cpus = cpus(&words[front.len()..], place)?;
        words = front;
    }
    let mut take = |column, is: &dyn Fn(&str) -> bool| {
        if !columns.has_name(column) {
            return String::new();
        }
        match words.split_last() {
            Some((last, front)) if is(last) && words.len() > 2 => {
                words = front;
                (*last).to_owned()
            }
            _ => {
                is_complete = false;
                String::new()
            }
        }
    };
    // `file.c:12`, `??:0`, `up_write+27`; a symbol such as `std::f` has no number at its end.
    let is_source = |word: &str| {
        let line = word.rsplit_once([':', '+']).map_or("", |(_, line)| line);
        !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    };
    row.source = take(Column::Source, &is_source);
    row.object = take(Column::Object, &|_| true);
    if columns.has_name(Column::Symbol) {
        let is_mode = |word: &&&str| word.len() == 3 && word.starts_with('[');
        let from = usize::from(words.first().filter(is_mode).is_some());
        row.symbol = words[from..].join(" ");
        is_complete &= !row.symbol.is_empty();
    }
    Ok(is_complete)
}

/// The words in front of the nodes: `0  1`, `0{12  50.0%  n/a}`, `0{0-3,8}`.
fn without_nodes<'w, 't>(words: &'w [&'t str]) -> &'w [&'t str] {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let has_brace = |word: &&str| {
        let node = word.split_once('{').map(|(node, _)| node);
        node.is_some_and(|node| !node.is_empty() && is_number(node))
    };
    if let Some(first) = words.iter().position(has_brace) {
        return &words[..first];
    }
    let plain = words.iter().rev().take_while(|word| is_number(word));
    &words[..words.len() - plain.count()]
}

/// CPUs of nodes that list them.
fn cpus(nodes: &[&str], place: Place<'_>) -> Result<Vec<u16>, PublishedError> {
    let mut all = Vec::new();
    for word in nodes {
        let list = word
            .split_once('{')
            .and_then(|(_, list)| list.strip_suffix('}'));
        for range in list.into_iter().flat_map(|list| list.split(',')) {
            let range = hitm_base::cpu_range(range)
                .ok_or_else(|| place.error("Node", word, "CPU numbers such as 0{0-3,8}"))?;
            all.extend(range);
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}
