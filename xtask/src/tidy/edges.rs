//! The table of allowed dependencies in ARCHITECTURE.md against `cargo metadata`.
//!
//! The table is the one whose head starts with `| crate | may use |`; crates are written in backquotes
//! and `-` stands for none. Development dependencies are free: tests may look at anything.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checkout, Package};

const DOCUMENT: &str = "ARCHITECTURE.md";
const TABLE_HEAD: &str = "| crate | may use |";
/// Not part of the product: it may use the crates that it measures.
const FREE: &str = "xtask";

type Edges = BTreeMap<String, BTreeSet<String>>;

pub(super) fn find(checkout: &Checkout) -> Vec<String> {
    let Some(document) = checkout.text(DOCUMENT) else {
        return vec![format!("{DOCUMENT} is missing")];
    };
    match allowed(document) {
        Ok(allowed) => compare(&actual(&checkout.packages), &allowed),
        Err(problem) => vec![problem],
    }
}

/// Reads the table.
fn allowed(document: &str) -> Result<Edges, String> {
    let mut lines = document
        .lines()
        .skip_while(|line| !line.starts_with(TABLE_HEAD));
    if lines.next().is_none() {
        return Err(format!(
            "{DOCUMENT} has no table with the head {TABLE_HEAD}"
        ));
    }
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let mut edges = Edges::new();
    for row in rows {
        let mut cells = row.trim_matches('|').split('|');
        let name = cells.next().map(quoted).unwrap_or_default();
        let [name] = name.as_slice() else {
            return Err(format!(
                "{DOCUMENT}: no single crate in backquotes in the row {row}"
            ));
        };
        let uses = cells.next().map(quoted).unwrap_or_default();
        if edges
            .insert(name.clone(), uses.into_iter().collect())
            .is_some()
        {
            return Err(format!("{DOCUMENT} has two rows for {name}"));
        }
    }
    Ok(edges)
}

/// Texts between backquotes.
pub(super) fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn actual(packages: &[Package]) -> Edges {
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut edges = Edges::new();
    for package in packages {
        if package.name == FREE {
            continue;
        }
        let inside = package.dependencies.iter().filter(|dependency| {
            names.contains(dependency.name.as_str()) && dependency.kind.as_deref() != Some("dev")
        });
        let uses = inside.map(|dependency| dependency.name.clone()).collect();
        edges.insert(package.name.clone(), uses);
    }
    edges
}

fn compare(actual: &Edges, allowed: &Edges) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, uses) in actual {
        let Some(allowed) = allowed.get(name) else {
            problems.push(format!("{name} has no row in {DOCUMENT}"));
            continue;
        };
        let forbidden = uses.difference(allowed);
        problems.extend(forbidden.map(|used| format!("{name} uses {used}")));
    }
    let stale = allowed.keys().filter(|name| !actual.contains_key(*name));
    problems
        .extend(stale.map(|name| format!("{DOCUMENT} has a row for {name}, which is no crate")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(&str, &[&str])]) -> Edges {
        let owned = |uses: &[&str]| uses.iter().map(|used| (*used).to_owned()).collect();
        pairs
            .iter()
            .map(|(name, uses)| ((*name).to_owned(), owned(uses)))
            .collect()
    }

    #[test]
    fn the_table_is_read_up_to_its_end() {
        let document = "\
# Title
| crate | may use | its job |
|---|---|---|
| `base` | - | units |
| `trace` | `base`, `other` | files |

| `not` | `this` |
";
        let expected = edges(&[("base", &[]), ("trace", &["base", "other"])]);
        assert_eq!(allowed(document), Ok(expected));
        assert!(allowed("# Title\n").is_err());
        assert!(allowed("| crate | may use |\n|---|---|\n| base | - |\n").is_err());
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_found() {
        let allowed = edges(&[("base", &[]), ("trace", &["base"]), ("gone", &[])]);
        let actual = edges(&[("base", &["trace"]), ("trace", &["base"]), ("new", &[])]);
        assert_eq!(
            compare(&actual, &allowed),
            [
                "base uses trace",
                "new has no row in ARCHITECTURE.md",
                "ARCHITECTURE.md has a row for gone, which is no crate",
            ]
        );
    }
}
