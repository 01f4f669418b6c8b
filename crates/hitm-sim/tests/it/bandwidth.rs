//! Quotas of CPU time: they hold, they are used, nobody starves, whatever the form of throttling.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, GroupId, GroupSpec, Hold, IdleWake, Kernel, KernelConfig, Policy, Quota,
    Task, TaskSpec, Throttling,
};
use hitm_sim::workload::cgroup_hogs::{CgroupHogs, CgroupHogsConfig};
use hitm_sim::workload::lock_holder::{LockHolder, LockHolderConfig};
use proptest::prelude::*;

use crate::rt::{boot, machine};

pub(crate) const ALL: [Throttling; 4] = [
    Throttling::Sync,
    Throttling::Async,
    Throttling::Task,
    Throttling::TaskSync,
];

fn booted(throttling: Throttling, cpus: usize, seed: u64) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        throttling,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    boot(machine("genoa-384", cpus), seed, Nanos(1e12), config)
}

fn quota(quota_ms: u64, period_ms: u64, burst_ms: u64) -> Quota {
    Quota {
        quota: Nanos(quota_ms as f64 * 1e6),
        period: Nanos(period_ms as f64 * 1e6),
        burst: Nanos(burst_ms as f64 * 1e6),
    }
}

/// A task that works for `work_us` and sleeps for `sleep_us`, for ever.
fn worker(kernel: &Rc<Kernel>, group: GroupId, cpu: u16, work_us: u64, sleep_us: u64) -> Rc<Task> {
    let spec = TaskSpec {
        name: "worker".to_owned(),
        policy: Policy::Normal(0),
        allowed: Some(CpuMask::of(kernel.cpu_count(), [CpuId(cpu)])),
        cpu: CpuId(cpu),
        start: Cycles(u64::from(cpu) * 1000),
    };
    let cycles = |us: u64| kernel.cycles(Nanos(us as f64 * 1e3));
    let (work, sleep) = (cycles(work_us), cycles(sleep_us));
    let task = kernel.spawn_in(group, &spec, move |thread| async move {
        loop {
            thread.run(work).await;
            if sleep > Cycles::ZERO {
                thread.sleep(sleep).await;
            }
        }
    });
    task.unwrap()
}

fn used_ms(kernel: &Kernel, tasks: &[Rc<Task>]) -> f64 {
    let sum = tasks.iter().map(|task| task.totals().run_time.0).sum();
    kernel.engine().machine().clock.nanos(Cycles(sum)).0 / 1e6
}

/// CPU time that a group may have beyond its quota. Each CPU holds a slice of 5 ms, and notices
/// with the next tick, after 4 ms, that it is used up.
fn slack_ms(cpus: usize) -> f64 {
    cpus as f64 * (5.0 + 4.0 + 0.5)
}

#[test]
fn hogs_get_their_quota_and_no_more() {
    for throttling in ALL {
        let (kernel, mut executor) = booted(throttling, 4, 1);
        let hogs = CgroupHogs::spawn(
            &kernel,
            CgroupHogsConfig {
                subtrees: 1,
                children: 3,
                leaves: 2,
                hogs: 2,
                quota: quota(100, 100, 0),
            },
        );
        let hogs = hogs.unwrap();
        let ms = |at: f64| kernel.cycles(Nanos(at * 1e6));
        executor.run_until(ms(2000.0)).unwrap();
        let used = hogs.used(ms(2000.0))[0];
        let used = kernel.engine().machine().clock.nanos(used).0 / 1e6;
        assert!(used <= 2100.0 + slack_ms(4), "{throttling:?}: {used} ms");
        assert!(used >= 1900.0, "{throttling:?}: {used} ms");
        let counts = kernel.bandwidth_counts(hogs.groups()[0]).unwrap();
        assert!(counts.nr_throttled >= 18, "{throttling:?}: {counts:?}");
        let calls = kernel.distribute_calls();
        let walked: u64 = calls.iter().map(|call| call.cfs_rqs).sum();
        let own: u64 = kernel
            .csd_unthrottle_calls()
            .iter()
            .map(|call| call.cfs_rqs)
            .sum();
        // The timer's own CPU is unthrottled by the timer in each form.
        let is_sync = matches!(throttling, Throttling::Sync | Throttling::TaskSync);
        assert_eq!(is_sync, own == 0, "{throttling:?}: {walked} and {own}");
        assert_eq!((walked + own) % hogs.cfs_rqs().div_ceil(4), 0);
        for task in &hogs.tasks()[0] {
            let ran = task.totals().run_time;
            assert!(ran > ms(80.0), "{throttling:?}: a task had only {ran}");
        }
    }
}

