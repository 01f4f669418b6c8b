//! Reproductions as a section of a Markdown page.

use hitm::sim::{Check, Comparison, SimReport};

use super::fields::scenario;
use super::text::{COMPARISON_COLUMNS, check_line, comparison_cells, number, telling, with_spread};
use crate::Printout;
use crate::fields::Field;

/// Published and simulated figures of scenarios, without a title of their own; `command` is what
/// was run.
pub fn reproduction_markdown(reports: &[SimReport], command: &str) -> Printout {
    let mut out = Printout::new();
    out.line(&format!("Written by `{command}`."));
    for report in reports {
        scenario(&mut out, report);
    }
    out
}

fn scenario(out: &mut Printout, report: &SimReport) {
    let field = |field: Field<_>| field.text(report);
    out.blank();
    out.line(&format!("### {}", field(scenario::scenario)));
    out.blank();
    out.line(&format!(
        "{}. Machine {}, {} CPUs; seeds {}; model {}, scenario {}.",
        field(scenario::description),
        field(scenario::machine),
        field(scenario::cpu_count),
        field(scenario::seeds),
        field(scenario::model_version),
        field(scenario::scenario_hash),
    ));
    let checks = report.checks();
    checked(out, &checks);
    let histograms = histograms(report);
    if !report.comparisons.is_empty() {
        comparisons(out, &report.comparisons);
    }
    if !histograms.is_empty() || (report.comparisons.is_empty() && checks.is_empty()) {
        figures(out, report);
    }
    for (label, text) in histograms {
        let title = format!("Histograms under {label}, ns:");
        verbatim(out, &title, without_empty(text));
    }
    for (label, lines) in placements(report) {
        let title = format!("Placement under {label}:");
        verbatim(out, &title, lines.iter().map(String::as_str));
    }
    crossing(out, report);
}

/// Writes how many checks pass, and the failures of the others.
fn checked(out: &mut Printout, checks: &[Check<'_>]) {
    if !checks.is_empty() {
        out.blank();
    }
    for check in checks {
        let line = check_line(check);
        out.line(&format!("- {}", line.trim_end_matches(':')));
    }
    for (check, failure) in checks
        .iter()
        .filter_map(|check| Some((check, check.failure?)))
    {
        let title = format!("The failure under {}:", check.variant);
        let lines = failure.trim_end().lines();
        verbatim(out, &title, lines.map(str::trim_end));
    }
}

/// Lines that Markdown leaves as they are.
fn verbatim<'t>(out: &mut Printout, title: &str, lines: impl Iterator<Item = &'t str>) {
    out.blank();
    out.line(title);
    out.blank();
    out.line("```text");
    lines.for_each(|line| out.line(line));
    out.line("```");
}

fn crossing(out: &mut Printout, report: &SimReport) {
    if let Some((crossing, load)) = report
        .crossing
        .as_ref()
        .and_then(|crossing| Some((crossing, crossing.load?)))
    {
        out.blank();
        out.line(&format!(
            "At {} wake-ups a second and CPU asked for, where {} of {} is {} {} as published:",
            number(load),
            crossing.id,
            crossing.layout,
            number(crossing.published),
            crossing.unit
        ));
        comparisons(out, &crossing.comparisons);
        out.blank();
        out.line(&format!("Layouts there, by `{}`:", crossing.id));
        out.blank();
        out.line(&format!("| Layout | {} |", crossing.unit));
        out.line("|---|---|");
        for (layout, value) in &crossing.ranking {
            out.line(&format!("| {layout} | {} |", number(*value)));
        }
    }
}

fn comparisons(out: &mut Printout, comparisons: &[Comparison]) {
    let titles = COMPARISON_COLUMNS.iter().map(|field| field.title);
    let titles: Vec<&str> = titles.collect();
    out.blank();
    out.line(&format!("| {} |", titles.join(" | ")));
    out.line("|---|---|---|---|---|---|");
    for one in comparisons {
        let [id, others @ ..] = comparison_cells(one);
        out.line(&format!("| `{id}` | {} |", others.join(" | ")));
    }
}

/// The histograms of each variant's first run, by its label.
pub(super) fn histograms(report: &SimReport) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for variant in &report.variants {
        let first = variant.outcomes.iter().take(1);
        let workloads = first.flat_map(|outcome| &outcome.workloads);
        let texts = workloads.filter_map(|workload| workload.histograms.as_deref());
        found.extend(texts.map(|text| (variant.label.as_str(), text)));
    }
    found
}

/// Returns the decisions of placement by locks under each variant, a line for each decision of each
/// run.
pub(super) fn placements(report: &SimReport) -> Vec<(&str, Vec<String>)> {
    let mut found = Vec::new();
    for variant in &report.variants {
        let mut lines = Vec::new();
        for outcome in &variant.outcomes {
            let texts = outcome.workloads.iter();
            let texts = texts.filter_map(|workload| workload.placements.as_deref());
            let of_seed = texts.flat_map(str::lines);
            lines.extend(of_seed.map(|line| format!("seed {}: {line}", outcome.header.seed)));
        }
        if !lines.is_empty() {
            found.push((variant.label.as_str(), lines));
        }
    }
    found
}

/// The lines of histograms without those that counted nothing.
pub(super) fn without_empty(text: &str) -> impl Iterator<Item = &str> {
    let is_counted = |line: &&str| !line.contains(" 0 |");
    text.lines().filter(is_counted).map(str::trim_end)
}

/// Writes the workloads' metrics, of a scenario with histograms or with neither published figures
/// nor checks.
fn figures(out: &mut Printout, report: &SimReport) {
    let labels: Vec<&str> = report
        .variants
        .iter()
        .map(|variant| variant.label.as_str())
        .collect();
    let rules = "|---".repeat(labels.len());
    out.blank();
    out.line(&format!("| Metric | {} | Unit |", labels.join(" | ")));
    out.line(&format!("|---{rules}|---|"));
    for summary in telling(report, &["sched.stale_overloads"]) {
        let values = report.variants.iter().map(|variant| {
            let value = variant.get(&summary.id);
            value.map_or("-".to_owned(), |one| with_spread(one.mean, one.spread()))
        });
        let values: Vec<String> = values.collect();
        out.line(&format!(
            "| `{}` | {} | {} |",
            summary.id,
            values.join(" | "),
            summary.unit
        ));
    }
}
