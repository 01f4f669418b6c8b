mod samples;

use std::collections::BTreeMap;

use hitm_bpf::{LockWaiter, QueueTime, ThrottleEvent, Work};

use super::*;
use crate::cgroups::Group;
use samples::{MS, QUOTA, US, asked, local};

/// A group with 4 of 20 ms and a child without a quota, below the root.
fn tree() -> Tree {
    let group = |path: &str, parent, bandwidth, subtree| Group {
        path: path.to_owned(),
        parent,
        bandwidth,
        subtree,
    };
    Tree::of([
        (1, group("/", None, None, 3)),
        (70, group("/hogs", Some(1), Some(QUOTA), 2)),
        (71, group("/hogs/child", Some(70), None, 1)),
    ])
}

fn timer(cpu: u32) -> Work {
    Work {
        due_ns: 116 * MS,
        begin_ns: 116 * MS + 20 * US,
        end_ns: 116 * MS + 43 * US,
        cgroup: 70,
        cpu,
        is_slack: false,
        queued: 1,
        tasks: 1,
        tid: 0,
        comm: "swapper/1".to_owned(),
    }
}

fn handler() -> Work {
    Work {
        due_ns: 116 * MS + 25 * US,
        begin_ns: 116 * MS + 55 * US,
        end_ns: 116 * MS + 59 * US,
        queued: 0,
        tasks: 2,
        tid: 7,
        comm: "cc1".to_owned(),
        ..timer(0)
    }
}

fn observed(only: Option<u64>) -> ThrottleReport {
    let mut observation = Observation::new(tree(), only);
    let waiter = LockWaiter {
        at_ns: 110 * MS,
        lock: 0xffff_8880_0000_1000,
        cgroup: 71,
        charged: 0,
        flags: 32,
        waiter: 30,
        holder: 11,
        comm: "writer".to_owned(),
    };
    for event in [
        ThrottleEvent::Timer(timer(1)),
        ThrottleEvent::Handler(handler()),
        ThrottleEvent::Lock(waiter),
        ThrottleEvent::Episode(asked()),
        ThrottleEvent::Episode(local()),
    ] {
        observation.take(&event);
    }
    let stat = CpuStat {
        periods: 2,
        throttled_periods: 1,
        throttled_ns: 16 * MS,
        bursts: 0,
    };
    let mut report = observation.finish(&[], 200 * MS, &BTreeMap::from([(70, stat)]));
    report.duration_ns = 100 * MS;
    report
}

#[test]
fn each_moment_of_an_episode_has_one_cause() {
    let causes = Causes::of(&asked());
    let expected = Causes {
        quota_ns: 16 * MS,
        timer_ns: 25 * US,
        ipi_ns: 34 * US,
        cpu_ns: 2 * MS,
        unassigned_ns: 0,
    };
    assert_eq!(causes, expected);
    assert_eq!(causes.total_ns(), asked().in_ns - asked().out_ns);
    let causes = Causes::of(&local());
    assert_eq!((causes.timer_ns, causes.ipi_ns), (59 * US, 0));
}

#[test]
fn a_task_that_is_throttled_behind_the_due_time_waits_for_a_late_timer() {
    let episode = Episode {
        out_ns: 116 * MS + 10 * US,
        ..asked()
    };
    let causes = Causes::of(&episode);
    assert_eq!((causes.quota_ns, causes.timer_ns), (0, 15 * US));
}

#[test]
fn a_return_that_nobody_saw_has_no_cause() {
    let episode = Episode {
        back_ns: 0,
        ..asked()
    };
    let causes = Causes::of(&episode);
    assert_eq!(causes.assigned_ns(), 0);
    assert_eq!(causes.unassigned_ns, 18 * MS + 59 * US);
}

#[test]
fn a_changed_quota_needs_no_timer() {
    let episode = Episode {
        due_ns: 0,
        timer_ns: 0,
        ..asked()
    };
    let causes = Causes::of(&episode);
    assert_eq!((causes.quota_ns, causes.timer_ns), (16 * MS + 25 * US, 0));
}

#[test]
fn episodes_that_go_on_wait_for_the_quota_or_for_a_cpu() {
    let waiting = Episode {
        due_ns: 0,
        timer_ns: 0,
        queued_ns: 0,
        handler_ns: 0,
        back_ns: 0,
        in_ns: 0,
        ..asked()
    };
    let ready = Episode {
        tid: 12,
        in_ns: 0,
        ..asked()
    };
    let observation = Observation::new(tree(), None);
    let report = observation.finish(&[waiting, ready], 120 * MS, &BTreeMap::new());
    assert_eq!(report.throttled_still, 1);
    let causes = report.groups[0].causes;
    assert_eq!(causes.quota_ns, 20 * MS + 16 * MS);
    assert_eq!(causes.unassigned_ns, 0);
    assert_eq!(causes.total_ns(), 40 * MS);
}

