//! Threads that fight for a lock: what placement finds out about them, and where it puts them.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Distance, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, Decision, GroupId, GroupSpec, Held, Hold, Kernel, KernelConfig,
    LoadBalancing, Placement, Policy, Quota, RwSem, TaskSpec,
};
use hitm_sim::workload::file_copy::{FileCopy, FileCopyConfig};
use hitm_sim::workload::hackbench::{Hackbench, HackbenchConfig};
use hitm_sim::workload::schbench::{Schbench, SchbenchConfig};

use crate::rt::machine;

/// The 96 CPUs of Kunpeng 920, for so long.
fn boot(placement: Placement, millis: f64) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        placement,
        load_balancing: LoadBalancing::Domains,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let end = Nanos(millis * 1e6);
    crate::rt::boot(machine("kunpeng920-96", 96), 1, end, config)
}

/// Threads that copy small files, so that all pages have been touched early.
fn copy(threads: usize, hold_share: f64) -> FileCopyConfig {
    FileCopyConfig {
        threads,
        files: 1,
        buffer_bytes: 1024,
        blocks: 512,
        baseline: 1,
        cycle: Nanos(1672.0),
        hold_share,
        read_share: 0.67,
        allowed: None,
    }
}

fn chosen(decision: &Decision) -> Vec<CpuId> {
    decision.cpus.clone().unwrap_or_default()
}

#[test]
fn one_group_gets_the_cpus_of_a_cluster_and_keeps_to_them() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    let copy = FileCopy::spawn(&kernel, &copy(48, 0.43)).unwrap();
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    let [only] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    let cpus = chosen(only);
    assert_eq!(cpus.len(), 4);
    let topology = &kernel.engine().machine().topology;
    let near = |cpu: &CpuId| topology.distance(cpus[0], *cpu) <= Distance::Cluster;
    assert!(cpus.iter().all(near), "{cpus:?}");
    let share = kernel.lock_hold_share(only.lock).unwrap();
    assert!(
        (0.38..=0.48).contains(&share),
        "true 0.43, estimated {share}"
    );
    let totals = copy.targets()[0].i_rwsem.stat().totals();
    let afar: u64 = totals.hand_overs[Distance::Llc.index()..].iter().sum();
    assert!(afar * 4 < totals.contended, "{totals:?}");
}

#[test]
fn two_groups_get_a_cluster_each() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    let config = FileCopyConfig {
        files: 2,
        ..copy(48, 0.43)
    };
    FileCopy::spawn(&kernel, &config).unwrap();
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    assert_eq!(decisions.len(), 2, "{decisions:?}");
    let [first, second] = [chosen(&decisions[0]), chosen(&decisions[1])];
    assert_eq!([first.len(), second.len()], [4, 4]);
    assert!(
        first.iter().all(|cpu| !second.contains(cpu)),
        "{first:?} {second:?}"
    );
}

#[test]
fn a_group_that_keeps_more_cpus_busy_than_a_cluster_has_gets_a_die() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    FileCopy::spawn(&kernel, &copy(48, 0.1)).unwrap();
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    let last = decisions
        .last()
        .expect("48 threads are more than 10 can use");
    assert!((6..=12).contains(&last.needed), "{last:?}");
    assert_eq!(chosen(last).len(), 24, "the CPUs of a die");
}

#[test]
fn affinity_masks_are_kept_to() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    let mask = CpuMask::of(kernel.cpu_count(), (30..54).map(CpuId));
    let config = FileCopyConfig {
        allowed: Some(mask.clone()),
        ..copy(24, 0.43)
    };
    FileCopy::spawn(&kernel, &config).unwrap();
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    let cpus = chosen(decisions.last().unwrap());
    assert_eq!(cpus.len(), 4);
    assert!(cpus.iter().all(|cpu| mask.contains(*cpu)), "{cpus:?}");
    let tasks = kernel.tasks();
    for task in tasks.iter().filter(|task| task.name.starts_with("fstime")) {
        assert!(
            mask.contains(task.cpu()),
            "{} on {:?}",
            task.name,
            task.cpu()
        );
    }
}

#[test]
fn others_stay_out_of_a_groups_cpus() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    FileCopy::spawn(&kernel, &copy(48, 0.43)).unwrap();
    let mut sleepers = Vec::new();
    for cpu in 0..kernel.cpu_count() as u16 {
        let spec = TaskSpec {
            name: format!("sleeper/{cpu}"),
            policy: Policy::Normal(0),
            allowed: None,
            cpu: CpuId(cpu),
            start: kernel.cycles(Nanos(1e6)),
        };
        let pause = kernel.cycles(Nanos(1e6));
        let task = kernel.spawn(&spec, move |thread| async move {
            loop {
                thread.sleep(pause).await;
            }
        });
        sleepers.push(task.unwrap());
    }
    executor.run().unwrap();
    let cpus = chosen(&kernel.lock_decisions()[0]);
    let inside = sleepers.iter().filter(|task| cpus.contains(&task.cpu()));
    assert_eq!(inside.count(), 0, "of {} sleepers", sleepers.len());
}

