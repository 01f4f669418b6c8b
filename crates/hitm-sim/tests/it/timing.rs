//! Places and times of all accesses, kept: a change that moves code or declarations, or that gives
//! values which decide nothing, leaves the timing hashes as they are.
//!
//! `UPDATE_EXPECT=1 cargo test -p hitm-sim --test it -- timing` writes both files. Columns are the hash of
//! events, which values and the order of declarations change, and that of timing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;
use hitm_base::machine::preset;
use hitm_base::{Fnv1a, Machine, Random};
use hitm_sim::kernel::Preemption;
use hitm_sim::layout::Layouts;
use hitm_sim::scenario::{Outcome, RunRequest, Scenario, ShippedFile, Variant, run, shipped};

const SEEDS: u64 = 1000;
const LAYOUT: &str = "linux-6.12";

/// Runs one variant of a scenario on its preset, or as many CPUs of it as it says.
pub(crate) fn outcome(
    scenario: &Scenario,
    preset_name: &str,
    variant: &Variant,
    seed: u64,
) -> Outcome {
    let machine = Machine::from_toml(preset(preset_name).unwrap(), preset_name).unwrap();
    let request = RunRequest {
        scenario,
        machine: &scenario.check(&machine).unwrap(),
        layouts: Layouts::linux_6_12(),
        variant,
        seed,
        scenario_hash: 0,
        rt_apps: &BTreeMap::new(),
        traces: &BTreeMap::new(),
    };
    run(&request, &mut |_, _| ()).unwrap()
}

/// Settings that make a shipped scenario's runs short and still have in them what it is about.
fn short(file: &ShippedFile) -> Vec<String> {
    let settings: &[&str] = match (file.folder, file.name) {
        ("000-root-domain", "ffmpeg.toml") => {
            &["run.duration=\"300us\"", "workload.0.wakeups=\"10400/s\""]
        }
        ("000-root-domain", _) => &["run.duration=\"300us\""],
        ("001-rt-balancing", "cpus-480.toml") => &["run.duration=\"500us\""],
        ("001-rt-balancing", "cpus-096.toml") => &["run.duration=\"2ms\""],
        ("001-rt-balancing", _) => &["run.duration=\"300ms\""],
        ("003-lock-affinity", _) => &["run.duration=\"3ms\"", "kernel.lock_window=\"1ms\""],
        ("004-task-throttle", "lock-holder.toml") => &["run.duration=\"300ms\""],
        ("004-task-throttle", _) => &[
            "run.duration=\"3ms\"",
            "workload.0.children=2",
            "workload.0.leaves=2",
            "workload.0.quota=\"100ms\"",
            "workload.0.period=\"1ms\"",
        ],
        ("005-quota", "bursts.toml") => &["run.duration=\"400ms\"", "workload.0.rate=\"40/s\""],
        ("005-quota", _) => &["run.duration=\"300ms\""],
        ("006-holder", _) => &["run.duration=\"2ms\""],
        (folder, _) => panic!("{folder} has no short runs yet"),
    };
    let shared = ["run.warm_up=\"0s\""].iter().chain(settings);
    shared.map(|setting| (*setting).to_owned()).collect()
}

#[test]
fn scenarios_have_the_timing_that_they_had() {
    let mut written = String::new();
    for file in shipped() {
        let mut scenario = Scenario::parse_with(file.text, file.name, &short(file)).unwrap();
        scenario.kernel.layouts = vec![LAYOUT.to_owned()];
        let preset_name = match &scenario.machine.model {
            hitm_sim::scenario::ModelChoice::Preset(name) => name.clone(),
            other => panic!("{other:?}"),
        };
        for variant in scenario.variants() {
            let outcome = outcome(&scenario, &preset_name, &variant, scenario.run.seed);
            let policies = [
                variant.balancing.id(),
                variant.throttling.id(),
                variant.placement.id(),
            ];
            let (event, timing) = (outcome.event_hash, outcome.timing_hash);
            let name = &scenario.name;
            let mut policies = policies.join(" ");
            for mechanism in &variant.mechanisms {
                write!(policies, " {}", mechanism.id()).unwrap();
            }
            if variant.preempt != Preemption::None {
                write!(policies, " {}", variant.preempt.id()).unwrap();
            }
            writeln!(written, "{event:016x} {timing:016x} {name} {policies}").unwrap();
        }
    }
    expect_file!["timing/scenarios.txt"].assert_eq(&written);
}