/// The group /hogs is stopped for its own quota, and its child meanwhile as well: cpu.stat of both says so.
#[test]
fn the_throttled_queue_s_group_is_charged() {
    let limits = Some(QUOTA);
    let group = |path: &str, parent, bandwidth| Group {
        path: path.to_owned(),
        parent,
        bandwidth,
        subtree: 1,
    };
    let tree = Tree::of([
        (1, group("/", None, None)),
        (70, group("/hogs", Some(1), limits)),
        (71, group("/hogs/child", Some(70), limits)),
    ]);
    let mut observation = Observation::new(tree, None);
    let queue = |cgroup, throttled, end| QueueTime {
        end_ns: end * MS,
        throttled_ns: throttled * MS,
        cgroup,
        cpu: 0,
    };
    let by_parent = Episode {
        charged: 70,
        ..asked()
    };
    let by_itself = Episode {
        charged: 71,
        ..local()
    };
    for event in [
        ThrottleEvent::Queue(queue(70, 16, 116)),
        ThrottleEvent::Queue(queue(71, 3, 103)),
        ThrottleEvent::Episode(by_parent.clone()),
        ThrottleEvent::Episode(by_parent),
        ThrottleEvent::Episode(by_itself),
    ] {
        observation.take(&event);
    }
    let report = observation.finish(&[], 117 * MS, &BTreeMap::new());
    let rows = report.groups.iter();
    let rows: Vec<_> = rows
        .map(|row| (row.id, row.spread.count(), row.queues_ns))
        .collect();
    assert_eq!(rows, [(70, 2, 16 * MS), (71, 1, 3 * MS)]);
}

#[test]
fn tasks_of_a_child_count_for_the_group_with_the_quota() {
    let report = observed(None);
    assert_eq!(report.groups.len(), 1);
    assert_eq!(
        (
            report.groups[0].path.as_str(),
            report.groups[0].spread.count()
        ),
        ("/hogs", 2)
    );
    assert_eq!(report.tasks.len(), 2);
}

#[test]
fn another_group_s_episodes_and_timers_are_left_out() {
    // The child shares its parent's timer.
    assert_eq!(observed(Some(71)).period_timer.count(), 1);
    assert_eq!(observed(Some(71)).tasks.len(), 2);
    let other = observed(Some(2));
    assert_eq!((other.tasks.len(), other.period_timer.count()), (0, 0));
    assert_eq!(other.groups, []);
}

#[test]
fn tables_have_bounds() {
    let mut observation = Observation::new(tree(), None);
    for tid in 0..5000 {
        observation.take(&ThrottleEvent::Episode(Episode { tid, ..asked() }));
    }
    let report = observation.finish(&[], 0, &BTreeMap::new());
    assert_eq!((report.tasks.len(), report.left_out), (4096, 904));
    assert_eq!(report.groups[0].spread.count(), 5000);
}

#[test]
fn a_walk_is_traced_as_by_trace_printk() {
    // Tasks stand in twenty columns.
    let lines = |event: ThrottleEvent| trace_lines(&event, &tree()).unwrap();
    let walk = [
        "            <idle>-0 [001] d.h..      0.116020: sched_cfs_period_timer: cpu1: begins",
        "            <idle>-0 [001] d.h..      0.116043: sched_cfs_period_timer: cpu1: finishes: unthrottled_rqs=1, unthrottled_cfs_rq=2, unthrottled_task=1, asked_cpus=1",
    ];
    assert_eq!(lines(ThrottleEvent::Timer(timer(1))), walk);
    let handler_lines = [
        "               cc1-7 [000] d.h..      0.116055: __cfsb_csd_unthrottle: cpu0: begins",
        "               cc1-7 [000] d.h..      0.116059: __cfsb_csd_unthrottle: cpu0: finishes: unthrottled_rqs=1, unthrottled_cfs_rq=2, unthrottled_task=2",
    ];
    assert_eq!(lines(ThrottleEvent::Handler(handler())), handler_lines);
    assert_eq!(trace_lines(&ThrottleEvent::Episode(asked()), &tree()), None);
}

/// Programs run while others are loaded, and while the kernel's counters are read. A queue's time counts whole, when it
/// ends, as in cpu.stat.
#[test]
fn what_is_outside_of_the_window_is_cut_off() {
    let queue = |begin_ms: u64, end_ms: u64| {
        ThrottleEvent::Queue(QueueTime {
            end_ns: end_ms * MS,
            throttled_ns: (end_ms - begin_ms) * MS,
            cgroup: 70,
            cpu: 0,
        })
    };
    let mut observation = Observation::new(tree(), None);
    // cpu.stat of the group was read before the window began.
    observation.begin_at(110 * MS, BTreeMap::from([(70, 107 * MS)]));
    let end_ns = 117 * MS;
    for event in [
        queue(90, 105),
        queue(102, 108),
        queue(105, 112),
        queue(113, 119),
        queue(118, 119),
        ThrottleEvent::Episode(asked()),
    ] {
        if let Some(event) = super::episodes::cut_after(event, end_ns) {
            observation.take(&event);
        }
    }
    let report = observation.finish(&[], end_ns, &BTreeMap::new());
    let [group] = &report.groups[..] else {
        panic!("{:#?}", report.groups);
    };
    assert_eq!(group.queues_ns, (6 + 7) * MS);
    let expected = Causes {
        quota_ns: 6 * MS,
        timer_ns: 25 * US,
        ipi_ns: 34 * US,
        cpu_ns: 1000 * US - 59 * US,
        unassigned_ns: 0,
    };
    assert_eq!(group.causes, expected);
}
