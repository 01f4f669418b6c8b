//! The table of who touches the world in ARCHITECTURE.md against the sources.
//!
//! The table is the one whose head starts with `| touches | crates |`. Its rows are those of [`TOUCHES`], by their first
//! word.

use std::collections::BTreeSet;

use super::edges::quoted;
use super::{Checkout, File};

const DOCUMENT: &str = "ARCHITECTURE.md";
const TABLE_HEAD: &str = "| touches | crates |";

/// Parts of the world, and the text by which a touch is seen.
const TOUCHES: &[(&str, &[&str])] = &[
    ("files", &["std::fs", "File::open(", "File::create("]),
    (
        "threads",
        &[
            "thread::spawn",
            "thread::scope",
            "thread::Builder",
            "rayon::",
        ],
    ),
    ("processes", &["process::Command", "Command::new("]),
];

pub(super) fn find(checkout: &Checkout) -> Vec<String> {
    let document = checkout.text(DOCUMENT).unwrap_or_default();
    let mut rows = document
        .lines()
        .map(str::trim_start)
        .skip_while(|line| !line.starts_with(TABLE_HEAD));
    if rows.next().is_none() {
        return vec![format!(
            "{DOCUMENT} has no table with the head {TABLE_HEAD}"
        )];
    }
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let mut problems = Vec::new();
    for (what, signs) in TOUCHES {
        let row = rows
            .iter()
            .find(|row| row.starts_with(&format!("| {what} ")));
        let stated: BTreeSet<String> = row
            .map(|row| quoted(row))
            .unwrap_or_default()
            .into_iter()
            .collect();
        let found: BTreeSet<String> = checkout
            .files
            .iter()
            .filter_map(|file| of_file(file, signs))
            .collect();
        let unsaid = found.difference(&stated);
        problems.extend(
            unsaid.map(|name| format!("{name} touches {what}, which {DOCUMENT} does not say")),
        );
        let stale = stated.difference(&found);
        problems
            .extend(stale.map(|name| {
                format!("{DOCUMENT} says that {name} touches {what}, and it does not")
            }));
    }
    problems
}

/// The crate of a source file that has one of these signs, comments and tests not counted.
fn of_file(file: &File, signs: &[&str]) -> Option<String> {
    let (name, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    if !path.ends_with(".rs")
        || path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
    {
        return None;
    }
    let text = file.text.as_deref()?;
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]");
    let mut code = code.filter(|line| !line.trim_start().starts_with("//"));
    let is_touched = code.any(|line| signs.iter().any(|sign| has_words(line, sign)));
    is_touched.then(|| name.to_owned())
}

/// Returns true if a line has a sign that does not begin inside a longer word.
fn has_words(line: &str, sign: &str) -> bool {
    line.match_indices(sign).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|character| character.is_alphanumeric() || character == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(row: &str, code: &str) -> Vec<String> {
        let document = format!(
            "{TABLE_HEAD}\n|---|---|\n| files {row} |\n| threads | - |\n| processes | - |\n"
        );
        let files = vec![
            File::of(DOCUMENT, &document),
            File::of("crates/one/src/lib.rs", code),
        ];
        find(&Checkout {
            files,
            packages: Vec::new(),
        })
    }

    #[test]
    fn what_is_touched_is_said() {
        let code = "use std::fs;\n";
        assert!(problems("| `one`", code).is_empty());
        assert_eq!(
            problems("| -", code),
            ["one touches files, which ARCHITECTURE.md does not say"]
        );
        assert!(problems("| -", "RecordingFile::open(path);\n").is_empty());
        let quiet = "// std::fs\n#[cfg(test)]\nuse std::fs;\n";
        assert!(problems("| -", quiet).is_empty());
        assert_eq!(
            problems("| `one`", quiet),
            ["ARCHITECTURE.md says that one touches files, and it does not"]
        );
    }
}
