//! Pages of runs beside each other: a recording before and after a change, recordings of one load.

use serde_json::{Value, json};

use super::data::table;
use super::{PAGE_SCHEMA, html};
use crate::fields::{
    side, whatif_line, whatif_member, whatif_move, whatif_object, whatif_run, whatif_thread,
};
use crate::side_by_side::SideBySide;
use crate::whatif::WhatifView;

/// The page of `hitm whatif`.
pub fn whatif(view: &WhatifView) -> String {
    let report = &view.report;
    let runs = [view.run.before.clone(), view.run.after.clone()];
    let command = report.command.join(" ");
    let subtitle = match report.layouts.as_slice() {
        [] => "Run again on another machine, or with other places of threads.".to_owned(),
        names => format!("Run again with other layouts: {}.", names.join(", ")),
    };
    let tables = vec![
        named("The two runs", table(whatif_run::ALL, &runs)),
        named("Lines", table(whatif_line::ALL, &report.lines)),
        named("Threads", table(whatif_thread::ALL, &view.threads)),
        named("Moved members", table(whatif_member::ALL, &report.members)),
        named("Moved objects", table(whatif_object::ALL, &report.objects)),
        named(
            "Moves",
            table(whatif_move::ALL, std::slice::from_ref(&report.moves)),
        ),
    ];
    let mut notes = report.notes.clone();
    let (lines, objects) = view.left_out;
    if lines + objects > 0 {
        notes.push(format!(
            "{lines} lines and {objects} objects are left out; --top shows more"
        ));
    }
    let page = Comparison {
        title: format!("hitm whatif: {command}"),
        subtitle,
        labels: vec!["as recorded".to_owned(), "as replayed".to_owned()],
        charts: json!([
            chart(
                "Cycles lost on each line",
                "lines",
                1,
                &["lost_cycles_before", "lost_cycles_after"]
            ),
            chart(
                "Cycles of each thread",
                "threads",
                2,
                &["cycles_before", "cycles_after"]
            ),
        ]),
        tables,
        notes,
    };
    page.html()
}

/// The page of `hitm diff`.
pub fn diff(sides: &SideBySide) -> String {
    let tables = vec![
        named("All", table(side::ALL, std::slice::from_ref(&sides.all))),
        named("By place", table(side::ALL, &sides.places)),
        named("By function", table(side::ALL, &sides.functions)),
        named("By function and place", table(side::ALL, &sides.uses)),
    ];
    let page = Comparison {
        title: format!("hitm diff: {}", sides.labels.join(", ")),
        subtitle: "Recordings of one load side by side: where each loses time, and who.".to_owned(),
        labels: sides.labels.clone(),
        charts: json!([
            chart("Cycles lost at each place", "places", 1, &["lost_cycles"]),
            chart("HITM at each place", "hitm", 1, &["hitm_count"]),
            chart(
                "Cycles lost in each function",
                "functions",
                2,
                &["lost_cycles"]
            ),
        ]),
        tables,
        notes: sides.sentences(),
    };
    page.html()
}

/// Runs beside each other: charts of columns of its tables.
struct Comparison {
    title: String,
    subtitle: String,
    /// Names of the runs.
    labels: Vec<String>,
    charts: Value,
    tables: Vec<Value>,
    notes: Vec<String>,
}

impl Comparison {
    fn html(self) -> String {
        html(json!({
            "schema": PAGE_SCHEMA,
            "kind": "comparison",
            "title": self.title,
            "subtitle": self.subtitle,
            "labels": self.labels,
            "charts": self.charts,
            "tables": self.tables,
            "notes": self.notes,
        }))
    }
}

fn named(caption: &str, mut table: Value) -> Value {
    table["caption"] = json!(caption);
    table
}

/// A chart of a table's columns: one for each run, or one whose values are lists by run.
fn chart(title: &str, name: &str, table: usize, columns: &[&str]) -> Value {
    json!({ "title": title, "name": format!("hitm-{name}"), "table": table, "rows": "name", "columns": columns })
}