/// Threads that take semaphores one after the other.
struct Fighters {
    threads: usize,
    group: GroupId,
    sems: Vec<Rc<RwSem>>,
}

impl Fighters {
    fn of(kernel: &Kernel, threads: usize) -> Fighters {
        Fighters {
            threads,
            group: GroupId::ROOT,
            sems: vec![kernel.rw_sem("fight").unwrap()],
        }
    }

    /// By time in ms, nanoseconds with a semaphore and without one; with 0, threads sleep instead.
    fn spawn(&self, kernel: &Rc<Kernel>, times: impl Fn(f64) -> (f64, f64) + Clone + 'static) {
        for number in 0..self.threads {
            let spec = TaskSpec {
                name: format!("fighter/{number}"),
                policy: Policy::Normal(0),
                allowed: None,
                cpu: CpuId((number * 7 % kernel.cpu_count()) as u16),
                start: Cycles(number as u64 * 100),
            };
            let (sems, times) = (self.sems.clone(), times.clone());
            let clock = kernel.engine().machine().clock;
            let fight = kernel.spawn_in(self.group, &spec, move |thread| async move {
                for turn in 0.. {
                    let (hold, alone) = times(clock.nanos(thread.now()).0 / 1e6);
                    let alone = clock.cycles(Nanos(alone));
                    if hold == 0.0 {
                        thread.sleep(alone).await;
                        continue;
                    }
                    let held = Held {
                        hold: Hold::Write,
                        work: clock.cycles(Nanos(hold)),
                        sleep: Cycles::ZERO,
                    };
                    let sem = &sems[turn % sems.len()];
                    thread.hold_sem(sem, held).await;
                    thread.run(alone).await;
                }
            });
            fight.unwrap();
        }
    }
}

/// Numbers of CPUs that were given, in order; 0 for the end of a placement.
fn sizes(kernel: &Kernel) -> Vec<usize> {
    let decisions = kernel.lock_decisions();
    decisions.iter().map(|one| chosen(one).len()).collect()
}

#[test]
fn a_lock_that_is_let_alone_lets_its_threads_go() {
    let (kernel, mut executor) = boot(Placement::LockAware, 120.0);
    Fighters::of(&kernel, 24).spawn(&kernel, |ms| {
        if ms < 40.0 {
            (500.0, 500.0)
        } else {
            (100.0, 200e3)
        }
    });
    executor.run().unwrap();
    let sizes = sizes(&kernel);
    assert_eq!((sizes.first(), sizes.last()), (Some(&4), Some(&0)));
    // Idle CPUs of other caches have taken threads since.
    let used = kernel.tasks();
    let fighters = used.iter().filter(|task| task.name.starts_with("fighter"));
    let group = chosen(&kernel.lock_decisions()[0]);
    let outside = fighters.filter(|task| !group.contains(&task.cpu()));
    assert!(outside.count() >= 12);
}

#[test]
fn a_lock_that_nobody_comes_back_to_lets_its_threads_go() {
    let (kernel, mut executor) = boot(Placement::LockAware, 80.0);
    Fighters::of(&kernel, 24).spawn(&kernel, |ms| {
        if ms < 40.0 {
            (500.0, 500.0)
        } else {
            (0.0, 200e3)
        }
    });
    executor.run().unwrap();
    assert_eq!(sizes(&kernel), [4, 0]);
}

#[test]
fn a_short_break_does_not_let_a_group_go() {
    let (kernel, mut executor) = boot(Placement::LockAware, 150.0);
    // 30 ms of fight, 10 ms without.
    Fighters::of(&kernel, 24).spawn(&kernel, |ms| {
        if ms % 40.0 < 30.0 {
            (500.0, 500.0)
        } else {
            (100.0, 200e3)
        }
    });
    executor.run().unwrap();
    assert_eq!(sizes(&kernel), [4], "{:?}", kernel.lock_decisions());
}

#[test]
fn a_group_follows_the_share_for_which_it_holds_the_lock() {
    let (kernel, mut executor) = boot(Placement::LockAware, 300.0);
    // Half, a tenth, and half of its time: 2 CPUs, 10, and 2.
    Fighters::of(&kernel, 48).spawn(&kernel, |ms| {
        if (100.0..200.0).contains(&ms) {
            (2e3, 18e3)
        } else {
            (5e3, 5e3)
        }
    });
    executor.run().unwrap();
    assert_eq!(sizes(&kernel), [4, 24, 4], "{:?}", kernel.lock_decisions());
}

