//! The report as JSON: the fields of the tables under their ids, in the order of the tables.
//!
//! docs/formats/report.md describes the form; [`SCHEMA`] is its version.

pub mod compare;
pub mod of_type;
pub mod review;
pub mod side_by_side;
pub mod whatif;

use std::collections::BTreeMap;

use hitm_base::LineAddr;
use serde_json::json;

use crate::fields::{
    call_frame, call_path, fight, filtered, finding, finding_place, handed, handed_row, line,
    machine, member_runs, object, one_run, pair, process, quiet, row, run, runs, source, summary,
    thread, total_row, totals, unnamed, wait_row, waiting, watched,
};
use crate::model::{AccessCounts, CallPath, Finding, LineReport, Report, RowReport, SCHEMA};
use crate::object::{Node, Object, list, list_of_run};
use crate::runs::Runs;
use crate::summary::SummaryLine;

/// The report as one JSON object, indented, with a line feed at the end.
pub fn render(report: &Report) -> String {
    render_with(report, &[])
}

/// The same with the sentences of its [summary](crate::summary::of).
pub fn render_with(report: &Report, sentences: &[SummaryLine]) -> String {
    let is_sampled = report.is_sampled();
    let totals = Object::of_run(totals::ALL, &report.totals, is_sampled);
    let machine = report.of_machine.as_ref().map(|machine| {
        Object::of(machine::ALL, machine).with("unnamed", list(unnamed::ALL, &machine.unnamed))
    });
    let filtered = report.filtered.as_ref();
    let filtered = filtered.map(|one| Object::of_run(filtered::ALL, one, is_sampled));
    let totals_by = report.totals_by.iter().map(|totals| {
        let rows = list_of_run(total_row::ALL, &totals.rows, is_sampled);
        Object::default()
            .with("by", totals.by.id())
            .with("rows", rows)
    });
    let has_totals = !report.totals_by.is_empty();
    let lines = report.lines.iter().map(|line| of_line(report, line));
    let ranks = report.ranks();
    let findings = report.findings.iter();
    let findings = findings.map(|one| of_finding(report, one, &ranks));
    let has_pairs = !report.pairs.is_empty();
    let has_summary = !sentences.is_empty();
    let quiet = Object::of_run(quiet::ALL, &report.quiet, is_sampled);
    let processes = &report.processes;
    let has_processes = !processes.is_empty();
    let all = Object::default()
        .with("schema", SCHEMA)
        .with("run", Object::of_run(run::ALL, &report.run, is_sampled))
        .with_some(
            "summary",
            has_summary.then(|| list(summary::ALL, sentences)),
        )
        .with_some("runs", report.runs.as_ref().map(of_runs))
        .with_some("sampled_events", of_events(report))
        .with_some(
            "watched",
            report
                .watched
                .as_ref()
                .map(|one| Object::of(watched::ALL, one)),
        )
        .with(
            "totals",
            totals.with("counts", of_counts(&report.totals.counts)),
        )
        .with_some("of_machine", machine)
        .with_some("filtered", filtered)
        .with_some("totals_by", has_totals.then(|| totals_by.collect::<Node>()))
        .with("findings", findings.collect::<Node>())
        .with_some("pairs", has_pairs.then(|| list(pair::ALL, &report.pairs)))
        .with("lines", lines.collect::<Node>())
        .with("quiet", quiet)
        .with_some("handed_over", (!is_sampled).then(|| of_handed(report)))
        .with_some("waiting", (!is_sampled).then(|| of_waiting(report)))
        .with(
            "threads",
            list_of_run(thread::ALL, &report.threads, is_sampled),
        )
        .with_some(
            "processes",
            has_processes.then(|| list(process::ALL, processes)),
        )
        .with("diagnostics", report.diagnostics.as_slice());
    all.text()
}

/// Events that were sampled; none of recordings.
fn of_events(report: &Report) -> Option<Node> {
    let events = report.run.sampled.as_ref()?.iter().map(|event| {
        json!({
            "name": event.name,
            "sample_count": event.sample_count,
            "event_count": event.event_count,
        })
    });
    Some(events.collect())
}

fn of_runs(several: &Runs) -> Object {
    let members = &several.members;
    let has_members = !members.is_empty();
    Object::of(runs::ALL, several)
        .with("runs", list(one_run::ALL, &several.runs))
        .with_some(
            "members",
            has_members.then(|| list(member_runs::ALL, members)),
        )
}

fn of_handed(report: &Report) -> Object {
    let handed = &report.handed;
    Object::of(handed::ALL, handed)
        .with("objects", list(handed_row::ALL, &handed.objects))
        .with("takers", list(handed_row::ALL, &handed.takers))
}

fn of_waiting(report: &Report) -> Object {
    let rows = list(wait_row::ALL, &report.waiting.rows);
    Object::of(waiting::ALL, &report.waiting).with("rows", rows)
}

fn of_finding(report: &Report, finding: &Finding, ranks: &BTreeMap<LineAddr, u64>) -> Object {
    let lines = finding.lines.iter();
    let ranks = lines.filter_map(|line| ranks.get(line).copied());
    Object::of_run(finding::ALL, finding, report.is_sampled())
        .with("places", list(finding_place::ALL, &finding.places))
        .with("ranks", ranks.collect::<Node>())
}

fn of_line(report: &Report, line: &LineReport) -> Object {
    let is_sampled = report.is_sampled();
    let rows = line.rows.iter().map(|row| of_row(report, row));
    Object::of_run(line::ALL, line, is_sampled)
        .with("counts", of_counts(&line.counts))
        .with("fights", list_of_run(fight::ALL, &line.fights, is_sampled))
        .with("objects", list(object::ALL, &line.objects))
        .with("rows", rows.collect::<Node>())
}

fn of_row(report: &Report, row: &RowReport) -> Object {
    let object = Object::of_run(row::ALL, row, report.is_sampled());
    if !report.has_call_chains {
        return object;
    }
    let path = |path: &CallPath| {
        let frames = list(call_frame::ALL, &path.frames);
        Object::of(call_path::ALL, path).with("frames", frames)
    };
    object.with("call_path_count", row.call_path_count).with(
        "call_paths",
        row.call_paths.iter().map(path).collect::<Node>(),
    )
}

fn of_counts(counts: &AccessCounts) -> Object {
    Object::default()
        .with("loads", Object::of(source::ALL, &counts.loads))
        .with("stores", Object::of(source::ALL, &counts.stores))
        .with("locked", Object::of(source::ALL, &counts.locked))
}
