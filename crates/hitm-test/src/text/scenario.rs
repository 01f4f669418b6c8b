//! Scenarios.

use super::{keys, sections, smudge, some_keys, table};
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
placement = "default" | ["default", "lock-aware"]
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

/// Keys for the CPUs and the policy of a workload's threads.
const TASKS: &str = r#"
cpus = "0-3" | "0,2" | "3"
threads = 2 | 1
pinned = true | false
policy = "fifo" | "rr" | "normal"
priority = 99 | 1
nice = 0 | -20 | 19
start = "0s" | "5ms"
"#;

/// Kinds of workloads: the keys that each needs, and some that it may have, its own or those of tasks.
const KINDS: &str = r#"
[rt-migrate-test]
[optional]
tasks = 5 | 1
base_prio = 2 | 99
run_time = "20ms"
sleep = "100ms"
max_error = "1ms"
loops = 50 | 1
equal = true | false
check = true | false
[ffmpeg]
cores_per_instance = 1 | 2 | 4
workers = 12 | 2
runnable = 2 | 1
wakeups = "2600/s" | ["1300/s", "2600/s", "5200/s"]
[optional]
instances = 1 | 2
fair = 0 | 2
slices = true | false
burst_ratio = 10 | 1 | 100
frame_time = "10ms"
policy = "fifo" | "rr"
priority = 99 | 1
[cyclictest]
interval = "1ms"
[tasks]
[cyclic]
sleep = "10us"
work = "200ns"
[tasks]
[hogs]
name = "a_1" | "w"
[tasks]
[pinned]
cpus = "0-3" | "0"
[optional]
start = "5ms"
[cgroup-hogs]
children = 2 | 1
leaves = 2 | 1
hogs = 1 | 3
quota = "50ms" | "1ms"
[optional]
subtrees = 1 | 2
period = "100ms"
burst = "0s" | "10ms"
[lock-holder]
quota = "50ms" | "1ms"
[optional]
holds = "read" | "write"
work = "5us"
page_wait = "200us"
pause = "2ms"
period = "100ms"
[file-copy]
buffer_bytes = 256 | 4096
blocks = 500 | 2000
baseline = 1655 | 3960
cycle = "2us"
hold_percent = 30 | 100
[optional]
files = 1 | 4
read_percent = 50 | 100
threads = 2
cpus = "0-1"
[hackbench]
[optional]
groups = 2 | 1
pairs = 2 | 20
loops = 10 | 100
size_bytes = 100 | 1
[schbench]
[optional]
message_threads = 2
workers = 16
work = "500us"
pause = "0s" | "2ms"
[pi-stress]
[optional]
groups = 2 | 1
hold = "1us"
base_prio = 1 | 97
[requests]
rate = "500/s" | "10000000/s"
service = "1ms" | "100ns"
[optional]
batch = 4 | 1
service_times = "fixed" | "uniform" | "exponential"
threads = 2 | 64
cpus = "0-3" | "3"
nice = 0 | 19
arrival_cpus = "0" | "1-2"
group = "pod" | "app"
[program-lock]
[optional]
uses = 1 | 4
work = "1us" | "100us"
work_times = "fixed" | "exponential"
think = "0s" | "50us"
hold = "0s" | "200ns"
sleep = "0s" | "20us"
spin = "1ns" | "40ns"
touches = 0 | 3
touches_times = "fixed" | "uniform"
touch_bytes = 64 | 4096 | 2097152
processes = true | false
initialised = true | false
threads = 2 | 9
cpus = "0-3" | "3"
pinned = true | false
group = "pod" | "app"
[rt-app]
file = "a.json"
[optional]
"#;

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

/// A scenario and settings that override parts of it.
pub fn scenario(choices: &mut Choices<'_>) -> (String, Vec<String>) {
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
    let kinds = sections(KINDS);
    for _ in 0..choices.below(3) + 1 {
        out += "[[workload]]\n";
        let nth = choices.below(kinds.len() / 2);
        let (needed, optional) = (&kinds[2 * nth], &kinds[2 * nth + 1]);
        out += &format!("kind = \"{}\"\n", needed.name);
        keys(choices, &mut out, &needed.keys);
        let optional = match optional.name {
            "tasks" => &table(TASKS),
            _ => &optional.keys,
        };
        some_keys(choices, &mut out, optional, 4);
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
