//! Columns of a Pareto, by their titles.

use super::{Place, PublishedError, address};

/// Content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// Number of the cache line: rows leave it empty.
    Num,
    /// Share of the line's remote HITM, or of the transfers from peers of other nodes.
    Remote,
    /// The same within the node.
    Local,
    /// Share of one of the line's kinds of stores.
    Stores,
    /// Offset in the line.
    Offset,
    /// A figure in one word that nobody asks for.
    Other,
    /// Thread number and name: words up to the address of the code.
    Tid,
    /// Address of the instruction.
    Code,
    /// Mean weight of the loads that [`Column::Remote`] counts, in cycles.
    RemoteCycles,
    /// Mean weight of the loads that [`Column::Local`] counts, in cycles.
    LocalCycles,
    /// Mean weight of other loads, in cycles.
    LoadCycles,
    /// Samples.
    Records,
    /// Distinct CPUs.
    CpuCount,
    /// Name of the function: the mode in brackets, then words.
    Symbol,
    /// Name of the program or library.
    Object,
    /// Source line.
    Source,
    /// NUMA nodes of the CPUs; the last column.
    Nodes,
}

/// Titles of columns, longest first where one begins like another.
const TITLES: [(&str, Column); 27] = [
    ("Num", Column::Num),
    ("RmtHitm", Column::Remote),
    ("LclHitm", Column::Local),
    ("Rmt", Column::Remote),
    ("Lcl", Column::Local),
    ("L1 Hit", Column::Stores),
    ("L1 Miss", Column::Stores),
    ("N/A", Column::Stores),
    ("Offset", Column::Offset),
    ("PA cnt", Column::Other),
    ("Pid", Column::Other),
    ("Tid", Column::Tid),
    ("Code address", Column::Code),
    ("rmt hitm", Column::RemoteCycles),
    ("lcl hitm", Column::LocalCycles),
    ("rmt peer", Column::RemoteCycles),
    ("lcl peer", Column::LocalCycles),
    ("load", Column::LoadCycles),
    ("records", Column::Records),
    ("cnt", Column::CpuCount),
    ("Symbol", Column::Symbol),
    ("Object", Column::Object),
    ("Source:Line", Column::Source),
    ("Node{cpus %hitms %stores}", Column::Nodes),
    ("Node{cpus %peers %stores}", Column::Nodes),
    ("Node{cpu list}", Column::Nodes),
    ("Node", Column::Nodes),
];

/// A column with its title.
#[derive(Debug, Clone, Copy)]
pub(super) struct Titled {
    pub(super) column: Column,
    pub(super) title: &'static str,
}

/// The columns of a Pareto.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// Columns of one word each, in front of the symbol.
    pub(super) figures: Vec<Titled>,
    /// Names behind the figures.
    pub(super) names: Vec<Titled>,
    /// Columns of shares, in their order: those that a line has counts of.
    pub(super) counted: Vec<Titled>,
}

/// Titles behind the shares of Linux 4.20 and later, of tables that are published without theirs.
const UNTITLED: &str = "Offset Node PA cnt Code address rmt hitm lcl hitm load records cnt Symbol Object \
     Source:Line Node";

/// Returns true for what stands in front of the words of a head.
pub(super) fn is_margin(c: char) -> bool {
    c == '#' || c.is_whitespace()
}

/// Returns true for the first line of the titles of a Pareto.
pub(super) fn is_head(line: &str) -> bool {
    let line = line.trim_start_matches(is_margin);
    let mut words = line.split_whitespace();
    let first = words.next();
    let is_title = |word: &str| ["Rmt", "RmtHitm"].contains(&word);
    match first {
        Some("Num") => words.next().is_some_and(is_title),
        Some(word) => is_title(word) && words.any(|word| word == "Offset"),
        None => false,
    }
}

impl Columns {
    /// Reads the titles, which may have been wrapped.
    pub(super) fn parse(titles: &str, place: Place<'_>) -> Result<Columns, PublishedError> {
        let words: Vec<&str> = titles.split_whitespace().collect();
        let mut all: Vec<Titled> = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let found = TITLES.iter().find(|(title, _)| {
                let title = title.split(' ');
                title
                    .clone()
                    .eq(words[at..].iter().copied().take(title.count()))
            });
            let Some((title, column)) = found else {
                let expected = TITLES.map(|(title, _)| title).join(", ");
                return Err(place.error("title", words[at], &format!("one of {expected}")));
            };
            at += title.split(' ').count();
            // The node of the memory stands before the code, the nodes of the CPUs at the end.
            let is_last = all.iter().any(|one| one.column == Column::Symbol);
            let column = match column {
                Column::Nodes if !is_last => Column::Other,
                other => *other,
            };
            all.push(Titled { column, title });
        }
        if !all.iter().any(|one| one.column == Column::Offset) {
            return Err(place.error("titles", titles.trim(), "a column Offset among them"));
        }
        let names = all.iter().position(|one| one.column == Column::Symbol);
        let names = all.split_off(names.unwrap_or(all.len()));
        let is_counted =
            |one: &&Titled| matches!(one.column, Column::Remote | Column::Local | Column::Stores);
        Ok(Columns {
            counted: all.iter().filter(is_counted).copied().collect(),
            figures: all
                .into_iter()
                .filter(|one| one.column != Column::Num)
                .collect(),
            names,
        })
    }

    /// The columns of a table without titles, by the words of its first cache line: a number, four or five
    /// counts and an address. None for other words.
    pub(super) fn untitled(words: &[&str], place: Place<'_>) -> Option<Columns> {
        let shares = match words.len() {
            6 => "Num Rmt Lcl L1 Hit L1 Miss",
            7 => "Num Rmt Lcl L1 Hit L1 Miss N/A",
            _ => return None,
        };
        let (last, front) = words.split_last()?;
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        let is_line = front.iter().all(is_number) && address(last).is_some();
        is_line
            .then(|| Columns::parse(&format!("{shares} {UNTITLED}"), place).ok())
            .flatten()
    }

    pub(super) fn has_name(&self, column: Column) -> bool {
        self.names.iter().any(|one| one.column == column)
    }
}