#[test]
fn a_quota_bounds_what_a_group_gets() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    let quota = Quota {
        quota: Nanos(30e6),
        period: Nanos(10e6),
        burst: Nanos(0.0),
    };
    let spec = GroupSpec {
        quota: Some(quota),
        ..GroupSpec::within(GroupId::ROOT)
    };
    // The quota is that of the group above.
    let above = kernel.create_group(&spec).unwrap();
    let fighters = Fighters {
        group: kernel.create_group(&GroupSpec::within(above)).unwrap(),
        ..Fighters::of(&kernel, 48)
    };
    fighters.spawn(&kernel, |_| (2e3, 18e3));
    executor.run().unwrap();
    // The lock could keep ten busy, the quota keeps three.
    assert_eq!(sizes(&kernel), [3], "{:?}", kernel.lock_decisions());
}

#[test]
fn threads_with_two_locks_belong_together_once() {
    let (kernel, mut executor) = boot(Placement::LockAware, 80.0);
    let fighters = Fighters {
        sems: vec![kernel.rw_sem("one").unwrap(), kernel.rw_sem("two").unwrap()],
        ..Fighters::of(&kernel, 48)
    };
    // Of 20 us each lock is held for 8.
    fighters.spawn(&kernel, |_| (8e3, 2e3));
    executor.run().unwrap();
    assert_eq!(sizes(&kernel), [4], "{:?}", kernel.lock_decisions());
}

#[test]
fn a_mask_that_cuts_a_cluster_leaves_its_other_cpus() {
    let (kernel, mut executor) = boot(Placement::LockAware, 60.0);
    // Three of the cluster of 32 to 35, two of the next.
    let mask = CpuMask::of(kernel.cpu_count(), (33..38).map(CpuId));
    let config = FileCopyConfig {
        allowed: Some(mask),
        ..copy(24, 0.43)
    };
    FileCopy::spawn(&kernel, &config).unwrap();
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    let cpus = chosen(decisions.last().expect("24 threads on 5 CPUs wait"));
    assert_eq!(cpus, [33, 34, 35].map(CpuId), "{decisions:?}");
}

#[test]
fn hogs_leave_the_cpus_of_a_group() {
    let (kernel, mut executor) = boot(Placement::LockAware, 100.0);
    let mut hogs = Vec::new();
    for cpu in 0..kernel.cpu_count() as u16 {
        let spec = TaskSpec {
            name: "hog".to_owned(),
            policy: Policy::Normal(0),
            allowed: None,
            cpu: CpuId(cpu),
            start: Cycles::ZERO,
        };
        let hog = kernel.spawn(&spec, move |thread| async move {
            loop {
                thread.run(Cycles(1 << 40)).await;
            }
        });
        hogs.push(hog.unwrap());
    }
    Fighters::of(&kernel, 48).spawn(&kernel, |_| (5e3, 5e3));
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    let cpus = chosen(decisions.last().expect("48 threads are a group"));
    assert_eq!(cpus.len(), 4, "{decisions:?}");
    let inside = hogs.iter().filter(|hog| cpus.contains(&hog.cpu()));
    assert_eq!(inside.count(), 0, "of {} hogs", hogs.len());
}

#[test]
fn without_contention_placement_changes_nothing() {
    let hash = |placement| {
        let (kernel, mut executor) = boot(placement, 20.0);
        let config = FileCopyConfig {
            files: 16,
            ..copy(16, 0.43)
        };
        FileCopy::spawn(&kernel, &config).unwrap();
        executor.run().unwrap();
        assert!(kernel.lock_decisions().is_empty());
        executor.totals().event_hash
    };
    assert_eq!(hash(Placement::Default), hash(Placement::LockAware));
}

#[test]
fn hackbench_reads_every_message_once() {
    let (kernel, mut executor) = boot(Placement::LockAware, 1000.0);
    let config = HackbenchConfig {
        groups: 2,
        pairs: 5,
        // Full pipes: a page has room for 4 messages, a pipe for 64.
        loops: 30,
        size_bytes: 1000,
    };
    let bench = Hackbench::spawn(&kernel, config).unwrap();
    executor.run().unwrap();
    assert!(bench.time().is_some());
    assert_eq!(bench.messages(), 2 * 5 * 5 * 30);
}

#[test]
fn schbench_serves_all_workers() {
    let (kernel, mut executor) = boot(Placement::Default, 20.0);
    let config = SchbenchConfig {
        message_threads: 2,
        workers: 8,
        work: Nanos(100e3),
        pause: Nanos(0.0),
    };
    let bench = Schbench::spawn(&kernel, config).unwrap();
    executor.run().unwrap();
    let requests = bench.requests();
    // 16 workers with a CPU each: nearly a request every 100 us.
    assert!(
        (2900..3200).contains(&requests.requests.len()),
        "{}",
        requests.requests.len()
    );
    let work = kernel.cycles(Nanos(100e3));
    assert!(requests.requests.iter().all(|time| *time >= work));
}
