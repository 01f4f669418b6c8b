//! Metrics that a run can have, listed before anything runs.
//!
//! Workloads declare their own ([`hitm_sim::scenario::WorkloadKind::figures`]). A test runs a workload of
//! each kind and compares.

use hitm_sim::scenario::Scenario;
use hitm_sweep::plan::SourceKind;

use super::points::{REPLAY_METRICS, replay_metric};

/// The largest number of a line of `root_domain`: it has a bit for each CPU in several masks.
const LINES_MAX: u32 = 1_000;

/// Figures of every simulation.
const OF_ALL: [&str; 19] = [
    "time.kernel_of_busy",
    "time.user",
    "time.kernel",
    "time.spin",
    "time.irq",
    "time.idle",
    "time.irqs_off_us_max",
    "time.irqs_off_us_max_mean",
    "sched.wakeups_per_cpu_second",
    "sched.switches_per_cpu_second",
    "sched.migrations_per_cpu_second",
    "sched.pushes_per_cpu_second",
    "sched.pulls_per_cpu_second",
    "sched.ipis_per_cpu_second",
    "sched.stale_overloads",
    "wakeup.latency_us_mean",
    "wakeup.latency_us_p50",
    "wakeup.latency_us_p99",
    "wakeup.latency_us_max",
];
/// Figures of each line N of `root_domain`; machine and layout decide the number of lines.
const OF_LINES: [&str; 3] = [
    "load_cycles_mean",
    "load_cycles_row_min",
    "load_cycles_row_max",
];

/// True if a run of the scenario can have the metric.
pub(super) fn is_of_scenario(scenario: &Scenario, id: &str) -> bool {
    let has = |(name, declared): (&str, Vec<hitm_sim::scenario::Figure>)| {
        let rest = id.strip_prefix(name);
        let rest = rest.and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| declared.iter().any(|figure| figure.id == rest))
    };
    OF_ALL.contains(&id) || is_of_line(id) || scenario.figures().into_iter().any(has)
}

/// `root_domain.line_3.load_cycles_mean`.
fn is_of_line(id: &str) -> bool {
    let rest = id.strip_prefix("root_domain.line_");
    let Some((number, rest)) = rest.and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let number = number.parse::<u32>();
    number.is_ok_and(|number| (1..=LINES_MAX).contains(&number)) && OF_LINES.contains(&rest)
}

/// True if a replay has the metric.
pub(super) fn is_of_replay(id: &str) -> bool {
    REPLAY_METRICS
        .iter()
        .any(|(known, _)| replay_metric(known) == id)
}

/// Metrics of these scenarios, or of replays, for an error's text.
pub(super) fn known(kind: SourceKind, scenarios: &[Scenario]) -> String {
    let mut ids: Vec<String> = Vec::new();
    match kind {
        SourceKind::Recordings => {
            ids.extend(REPLAY_METRICS.iter().map(|(id, _)| replay_metric(id)));
        }
        SourceKind::Scenarios => {
            for (name, figures) in scenarios.iter().flat_map(Scenario::figures) {
                for figure in figures {
                    let id = format!("{name}.{}", figure.id);
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
            }
            ids.extend(OF_ALL.map(str::to_owned));
            ids.extend(OF_LINES.map(|id| format!("root_domain.line_N.{id}")));
        }
    }
    format!("one of {}", ids.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hitm_sim::scenario::{Kind, workload_kinds};

    use crate::sim::{LoadOptions, Simulation};

    use super::*;

    const HEAD: &str = "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n\
        [machine]\npreset = \"broadwell-4s\"\ncpus = 8\n[run]\nduration = \"20ms\"\n\
        [kernel]\nplacement = \"lock-aware\"\nload_balancing = \"domains\"\n";

    /// Workloads beside those of [`of_kind`], with keys that make more figures appear.
    const WORKLOADS: [&str; 9] = [
        "kind = \"rt-migrate-test\"\nloops = 2\nrun_time = \"1ms\"\nsleep = \"2ms\"\n",
        "kind = \"ffmpeg\"\ncores_per_instance = 2\nworkers = 4\nrunnable = 2\nwakeups = \"2600/s\"\n",
        "kind = \"cgroup-hogs\"\nchildren = 2\nleaves = 2\nhogs = 8\nquota = \"2ms\"\nperiod = \"5ms\"\n",
        "kind = \"lock-holder\"\nquota = \"2ms\"\nperiod = \"5ms\"\n",
        "kind = \"file-copy\"\nbuffer_bytes = 256\nblocks = 50\nbaseline = 1655\ncycle = \"2us\"\nhold_percent = 30\nthreads = 8\n",
        "kind = \"hackbench\"\ngroups = 1\npairs = 2\nloops = 5\n",
        "kind = \"requests\"\nrate = \"2000/s\"\nservice = \"1ms\"\n",
        "kind = \"requests\"\nthink = \"1ms\"\nservice = \"1ms\"\ngroup = \"g\"\n\
            [[group]]\nname = \"g\"\nquota = \"2ms\"\nperiod = \"5ms\"\n",
        "kind = \"hogs\"\ngroup = \"g\"\n[[group]]\nname = \"g\"\n",
    ];

    /// A workload with the keys that its kind needs, each with the first of its values; none for a kind
    /// that needs another file.
    fn of_kind(kind: &Kind) -> Option<String> {
        let mut text = format!("kind = \"{}\"\n", kind.name);
        for line in kind.needed.trim().lines() {
            let (key, values) = line.split_once(" = ").unwrap();
            let first = values.split(" | ").next().unwrap();
            text += &format!("{key} = {first}\n");
        }
        (kind.name != "rt-app").then_some(text)
    }

    #[test]
    fn every_figure_of_a_run_is_known() {
        let more = WORKLOADS.map(str::to_owned);
        for workload in workload_kinds().filter_map(of_kind).chain(more) {
            let text = format!("{HEAD}[[workload]]\n{workload}");
            let options = LoadOptions::default();
            let simulation = Simulation::of_text(&text, "x", Path::new(""), &options).unwrap();
            let report = simulation.run(1, 1, &|_| {}).unwrap();
            let metrics = &report.variants[0].outcomes[0].metrics;
            assert!(metrics.len() > 12, "{workload}");
            for metric in metrics {
                let is_known = is_of_scenario(simulation.scenario(), &metric.id);
                assert!(is_known, "{} of {workload}", metric.id);
            }
        }
    }

    #[test]
    fn other_ids_are_unknown() {
        let text = format!("{HEAD}[[workload]]\nkind = \"hogs\"\nname = \"h\"\n");
        let scenario = Scenario::parse(&text, "x").unwrap();
        for id in [
            "h.used_ms",
            "time.idle",
            "root_domain.line_7.load_cycles_mean",
        ] {
            assert!(is_of_scenario(&scenario, id), "{id}");
        }
        for id in [
            "hogs.used_ms",
            "h.used",
            "root_domain.line_0.load_cycles_mean",
            "root_domain.line_2.x",
            "root_domain.line_N.load_cycles_mean",
            "whatif.end_cycles",
            "",
        ] {
            assert!(!is_of_scenario(&scenario, id), "{id}");
        }
        assert!(is_of_replay("whatif.end_cycles") && !is_of_replay("end_cycles"));
    }
}
