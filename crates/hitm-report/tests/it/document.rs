//! docs/formats/report.md, live.md, whatif.md and sim.md describe every field.

use hitm_report::fields::{
    BOX_FIELDS, CALL_FRAME_FIELDS, CALL_PATH_FIELDS, CELL_FIELDS, COMPARED_FIELDS, FIGHT_FIELDS,
    FILTERED_FIELDS, FRAME_FIELDS, Field, HANDED_FIELDS, HANDED_ROW_FIELDS, LAYOUT_MEMBER_FIELDS,
    LINE_FIELDS, MACHINE_FIELDS, MEMBER_RUNS_FIELDS, OBJECT_FIELDS, ONE_RUN_FIELDS, PROCESS_FIELDS,
    QUIET_FIELDS, REVIEW_COST_FIELDS, REVIEW_COVERAGE_FIELDS, REVIEW_FIELDS, REVIEW_LINE_FIELDS,
    REVIEW_MEMBER_FIELDS, REVIEW_RENAME_FIELDS, REVIEW_TYPE_FIELDS, REVIEW_UNMATCHED_FIELDS,
    REVIEW_WORSE_FIELDS, ROW_FIELDS, RUN_FIELDS, RUNS_FIELDS, SEAT_FIELDS, SIDE_FIELDS,
    SOURCE_FIELDS, STACK_FIELDS, SUMMARY_FIELDS, SWEEP_EFFECT_FIELDS, SWEEP_FAILURE_FIELDS,
    SWEEP_KEY_FIELDS, SWEEP_METRIC_FIELDS, SWEEP_RUN_FIELDS, THREAD_FIELDS, TIME_FIELDS,
    TOTAL_ROW_FIELDS, TOTALS_FIELDS, TRANSFER_FIELDS, TYPE_FIELDS, TYPE_LINE_FIELDS,
    TYPE_ROW_FIELDS, UNKNOWN_FIELDS, UNNAMED_FIELDS, WHATIF_LINE_FIELDS, WHATIF_MEMBER_FIELDS,
    WHATIF_MOVE_FIELDS, WHATIF_OBJECT_FIELDS, WHATIF_RUN_FIELDS, WHATIF_THREAD_FIELDS,
};
use hitm_report::live;
use hitm_report::review::REVIEW_SCHEMA;
use hitm_report::sim::fields as sim;
use hitm_report::whatif::WHATIF_SCHEMA;
use hitm_report::{SCHEMA, SIDE_BY_SIDE_SCHEMA, TYPE_SCHEMA};

const CI: &str = include_str!("../../../../docs/formats/ci.md");
const LAYOUT: &str = include_str!("../../../../docs/formats/layout.md");
const LIVE: &str = include_str!("../../../../docs/formats/live.md");
const PAGE: &str = include_str!("../../../../docs/formats/page.md");
const REPORT: &str = include_str!("../../../../docs/formats/report.md");
const TYPE: &str = include_str!("../../../../docs/formats/type.md");
const REVIEW: &str = include_str!("../../../../docs/formats/review.md");
const SIDES: &str = include_str!("../../../../docs/formats/side-by-side.md");
const SIM: &str = include_str!("../../../../docs/formats/sim.md");
const SWEEP: &str = include_str!("../../../../docs/formats/sweep.md");
const WHATIF: &str = include_str!("../../../../docs/formats/whatif.md");