/// CPUs whose queues are throttled are idle. Those that poll see that their queue of calls is filled.
#[test]
fn idle_cpus_are_interrupted_unless_they_poll() {
    for idle_wake in [IdleWake::Write, IdleWake::Interrupt] {
        let config = KernelConfig {
            throttling: Throttling::Async,
            idle_wake,
            ..KernelConfig::new(Balancing::PushIpi)
        };
        let (kernel, mut executor) = boot(machine("genoa-384", 4), 1, Nanos(1e12), config);
        let hogs = CgroupHogsConfig {
            subtrees: 1,
            children: 3,
            leaves: 2,
            hogs: 2,
            quota: quota(100, 100, 0),
        };
        let _hogs = CgroupHogs::spawn(&kernel, hogs).unwrap();
        executor.run_until(kernel.cycles(Nanos(2e9))).unwrap();
        let asked = kernel.csd_unthrottle_calls().len() as u64;
        let calls = kernel.distribute_calls();
        let ipis: u64 = calls.iter().map(|call| call.ipis).sum();
        assert!(asked >= 18 * 3, "{asked}");
        match idle_wake {
            IdleWake::Write => assert_eq!(ipis, 0),
            IdleWake::Interrupt => assert_eq!(ipis, asked),
        }
    }
}

#[test]
fn an_inner_quota_holds_within_an_outer_one() {
    for throttling in ALL {
        let (kernel, mut executor) = booted(throttling, 4, 1);
        let outer = kernel
            .create_group(&GroupSpec {
                quota: Some(quota(200, 100, 0)),
                ..GroupSpec::within(GroupId::ROOT)
            })
            .unwrap();
        let inner = kernel
            .create_group(&GroupSpec {
                quota: Some(quota(20, 50, 0)),
                ..GroupSpec::within(outer)
            })
            .unwrap();
        let task = |group, cpu| worker(&kernel, group, cpu, 1_000, 0);
        let in_outer: Vec<Rc<Task>> = (0..4).map(|cpu| task(outer, cpu)).collect();
        let in_inner: Vec<Rc<Task>> = (0..4).map(|cpu| task(inner, cpu)).collect();
        executor.run_until(kernel.cycles(Nanos(1_000e6))).unwrap();
        let (outer, inner) = (used_ms(&kernel, &in_outer), used_ms(&kernel, &in_inner));
        assert!(inner <= 420.0 + slack_ms(4), "{throttling:?}: {inner}");
        assert!(inner >= 300.0, "{throttling:?}: {inner}");
        let both = outer + inner;
        assert!(both <= 2200.0 + slack_ms(4), "{throttling:?}: {both}");
        assert!(both >= 1800.0, "{throttling:?}: {both}");
    }
}

#[test]
fn what_is_saved_up_may_be_used_in_a_burst() {
    let (kernel, mut executor) = booted(Throttling::Async, 2, 1);
    let group = kernel
        .create_group(&GroupSpec {
            quota: Some(quota(20, 100, 20)),
            ..GroupSpec::within(GroupId::ROOT)
        })
        .unwrap();
    // 30 ms of work every 190 ms: more than a quota at once, less than the quota on average.
    let task = worker(&kernel, group, 0, 30_000, 160_000);
    executor.run_until(kernel.cycles(Nanos(2_000e6))).unwrap();
    let used = used_ms(&kernel, &[task]);
    assert!(used >= 280.0, "{used} ms: it was stopped in its bursts");
}

#[test]
fn a_reader_that_is_stopped_stops_a_writer_and_all_readers() {
    stopped_holder_stops_others(Hold::Read, 200e3);
}

#[test]
fn a_writer_that_is_stopped_stops_everybody() {
    // Four hold it one after the other: somebody does nearly always.
    stopped_holder_stops_others(Hold::Write, 500e3);
}

