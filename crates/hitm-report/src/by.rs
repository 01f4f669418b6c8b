//! Totals by the names that people ask for, and the part of a run that they ask about.

use hitm_fields::{fields, words};
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::skip::SkippedFunctions;

words! {
    /// The kind of name that a table has a row for each of.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum By {
        /// Cache lines: [`Report::lines`](crate::Report::lines), the table that a report always has.
        Line = "line",
        /// Variables, heap blocks of one allocation site, stacks.
        Object = "object",
        /// Members of objects, those of all elements of an array together.
        Member = "member",
        /// Types of objects.
        Type = "type",
        /// Functions of the instructions, inlined ones included.
        Function = "function",
        /// Functions that called those.
        Caller = "caller",
        /// Functions with what they call.
        Children = "children",
        /// Source files and lines of the instructions.
        Source = "source",
        /// Programs.
        Process = "process",
    }
}

/// Stands for the lines that are counted as a whole.
pub(crate) const REST: &str = "(lines that changed hands too rarely)";

impl By {
    /// Stands for all accesses whose name is not known.
    pub(crate) const fn unnamed(self) -> &'static str {
        match self {
            By::Line | By::Object | By::Member | By::Process => "(no name)",
            By::Type => "(no type known)",
            By::Function | By::Children => "(no function known)",
            By::Caller => "(no caller known)",
            By::Source => "(no source line known)",
        }
    }
}

/// The figure that orders lines and totals, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Cycles lost to contention.
    #[default]
    Lost,
    /// Local and remote HITM.
    Hitm,
    /// Remote HITM.
    RemoteHitm,
    /// Local HITM.
    LocalHitm,
    /// Accesses.
    Accesses,
    /// The name, or a line's address: the smallest first.
    Name,
}

impl SortKey {
    /// The key in words.
    pub const fn text(self) -> &'static str {
        match self {
            SortKey::Lost => "cycles lost to contention",
            SortKey::Hitm => "HITM",
            SortKey::RemoteHitm => "remote HITM",
            SortKey::LocalHitm => "local HITM",
            SortKey::Accesses => "accesses",
            SortKey::Name => "name",
        }
    }
}

/// Names: all those that have a text in them, or, when the text has `*` or `?`, those that it matches
/// as a whole. `*` stands for any characters, `?` for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// An empty pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("an empty name matches everything: expected a part of a name, or a pattern with * and ?")]
pub struct EmptyPattern;

impl FromStr for Pattern {
    type Err = EmptyPattern;

