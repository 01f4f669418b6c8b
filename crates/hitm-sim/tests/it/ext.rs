//! `SCHED_EXT` with one queue for all CPUs.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use expect_test::expect;
use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, Kernel, KernelConfig, LoadBalancing, OwnPolicy, Policy, Task, TaskSpec,
};
use hitm_sim::scenario::{C2cLine, Scenario};

use crate::rt::machine;
use crate::timing::outcome;

const EXT: Policy = Policy::Own(OwnPolicy::Ext);

fn boot(cpus: usize, millis: f64) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        load_balancing: LoadBalancing::Domains,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    crate::rt::boot(
        machine("broadwell-4s", cpus),
        1,
        Nanos(millis * 1e6),
        config,
    )
}

/// A task that runs for so long from `start_us` on; it begins on the first of its CPUs.
fn burst(kernel: &Rc<Kernel>, policy: Policy, cpus: &[u16], start_us: f64, ms: f64) -> Rc<Task> {
    let allowed = CpuMask::of(kernel.cpu_count(), cpus.iter().map(|cpu| CpuId(*cpu)));
    let spec = TaskSpec {
        name: format!("{policy:?}"),
        policy,
        cpu: CpuId(cpus[0]),
        allowed: Some(allowed),
        start: kernel.cycles(Nanos(start_us * 1e3)),
    };
    let span = kernel.cycles(Nanos(ms * 1e6));
    kernel
        .spawn(&spec, move |thread| async move { thread.run(span).await })
        .unwrap()
}

/// CPU time in whole milliseconds, by what was charged: at ticks, 4 ms, and when a task goes.
fn ran(kernel: &Kernel, tasks: &[&Rc<Task>]) -> Vec<u64> {
    let clock = kernel.engine().machine().clock;
    let millis = |task: &&Rc<Task>| (clock.nanos(task.totals().run_time).0 / 1e6).round() as u64;
    tasks.iter().map(millis).collect()
}

#[test]
fn a_task_runs_when_no_fair_one_wants_the_cpu() {
    let (kernel, mut executor) = boot(1, 100.5);
    let behind = burst(&kernel, EXT, &[0], 0.0, 1e3);
    let fair = burst(&kernel, Policy::Normal(19), &[0], 10_000.0, 40.0);
    let idles = burst(&kernel, Policy::Idle, &[0], 10_000.0, 20.0);
    let real_time = burst(&kernel, Policy::Fifo(1), &[0], 20_000.0, 10.0);
    executor.run_until(kernel.cycles(Nanos(70e6))).unwrap();
    let tasks = [&behind, &fair, &idles, &real_time];
    // Tasks of SCHED_IDLE are of the fair class.
    assert_eq!(ran(&kernel, &tasks)[0], 10);
    executor.run().unwrap();
    assert_eq!(ran(&kernel, &tasks), [30, 40, 20, 10]);
}

#[test]
fn tasks_of_one_cpu_take_turns_of_20_ms_and_the_rest_of_a_tick() {
    let (kernel, mut executor) = boot(1, 130.5);
    let tasks = [0.0, 10.0, 20.0].map(|start| burst(&kernel, EXT, &[0], start, 1e3));
    let tasks = [&tasks[0], &tasks[1], &tasks[2]];
    executor.run_until(kernel.cycles(Nanos(62.5e6))).unwrap();
    assert_eq!(ran(&kernel, &tasks), [24, 24, 12]);
    executor.run().unwrap();
    assert_eq!(ran(&kernel, &tasks), [48, 48, 32]);
}

#[test]
fn woken_tasks_go_to_idle_cpus_and_waiting_ones_to_whoever_is_free() {
    let (kernel, mut executor) = boot(3, 60.5);
    // All begin on CPU 0; the fourth finds no idle CPU.
    let tasks: Vec<Rc<Task>> = [0.0, 100.0, 200.0, 300.0]
        .iter()
        .map(|start| burst(&kernel, EXT, &[0, 1, 2], *start, 14.0))
        .collect();
    executor.run_until(kernel.cycles(Nanos(10e6))).unwrap();
    let cpus: Vec<u16> = tasks[..3].iter().map(|task| task.cpu().0).collect();
    assert_eq!(cpus, [0, 1, 2]);
    executor.run().unwrap();
    let all: Vec<&Rc<Task>> = tasks.iter().collect();
    assert_eq!(ran(&kernel, &all), [14, 14, 14, 14]);
    assert_eq!(
        kernel.peek_task(&tasks[3]).cpu,
        CpuId(0),
        "it was free first"
    );
}

