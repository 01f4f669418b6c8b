//! Results of simulations as JSON: the fields under their ids, in the order of the tables.

use hitm::sim::{C2cLine, Crossing, Outcome, SimReport, VariantReport, WorkloadResult};

use super::fields::{
    RowView, comparison, crossing, line, metric, outcome, peak, row, scenario, variant,
};
use crate::object::{Node, Object, list};

/// Version of the JSON form. It rises when a field changes its meaning or disappears, not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// A simulation as one JSON object, indented, with a line feed at the end; with lines as `perf c2c`
/// would have `sampled` them, if that is asked for.
pub fn simulation_json(report: &SimReport, sampled: bool) -> String {
    let variant = |variant: &VariantReport| {
        let runs = variant.outcomes.iter().map(|one| of_run(one, sampled));
        of_variant(variant).with("runs", runs.collect::<Node>())
    };
    let all = Object::default().with("schema", SCHEMA);
    all.and(of_scenario(report, variant)).text()
}

/// Several scenarios as one JSON object, without the tables of each run.
pub fn reproduction_json(reports: &[SimReport]) -> String {
    let scenarios = reports.iter();
    let scenarios = scenarios.map(|report| of_scenario(report, of_variant));
    let all = Object::default()
        .with("schema", SCHEMA)
        .with("scenarios", scenarios.collect::<Node>());
    all.text()
}

fn of_scenario(report: &SimReport, variant: impl Fn(&VariantReport) -> Object) -> Object {
    let variants = report.variants.iter().map(variant);
    Object::of(scenario::ALL, report)
        .with("variants", variants.collect::<Node>())
        .with("comparisons", list(comparison::ALL, &report.comparisons))
        .with_or_null("crossing", report.crossing.as_ref().map(of_crossing))
}

fn of_crossing(crossing: &Crossing) -> Object {
    let ranking = crossing.ranking.iter().map(|(layout, value)| {
        Object::default()
            .with("layout", layout.as_str())
            .with("value", *value)
    });
    Object::of(crossing::ALL, crossing)
        .with("comparisons", list(comparison::ALL, &crossing.comparisons))
        .with("ranking", ranking.collect::<Node>())
}

fn of_variant(variant: &VariantReport) -> Object {
    Object::of(variant::ALL, variant).with("metrics", list(metric::ALL, &variant.summaries))
}

fn of_run(run: &Outcome, sampled: bool) -> Object {
    let functions = run.functions.iter().map(|(name, cycles)| {
        Object::default()
            .with("function", *name)
            .with("cycles", cycles.0)
    });
    let sampled = sampled.then(|| {
        let lines = run.lines.iter().map(|line| of_line(&line.as_sampled()));
        lines.collect::<Node>()
    });
    let workloads = run.workloads.iter().map(of_workload);
    Object::of(outcome::ALL, run)
        .with("cpus", list(peak::ALL, &run.peaks))
        .with("workloads", workloads.collect::<Node>())
        .with("functions", functions.collect::<Node>())
        .with("lines", run.lines.iter().map(of_line).collect::<Node>())
        .with_some("sampled_lines", sampled)
}

fn of_workload(workload: &WorkloadResult) -> Object {
    Object::default()
        .with("name", workload.name.as_str())
        .with("passed", workload.passed)
        .with("output", workload.text.clone())
        .with("failure", workload.failure.clone())
}

fn of_line(line: &C2cLine) -> Object {
    let rows = RowView::of_line(line);
    Object::of(line::ALL, line).with("rows", list(row::ALL, &rows))
}
