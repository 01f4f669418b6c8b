//! The tables of fields in docs/formats are those of the declarations: `UPDATE_EXPECT=1` writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use expect_test::expect_file;
use hitm_fields::Column;
use hitm_report::ci::Rule;
use hitm_report::explain::{EXPLAIN_SCHEMA, FieldsOf, documented};
use hitm_report::glossary::GROUPS;
use hitm_report::review::REVIEW_SCHEMA;
use hitm_report::whatif::WHATIF_SCHEMA;
use hitm_report::{FindingKind, SCHEMA, SIDE_BY_SIDE_SCHEMA, TYPE_SCHEMA};

/// The row of a column.
fn row(column: &Column) -> String {
    let (id, unit) = (column.id, column.unit.label());
    format!("| `{id}` | {unit} | {} |\n", column.description)
}

/// Columns that share a row rather than having one each.
const SHARED_MIN: usize = 4;

/// Rows of a table. Several columns that a table above it has word for word share one row, which leads there.
fn rows(table: &FieldsOf, above: &[&FieldsOf]) -> String {
    let mut left: Vec<&Column> = table.columns.iter().collect();
    let mut shared = String::new();
    for home in above {
        let is_there = |column: &&Column| home.columns.iter().any(|one| row(one) == row(column));
        let (there, others): (Vec<&Column>, Vec<&Column>) =
            left.iter().copied().partition(is_there);
        if there.len() < SHARED_MIN {
            continue;
        }
        let ids: Vec<&str> = there.iter().map(|column| column.id).collect();
        let (ids, heading) = (ids.join("`, `"), home.heading);
        let anchor = heading.replace(' ', "-");
        writeln!(shared, "| `{ids}` | | as in [{heading}](#{anchor}) |").unwrap();
        left = others;
    }
    left.iter().map(|column| row(column)).collect::<String>() + &shared
}

/// Columns that reports of samples leave out, by table.
fn left_out_rows() -> String {
    let mut rows = String::new();
    for table in documented()
        .iter()
        .filter(|table| !table.recorded.is_empty())
    {
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
    let tables = documented();
    for (place, table) in tables.iter().enumerate() {
        let document = documents
            .entry(table.document)
            .or_insert_with(|| read(table.document));
        let head = "| field | unit | meaning |\n";
        let above = tables[..place].iter();
        let above: Vec<&FieldsOf> = above.filter(|one| one.document == table.document).collect();
        *document = with_rows(document, table.heading, head, &rows(table, &above));
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
fn the_guide_has_the_glossary() {
    let path = path("../guide/glossary");
    let mut guide = std::fs::read_to_string(&path).unwrap();
    for group in GROUPS {
        let mut rows = String::new();
        for term in group.terms {
            let also = term.also.join(", ");
            let more = term.more.map(link).unwrap_or_default();
            writeln!(
                rows,
                "| {} | {} | {also} | {more} |",
                term.name, term.meaning
            )
            .unwrap();
        }
        let head = "| word | meaning | also | more |\n";
        guide = with_rows(&guide, group.title, head, &rows);
    }
    expect_file![path].assert_eq(&guide);
}

/// A document in docs/, as the guide links it.
fn link(document: &str) -> String {
    let name = document.split('#').next().unwrap_or(document);
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.trim_end_matches(".md").replace('-', " ");
    match document.strip_prefix("guide/") {
        Some(beside) => format!("[{name}]({beside})"),
        None => format!("[{name}](../{document})"),
    }
}

#[test]
fn ids_are_unique_and_spelled_alike() {
    for table in documented() {
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
        ("explain", EXPLAIN_SCHEMA.into()),
        ("sim", hitm_report::sim::SCHEMA.into()),
    ];
    for (document, schema) in schemas {
        assert!(
            read(document).contains(&format!("`schema` is {schema}")),
            "{document}"
        );
    }
}