#[test]
fn a_preempted_task_waits_at_its_cpu_although_another_is_idle() {
    let (kernel, mut executor) = boot(2, 60.5);
    let ext = burst(&kernel, EXT, &[0, 1], 0.0, 1e3);
    let _fair = burst(&kernel, Policy::Normal(0), &[0], 4_000.0, 30.0);
    executor.run_until(kernel.cycles(Nanos(33e6))).unwrap();
    assert_eq!(ran(&kernel, &[&ext]), [4]);
    executor.run().unwrap();
    assert_eq!(ran(&kernel, &[&ext]), [30]);
}

#[test]
fn a_task_that_becomes_fair_preempts_one_of_the_class() {
    let (kernel, mut executor) = boot(2, 40.5);
    let running = burst(&kernel, EXT, &[0], 0.0, 1e3);
    let waiting = burst(&kernel, EXT, &[0], 100.0, 1e3);
    let spec = TaskSpec::bound(&kernel, "changer".to_owned(), CpuId(1), Cycles::ZERO);
    let changed = Rc::clone(&waiting);
    let at = kernel.cycles(Nanos(5e6));
    let program = move |thread: hitm_sim::kernel::Thread| async move {
        thread.sleep_until(at).await;
        thread.sched_setscheduler(&changed, Policy::Normal(0)).await;
    };
    kernel.spawn(&spec, program).unwrap();
    executor.run().unwrap();
    assert_eq!(ran(&kernel, &[&running, &waiting]), [5, 35]);
}

/// Pairs that wake each other for 5 ms, two for each CPU: turns, waits for the queue's lock, the cycles that accesses to its
/// line took, and the mean of them.
fn one_queue(cpus: usize, policy: Policy) -> String {
    let (kernel, mut executor) = boot(cpus, 5.0);
    let turns = Rc::new(RefCell::new(0u64));
    for pair in 0..2 * cpus {
        let pipes = [0, 1].map(|end| Rc::new(kernel.pipe(&format!("{pair}.{end}")).unwrap()));
        for end in 0..2 {
            let spec = TaskSpec {
                name: format!("{pair}.{end}"),
                policy,
                allowed: None,
                cpu: CpuId((pair % cpus) as u16),
                start: Cycles(1000 * pair as u64),
            };
            let (own, other) = (Rc::clone(&pipes[end]), Rc::clone(&pipes[1 - end]));
            let turns = Rc::clone(&turns);
            let program = move |thread: hitm_sim::kernel::Thread| async move {
                if end == 0 {
                    thread.write_pipe(&other, 1).await;
                }
                loop {
                    thread.read_pipe(&own, 1).await;
                    thread.run(Cycles(4_000)).await;
                    *turns.borrow_mut() += 1;
                    thread.write_pipe(&other, 1).await;
                }
            };
            kernel.spawn(&spec, program).unwrap();
        }
    }
    executor.run().unwrap();
    let totals = executor.totals();
    let row = totals
        .profile
        .total(|entry| entry.member.type_name == "scx_dispatch_q");
    let mean = row.latency_sum.0 / row.count.max(1);
    let turns = turns.borrow();
    format!("{turns} turns, {} accesses of {mean} cycles", row.count)
}

