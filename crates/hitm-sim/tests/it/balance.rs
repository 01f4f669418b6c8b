//! Load balancing by domains: hogs spread, weights are evened out, running tasks move, and nothing goes
//! where it must not.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos, Topology};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, GroupId, GroupSpec, Kernel, KernelConfig, LoadBalancing, Placement, Policy,
    Quota, Task, TaskSpec, Throttling,
};
use hitm_sim::workload::file_copy::{FileCopy, FileCopyConfig};
use proptest::prelude::*;

use crate::rt::machine;

fn config() -> KernelConfig {
    KernelConfig {
        load_balancing: LoadBalancing::Domains,
        ..KernelConfig::new(Balancing::PushIpi)
    }
}

/// The first CPUs of genoa-384: eight cores share a last-level cache.
fn booted(cpus: usize) -> (Rc<Kernel>, Executor) {
    crate::rt::boot(machine("genoa-384", cpus), 1, Nanos(1e12), config())
}

/// A task that never sleeps.
fn hog(kernel: &Rc<Kernel>, cpu: u16, nice: i8, allowed: Option<CpuMask>) -> Rc<Task> {
    let spec = TaskSpec {
        name: "hog".to_owned(),
        policy: Policy::Normal(nice),
        allowed,
        cpu: CpuId(cpu),
        start: Cycles::ZERO,
    };
    let task = kernel.spawn(&spec, move |thread| async move {
        loop {
            thread.run(Cycles(1 << 40)).await;
        }
    });
    task.unwrap()
}

fn run_to_ms(kernel: &Kernel, executor: &mut Executor, ms: f64) {
    executor.run_until(kernel.cycles(Nanos(ms * 1e6))).unwrap();
}

/// CPU time of each task in the next `ms`.
fn used_in(kernel: &Kernel, executor: &mut Executor, tasks: &[Rc<Task>], ms: f64) -> Vec<f64> {
    let clock = kernel.engine().machine().clock;
    let now = |task: &Rc<Task>| clock.nanos(task.totals().run_time).0 / 1e6;
    let before: Vec<f64> = tasks.iter().map(now).collect();
    let begin = clock.nanos(kernel.engine().now()).0 / 1e6;
    run_to_ms(kernel, executor, begin + ms);
    let after = tasks.iter().map(now);
    after
        .zip(before)
        .map(|(after, before)| after - before)
        .collect()
}

#[test]
fn hogs_spread_over_the_machine_from_one_cpu() {
    let (kernel, mut executor) = booted(16);
    let hogs: Vec<Rc<Task>> = (0..16).map(|_| hog(&kernel, 0, 0, None)).collect();
    run_to_ms(&kernel, &mut executor, 400.0);
    let used = used_in(&kernel, &mut executor, &hogs, 100.0);
    // A CPU each; run times are as of the last tick.
    assert!(used.iter().all(|used| *used > 90.0), "{used:?}");
}

#[test]
fn weights_are_evened_out() {
    let (kernel, mut executor) = booted(4);
    // 3121 and 9 x 1024: a quarter is 3084, so the heavy one has a CPU to itself.
    let heavy = hog(&kernel, 0, -5, None);
    let mut hogs: Vec<Rc<Task>> = (0..9)
        .map(|number| hog(&kernel, number % 4, 0, None))
        .collect();
    hogs.insert(0, heavy);
    run_to_ms(&kernel, &mut executor, 1_500.0);
    let used = used_in(&kernel, &mut executor, &hogs, 1_000.0);
    let sum: f64 = used.iter().sum();
    assert!(sum > 3_950.0, "{used:?}");
    assert!(used[0] > 850.0, "{used:?}");
    let light = &used[1..];
    let (least, most) = light
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), used| {
            (least.min(*used), most.max(*used))
        });
    // Three on a CPU get 333 ms, four 250; who moves within the time has something in between.
    assert!(least > 200.0 && most < 500.0, "{used:?}");
}

#[test]
fn running_hogs_leave_a_full_cache_for_an_idle_one() {
    let (kernel, mut executor) = booted(16);
    // One on each CPU of the first cache: nobody waits, so nobody can be pulled.
    let hogs: Vec<Rc<Task>> = (0..8).map(|cpu| hog(&kernel, cpu, 0, None)).collect();
    run_to_ms(&kernel, &mut executor, 1_000.0);
    let topology = &kernel.engine().machine().topology;
    let moved = hogs.iter().filter(|hog| topology.llc_of(hog.cpu()) == 1);
    assert_eq!(moved.count(), 4, "half of them");
    let used = used_in(&kernel, &mut executor, &hogs, 100.0);
    assert!(used.iter().all(|used| *used > 90.0), "{used:?}");
}

