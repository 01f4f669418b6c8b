//! Requests between pairs of CPUs, threads that change their policy, and how often a group's load is
//! reported.

use hitm_base::{CpuId, Nanos};
use hitm_sim::kernel::{Balancing, CpuMask, GroupId, GroupSpec, KernelConfig, Policy, TaskSpec};
use hitm_sim::workload::policy_changer::{PolicyChanger, PolicyChangerConfig};
use hitm_sim::workload::request_response::{RequestResponse, RequestResponseConfig};

use crate::rt::{boot, machine};

const MILLIS: f64 = 4.0;

#[test]
fn a_distant_pair_makes_fewer_transactions_and_each_takes_two_wakeups() {
    let run = |server: u16| {
        let config = KernelConfig::new(Balancing::PushIpi);
        let (kernel, mut executor) =
            boot(machine("broadwell-4s", 96), 1, Nanos(MILLIS * 1e6), config);
        let config = RequestResponseConfig {
            pairs: vec![(CpuId(0), CpuId(server))],
            policy: Policy::Normal(0),
            size_bytes: 64,
            work: Nanos(0.0),
        };
        let run = RequestResponse::spawn(&kernel, &config).unwrap();
        executor.run().unwrap();
        (run.transactions(), kernel.counts().wakeups)
    };
    let (near, near_wakeups) = run(1);
    let (far, _) = run(24);
    assert!(near > 100 && far > 100, "{near} and {far}");
    assert!(near > far, "{near} and {far}");
    let each = near_wakeups as f64 / near as f64;
    assert!((1.9..2.2).contains(&each), "{each} wake-ups a transaction");
}

#[test]
fn a_thread_goes_through_its_policies_in_turn() {
    let config = KernelConfig::new(Balancing::PushIpi);
    let (kernel, mut executor) = boot(machine("broadwell-4s", 2), 1, Nanos(MILLIS * 1e6), config);
    let threads = [CpuMask::of(2, [CpuId(0)]), CpuMask::of(2, [CpuId(1)])];
    let config = PolicyChangerConfig {
        policies: vec![Policy::Fifo(1), Policy::Rr(1), Policy::Normal(0)],
        work: Nanos(10e3),
    };
    let run = PolicyChanger::spawn(&kernel, &threads, &config).unwrap();
    executor.run().unwrap();
    // About 10 us of work and the call, for each of two threads.
    let most = (2.0 * MILLIS * 1e6 / 10e3) as u64;
    assert!(
        (most / 2..most).contains(&run.changes()),
        "{}",
        run.changes()
    );
    let totals = executor.totals();
    let rows = totals.profile.rows();
    let enters = rows.iter().any(|entry| entry.function == "enqueue_task_rt");
    assert!(enters, "the threads enter the real-time class");
}

#[test]
fn without_the_limit_a_group_hears_of_its_load_more_often() {
    let reports = |interval_ns: f64| {
        let config = KernelConfig {
            load_avg_interval: Nanos(interval_ns),
            ..KernelConfig::new(Balancing::PushIpi)
        };
        let (kernel, mut executor) = boot(machine("broadwell-4s", 2), 1, Nanos(20e6), config);
        let group = kernel
            .create_group(&GroupSpec::within(GroupId::ROOT))
            .unwrap();
        for cpu in 0..2 {
            let spec = TaskSpec {
                name: format!("sleeper{cpu}"),
                policy: Policy::Normal(0),
                allowed: Some(CpuMask::of(2, [CpuId(cpu)])),
                cpu: CpuId(cpu),
                start: kernel.cycles(Nanos(1e5)),
            };
            let spawned = kernel.spawn_in(group, &spec, move |thread| async move {
                loop {
                    thread.run(thread.kernel().cycles(Nanos(50e3))).await;
                    thread.sleep(thread.kernel().cycles(Nanos(50e3))).await;
                }
            });
            spawned.unwrap();
        }
        executor.run().unwrap();
        let totals = executor.totals();
        let rows = totals.profile.rows();
        let reports = rows.iter();
        let reports = reports.filter(|entry| entry.function == "update_tg_load_avg");
        reports.map(|entry| entry.row.count).sum::<u64>()
    };
    let (limited, unlimited) = (reports(1e6), reports(0.0));
    assert!(
        limited > 0 && unlimited > limited * 3 / 2,
        "{limited} and {unlimited}"
    );
}
