//! Results of simulations as JSON: the fields under their ids, in the order of the tables.

use hitm::sim::{C2cLine, Crossing, Outcome, SimReport, VariantReport, WorkloadResult};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::fields::{RowView, comparison, crossing, line, metric, outcome, row, scenario, variant};
use crate::json::{Fields, list};

/// Version of the JSON form. It rises when a field changes its meaning or disappears, not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// A simulation as one JSON object, indented, with a line feed at the end; with lines as `perf c2c`
/// would have `sampled` them, if that is asked for.
pub fn simulation_json(report: &SimReport, sampled: bool) -> String {
    pretty(&ScenarioJson {
        report,
        schema: true,
        with_runs: true,
        sampled,
    })
}

/// Several scenarios as one JSON object, without the tables of each run.
pub fn reproduction_json(reports: &[SimReport]) -> String {
    pretty(&ReproductionJson(reports))
}

fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value)
        .expect("a result is strings, finite numbers and lists of them");
    text.push('\n');
    text
}

struct ReproductionJson<'a>(&'a [SimReport]);

impl Serialize for ReproductionJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let scenario = |report| ScenarioJson {
            report,
            schema: false,
            with_runs: false,
            sampled: false,
        };
        let scenarios: Vec<ScenarioJson<'_>> = self.0.iter().map(scenario).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("scenarios", &scenarios)?;
        map.end()
    }
}

struct ScenarioJson<'a> {
    report: &'a SimReport,
    schema: bool,
    with_runs: bool,
    sampled: bool,
}

impl Serialize for ScenarioJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let variant = |report| VariantJson {
            report,
            with_runs: self.with_runs,
            sampled: self.sampled,
        };
        let variants: Vec<VariantJson<'_>> = self.report.variants.iter().map(variant).collect();
        let mut map = serializer.serialize_map(None)?;
        if self.schema {
            map.serialize_entry("schema", &SCHEMA)?;
        }
        Fields::new(scenario::ALL, self.report).write(&mut map)?;
        map.serialize_entry("variants", &variants)?;
        let comparisons = list(comparison::ALL, &self.report.comparisons);
        map.serialize_entry("comparisons", &comparisons)?;
        map.serialize_entry("crossing", &self.report.crossing.as_ref().map(CrossingJson))?;
        map.end()
    }
}

struct CrossingJson<'a>(&'a Crossing);

impl Serialize for CrossingJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(crossing::ALL, self.0).write(&mut map)?;
        let comparisons = list(comparison::ALL, &self.0.comparisons);
        map.serialize_entry("comparisons", &comparisons)?;
        let ranking: Vec<RankJson<'_>> = self.0.ranking.iter().map(RankJson).collect();
        map.serialize_entry("ranking", &ranking)?;
        map.end()
    }
}

struct RankJson<'a>(&'a (String, f64));

impl Serialize for RankJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (layout, value) = self.0;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("layout", layout)?;
        map.serialize_entry("value", value)?;
        map.end()
    }
}

struct VariantJson<'a> {
    report: &'a VariantReport,
    with_runs: bool,
    sampled: bool,
}

impl Serialize for VariantJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Fields::new(variant::ALL, self.report).write(&mut map)?;
        map.serialize_entry("metrics", &list(metric::ALL, &self.report.summaries))?;
        if self.with_runs {
            let run = |outcome| RunJson(outcome, self.sampled);
            let runs: Vec<RunJson<'_>> = self.report.outcomes.iter().map(run).collect();
            map.serialize_entry("runs", &runs)?;
        }
        map.end()
    }
}

struct RunJson<'a>(&'a Outcome, bool);

impl Serialize for RunJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let workloads: Vec<WorkloadJson<'_>> = self.0.workloads.iter().map(WorkloadJson).collect();
        let functions = self.0.functions.iter();
        let functions: Vec<FunctionJson> = functions
            .map(|(name, cycles)| FunctionJson(name, cycles.0))
            .collect();
        let lines: Vec<LineJson<'_>> = self.0.lines.iter().map(LineJson).collect();
        let mut map = serializer.serialize_map(None)?;
        Fields::new(outcome::ALL, self.0).write(&mut map)?;
        map.serialize_entry("workloads", &workloads)?;
        map.serialize_entry("functions", &functions)?;
        map.serialize_entry("lines", &lines)?;
        if self.1 {
            let sampled: Vec<C2cLine> = self.0.lines.iter().map(C2cLine::as_sampled).collect();
            let sampled: Vec<LineJson<'_>> = sampled.iter().map(LineJson).collect();
            map.serialize_entry("sampled_lines", &sampled)?;
        }
        map.end()
    }
}

struct WorkloadJson<'a>(&'a WorkloadResult);

impl Serialize for WorkloadJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.0.name)?;
        map.serialize_entry("passed", &self.0.passed)?;
        map.serialize_entry("output", &self.0.text)?;
        map.serialize_entry("failure", &self.0.failure)?;
        map.end()
    }
}

struct FunctionJson(&'static str, u64);

impl Serialize for FunctionJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("function", self.0)?;
        map.serialize_entry("cycles", &self.1)?;
        map.end()
    }
}

struct LineJson<'a>(&'a C2cLine);

impl Serialize for LineJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = RowView::of_line(self.0);
        let mut map = serializer.serialize_map(None)?;
        Fields::new(line::ALL, self.0).write(&mut map)?;
        map.serialize_entry("rows", &list(row::ALL, &rows))?;
        map.end()
    }
}