#[test]
fn a_sleeper_wakes_near_its_waker_or_where_it_was() {
    let (kernel, mut executor) = booted(16);
    let spec = TaskSpec {
        name: "sleeper".to_owned(),
        policy: Policy::Normal(0),
        allowed: None,
        cpu: CpuId(9),
        start: Cycles::ZERO,
    };
    let pause = kernel.cycles(Nanos(1e6));
    let sleeper = kernel.spawn(&spec, move |thread| async move {
        loop {
            thread.sleep(pause).await;
        }
    });
    let sleeper = sleeper.unwrap();
    run_to_ms(&kernel, &mut executor, 50.0);
    assert_eq!(sleeper.totals().migrations, 0, "its CPU is idle each time");
    let hog = hog(&kernel, 9, 0, None);
    run_to_ms(&kernel, &mut executor, 100.0);
    let topology = &kernel.engine().machine().topology;
    assert_ne!(sleeper.cpu(), hog.cpu());
    assert_eq!(
        topology.llc_of(sleeper.cpu()),
        1,
        "an idle CPU of its cache"
    );
}

#[test]
fn a_pipe_takes_its_reader_to_the_cache_of_the_writer() {
    let (kernel, mut executor) = booted(16);
    let pipe = kernel.pipe("pipe").unwrap();
    let spec = |name: &str, cpu| TaskSpec {
        name: name.to_owned(),
        policy: Policy::Normal(0),
        allowed: None,
        cpu: CpuId(cpu),
        start: Cycles::ZERO,
    };
    let (to, work) = (Rc::clone(&pipe), kernel.cycles(Nanos(2e5)));
    let writer = kernel.spawn(&spec("writer", 0), move |thread| async move {
        loop {
            thread.run(work).await;
            thread.write_pipe(&to, 8).await;
        }
    });
    let reader = kernel.spawn(&spec("reader", 9), move |thread| async move {
        loop {
            thread.read_pipe(&pipe, 8).await;
        }
    });
    let (writer, reader) = (writer.unwrap(), reader.unwrap());
    run_to_ms(&kernel, &mut executor, 20.0);
    // Its own CPU is idle, but the writer says that it is about to sleep, and is alone on its CPU.
    let llc_of = |task: &Task| kernel.engine().machine().topology.llc_of(task.cpu());
    assert_eq!(llc_of(&reader), llc_of(&writer));
    assert_ne!(reader.cpu(), writer.cpu(), "there are idle CPUs beside it");
}

#[test]
fn nothing_moves_against_affinity() {
    let (kernel, mut executor) = booted(16);
    let two = CpuMask::of(16, [CpuId(0), CpuId(9)]);
    let hogs: Vec<Rc<Task>> = (0..6)
        .map(|_| hog(&kernel, 0, 0, Some(two.clone())))
        .collect();
    for step in 1..400 {
        run_to_ms(&kernel, &mut executor, f64::from(step) * 5.0);
        for hog in &hogs {
            assert!(two.contains(hog.cpu()), "on CPU {}", hog.cpu().0);
        }
    }
    // The level above helps where all that are queued may not run on the nearest idle CPUs.
    let used = used_in(&kernel, &mut executor, &hogs, 1_000.0);
    let sum: f64 = used.iter().sum();
    assert!(sum > 1_950.0, "both CPUs are in use: {used:?}");
}

#[test]
fn no_load_goes_to_the_cpus_of_a_lock_group() {
    let config = KernelConfig {
        placement: Placement::LockAware,
        ..config()
    };
    let machine = machine("kunpeng920-96", 96);
    let (kernel, mut executor) = crate::rt::boot(machine, 1, Nanos(1e12), config);
    let copy = FileCopyConfig {
        threads: 48,
        files: 1,
        buffer_bytes: 1024,
        blocks: 512,
        baseline: 1,
        cycle: Nanos(1672.0),
        hold_share: 0.43,
        read_share: 0.67,
        allowed: None,
    };
    FileCopy::spawn(&kernel, &copy).unwrap();
    run_to_ms(&kernel, &mut executor, 40.0);
    let decisions = kernel.lock_decisions();
    let cpus = decisions.last().and_then(|last| last.cpus.clone());
    let cpus = cpus.expect("48 threads for one lock are a group");
    let far = (0..96).map(CpuId).find(|cpu| !cpus.contains(cpu)).unwrap();
    let hogs: Vec<Rc<Task>> = (0..20).map(|_| hog(&kernel, far.0, 0, None)).collect();
    for step in 0..20 {
        run_to_ms(&kernel, &mut executor, 42.0 + f64::from(step) * 2.0);
        for hog in &hogs {
            assert!(!cpus.contains(&hog.cpu()), "a hog on CPU {}", hog.cpu().0);
        }
    }
}

/// One task of a random machine: group, CPUs that it may use as bits, nice, work and sleep in us.
type Program = (usize, u16, i8, (u64, u64));