/// The part of a document under a heading, up to the next one.
fn section(document: &'static str, heading: &str) -> &'static str {
    let start = document.find(&format!("\n## {heading}\n"));
    let start = start.unwrap_or_else(|| panic!("the document has no section {heading}"));
    let body = &document[start + 4..];
    body.split("\n## ").next().unwrap_or(body)
}

fn check<T>(document: &'static str, heading: &str, fields: &[Field<T>]) {
    let section = section(document, heading);
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
            "under {heading}, the document lacks\n{row}"
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
    check(REPORT, "run", RUN_FIELDS);
    check(REPORT, "runs", RUNS_FIELDS);
    check(REPORT, "each run", ONE_RUN_FIELDS);
    check(REPORT, "members of runs", MEMBER_RUNS_FIELDS);
    check(REPORT, "totals", TOTALS_FIELDS);
    check(REPORT, "counts", SOURCE_FIELDS);
    check(REPORT, "lines", LINE_FIELDS);
    check(REPORT, "fights", FIGHT_FIELDS);
    check(REPORT, "objects", OBJECT_FIELDS);
    check(REPORT, "rows", ROW_FIELDS);
    check(REPORT, "call_paths", CALL_PATH_FIELDS);
    check(REPORT, "frames", CALL_FRAME_FIELDS);
    check(REPORT, "totals_by", TOTAL_ROW_FIELDS);
    check(REPORT, "filtered", FILTERED_FIELDS);
    check(REPORT, "quiet", QUIET_FIELDS);
    check(REPORT, "handed_over", HANDED_FIELDS);
    check(REPORT, "objects and takers", HANDED_ROW_FIELDS);
    check(REPORT, "threads", THREAD_FIELDS);
    check(REPORT, "processes", PROCESS_FIELDS);
    check(REPORT, "of_machine", MACHINE_FIELDS);
    check(REPORT, "unnamed", UNNAMED_FIELDS);
    check(CI, "compared", COMPARED_FIELDS);
    check(LAYOUT, "The table of members", LAYOUT_MEMBER_FIELDS);
    check(SWEEP, "run", SWEEP_RUN_FIELDS);
    check(SWEEP, "keys", SWEEP_KEY_FIELDS);
    check(SWEEP, "metrics", SWEEP_METRIC_FIELDS);
    check(SWEEP, "effects", SWEEP_EFFECT_FIELDS);
    check(SWEEP, "failures", SWEEP_FAILURE_FIELDS);
    check(PAGE, "summary", SUMMARY_FIELDS);
    check(PAGE, "boxes", BOX_FIELDS);
    check(PAGE, "seats", SEAT_FIELDS);
    check(PAGE, "cells", CELL_FIELDS);
    check(PAGE, "transfers", TRANSFER_FIELDS);
    check(PAGE, "unknown", UNKNOWN_FIELDS);
    check(PAGE, "frames", FRAME_FIELDS);
    check(PAGE, "stacks", STACK_FIELDS);
    check(PAGE, "times", TIME_FIELDS);
    check(LIVE, "run", live::LIVE_RUN_FIELDS);
    check(LIVE, "locks", live::LIVE_LOCK_FIELDS);
    check(LIVE, "callers", live::LIVE_CALLER_FIELDS);
    check(LIVE, "threads", live::LIVE_THREAD_FIELDS);
    check(LIVE, "program", live::LIVE_PROGRAM_FIELDS);
    check(LIVE, "locks of the program", live::LIVE_PROGRAM_LOCK_FIELDS);
    check(LIVE, "throttled groups", live::LIVE_GROUP_FIELDS);
    check(LIVE, "throttled tasks", live::LIVE_THROTTLED_FIELDS);
    check(LIVE, "wake-ups", live::LIVE_WAKEUP_FIELDS);
    check(LIVE, "run delays", live::LIVE_RUN_DELAY_FIELDS);
    check(LIVE, "load", live::whatif::LIVE_LOAD_FIELDS);
    check(LIVE, "what-if rows", live::whatif::LIVE_WHATIF_FIELDS);
    check(SIDES, "rows", SIDE_FIELDS);
    check(TYPE, "type", TYPE_FIELDS);
    check(TYPE, "lines", TYPE_LINE_FIELDS);
    check(TYPE, "rows", TYPE_ROW_FIELDS);
    check(WHATIF, "run", WHATIF_RUN_FIELDS);
    check(WHATIF, "threads", WHATIF_THREAD_FIELDS);
    check(WHATIF, "lines", WHATIF_LINE_FIELDS);
    check(WHATIF, "members", WHATIF_MEMBER_FIELDS);
    check(WHATIF, "objects", WHATIF_OBJECT_FIELDS);
    check(WHATIF, "moves", WHATIF_MOVE_FIELDS);
    check(REVIEW, "review", REVIEW_FIELDS);
    check(REVIEW, "types", REVIEW_TYPE_FIELDS);
    check(REVIEW, "costs", REVIEW_COST_FIELDS);
    check(REVIEW, "lines", REVIEW_LINE_FIELDS);
    check(REVIEW, "members", REVIEW_MEMBER_FIELDS);
    check(REVIEW, "worse", REVIEW_WORSE_FIELDS);
    check(REVIEW, "unmatched", REVIEW_UNMATCHED_FIELDS);
    check(REVIEW, "renamed", REVIEW_RENAME_FIELDS);
    check(REVIEW, "coverage", REVIEW_COVERAGE_FIELDS);
}

#[test]
fn the_document_is_about_this_schema() {
    assert!(REPORT.contains(&format!("`schema` is {SCHEMA}")));
    assert!(PAGE.contains(&format!("`schema` is {}", hitm_report::page::PAGE_SCHEMA)));
    assert!(WHATIF.contains(&format!("`schema` is {WHATIF_SCHEMA}")));
    assert!(REVIEW.contains(&format!("`schema` is {REVIEW_SCHEMA}")));
    assert!(SIDES.contains(&format!("`schema` is {SIDE_BY_SIDE_SCHEMA}")));
    assert!(TYPE.contains(&format!("`schema` is {TYPE_SCHEMA}")));
}

#[test]
fn every_field_of_a_simulation_is_described() {
    check(SIM, "the scenario", sim::SCENARIO_FIELDS);
    check(SIM, "variants", sim::VARIANT_FIELDS);
    check(SIM, "metrics", sim::METRIC_FIELDS);
    check(SIM, "runs", sim::RUN_FIELDS);
    check(SIM, "lines", sim::LINE_FIELDS);
    check(SIM, "rows", sim::ROW_FIELDS);
    check(SIM, "comparisons", sim::COMPARISON_FIELDS);
    check(SIM, "crossing", sim::CROSSING_FIELDS);
    check(SIM, "sensitivity", sim::VARIED_FIELDS);
    check(SIM, "numbers", sim::NUMBER_FIELDS);
    check(SIM, "figures", sim::FIGURE_FIELDS);
    check(SIM, "effects", sim::EFFECT_FIELDS);
    assert!(SIM.contains(&format!("`schema` is {}", hitm_report::sim::SCHEMA)));
}