fn stopped_holder_stops_others(holds: Hold, page_ns: f64) {
    let longest = ALL.map(|throttling| {
        let (kernel, mut executor) = booted(throttling, 4, 1);
        let config = LockHolderConfig {
            quota: quota(100, 100, 0),
            holds,
            work: Nanos(5e3),
            page_wait: Nanos(page_ns),
            pause: Nanos(2e6),
        };
        let holder = LockHolder::spawn(&kernel, config).unwrap();
        executor.run_until(kernel.cycles(Nanos(1_000e6))).unwrap();
        let waits = holder.waits();
        assert!(waits.writer.len() > 5 && waits.readers.len() > 20);
        let ms = |waits: &[Cycles]| {
            let most = waits.iter().max().copied().unwrap();
            kernel.engine().machine().clock.nanos(most).0 / 1e6
        };
        (ms(&waits.writer), ms(&waits.readers))
    });
    let [sync, asynchronous, task, task_sync] = longest;
    for (writer, reader) in [sync, asynchronous] {
        // To the next period: the quota lasts 25 ms of 100.
        assert!(writer > 50.0 && reader > 50.0, "{longest:?}");
    }
    for (writer, reader) in [task, task_sync] {
        // A page, and turns of others on the CPU in between.
        assert!(writer < 15.0 && reader < 15.0, "{longest:?}");
    }
}

/// `PROPTEST_CASES`, or so many as take a few seconds.
pub(crate) fn cases(usual: u32) -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    wanted.map_or(usual, |count| {
        count.parse().expect("PROPTEST_CASES is a number")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

    /// Random trees with random quotas and tasks. Over every window no group uses more than its
    /// quotas, its burst and the slack; every task gets time.
    #[test]
    fn quotas_hold_over_every_window(
        seed in 1u64..1_000_000,
        form in 0usize..4,
        groups in prop::collection::vec((0usize..4, prop::option::of((8u64..200, 0u64..8))), 1..5),
        tasks in prop::collection::vec((0usize..5, 0u16..3, 1u64..8_000, 0u64..12_000), 1..12),
    ) {
        const CPUS: usize = 3;
        let (kernel, mut executor) = booted(ALL[form], CPUS, seed);
        let mut made = vec![(GroupId::ROOT, None, 0)];
        for (parent, limit) in groups {
            let above = parent % made.len();
            let quota = limit.map(|(ms, burst)| quota(ms, 50, burst.min(ms)));
            let spec = GroupSpec { quota, ..GroupSpec::within(made[above].0) };
            made.push((kernel.create_group(&spec).unwrap(), limit, above));
        }
        let mut of_group = vec![Vec::new(); made.len()];
        for (group, cpu, work_us, sleep_us) in tasks {
            let group = group % made.len();
            let task = worker(&kernel, made[group].0, cpu, work_us, sleep_us);
            let mut up = group;
            loop {
                of_group[up].push(Rc::clone(&task));
                if up == 0 {
                    break;
                }
                up = made[up].2;
            }
        }
        let mut samples = Vec::new();
        for step in 0..14 {
            let used: Vec<f64> = of_group.iter().map(|tasks| used_ms(&kernel, tasks)).collect();
            samples.push(used);
            executor.run_until(kernel.cycles(Nanos(f64::from(step + 1) * 37e6))).unwrap();
        }
        for (group, (_, limit, _)) in made.iter().enumerate() {
            let Some((ms, burst)) = limit else { continue };
            for from in 0..samples.len() {
                for to in from + 1..samples.len() {
                    let used = samples[to][group] - samples[from][group];
                    let window = (to - from) as f64 * 37.0;
                    // Periods that a window can have a part of.
                    let periods = (window / 50.0).ceil() + 1.0;
                    let most = periods * *ms as f64 + (*burst).min(*ms) as f64 + slack_ms(CPUS);
                    prop_assert!(used <= most, "group {group}: {used} of {most} ms in {window} ms");
                }
            }
        }
        for task in &of_group[0] {
            prop_assert!(task.totals().run_time > Cycles::ZERO, "a task starves");
        }
    }
}
