//! What a run says in single figures.

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// What it is called: `ffmpeg.frames_per_second`.
    pub id: String,
    /// Its value.
    pub value: f64,
    /// Its unit, in words.
    pub unit: &'static str,
    /// What it counts, in one sentence without a full stop.
    pub description: &'static str,
}

impl Metric {
    /// A metric of the workload or part `owner`.
    pub(super) fn new(
        owner: &str,
        (id, unit): (&str, &'static str),
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

/// What a workload did.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadResult {
    /// The workload.
    pub name: String,
    /// Its figures.
    pub metrics: Vec<Metric>,
    /// Its results in its own form, for those that have one.
    pub text: Option<String>,
    /// The histograms among them, in bpftrace's form.
    pub histograms: Option<String>,
    /// Where lock-aware placement put its threads, and by what, a line each.
    pub placements: Option<String>,
    /// Whether its own check passed, for those that have one.
    pub passed: Option<bool>,
    /// What failed, in its own form, when its check did not pass.
    pub failure: Option<String>,
}
