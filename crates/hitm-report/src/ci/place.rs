//! Places in the source, relative to what a service checked out.

use std::collections::BTreeSet;

use crate::model::RowReport;

/// The directory that holds the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRoot(Vec<String>);

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file: relative to the root where it is below it, else as the debug information has it.
    pub file: String,
    /// The line, 1 for the first one; none when only the file is known.
    pub line: Option<u32>,
    /// True if the file is below the root.
    pub is_below_root: bool,
    /// The function of the accesses, empty when unknown.
    pub function: String,
    /// The object and member that they touch, empty when unknown.
    pub member: String,
}

impl SourceRoot {
    /// The root at an absolute path.
    pub fn new(path: &str) -> SourceRoot {
        SourceRoot(parts(path))
    }

    /// The path below the root; none when it leads elsewhere. A relative path is below it.
    fn below(&self, path: &str) -> Option<String> {
        let parts = parts(path);
        let below = match path.starts_with('/') {
            true => parts.strip_prefix(self.0.as_slice())?,
            false => parts.as_slice(),
        };
        let is_inside = below.first().is_some_and(|first| first != "..");
        is_inside.then(|| below.join("/"))
    }

    fn place(&self, row: &RowReport) -> Option<Place> {
        let (file, line) = split(&row.source)?;
        let below = self.below(file);
        Some(Place {
            is_below_root: below.is_some(),
            file: below.unwrap_or_else(|| file.to_owned()),
            line,
            function: row.function.clone(),
            member: row.member.clone(),
        })
    }
}

/// The parts of a path, with `.` and `..` resolved by name.
fn parts(path: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| last != "..") => {
                parts.pop();
            }
            // Above the root of all files is that root.
            ".." if path.starts_with('/') => {}
            part => parts.push(part.to_owned()),
        }
    }
    parts
}

/// File and line of `file:line`.
fn split(source: &str) -> Option<(&str, Option<u32>)> {
    match source.rsplit_once(':') {
        Some((file, line)) => match line.parse::<u32>() {
            Ok(line) => Some((file, (line > 0).then_some(line))),
            Err(_) => Some((source, None)),
        },
        None => (!source.is_empty()).then_some((source, None)),
    }
}

/// The places of rows, each once: those below the root first, then the costliest first.
pub(super) fn places_of(root: &SourceRoot, rows: &[&RowReport]) -> Vec<Place> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| std::cmp::Reverse((row.lost_cycles, row.access_count)));
    let mut known = BTreeSet::new();
    let places = rows.into_iter().filter_map(|row| root.place(row));
    let mut places: Vec<Place> = places
        .filter(|place| known.insert((place.file.clone(), place.line)))
        .collect();
    // Stable: cost decides among those below the root.
    places.sort_by_key(|place| !place.is_below_root);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_root_are_relative() {
        let root = SourceRoot::new("/src/project/");
        let below = |path: &str| root.below(path);
        assert_eq!(below("/src/project/src/./a/../b.c"), Some("src/b.c".into()));
        assert_eq!(below("src/b.c"), Some("src/b.c".into()));
        assert_eq!(below("/src/project2/b.c"), None);
        assert_eq!(below("/src/project/../b.c"), None);
        assert_eq!(below("../b.c"), None);
        assert_eq!(below("/../../src/project/b.c"), Some("b.c".into()));
        assert_eq!(
            SourceRoot::new("/").below("/usr/a.h"),
            Some("usr/a.h".into())
        );
    }

    #[test]
    fn a_source_is_file_and_line() {
        assert_eq!(split("a.c:12"), Some(("a.c", Some(12))));
        assert_eq!(split("a:b.c"), Some(("a:b.c", None)));
        assert_eq!(split("a.c:0"), Some(("a.c", None)));
        assert_eq!(split(""), None);
    }
}
