//! Requests in groups with a quota: nothing waits without a cause, no group gets more than its quota,
//! and slices expire where they are asked to.

use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Cycles, Machine, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, GroupId, GroupSpec, Kernel, KernelConfig, LoadBalancing, Mechanism, Policy,
    Quota, Task, TaskSpec, Throttling,
};
use hitm_sim::layout::Layouts;
use hitm_sim::scenario::{Outcome, RunRequest, Scenario, run};
use hitm_sim::workload::requests::{Load, Requests, RequestsConfig, Service, Times, TracedRequest};
use proptest::prelude::*;

use crate::bandwidth::{ALL, cases};
use crate::rt::{boot, machine};

fn ms(at: f64) -> Nanos {
    Nanos(at * 1e6)
}

fn booted(throttling: Throttling, cpus: usize, mechanisms: &[Mechanism]) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        throttling,
        load_balancing: LoadBalancing::Domains,
        mechanisms: mechanisms.to_vec(),
        hz: 1000,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    boot(machine("genoa-384", cpus), 1, Nanos(1e12), config)
}

fn group(kernel: &Kernel, parent: GroupId, quota_ms: f64, period_ms: f64) -> GroupId {
    let quota = Quota {
        quota: ms(quota_ms),
        period: ms(period_ms),
        burst: Nanos(0.0),
    };
    let spec = GroupSpec {
        quota: Some(quota),
        ..GroupSpec::within(parent)
    };
    kernel.create_group(&spec).unwrap()
}

fn pinned(cpus: usize, threads: usize) -> Vec<CpuMask> {
    let mask = |thread: usize| CpuMask::of(cpus, [CpuId((thread % cpus) as u16)]);
    (0..threads).map(mask).collect()
}

fn service(mean: Nanos, times: Times) -> Service {
    Service {
        mean,
        times,
        long: None,
    }
}

fn hog(kernel: &Rc<Kernel>, group: GroupId, cpu: u16) -> Rc<Task> {
    let spec = TaskSpec {
        name: "hog".to_owned(),
        policy: Policy::Normal(0),
        allowed: Some(CpuMask::of(kernel.cpu_count(), [CpuId(cpu)])),
        cpu: CpuId(cpu),
        start: Cycles::ZERO,
    };
    let task = kernel.spawn_in(
        group,
        &spec,
        |thread| async move { thread.run_always().await },
    );
    task.unwrap()
}

#[test]
fn a_request_that_the_quota_stops_waits_for_the_next_period() {
    for throttling in ALL {
        let (kernel, mut executor) = booted(throttling, 2, &[]);
        let group = group(&kernel, GroupId::ROOT, 20.0, 100.0);
        kernel.align_quota(group, ms(0.0));
        // At 110 ms a period of 20 ms has begun; 50 ms of work are done in the third.
        let load = Load::Trace(vec![TracedRequest {
            at: ms(110.0),
            service: ms(50.0),
        }]);
        let config = RequestsConfig {
            load,
            service: service(ms(1.0), Times::Fixed),
            nice: 0,
            arrival_cpus: vec![CpuId(1)],
        };
        let threads = pinned(2, 1);
        let requests = Requests::spawn(&kernel, group, &threads, &config).unwrap();
        executor.run_until(kernel.cycles(ms(400.0))).unwrap();
        let done = requests.done();
        let clock = kernel.engine().machine().clock;
        let millis = |span: Cycles| clock.nanos(span).0 / 1e6;
        assert_eq!(
            (requests.arrived(), done.latencies.len(), done.throttled),
            (1, 1, 1)
        );
        let latency = millis(done.latencies[0]);
        // 110 to 130 ms, 200 to 220, 300 to 310, and a tick over each end of the quota at most.
        assert!(
            (197.0..202.0).contains(&latency),
            "{throttling:?}: {latency}"
        );
        let quota = millis(done.waits.quota);
        assert!((145.0..152.0).contains(&quota), "{throttling:?}: {quota}");
        let later = millis(done.waits.timer + done.waits.interrupt + done.waits.cpu);
        assert!(later < 0.1, "{throttling:?}: {later}");
        let parts = done.ran + done.thread_wait + done.waits.total();
        assert_eq!(parts, done.latencies[0], "{throttling:?}");
        let ran = millis(done.ran);
        assert!((50.0..50.1).contains(&ran), "{throttling:?}: {ran}");
        let counts = kernel.bandwidth_counts(group).unwrap();
        assert_eq!(counts.nr_throttled, 2, "{throttling:?}: {counts:?}");
        let stopped = millis(counts.throttled_time);
        assert!(
            (stopped - quota).abs() < 0.1,
            "{throttling:?}: {stopped} and {quota}"
        );
    }
}

