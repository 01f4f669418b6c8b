//! Reproductions as a section of a Markdown page.

use std::fmt::Write as _;

use hitm::sim::{Comparison, SimReport, Summary};

use super::fields::{COMPARISON_FIELDS, SCENARIO_FIELDS};
use super::text::{DETAILS, IRQS_OFF, check_line, number, published, with_spread};
use crate::fields::by_id;

/// Published and simulated figures of scenarios, without a title of their own; `command` is what
/// was run.
pub fn reproduction_markdown(reports: &[SimReport], command: &str) -> String {
    let mut out = format!("Written by `{command}`.\n");
    for report in reports {
        scenario(&mut out, report);
    }
    out
}

fn scenario(out: &mut String, report: &SimReport) {
    let field = |id| by_id(SCENARIO_FIELDS, id).text(report);
    let _ = write!(
        out,
        "\n### {}\n\n{}. Machine {}, {} CPUs; seeds {}; model {}, scenario {}.\n",
        field("scenario"),
        field("description"),
        field("machine"),
        field("cpu_count"),
        field("seeds"),
        field("model_version"),
        field("scenario_hash"),
    );
    let checks = report.checks();
    if !checks.is_empty() {
        out.push('\n');
    }
    for check in &checks {
        let line = check_line(check);
        let _ = writeln!(out, "- {}", line.trim_end_matches(':'));
    }
    for (check, failure) in checks
        .iter()
        .filter_map(|check| Some((check, check.failure?)))
    {
        let _ = write!(out, "\nThe failure under {}:\n\n```text\n", check.variant);
        for line in failure.trim_end().lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push_str("```\n");
    }
    let histograms = histograms(report);
    if !report.comparisons.is_empty() {
        comparisons(out, &report.comparisons);
    }
    if !histograms.is_empty() || (report.comparisons.is_empty() && checks.is_empty()) {
        figures(out, report);
    }
    for (label, text) in histograms {
        let _ = write!(out, "\nHistograms under {label}, ns:\n\n```text\n");
        for line in without_empty(text) {
            let _ = writeln!(out, "{line}");
        }
        out.push_str("```\n");
    }
    for (label, lines) in placements(report) {
        let lines = lines.join("\n");
        let _ = write!(out, "\nPlacement under {label}:\n\n```text\n{lines}\n```\n");
    }
    crossing(out, report);
}

fn crossing(out: &mut String, report: &SimReport) {
    if let Some((crossing, load)) = report
        .crossing
        .as_ref()
        .and_then(|crossing| Some((crossing, crossing.load?)))
    {
        let _ = write!(
            out,
            "\nAt {} wake-ups a second and CPU asked for, where {} of {} is {} {} as published:\n",
            number(load),
            crossing.id,
            crossing.layout,
            number(crossing.published),
            crossing.unit
        );
        comparisons(out, &crossing.comparisons);
        let _ = write!(
            out,
            "\nLayouts there, by `{}`:\n\n| Layout | {} |\n|---|---|\n",
            crossing.id, crossing.unit
        );
        for (layout, value) in &crossing.ranking {
            let _ = writeln!(out, "| {layout} | {} |", number(*value));
        }
    }
}

fn comparisons(out: &mut String, comparisons: &[Comparison]) {
    let ids = [
        "id",
        "variant",
        "published_min",
        "simulated",
        "ratio",
        "unit",
    ];
    let titles = ids.map(|id| by_id(COMPARISON_FIELDS, id).title);
    let _ = write!(
        out,
        "\n| {} |\n|---|---|---|---|---|---|\n",
        titles.join(" | ")
    );
    for one in comparisons {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} |",
            one.id,
            one.label,
            published(one.published),
            one.simulated
                .map_or("-".to_owned(), |mean| with_spread(mean, one.spread)),
            one.ratio
                .map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            one.unit
        );
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

/// What placement by locks did under each variant, a line for each decision of each run.
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

/// What the workloads say, those of a scenario without published figures or with histograms.
fn figures(out: &mut String, report: &SimReport) {
    let labels: Vec<&str> = report
        .variants
        .iter()
        .map(|variant| variant.label.as_str())
        .collect();
    let rules = "|---".repeat(labels.len());
    let _ = write!(
        out,
        "\n| Metric | {} | Unit |\n|---{rules}|---|\n",
        labels.join(" | ")
    );
    let has_histograms = !histograms(report).is_empty();
    let variants = &report.variants;
    let is_shown = |summary: &Summary| {
        let owner = summary.id.split('.').next().unwrap_or_default();
        let outcomes = variants.iter().flat_map(|variant| &variant.outcomes);
        let mut workloads = outcomes.flat_map(|outcome| &outcome.workloads);
        let is_detail = DETAILS.iter().any(|end| summary.id.ends_with(end));
        let is_of_workload = workloads.any(|workload| workload.name == owner) && !is_detail;
        let of_irqs = has_histograms && IRQS_OFF.contains(&summary.id.as_str());
        summary.id == "sched.stale_overloads" || of_irqs || is_of_workload
    };
    let mut shown: Vec<&Summary> = Vec::new();
    for summary in variants.iter().flat_map(|variant| &variant.summaries) {
        if is_shown(summary) && shown.iter().all(|other| other.id != summary.id) {
            shown.push(summary);
        }
    }
    for summary in shown {
        let values = report.variants.iter().map(|variant| {
            let value = variant.get(&summary.id);
            value.map_or("-".to_owned(), |one| with_spread(one.mean, one.spread()))
        });
        let values: Vec<String> = values.collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            summary.id,
            values.join(" | "),
            summary.unit
        );
    }
}
