//! Scenarios.

use super::{keys, smudge, some_keys, table};
use crate::Choices;

const HEAD: &str = r#"
schema = 1
name = "s"
description = "d"
source = "made"
"#;

const MACHINE: &str = r#"
preset = "kunpeng920-96" | "xeon-480" | "broadwell-4s"
cpus = 4 | 1 | 2 | 8 | 96 | 97
caches = "infinite" | "finite"
"#;

const KERNEL: &str = r#"
balancing = "passive" | ["push-pull", "push-ipi"] | "push-ipi"
throttling = "async" | ["sync", "task", "task-sync"]
preempt = "lazy" | ["none", "voluntary", "full"]
load_balancing = "domains" | "newly-idle"
placement = "group-cpus" | ["default", "lock-aware"]
wake_lists = true | false
layouts = "linux-6.12" | ["linux-6.12", "root-domain-restructured"]
tick = "250/s" | "100/s" | "1000/s"
cpusets = ["0-1", "2-3"] | ["0"] | ["0-2", "1-3"]
overlapping_cpusets = false
rt_runtime = "950ms" | "1ms" | "1s"
rt_period = "1s" | "100ms"
balance_interval = "64ms" | "1ms"
idle_exit = "1us" | "2us"
visit_instructions = 60 | 1
lock_window = "5ms"
cfs_bandwidth_slice = "5ms" | "1us" | "1s"
mechanisms = "timekeeper" | ["second-mask-read", "nohz-balance"] | [] | [[], ["expiring-slices"], ["huge-pages", "slice-extension"]]
"#;

/// A kind of workload: the keys that it needs, and some that it may have, a line each: `cpus = 4 | 8`.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadKeys {
    /// The `kind` of a `[[workload]]`.
    pub kind: &'static str,
    /// Keys that it needs.
    pub needed: &'static str,
    /// Keys that it may have.
    pub optional: &'static str,
}

const GROUP: &str = r#"
quota = "50ms" | "1ms"
period = "100ms" | "1s"
burst = "0s" | "10ms"
weight = 100 | 1 | 10000
parent = "pod"
"#;

const RUN: &str = r#"
duration = "30ms" | "11ms"
seed = 1 | 9223372036854775807
seeds = 1 | 3
warm_up = "0s" | "10ms"
events_max = 20000000000 | 1
"#;

const ASSUMED: &str = r#"
key = "workload.0.workers" | "kernel.tick" | "workload.7.x"
range = [1, 32] | ["1us", "2ms"] | [2, 1]
effect = "e"
"#;

const PUBLISHED: &str = r#"
id = "time.kernel_of_busy" | "rt_migrate.failed_iterations"
value = 20 | [1, 2] | [2.5, 2.5]
unit = "%" | "count"
source = "made"
layout = "linux-6.12" | "root-domain-restructured"
balancing = "push-ipi"
throttling = "async"
change_from = "linux-6.12"
"#;

/// Settings as `--set` has them.
const SETTINGS: [&str; 10] = [
    "kernel.tick=1000/s",
    "workload.0.threads=2",
    "workload.priority=5",
    "machine.cpus=2",
    "run.duration=\"1ms\"",
    "run.seeds=3",
    "kernel.balancing=[\"passive\"]",
    "workload.99999999999999999999.threads=1",
    "published.0.value=[1, 2]",
    "kernel.=1",
];

/// A scenario with workloads of these kinds, and settings that override parts of it.
pub fn scenario(choices: &mut Choices<'_>, kinds: &[WorkloadKeys]) -> (String, Vec<String>) {
    choices.draw_soundness();
    let mut out = String::new();
    keys(choices, &mut out, &table(HEAD));
    out += "[machine]\n";
    first_and_some(choices, &mut out, MACHINE, 1);
    out += "[kernel]\n";
    some_keys(choices, &mut out, &table(KERNEL), 5);
    for name in ["pod", "app"] {
        if choices.odd(3) {
            break;
        }
        out += &format!("[[group]]\nname = \"{name}\"\n");
        some_keys(choices, &mut out, &table(GROUP), 3);
    }
    for _ in 0..choices.below(3) + 1 {
        out += "[[workload]]\n";
        let kind = kinds[choices.below(kinds.len())];
        out += &format!("kind = \"{}\"\n", kind.kind);
        keys(choices, &mut out, &table(kind.needed));
        some_keys(choices, &mut out, &table(kind.optional), 4);
    }
    out += "[run]\n";
    first_and_some(choices, &mut out, RUN, 1);
    if choices.odd(4) {
        out += "[[assumed]]\n";
        first_and_some(choices, &mut out, ASSUMED, 3);
    }
    for _ in 0..choices.below(3) {
        out += "[[published]]\n";
        first_and_some(choices, &mut out, PUBLISHED, 4);
    }
    let count = if choices.odd(3) {
        1 + choices.below(2)
    } else {
        0
    };
    let settings = (0..count).map(|_| choices.pick(&SETTINGS).to_owned());
    let settings = settings.collect();
    (smudge(choices, out), settings)
}

/// The first keys of a table, and at most two of the others.
fn first_and_some(choices: &mut Choices<'_>, out: &mut String, lines: &'static str, first: usize) {
    let table = table(lines);
    keys(choices, out, &table[..first]);
    some_keys(choices, out, &table[first..], 2);
}
