//! The tables of fields in docs/formats are those of the declarations: `UPDATE_EXPECT=1` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use expect_test::expect_file;
use hitm_live::throttle::{group_row, task_row};
use hitm_live::wakeups::{run_delay, task_latencies};
use hitm_report::ci::Rule;
use hitm_report::fields::{self, Column, Field};
use hitm_report::review::REVIEW_SCHEMA;
use hitm_report::sim::fields as sim;
use hitm_report::whatif::WHATIF_SCHEMA;
use hitm_report::{FindingKind, SCHEMA, SIDE_BY_SIDE_SCHEMA, TYPE_SCHEMA, live};

/// A table of a document.
struct Documented {
    document: &'static str,
    /// The heading of the section that has the table.
    heading: &'static str,
    columns: Vec<Column>,
    /// Ids of the columns that samples do not have.
    recorded: Vec<&'static str>,
}

fn table<T>(document: &'static str, heading: &'static str, fields: &[Field<T>]) -> Documented {
    Documented {
        document,
        heading,
        columns: fields.iter().map(Field::column).collect(),
        recorded: fields
            .iter()
            .filter(|field| !field.is_of(true))
            .map(|field| field.id)
            .collect(),
    }
}

/// Every table of fields.
fn tables() -> Vec<Documented> {
    let documents = [
        of_reports(),
        of_pages(),
        of_hosts(),
        of_changes(),
        of_models(),
    ];
    documents.into_iter().flatten().collect()
}

fn of_reports() -> Vec<Documented> {
    vec![
        table("report", "run", fields::run::ALL),
        table("report", "runs", fields::runs::ALL),
        table("report", "each run", fields::one_run::ALL),
        table("report", "members of runs", fields::member_runs::ALL),
        table("report", "totals", fields::totals::ALL),
        table("report", "counts", fields::source::ALL),
        table("report", "findings", fields::finding::ALL),
        table("report", "places", fields::finding_place::ALL),
        table("report", "pairs", fields::pair::ALL),
        table("report", "lines", fields::line::ALL),
        table("report", "fights", fields::fight::ALL),
        table("report", "objects", fields::object::ALL),
        table("report", "rows", fields::row::ALL),
        table("report", "call_paths", fields::call_path::ALL),
        table("report", "frames", fields::call_frame::ALL),
        table("report", "totals_by", fields::total_row::ALL),
        table("report", "filtered", fields::filtered::ALL),
        table("report", "quiet", fields::quiet::ALL),
        table("report", "handed_over", fields::handed::ALL),
        table("report", "objects and takers", fields::handed_row::ALL),
        table("report", "waiting", fields::waiting::ALL),
        table("report", "waits", fields::wait_row::ALL),
        table("report", "threads", fields::thread::ALL),
        table("report", "processes", fields::process::ALL),
        table("report", "of_machine", fields::machine::ALL),
        table("report", "unnamed", fields::unnamed::ALL),
        table("ci", "compared", fields::compared::ALL),
        table("type", "type", fields::type_report::ALL),
        table("type", "lines", fields::type_line::ALL),
        table("type", "rows", fields::type_row::ALL),
        table("side-by-side", "rows", fields::side::ALL),
    ]
}

fn of_pages() -> Vec<Documented> {
    vec![
        table("page", "summary", fields::summary::ALL),
        table("page", "boxes", fields::line_box::ALL),
        table("page", "seats", fields::seat::ALL),
        table("page", "cells", fields::cell::ALL),
        table("page", "transfers", fields::transfer::ALL),
        table("page", "unknown", fields::unknown::ALL),
        table("page", "frames", fields::frame::ALL),
        table("page", "stacks", fields::stack::ALL),
        table("page", "times", fields::time::ALL),
    ]
}

fn of_hosts() -> Vec<Documented> {
    vec![
        table("live", "run", live::live_run::ALL),
        table("live", "locks", live::live_lock::ALL),
        table("live", "callers", live::live_caller::ALL),
        table("live", "threads", live::live_thread::ALL),
        table("live", "program", live::live_program::ALL),
        table("live", "locks of the program", live::live_program_lock::ALL),
        table("live", "throttled groups", group_row::ALL),
        table("live", "throttled tasks", task_row::ALL),
        table("live", "wake-ups", task_latencies::ALL),
        table("live", "run delays", run_delay::ALL),
        table("live", "load", live::whatif::live_load::ALL),
        table("live", "what-if rows", live::whatif::live_whatif::ALL),
    ]
}

fn of_changes() -> Vec<Documented> {
    vec![
        table("layout", "The table of members", fields::layout_member::ALL),
        table("whatif", "run", fields::whatif_run::ALL),
        table("whatif", "threads", fields::whatif_thread::ALL),
        table("whatif", "lines", fields::whatif_line::ALL),
        table("whatif", "members", fields::whatif_member::ALL),
        table("whatif", "objects", fields::whatif_object::ALL),
        table("whatif", "moves", fields::whatif_move::ALL),
        table("review", "review", fields::review::ALL),
        table("review", "types", fields::review_type::ALL),
        table("review", "costs", fields::review_cost::ALL),
        table("review", "lines", fields::review_line::ALL),
        table("review", "members", fields::review_member::ALL),
        table("review", "worse", fields::review_worse::ALL),
        table("review", "unmatched", fields::review_unmatched::ALL),
        table("review", "renamed", fields::review_rename::ALL),
        table("review", "coverage", fields::review_coverage::ALL),
    ]
}

