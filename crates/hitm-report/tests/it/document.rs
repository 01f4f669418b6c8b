//! docs/formats/report.md describes every field.

use hitm_report::SCHEMA;
use hitm_report::fields::{
    Field, LINE_FIELDS, OBJECT_FIELDS, QUIET_FIELDS, ROW_FIELDS, RUN_FIELDS, SOURCE_FIELDS,
    THREAD_FIELDS, TOTALS_FIELDS,
};

const DOCUMENT: &str = include_str!("../../../../docs/formats/report.md");

/// The part of the document under a heading, up to the next one.
fn section(heading: &str) -> &'static str {
    let start = DOCUMENT.find(&format!("\n## {heading}\n"));
    let start = start.unwrap_or_else(|| panic!("docs/formats/report.md has no section {heading}"));
    let body = &DOCUMENT[start + 4..];
    body.split("\n## ").next().unwrap_or(body)
}

fn check<T>(heading: &str, fields: &[Field<T>]) {
    let section = section(heading);
    let described = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .count();
    for field in fields {
        let row = format!(
            "| `{}` | {} | {} |",
            field.id,
            field.unit.label(),
            field.description
        );
        assert!(
            section.contains(&row),
            "under {heading}, docs/formats/report.md lacks\n{row}"
        );
    }
    assert_eq!(
        described,
        fields.len(),
        "rows under {heading} that are no field"
    );
}

#[test]
fn every_field_is_described() {
    check("run", RUN_FIELDS);
    check("totals", TOTALS_FIELDS);
    check("counts", SOURCE_FIELDS);
    check("lines", LINE_FIELDS);
    check("objects", OBJECT_FIELDS);
    check("rows", ROW_FIELDS);
    check("quiet", QUIET_FIELDS);
    check("threads", THREAD_FIELDS);
}

#[test]
fn the_document_is_about_this_schema() {
    assert!(DOCUMENT.contains(&format!("`schema` is {SCHEMA}")));
}