const MACHINES: [(&str, u32); 4] = [
    ("broadwell-4s", 3),
    ("broadwell-4s", 8),
    ("kunpeng920-96", 12),
    ("xeon-480", 8),
];

const KERNELS: [&str; 6] = [
    "balancing = \"passive\"",
    "balancing = \"push-pull\"\nload_balancing = \"domains\"\nthrottling = \"sync\"",
    "balancing = \"push-ipi\"\nload_balancing = \"domains\"\nthrottling = \"task\"\nidle = \"menu\"",
    "balancing = \"push-ipi\"\nload_balancing = \"domains\"\nplacement = \"lock-aware\"\nlock_window = \"1ms\"",
    "balancing = \"push-ipi\"\nthrottling = \"task-sync\"\nload_balancing = \"domains\"\nspinlock = \"cna\"",
    "balancing = \"push-ipi\"\nthrottling = \"async\"",
];

const WORKLOADS: [&str; 15] = [
    "kind = \"rt-migrate-test\"\nrun_time = \"200us\"\nsleep = \"1ms\"",
    "kind = \"ffmpeg\"\ncores_per_instance = 1\nworkers = 4\nrunnable = 3\nfair = 1\nwakeups = \"20000/s\"",
    "kind = \"cyclictest\"\ninterval = \"200us\"",
    "kind = \"cyclic\"\nsleep = \"20us\"",
    "kind = \"hogs\"\nthreads = 7",
    "kind = \"hogs\"\nname = \"late\"\nthreads = 9\nnice = 5\nstart = \"300us\"",
    "kind = \"cgroup-hogs\"\nchildren = 2\nleaves = 2\nhogs = 3\nquota = \"1ms\"\nperiod = \"1ms\"",
    "kind = \"lock-holder\"\nquota = \"1ms\"\nperiod = \"2ms\"",
    "kind = \"file-copy\"\nthreads = 6\nbuffer_bytes = 4096\nblocks = 100\nbaseline = 1000\ncycle = \"2us\"\nhold_percent = 40",
    "kind = \"hackbench\"\ngroups = 1\npairs = 3\nloops = 20",
    "kind = \"schbench\"\nmessage_threads = 1\nworkers = 5\nwork = \"40us\"\npause = \"10us\"",
    "kind = \"pi-stress\"\ngroups = 2\nhold = \"1us\"",
    "kind = \"lock-bench\"\nlock = \"spinlock\"\nthreads = 3\nhold = \"200ns\"",
    "kind = \"request-response\"\nclients = \"0\"\nservers = \"2\"",
    "kind = \"policy-changer\"\nthreads = 2\nwork = \"5us\"",
];

/// A short run of two workloads that a seed chooses, on a machine and kernel that it chooses.
fn mixed(seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let mut pick = |count: usize| random.below(count as u64) as usize;
    let (preset_name, cpus) = MACHINES[pick(MACHINES.len())];
    let kernel = KERNELS[pick(KERNELS.len())];
    let first = pick(WORKLOADS.len());
    let second = (first + 1 + pick(WORKLOADS.len() - 1)) % WORKLOADS.len();
    let workloads = [first, second].map(|number| format!("[[workload]]\n{}\n", WORKLOADS[number]));
    let text = format!(
        "schema = 1\nname = \"m\"\ndescription = \"d\"\nsource = \"made\"\n\
         [machine]\npreset = \"{preset_name}\"\ncpus = {cpus}\n\
         [kernel]\n{kernel}\n{}[run]\nduration = \"1500us\"\n",
        workloads.concat()
    );
    let scenario = Scenario::parse(&text, "m.toml").unwrap();
    let variant = &scenario.variants()[0];
    outcome(&scenario, preset_name, variant, seed)
}

#[test]
fn a_thousand_seeds_have_the_timing_that_they_had() {
    let (mut events, mut timing) = (Fnv1a::EMPTY, Fnv1a::EMPTY);
    for seed in 0..SEEDS {
        let outcome = mixed(seed);
        events = events.with(&outcome.event_hash.to_le_bytes());
        timing = timing.with(&outcome.timing_hash.to_le_bytes());
    }
    let (events, timing) = (events.value(), timing.value());
    let written = format!("{events:016x} {timing:016x} {SEEDS} seeds\n");
    expect_file!["timing/seeds.txt"].assert_eq(&written);
}