#[test]
fn without_a_free_thread_requests_wait_in_order() {
    let (kernel, mut executor) = booted(Throttling::Async, 2, &[]);
    let at = |at_ms: f64| TracedRequest {
        at: ms(at_ms),
        service: ms(3.0),
    };
    let config = RequestsConfig {
        load: Load::Trace(vec![at(10.0), at(11.0), at(12.0)]),
        service: service(ms(1.0), Times::Fixed),
        nice: 0,
        arrival_cpus: vec![CpuId(1)],
    };
    let requests = Requests::spawn(&kernel, GroupId::ROOT, &pinned(2, 1), &config).unwrap();
    executor.run_until(kernel.cycles(ms(30.0))).unwrap();
    let done = requests.done();
    let clock = kernel.engine().machine().clock;
    let rounded = |span: &Cycles| (clock.nanos(*span).0 / 1e6).round();
    let latencies: Vec<f64> = done.latencies.iter().map(rounded).collect();
    assert_eq!(latencies, [3.0, 5.0, 7.0]);
    assert_eq!(rounded(&done.thread_wait), 6.0);
    assert_eq!(done.throttled, 0);
}

/// Eight CPUs each do 0.3 ms a period of 100 ms and keep up to a millisecond of what they took.
fn stranded(mechanisms: &[Mechanism]) -> (u64, u64, Cycles) {
    let (kernel, mut executor) = booted(Throttling::Sync, 8, mechanisms);
    let group = group(&kernel, GroupId::ROOT, 6.0, 100.0);
    let config = RequestsConfig {
        load: Load::Think {
            mean: ms(99.0),
            times: Times::Uniform,
        },
        service: service(Nanos(300e3), Times::Fixed),
        nice: 0,
        arrival_cpus: Vec::new(),
    };
    let _requests = Requests::spawn(&kernel, group, &pinned(8, 8), &config).unwrap();
    executor.run_until(kernel.cycles(ms(3_000.0))).unwrap();
    let counts = kernel.bandwidth_counts(group).unwrap();
    (counts.nr_periods, counts.nr_throttled, counts.expired)
}

#[test]
fn slices_that_expire_throttle_a_group_far_below_its_quota() {
    let (periods, throttled, expired) = stranded(&[]);
    // The first CPUs take a slice of 5 of 6 ms each.
    assert_eq!((throttled, expired), (1, Cycles::ZERO), "of {periods}");
    let (periods, throttled, expired) = stranded(&[Mechanism::ExpiringSlices]);
    assert!(throttled * 3 > periods, "{throttled} of {periods}");
    assert!(expired > Cycles::ZERO);
}

const HEAD: &str = "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n\
    [machine]\npreset = \"genoa-384\"\ncpus = 8\n[run]\nduration = \"1s\"\n";

fn outcomes(text: &str) -> Vec<Outcome> {
    let scenario = Scenario::parse(&format!("{HEAD}{text}"), "x").unwrap();
    let machine = Machine::from_toml(preset("genoa-384").unwrap(), "genoa-384").unwrap();
    let machine = scenario.check(&machine).unwrap();
    let one = |variant| {
        let request = RunRequest {
            scenario: &scenario,
            machine: &machine,
            layouts: Layouts::linux_6_12(),
            variant,
            seed: 1,
            scenario_hash: 0,
            rt_apps: &BTreeMap::new(),
            traces: &BTreeMap::new(),
        };
        run(&request, &mut |_, _| ()).unwrap()
    };
    scenario.variants().iter().map(one).collect()
}

fn metric(outcome: &Outcome, id: &str) -> f64 {
    let mut all = outcome.metrics.iter();
    let found = all.find(|metric| metric.id == id);
    found.unwrap_or_else(|| panic!("no {id}")).value
}

#[test]
fn groups_of_a_scenario_have_cpu_stat_and_causes() {
    let text = "[kernel]\nthrottling = [\"sync\", \"task\"]\nload_balancing = \"domains\"\n\
        [[group]]\nname = \"pod\"\nquota = \"200ms\"\n\
        [[group]]\nname = \"app\"\nparent = \"pod\"\nquota = \"50ms\"\nweight = 200\n\
        [[workload]]\nkind = \"hogs\"\ngroup = \"app\"\nthreads = 2\n\
        [[workload]]\nkind = \"requests\"\ngroup = \"pod\"\nthreads = 8\nrate = \"500/s\"\nservice = \"1ms\"\n";
    for outcome in outcomes(text) {
        let of = |id: &str| metric(&outcome, id);
        // 500 ms of 1000 for the hogs beside 500 requests of 1 ms, with some slack of slices.
        assert!(
            (480.0e3..560.0e3).contains(&of("app.usage_usec")),
            "{}",
            of("app.usage_usec")
        );
        assert!(
            (950.0e3..1_100.0e3).contains(&of("pod.usage_usec")),
            "{}",
            of("pod.usage_usec")
        );
        let hogs = of("hogs.used_ms") * 1e3;
        assert!((hogs - of("app.usage_usec")).abs() < 1e-6);
        assert!((9.0..=11.0).contains(&of("app.nr_periods")));
        assert!(of("app.nr_throttled") >= 9.0);
        // Two hogs stand still for what is left of a second.
        let waits =
            ["quota", "timer", "interrupt", "cpu"].map(|cause| of(&format!("app.wait_{cause}_ms")));
        let all = waits.iter().sum::<f64>() + hogs / 1e3;
        // The last wait may not have ended: it is shorter than a period.
        assert!((1_800.0..=2_000.0).contains(&all), "{all}");
        let parts = [
            "run",
            "wait_thread",
            "wait_quota",
            "wait_timer",
            "wait_interrupt",
            "wait_cpu",
        ];
        let parts: f64 = parts
            .iter()
            .map(|part| of(&format!("requests.{part}_us_mean")))
            .sum();
        let mean = of("requests.latency_us_mean");
        assert!((parts - mean).abs() < 1e-6 * mean, "{parts} and {mean}");
    }
}

