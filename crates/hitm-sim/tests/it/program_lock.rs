//! A program's own lock: who is away while others wait, and what cures it.

use std::collections::BTreeMap;

use hitm_base::Machine;
use hitm_base::machine::preset;
use hitm_sim::layout::Layouts;
use hitm_sim::scenario::{Outcome, RunRequest, Scenario, run};
use proptest::prelude::*;

use crate::bandwidth::cases;

/// 12 processes on 4 CPUs, which touch a page in the lock each time.
const PROGRAM: &str = "kind = \"program-lock\"\nthreads = 12\nprocesses = true\ninitialised = true\n\
                       work = \"4us\"\nhold = \"500ns\"\ntouches = 1";

fn outcome(kernel: &str, workload: &str, millis: u64, seed: u64) -> Outcome {
    let text = format!(
        "schema = 1\nname = \"p\"\ndescription = \"d\"\nsource = \"made\"\n\
         [machine]\npreset = \"broadwell-4s\"\ncpus = 4\n\
         [kernel]\nload_balancing = \"domains\"\n{kernel}\n\
         [[workload]]\n{workload}\n[run]\nduration = \"{millis}ms\"\n"
    );
    let scenario = Scenario::parse(&text, "p.toml").unwrap();
    let machine = Machine::from_toml(preset("broadwell-4s").unwrap(), "broadwell-4s").unwrap();
    let request = RunRequest {
        scenario: &scenario,
        machine: &scenario.check(&machine).unwrap(),
        layouts: Layouts::linux_6_12(),
        variant: &scenario.variants()[0],
        seed,
        scenario_hash: 0,
        rt_apps: &BTreeMap::new(),
        traces: &BTreeMap::new(),
    };
    run(&request, &mut |_, _| ()).unwrap()
}

fn figure(outcome: &Outcome, id: &str) -> f64 {
    let id = format!("program_lock.{id}");
    let metric = outcome.metrics.iter().find(|metric| metric.id == id);
    metric.unwrap_or_else(|| panic!("no {id}")).value
}

/// The five configurations: none, full, lazy, lazy with huge pages, lazy with extended slices.
const CONFIGURATIONS: [&str; 5] = [
    "preempt = \"none\"",
    "preempt = \"full\"",
    "preempt = \"lazy\"",
    "preempt = \"lazy\"\nmechanisms = \"huge-pages\"",
    "preempt = \"lazy\"\nmechanisms = \"slice-extension\"",
];

#[test]
fn one_thread_never_waits_and_touches_each_page_once() {
    let workload =
        "kind = \"program-lock\"\nthreads = 1\nwork = \"1us\"\ntouches = 1\ntouch_bytes = 1024";
    let outcome = outcome("", workload, 10, 1);
    let transactions = figure(&outcome, "transactions_per_second") / 100.0;
    assert_eq!(figure(&outcome, "lock_wait_us_mean"), 0.0);
    assert_eq!(figure(&outcome, "spin_cpu_share"), 0.0);
    // Four elements a page; the last transaction may not be over.
    let faults = figure(&outcome, "faults");
    assert!(
        (faults - (transactions / 4.0).ceil()).abs() <= 1.0,
        "{faults} {transactions}"
    );
    assert!(transactions > 1_000.0, "{transactions}");
}

#[test]
fn a_holder_that_sleeps_is_asleep_for_those_that_wait() {
    let workload = "kind = \"program-lock\"\nthreads = 2\npinned = true\ncpus = \"0-1\"\nwork = \"1us\"\nsleep = \"500us\"";
    let outcome = outcome("", workload, 200, 1);
    let asleep = figure(&outcome, "wait_holder_asleep");
    let none = figure(&outcome, "wait_no_holder");
    // Who waits sleeps for 1 ms and more, half of it after the lock is free.
    assert!(asleep > 20.0 && asleep + none > 95.0, "{asleep} {none}");
    assert_eq!(figure(&outcome, "wait_holder_preempted"), 0.0);
    assert!(figure(&outcome, "back_off_sleeps") > 10.0);
}

#[test]
fn shares_of_the_waiting_are_all_of_it() {
    let outcome = outcome(CONFIGURATIONS[2], PROGRAM, 60, 3);
    let shares = [
        "wait_holder_running",
        "wait_holder_fault",
        "wait_holder_preempted",
        "wait_holder_preempted_in_fault",
        "wait_holder_asleep",
        "wait_no_holder",
    ];
    let shares = shares.map(|id| figure(&outcome, id));
    assert!(
        (shares.iter().sum::<f64>() - 100.0).abs() < 1e-6,
        "{shares:?}"
    );
    let [running, fault, preempted, ..] = shares;
    assert!(
        running > 0.0 && fault > 0.0 && preempted > 0.0,
        "{shares:?}"
    );
}

#[test]
fn equal_seeds_are_equal_runs() {
    for kernel in CONFIGURATIONS {
        let hash = |seed| outcome(kernel, PROGRAM, 20, seed).event_hash;
        assert_eq!(hash(5), hash(5));
        assert_ne!(hash(5), hash(6));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(4)))]

    /// Huge pages take the faults out of the lock and extended slices let holders finish: neither is
    /// slower than lazy preemption alone.
    #[test]
    fn both_cures_help(seed in 0u64..1_000) {
        let runs = CONFIGURATIONS.map(|kernel| outcome(kernel, PROGRAM, 100, seed));
        let speed = runs.each_ref().map(|run| figure(run, "transactions_per_second"));
        let [_, _, lazy, huge, extended] = speed;
        prop_assert!(huge > lazy, "{:?}", speed);
        prop_assert!(extended > lazy, "{:?}", speed);
        let away = |run| figure(run, "wait_holder_preempted") + figure(run, "wait_holder_preempted_in_fault");
        prop_assert!(away(&runs[4]) < away(&runs[2]), "{:?}", speed);
        prop_assert!(figure(&runs[3], "faults") * 20.0 < figure(&runs[2], "faults"));
        prop_assert!(figure(&runs[4], "slices_extended") > 0.0);
    }
}