fn of_models() -> Vec<Documented> {
    vec![
        table("sweep", "run", fields::sweep_run::ALL),
        table("sweep", "keys", fields::sweep_key::ALL),
        table("sweep", "metrics", fields::sweep_metric::ALL),
        table("sweep", "effects", fields::sweep_effect::ALL),
        table("sweep", "failures", fields::sweep_failure::ALL),
        table("sim", "the scenario", sim::scenario::ALL),
        table("sim", "variants", sim::variant::ALL),
        table("sim", "metrics", sim::metric::ALL),
        table("sim", "runs", sim::outcome::ALL),
        table("sim", "lines", sim::line::ALL),
        table("sim", "rows", sim::row::ALL),
        table("sim", "comparisons", sim::comparison::ALL),
        table("sim", "crossing", sim::crossing::ALL),
        table("sim", "sensitivity", sim::varied::ALL),
        table("sim", "numbers", sim::number::ALL),
        table("sim", "figures", sim::figure::ALL),
        table("sim", "effects", sim::effect::ALL),
    ]
}

impl Documented {
    fn rows(&self) -> String {
        let mut rows = String::new();
        for column in &self.columns {
            let (id, unit) = (column.id, column.unit.label());
            writeln!(rows, "| `{id}` | {unit} | {} |", column.description).unwrap();
        }
        rows
    }
}

/// Columns that reports of samples leave out, by table.
fn left_out_rows() -> String {
    let mut rows = String::new();
    for table in tables().iter().filter(|table| !table.recorded.is_empty()) {
        let ids = table.recorded.join("`, `");
        writeln!(rows, "| {} | `{ids}` |", table.heading).unwrap();
    }
    rows
}

/// A document with these rows in the place of those that the first table with this head below a heading has.
fn with_rows(document: &str, heading: &str, head: &str, rows: &str) -> String {
    let heading = format!("\n## {heading}\n");
    let (before, section) = document
        .split_once(&heading)
        .unwrap_or_else(|| panic!("no section {heading}"));
    let head = format!(
        "{head}|---{}|\n",
        "|---".repeat(head.matches(" | ").count())
    );
    let (text, table) = section
        .split_once(&head)
        .unwrap_or_else(|| panic!("no table {heading}{head}"));
    assert!(!text.contains("\n## "), "no table {heading}{head}");
    let old = table
        .split_inclusive('\n')
        .take_while(|row| row.starts_with('|'));
    let rest = &table[old.map(str::len).sum::<usize>()..];
    format!("{before}{heading}{text}{head}{rows}{rest}")
}

fn path(document: &str) -> PathBuf {
    let formats = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats");
    PathBuf::from(formats).join(format!("{document}.md"))
}

fn read(document: &str) -> String {
    std::fs::read_to_string(path(document)).unwrap()
}

#[test]
fn documents_have_the_fields() {
    let mut documents: BTreeMap<&str, String> = BTreeMap::new();
    for table in tables() {
        let document = documents
            .entry(table.document)
            .or_insert_with(|| read(table.document));
        let head = "| field | unit | meaning |\n";
        *document = with_rows(document, table.heading, head, &table.rows());
    }
    let report = documents.get_mut("report").unwrap();
    *report = with_rows(
        report,
        "Samples",
        "| table | left out |\n",
        &left_out_rows(),
    );
    for (document, text) in documents {
        expect_file![path(document)].assert_eq(&text);
    }
}

#[test]
fn the_guide_has_the_verdicts() {
    let path = path("../guide/verdicts");
    let guide = std::fs::read_to_string(&path).unwrap();
    let mut rows = String::new();
    for rule in Rule::all().filter(|rule| matches!(rule, Rule::Finding(FindingKind::Contended(_))))
    {
        let (id, [_, meaning, remedy]) = (rule.id(), rule.help());
        let level = rule.level().name();
        writeln!(rows, "| `{id}` | {meaning} | {remedy} | {level} |").unwrap();
    }
    let head = "| verdict | what threads do | what to do | in CI |\n";
    expect_file![path].assert_eq(&with_rows(&guide, "All verdicts", head, &rows));
}

#[test]
fn ids_are_unique_and_spelled_alike() {
    for table in tables() {
        for (index, column) in table.columns.iter().enumerate() {
            let (id, description) = (column.id, column.description);
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(!id.is_empty() && id.chars().all(legal), "{id}");
            let twins = table.columns[..index].iter();
            assert!(
                twins.clone().all(|other| other.id != id),
                "{id} occurs twice"
            );
            assert!(!description.is_empty(), "{id} has no description");
            assert!(!description.ends_with('.'), "{id}: no full stop");
            assert!(!description.contains('|'), "{id}: no cell of a table");
        }
    }
}

#[test]
fn the_document_is_about_this_schema() {
    let schemas = [
        ("report", u64::from(SCHEMA)),
        ("page", hitm_report::page::PAGE_SCHEMA.into()),
        ("whatif", WHATIF_SCHEMA),
        ("review", REVIEW_SCHEMA),
        ("side-by-side", SIDE_BY_SIDE_SCHEMA.into()),
        ("type", TYPE_SCHEMA.into()),
        ("sim", hitm_report::sim::SCHEMA.into()),
    ];
    for (document, schema) in schemas {
        assert!(
            read(document).contains(&format!("`schema` is {schema}")),
            "{document}"
        );
    }
}