#[test]
fn one_queue_for_all_is_contended_where_there_are_many_cpus() {
    let mut table = String::new();
    for cpus in [1, 2, 8, 32] {
        writeln!(table, "{cpus} CPUs: {}", one_queue(cpus, EXT)).unwrap();
    }
    expect![[r#"
        1 CPUs: 1687 turns, 10143 accesses of 7 cycles
        2 CPUs: 2906 turns, 24737 accesses of 80 cycles
        8 CPUs: 5657 turns, 76563 accesses of 78 cycles
        32 CPUs: 3158 turns, 71546 accesses of 267 cycles
    "#]]
    .assert_eq(&table);
    assert!(one_queue(2, Policy::Normal(0)).ends_with(" 0 accesses of 0 cycles"));
}

const HEAD: &str = "schema = 1\nname = \"n\"\ndescription = \"d\"\nsource = \"s\"\n[machine]\npreset = \"broadwell-4s\"\n[run]\nduration = \"1ms\"\n";

#[test]
fn scenarios_know_the_policy_and_refuse_what_it_has_not() {
    let error = |workload: &str, kernel: &str| {
        let text = format!(
            "{HEAD}[kernel]\nbalancing = \"{kernel}\"\n[[workload]]\nkind = \"hogs\"\n{workload}\n"
        );
        Scenario::parse(&text, "x.toml").map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(error("policy = \"ext\"", "push-ipi"), "");
    expect![
        "x.toml:14:8: workload[0].nice: found the key nice, expected no nice value for this policy"
    ]
    .assert_eq(&error("policy = \"ext\"\nnice = 1", "push-ipi"));
    expect!["x.toml:14:12: workload[0].priority: found the key priority, expected no priority for this policy"].assert_eq(&error("policy = \"ext\"\npriority = 1", "push-ipi"));
    expect![[r#"x.toml:13:10: workload[0].policy: found "ex", expected "fifo" or "rr" or "normal" or "batch" or "idle" or "ext""#]].assert_eq(&error("policy = \"ex\"", "push-ipi"));
    expect![[r#"x.toml:14:9: workload[0].group: found a policy with a class of its own, expected policy "normal": no quota binds threads of other classes"#]].assert_eq(&error(
        "policy = \"ext\"\ngroup = \"g\"\n[[group]]\nname = \"g\"\nquota = \"10ms\"",
        "push-ipi",
    ));
    let config = KernelConfig::new(Balancing::Passive);
    let (kernel, _) = crate::rt::boot(machine("broadwell-4s", 1), 1, Nanos(1e6), config);
    let spec = TaskSpec {
        policy: EXT,
        ..TaskSpec::bound(&kernel, "early".to_owned(), CpuId(0), Cycles::ZERO)
    };
    let refused = kernel.spawn(&spec, |_| async {}).unwrap_err();
    expect![
        "task early of SCHED_EXT: found a kernel from before 6.12, expected one that has the class"
    ]
    .assert_eq(&refused.to_string());
}

#[test]
fn a_simulation_shows_the_shared_queue_among_its_lines() {
    let machine = "preset = \"broadwell-4s\"\ncpus = 32";
    let text = HEAD.replace("preset = \"broadwell-4s\"", machine)
        + "[kernel]\nbalancing = \"push-ipi\"\n[[workload]]\nkind = \"cyclic\"\nthreads = 96\nsleep = \"20us\"\nwork = \"20us\"\npolicy = \"ext\"\n";
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let outcome = outcome(&scenario, "broadwell-4s", &scenario.variants()[0], 1);
    let mut table = String::new();
    assert_eq!(outcome.lines[0].object, "scx_dispatch_q");
    let of_tasks = |line: &&C2cLine| line.object == "task_struct";
    for line in outcome.lines[..3].iter().filter(|line| !of_tasks(line)) {
        let (object, counts) = (&line.object, &line.counts);
        let mean = counts.load_cycles_mean();
        writeln!(
            table,
            "{object} +{}: {} loads of {mean:.0} cycles",
            line.offset_bytes, counts.loads
        )
        .unwrap();
        for row in &line.rows {
            writeln!(
                table,
                "  {} in {}: {}",
                row.member, row.function, row.counts.loads
            )
            .unwrap();
        }
    }
    expect![[r#"
        scx_dispatch_q +0: 4167 loads of 269 cycles
          lock in _raw_spin_lock: 792
          lock in _raw_spin_trylock: 760
          lock in _raw_spin_unlock: 0
          lock in native_queued_spin_lock_slowpath: 2004
          list in consume_dispatch_q: 611
          list in enqueue_task_scx: 0
        idle_masks +0: 2175 loads of 160 cycles
          cpu in __scx_update_idle: 754
          cpu in select_task_rq_scx: 1421
    "#]]
    .assert_eq(&table);
}
