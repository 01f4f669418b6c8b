//! The fair class on simulated CPUs: hogs, groups and sleepers.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, GroupId, GroupSpec, Kernel, KernelConfig, Policy, Task, TaskSpec,
};

use crate::rt::{boot, machine};

/// A task of a group that never sleeps, on one CPU.
fn hog(kernel: &Rc<Kernel>, group: GroupId, cpu: u16, nice: i8) -> Rc<Task> {
    let spec = TaskSpec {
        name: "hog".to_owned(),
        policy: Policy::Normal(nice),
        allowed: Some(CpuMask::of(kernel.cpu_count(), [CpuId(cpu)])),
        cpu: CpuId(cpu),
        start: Cycles::ZERO,
    };
    let task = kernel.spawn_in(group, &spec, move |thread| async move {
        loop {
            thread.run(Cycles(1_000_000_000)).await;
        }
    });
    task.unwrap()
}

fn booted(cpus: usize, end: Nanos) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig::new(Balancing::PushIpi);
    boot(machine("genoa-384", cpus), 1, end, config)
}

fn ms(kernel: &Kernel, task: &Task) -> f64 {
    kernel
        .engine()
        .machine()
        .clock
        .nanos(task.totals().run_time)
        .0
        / 1e6
}

#[test]
fn hogs_of_one_cpu_share_it_by_weight() {
    let (kernel, mut executor) = booted(2, Nanos(600e6));
    let tasks = [0, 0, 5].map(|nice| hog(&kernel, GroupId::ROOT, 0, nice));
    executor.run().unwrap();
    let ran = tasks.map(|task| ms(&kernel, &task));
    let sum: f64 = ran.iter().sum();
    assert!((590.0..600.0).contains(&sum), "{ran:?}");
    // A slice of 1.5 ms on two CPUs, and a tick of 4 ms until it is noticed.
    for (ran, weight) in ran.into_iter().zip([1024.0, 1024.0, 335.0]) {
        let fair = sum * weight / 2383.0;
        assert!((ran - fair).abs() < 5.5, "{ran} of {fair}");
    }
}

#[test]
fn a_group_spreads_its_weight_over_the_cpus_that_it_uses() {
    let (kernel, mut executor) = booted(2, Nanos(800e6));
    let group = kernel
        .create_group(&GroupSpec::within(GroupId::ROOT))
        .unwrap();
    // Three of its tasks on CPU 0 and one on CPU 1: three quarters of its weight are on CPU 0.
    let crowd = [0, 0, 0].map(|cpu| hog(&kernel, group, cpu, 0));
    let single = hog(&kernel, group, 1, 0);
    let others = [0, 1].map(|cpu| hog(&kernel, GroupId::ROOT, cpu, 0));
    executor.run().unwrap();
    let on_0: f64 = crowd.iter().map(|task| ms(&kernel, task)).sum();
    let expected = 800.0 * 0.75 / 1.75;
    assert!((on_0 - expected).abs() < 8.0, "{on_0} of {expected}");
    let on_1 = ms(&kernel, &single);
    let expected = 800.0 * 0.25 / 1.25;
    assert!((on_1 - expected).abs() < 8.0, "{on_1} of {expected}");
    let left = others.map(|task| ms(&kernel, &task));
    assert!(left[0] < left[1]);
}

#[test]
fn a_task_that_sleeps_mostly_gets_the_cpu_at_once() {
    let (kernel, mut executor) = booted(2, Nanos(400e6));
    for _ in 0..3 {
        hog(&kernel, GroupId::ROOT, 0, 0);
    }
    let spec = TaskSpec {
        name: "sleeper".to_owned(),
        policy: Policy::Normal(0),
        allowed: Some(CpuMask::of(2, [CpuId(0)])),
        cpu: CpuId(0),
        start: Cycles::ZERO,
    };
    let sleeper = kernel.spawn(&spec, move |thread| async move {
        let clock = thread.engine().machine().clock;
        loop {
            thread.run(clock.cycles(Nanos(100e3))).await;
            thread.sleep(clock.cycles(Nanos(10e6))).await;
        }
    });
    let sleeper = sleeper.unwrap();
    executor.run().unwrap();
    let totals = sleeper.totals();
    assert!(totals.wakeups >= 30, "{totals:?}");
    let mean = kernel
        .engine()
        .machine()
        .clock
        .nanos(totals.wake_latency_sum)
        .0
        / totals.wakeups as f64
        / 1e6;
    // It owes nothing when it wakes, and its deadline is a whole slice away, like that of the hogs.
    // So it waits for the present slice and the ticks that end it, not for all of them.
    assert!(mean < 9.0, "{mean} ms");
}