#[test]
fn a_list_of_mechanisms_is_a_variant_each_and_none_is_one() {
    let text = "[kernel]\nmechanisms = [[], [\"expiring-slices\"], [\"timekeeper\", \"nohz-balance\"]]\n\
        [[workload]]\nkind = \"hogs\"\nthreads = 1\n";
    let outcomes = outcomes(text);
    let counts: Vec<usize> = outcomes
        .iter()
        .map(|one| one.variant.mechanisms.len())
        .collect();
    assert_eq!(counts, [0, 1, 2]);
    // One hog alone, from its first instruction to the end.
    for outcome in &outcomes {
        let used = metric(outcome, "hogs.used_ms");
        assert!((999.9..=1_000.0).contains(&used), "{used}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(60)))]

    /// Random groups with requests and hogs: no group uses more than its quotas and the slack of
    /// slices; a hog's time is what it used and what it waited, to the cycle of its last switch; a
    /// request's parts make its latency, and it runs for as long as it takes.
    #[test]
    fn all_time_has_a_cause(
        form in 0usize..4,
        expires in any::<bool>(),
        outer in 5.0f64..200.0,
        inner in 2.0f64..40.0,
        threads in 1usize..8,
        rate in 50u64..3_000,
        service_us in 20.0f64..3_000.0,
    ) {
        const CPUS: usize = 4;
        let mechanisms: &[Mechanism] = if expires { &[Mechanism::ExpiringSlices] } else { &[] };
        let (kernel, mut executor) = booted(ALL[form], CPUS, mechanisms);
        let above = group(&kernel, GroupId::ROOT, outer, 50.0);
        let below = group(&kernel, above, inner, 20.0);
        let config = RequestsConfig {
            load: Load::Rate { per_second: rate, batch: 2 },
            service: service(Nanos(service_us * 1e3), Times::Fixed),
            nice: 0,
            arrival_cpus: vec![CpuId(0), CpuId(3)],
        };
        let anywhere = vec![CpuMask::all(CPUS); threads];
        let requests = Requests::spawn(&kernel, below, &anywhere, &config).unwrap();
        let hogs = [hog(&kernel, above, 0), hog(&kernel, below, 1), hog(&kernel, GroupId::ROOT, 1)];
        let end = kernel.cycles(ms(500.0));
        executor.run_until(end).unwrap();
        let clock = kernel.engine().machine().clock;
        for (group, quota, period) in [(above, outer, 50.0), (below, inner, 20.0)] {
            let used = clock.nanos(kernel.group_totals(group, end).0).0 / 1e6;
            // Each CPU holds a slice of 5 ms, and notices with the next tick that it is used up.
            let most = (500.0 / period + 1.0) * quota + CPUS as f64 * (5.0 + 1.0 + 0.5);
            prop_assert!(used <= most, "{used} of {most}");
        }
        for hog in &hogs {
            let waits = hog.totals().waits.total();
            let known = kernel.used(hog, end) + waits;
            prop_assert!(known <= end, "{known:?} of {end:?}");
            if kernel.peek_task(hog).is_on_cpu {
                // It began with the run, and was woken some microseconds later.
                prop_assert!(end - known < kernel.cycles(Nanos(20e3)), "{known:?} of {end:?}");
            }
        }
        let done = requests.done();
        let latency = Cycles(done.latencies.iter().map(|latency| latency.0).sum());
        prop_assert_eq!(done.ran + done.thread_wait + done.waits.total(), latency);
        let work = kernel.cycles(Nanos(service_us * 1e3)).0 * done.latencies.len() as u64;
        prop_assert!(done.ran.0 >= work, "{:?} of {work}", done.ran);
        // System calls, interrupts and the scheduler take some microseconds of each.
        let most = work + done.latencies.len() as u64 * kernel.cycles(Nanos(60e3)).0;
        prop_assert!(done.ran.0 <= most, "{:?} of {most}", done.ran);
    }
}
