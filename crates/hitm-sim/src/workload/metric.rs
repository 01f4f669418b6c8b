//! Single figures of a run.

use super::figures::Figure;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name: `ffmpeg.frames_per_second`.
    pub id: String,
    /// Its value, in `unit`.
    pub value: f64,
    /// Its unit, in words.
    pub unit: &'static str,
    /// Its meaning, in one sentence without a full stop.
    pub description: &'static str,
}

impl Metric {
    /// A metric of the workload or part `owner`.
    pub(crate) fn new(
        owner: &str,
        id: &str,
        unit: &'static str,
        value: f64,
        description: &'static str,
    ) -> Metric {
        Metric {
            id: format!("{owner}.{id}"),
            value,
            unit,
            description,
        }
    }
}

impl Metric {
    /// The figure of a workload of this name.
    pub(crate) fn of(owner: &str, figure: Figure, value: f64) -> Metric {
        Metric::new(owner, figure.id, figure.unit, value, figure.description)
    }
}

/// Results of a workload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkloadResult {
    /// The workload.
    pub name: String,
    /// Its figures.
    pub metrics: Vec<Metric>,
    /// Its results in its own form, for those that have one.
    pub text: Option<String>,
    /// The histograms among them, in bpftrace's form.
    pub histograms: Option<String>,
    /// Places that lock-aware placement gave its threads, and the figures behind them, a line each.
    pub placements: Option<String>,
    /// True if its own check passed, for those that have one.
    pub passed: Option<bool>,
    /// Failures in its own form, when its check did not pass.
    pub failure: Option<String>,
}