fn spawn(kernel: &Rc<Kernel>, groups: &[GroupId], program: Program, turns: u64) -> Rc<Task> {
    let (group, bits, nice, (work, sleep)) = program;
    let cpus = kernel.cpu_count();
    let own = (0..cpus as u16).filter(|cpu| bits >> cpu & 1 == 1);
    let mut allowed = CpuMask::of(cpus, own.map(CpuId));
    if allowed.is_empty() {
        allowed = CpuMask::all(cpus);
    }
    let first = allowed.iter().next().unwrap();
    let spec = TaskSpec {
        name: "worker".to_owned(),
        policy: Policy::Normal(nice),
        cpu: first,
        allowed: Some(allowed),
        start: Cycles(work),
    };
    let cycles = |us: u64| kernel.cycles(Nanos(us as f64 * 1e3));
    let (work, sleep) = (cycles(work), cycles(sleep));
    let task = kernel.spawn_in(
        groups[group % groups.len()],
        &spec,
        move |thread| async move {
            for _ in 0..turns {
                thread.run(work).await;
                if sleep > Cycles::ZERO {
                    thread.sleep(sleep).await;
                }
            }
        },
    );
    task.unwrap()
}

/// Each runs on one CPU at most, where it may.
fn check_running(kernel: &Kernel) {
    let tasks = kernel.tasks();
    let mut running: Vec<u32> = Vec::new();
    for cpu in (0..kernel.cpu_count() as u16).map(CpuId) {
        let curr = kernel.peek_rq(cpu).curr;
        assert!(tasks[curr.0 as usize].may_run_on(cpu), "on CPU {}", cpu.0);
        assert!(!running.contains(&curr.0), "a task runs twice");
        running.push(curr.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::bandwidth::cases(40)))]

    /// Random tasks in random groups, some with quotas, on some CPUs of several machines. All of
    /// them come to their end, each where it may run, and the same run is the same again.
    #[test]
    fn balanced_tasks_all_end(
        preset in prop::sample::select(&["genoa-384", "kunpeng920-96", "broadwell-4s"][..]),
        step in 1usize..40,
        cpus in 2usize..12,
        throttling in 0usize..4,
        groups in prop::collection::vec((0usize..4, prop::option::of(10u64..60)), 0..4),
        programs in prop::collection::vec(
            (0usize..5, any::<u16>(), -10i8..10, (100u64..6_000, 0u64..4_000)),
            1..16,
        ),
    ) {
        let run = || {
            let mut machine = machine(preset, 64);
            let places = (0..cpus).map(|cpu| machine.topology.place(CpuId((cpu * step % 64) as u16)));
            let mut places: Vec<_> = places.collect();
            places.sort_unstable_by_key(|place| format!("{place:?}"));
            places.dedup();
            machine.topology = Topology::from_places(places).unwrap();
            let config = KernelConfig { throttling: crate::bandwidth::ALL[throttling], ..config() };
            let (kernel, mut executor) = crate::rt::boot(machine, 1, Nanos(20e9), config);
            let mut made = vec![GroupId::ROOT];
            for (parent, quota) in &groups {
                let quota = quota.map(|ms| Quota {
                    quota: Nanos(ms as f64 * 1e6),
                    period: Nanos(50e6),
                    burst: Nanos(0.0),
                });
                let parent = made[parent % made.len()];
                let spec = GroupSpec { quota, ..GroupSpec::within(parent) };
                made.push(kernel.create_group(&spec).unwrap());
            }
            let tasks: Vec<Rc<Task>> = programs
                .iter()
                .map(|program| spawn(&kernel, &made, *program, 12))
                .collect();
            for slice in 1..=60 {
                run_to_ms(&kernel, &mut executor, f64::from(slice) * 2.5);
                check_running(&kernel);
            }
            executor.run().unwrap();
            let late = tasks.iter().filter(|task| kernel.peek_task(task).state != 0x80);
            assert_eq!(late.count(), 0, "tasks that did not end");
            executor.totals().event_hash
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn a_throttled_task_comes_back_wherever_it_was_moved() {
    for throttling in [Throttling::Async, Throttling::Task] {
        let config = KernelConfig {
            throttling,
            ..config()
        };
        let machine = machine("genoa-384", 8);
        let (kernel, mut executor) = crate::rt::boot(machine, 1, Nanos(1e12), config);
        let quota = Quota {
            quota: Nanos(100e6),
            period: Nanos(100e6),
            burst: Nanos(0.0),
        };
        let group = kernel
            .create_group(&GroupSpec {
                quota: Some(quota),
                ..GroupSpec::within(GroupId::ROOT)
            })
            .unwrap();
        let tasks: Vec<Rc<Task>> = (0..12)
            .map(|_| spawn(&kernel, &[group], (0, 0, 0, (1_000, 100)), u64::MAX))
            .collect();
        let used = used_in(&kernel, &mut executor, &tasks, 2_000.0);
        let sum: f64 = used.iter().sum();
        assert!(
            (1_850.0..2_200.0).contains(&sum),
            "{throttling:?}: {used:?}"
        );
        let least = used.iter().copied().fold(f64::MAX, f64::min);
        assert!(least > 80.0, "{throttling:?}: {used:?}");
    }
}
