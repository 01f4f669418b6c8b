//! Threads that fight for a lock: what placement finds out about them, and where it puts them.

use std::rc::Rc;

use hitm_base::{CpuId, Distance, Nanos};
use hitm_sim::engine::Executor;
use hitm_sim::kernel::{
    Balancing, CpuMask, Decision, Kernel, KernelConfig, Placement, Policy, TaskSpec,
};
use hitm_sim::workload::file_copy::{FileCopy, FileCopyConfig};
use hitm_sim::workload::hackbench::{Hackbench, HackbenchConfig};
use hitm_sim::workload::schbench::{Schbench, SchbenchConfig};

use crate::rt::machine;

/// The 96 CPUs of Kunpeng 920, for so long.
fn boot(placement: Placement, millis: f64) -> (Rc<Kernel>, Executor) {
    let config = KernelConfig {
        placement,
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
        cycle: Nanos(1672.0),
        hold_share,
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
    for task in &kernel.tasks()[kernel.cpu_count()..] {
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

#[test]
fn a_lock_that_is_let_alone_lets_its_threads_go() {
    let (kernel, mut executor) = boot(Placement::LockAware, 120.0);
    let sem = kernel.rw_sem("phases").unwrap();
    let phase_end = kernel.cycles(Nanos(40e6));
    for cpu in 0..24 {
        let spec = TaskSpec {
            name: format!("worker/{cpu}"),
            policy: Policy::Normal(0),
            allowed: None,
            cpu: CpuId(cpu),
            start: hitm_base::Cycles(u64::from(cpu) * 100),
        };
        let sem = Rc::clone(&sem);
        let nanos = |span| kernel.cycles(Nanos(span));
        let (hold, between, alone) = (nanos(500.0), nanos(500.0), nanos(200e3));
        let spawned = kernel.spawn(&spec, move |thread| async move {
            loop {
                let is_fight = thread.now() < phase_end;
                let work = if is_fight {
                    hold
                } else {
                    hitm_base::Cycles(100)
                };
                let nobody = hitm_base::Cycles::ZERO;
                thread
                    .hold_sem(&sem, hitm_sim::kernel::Hold::Write, (work, nobody))
                    .await;
                thread.run(if is_fight { between } else { alone }).await;
            }
        });
        spawned.unwrap();
    }
    executor.run().unwrap();
    let decisions = kernel.lock_decisions();
    assert_eq!(chosen(&decisions[0]).len(), 4, "{decisions:?}");
    let last = decisions.last().unwrap();
    assert_eq!(last.cpus, None, "{decisions:?}");
    let used: Vec<CpuId> = kernel.tasks()[96..].iter().map(|task| task.cpu()).collect();
    let outside = used
        .iter()
        .filter(|cpu| !chosen(&decisions[0]).contains(cpu));
    assert!(outside.count() >= 12, "{used:?}");
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
