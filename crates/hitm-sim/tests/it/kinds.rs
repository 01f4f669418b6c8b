//! Declarations of kinds of workloads: the table of their metrics in docs/formats/sim.md, and the keys that
//! generators of scenarios use. `UPDATE_EXPECT=1 cargo test -p hitm-sim --test it -- kinds` writes the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;
use hitm_base::Random;
use hitm_sim::scenario::{Figure, Scenario, workload_kinds};
use hitm_test::Choices;
use hitm_test::text::{self, WorkloadKeys};

const HEADING: &str = "\n## Metrics of workloads\n";
const HEAD: &str = "| id | unit | meaning |\n|---|---|---|\n";

/// A row for each figure, with the workloads that have it.
fn rows() -> String {
    let mut rows: Vec<(Figure, Vec<&str>)> = Vec::new();
    for kind in workload_kinds() {
        for figure in kind.figures.concat() {
            match rows.iter_mut().find(|row| row.0 == figure) {
                Some(row) if row.1.contains(&kind.default_name) => {}
                Some(row) => row.1.push(kind.default_name),
                None => rows.push((figure, vec![kind.default_name])),
            }
        }
    }
    let mut text = String::new();
    for (figure, names) in rows {
        let ids: Vec<String> = names
            .iter()
            .map(|name| format!("`{name}.{}`", figure.id))
            .collect();
        let (unit, description) = (figure.unit, figure.description);
        writeln!(text, "| {} | {unit} | {description} |", ids.join(", ")).unwrap();
    }
    text
}

#[test]
fn the_document_has_every_metric_of_every_kind() {
    let document = include_str!("../../../../docs/formats/sim.md");
    let (before, rest) = document.split_once(HEADING).expect("the heading is there");
    let (between, rest) = rest.split_once(HEAD).expect("a table is below it");
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    let written = [before, HEADING, between, HEAD, &rows(), &rest[end..]].concat();
    expect_file!["../../../../docs/formats/sim.md"].assert_eq(&written);
}

/// Scenarios that are made of one kind alone, of which some are sound.
const TRIES: u64 = 60;

#[test]
fn keys_of_every_kind_make_scenarios_that_are_read() {
    let mut read = BTreeMap::new();
    for kind in workload_kinds() {
        let keys = WorkloadKeys {
            kind: kind.name,
            needed: kind.needed,
            optional: kind.optional,
        };
        let sound = (0..TRIES).filter(|seed| {
            let mut random = Random::new(*seed);
            let bytes: Vec<u8> = (0..4096).map(|_| random.below(256) as u8).collect();
            let (text, settings) = text::scenario(&mut Choices::new(&bytes), &[keys]);
            Scenario::parse_with(&text, "made", &settings).is_ok()
        });
        read.insert(kind.name, sound.count());
    }
    let none: Vec<_> = read.iter().filter(|(_, count)| **count == 0).collect();
    assert!(none.is_empty(), "none is read of {none:?}; all: {read:?}");
}

#[test]
fn kinds_have_names_of_their_own() {
    let names: Vec<&str> = workload_kinds().map(|kind| kind.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "{names:?}");
    assert_eq!(names.len(), 18);
}