    fn from_str(text: &str) -> Result<Pattern, EmptyPattern> {
        match text {
            "" => Err(EmptyPattern),
            text => Ok(Pattern(text.to_owned())),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Returns true if `name` is among the names.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.contains(['*', '?']) {
            true => glob(self.0.as_bytes(), name),
            false => name.contains(&self.0),
        }
    }
}

/// Matches all of `name`. Goes back to the last `*` only: what an earlier one could match, the last
/// can as well.
pub(crate) fn glob(pattern: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    let (mut at, mut pos) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while pos < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, pos));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                pos += char_len(name[pos]);
            }
            Some(byte) if *byte == name[pos] => {
                at += 1;
                pos += 1;
            }
            _ => match last_star {
                Some((star, from)) => {
                    let from = from + char_len(name[from]);
                    last_star = Some((star, from));
                    (at, pos) = (star + 1, from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Bytes of the character that begins with `first`, in UTF-8.
fn char_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// The accesses that a report is about: those that match one pattern of each list that has any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filters {
    /// Objects, with or without their members.
    pub object: Vec<Pattern>,
    /// Functions.
    pub function: Vec<Pattern>,
    /// Threads.
    pub thread: Vec<Pattern>,
    /// Programs.
    pub process: Vec<Pattern>,
    /// Source files, with or without lines.
    pub file: Vec<Pattern>,
}

impl Filters {
    /// Returns true if there is nothing to match.
    pub fn is_empty(&self) -> bool {
        self.lists().iter().all(|(_, patterns)| patterns.is_empty())
    }

    /// The filters in words: `function *lock* or spin`.
    pub(crate) fn texts(&self) -> Vec<String> {
        let lists = self.lists().into_iter();
        let used = lists.filter(|(_, patterns)| !patterns.is_empty());
        used.map(|(what, patterns)| {
            let patterns: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
            format!("{what} {}", patterns.join(" or "))
        })
        .collect()
    }

    /// The patterns of each option.
    pub fn lists(&self) -> [(&'static str, &[Pattern]); 5] {
        [
            ("object", &self.object),
            ("function", &self.function),
            ("thread", &self.thread),
            ("process", &self.process),
            ("file", &self.file),
        ]
    }
}

/// Totals of a report, their order, and the filters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Tables of totals, in this order.
    pub by: Vec<By>,
    /// The order of lines and totals.
    pub sort: SortKey,
    /// The accesses that count.
    pub filters: Filters,
    /// Functions whose accesses are their callers'.
    pub skip: SkippedFunctions,
}

/// One table of totals.
#[derive(Debug, Clone, PartialEq)]
pub struct TotalsBy {
    /// The kind of name.
    pub by: By,
    /// A row for each name. Without filters their sums are those of [`Totals`](crate::Totals).
    pub rows: Vec<TotalRow>,
}

words! {
    /// Things that a row of totals stands for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TotalKind {
        /// One name.
        Named = "named",
        /// All accesses whose name is not known.
        Unnamed = "unnamed",
        /// Lines that are counted as a whole, because they changed hands too rarely to matter.
        Rest = "rest",
    }
}

fields! {
    /// The sums of one name.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TotalRow in total_row {
        /// The name, or in parentheses what the row stands for.
        pub name: String => name "name";
        /// `named`; `unnamed`: all accesses whose name is not known; `rest`: lines counted as a whole, because they
        /// changed hands too rarely.
        pub kind: TotalKind => label "kind", |row| row.kind.id();
        /// Cycles that threads lost to other CPUs' use of the lines.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// lost_cycles as a part of those of all lines.
        pub lost_share: f64 => share "lost";
        /// lost_cycles as a part of all threads' time.
        pub run_share: f64 => recorded share "run";
        /// Remote HITM of loads and locked operations.
        pub remote_hitm_count: u64 => count "rmt HITM";
        /// Local HITM of loads and locked operations.
        pub local_hitm_count: u64 => count "lcl HITM";
        /// Accesses.
        pub access_count: u64 => count "accesses";
        /// Lines with these accesses.
        pub line_count: Option<u64> => count "lines";
    }
}

fields! {
    /// The part of a run that filters leave.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Filtered in filtered {
        /// The filters in words.
        pub filters: Vec<String> => words "filters";
        /// Accesses that match.
        pub access_count: u64 => count "accesses";
        /// Lines with such accesses.
        pub line_count: u64 => count "lines";
        /// Cycles lost by them.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// lost_cycles as a part of those of all lines.
        pub lost_share: f64 => share "lost";
        /// Cycles lost on lines counted as a whole, whose accesses no filter tells apart.
        pub unfiltered_lost_cycles: u64 => recorded cycles "not looked at";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_or_matches_the_whole() {
        let matches = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().matches(name);
        assert!(matches("lock", "spin_lock_irq"));
        assert!(matches("[3].x", "slots[3].x"));
        assert!(!matches("Lock", "spin_lock_irq"));
        assert!(matches("spin*", "spin_lock_irq"));
        assert!(!matches("lock*", "spin_lock_irq"));
        assert!(matches("*lock*", "spin_lock_irq"));
        assert!(matches("s*l*k_?rq", "spin_lock_irq"));
        assert!(!matches("s*l*k_?q", "spin_lock_irq"));
        assert!(matches("gr?ße*", "größer"));
        assert!(matches("*", ""));
        assert!(!matches("?", ""));
        assert!(matches("a*a*b", "aaaaaaaab"));
        assert!("".parse::<Pattern>().is_err());
    }
}
