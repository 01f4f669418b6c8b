use std::collections::BTreeMap;

use expect_test::expect;
use hitm_bpf::{Episode, LockWaiter, ThrottleEvent, Work};

use super::*;
use crate::cgroups::Group;

const MS: u64 = 1_000_000;
const US: u64 = 1000;

/// A group with 4 of 20 ms and a child without a quota, below the root.
fn tree() -> Tree {
    let group = |path: &str, parent, bandwidth, subtree| Group {
        path: path.to_owned(),
        parent,
        bandwidth,
        subtree,
    };
    let quota = Bandwidth {
        quota_us: 4000,
        period_us: 20_000,
        burst_us: 0,
    };
    Tree::of([
        (1, group("/", None, None, 3)),
        (70, group("/hogs", Some(1), Some(quota), 2)),
        (71, group("/hogs/child", Some(70), None, 1)),
    ])
}

/// Out at 0 on CPU 0. The timer was due at 16 ms and came 20 us late. CPU 0 was asked 5 us later,
/// began 30 us later and took 4 us. The task ran another 2 ms later.
fn asked() -> Episode {
    Episode {
        out_ns: 100 * MS,
        due_ns: 116 * MS,
        timer_ns: 116 * MS + 20 * US,
        queued_ns: 116 * MS + 25 * US,
        handler_ns: 116 * MS + 55 * US,
        back_ns: 116 * MS + 59 * US,
        in_ns: 118 * MS + 59 * US,
        cgroup: 71,
        tid: 11,
        pid: 10,
        comm: "hog".to_owned(),
        out_cpu: 0,
        in_cpu: 1,
    }
}

/// Put back by the timer on the task's own CPU.
fn local() -> Episode {
    Episode {
        queued_ns: 0,
        handler_ns: 0,
        tid: 12,
        comm: "hog\u{1b}[31m".to_owned(),
        ..asked()
    }
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

#[test]
fn a_queue_is_throttled_once_for_all_its_tasks() {
    let mut queues = Queues::default();
    queues.add(&asked());
    queues.add(&Episode {
        out_ns: 104 * MS,
        ..local()
    });
    assert_eq!(queues.total_ns(), 16 * MS + 59 * US);
    // Another CPU's queue counts by itself.
    queues.add(&Episode {
        out_cpu: 1,
        ..asked()
    });
    assert_eq!(queues.total_ns(), 2 * (16 * MS + 59 * US));
    // Old times leave the table of pending ones, not the sum.
    for period in 1..40 {
        queues.add(&Episode {
            out_ns: asked().out_ns + period * 20 * MS,
            back_ns: asked().back_ns + period * 20 * MS,
            ..asked()
        });
    }
    assert_eq!(queues.total_ns(), 41 * (16 * MS + 59 * US));
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
    assert_eq!(observed(Some(71)).period_timer.spread.count(), 1);
    assert_eq!(observed(Some(71)).tasks.len(), 2);
    let other = observed(Some(2));
    assert_eq!(
        (other.tasks.len(), other.period_timer.spread.count()),
        (0, 0)
    );
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

#[test]
fn the_report_as_text() {
    expect![[r#"
        Throttling for 100 ms, by BPF programs: every episode.

        Period timers (sched_cfs_period_timer): 1 times, 23.0 us in all, longest 23.0 us, interrupts off (ns):
        [16K, 32K)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

        CPUs that were asked (__cfsb_csd_unthrottle): 1 times, 4.00 us in all, longest 4.00 us, interrupts off (ns):
        [2K, 4K)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

        Group /hogs: 4.00 ms of 20.0 ms (0.20 CPUs)
          periods 2, throttled in 1 (50.0 %); cpu.stat: 16.0 ms throttled
          tasks were throttled 2 times for 36.1 ms: half of the times for 18.1 ms at most, 99 % for 18.1 ms, the longest 18.1 ms
            for the quota                           32.0 ms  88.6 %
            for the timer, late or walking          84.0 us   0.2 %
            for the interrupt to the task's CPU     34.0 us   0.1 %
            for a CPU afterwards                    4.00 ms  11.1 %
          longest: hog (11) for 18.1 ms: quota 16.0 ms, timer 25.0 us, interrupt 34.0 us, CPU 2.00 ms; from CPU 0 to CPU 1
          cpu.stat says 16.0 ms: it counts the queue of each CPU once, from its throttling on. Here:
               36.1 ms  sum over tasks
          -    4.00 ms  waiting for a CPU, no longer throttled
          -    16.1 ms  several tasks of one queue at once
          =    16.1 ms  queues with a task that stands still
          lock 0xffff888000001000, held by throttled thread 11: 1 waits began meanwhile, the last by writer (30)

        Tasks, by the time that they were throttled:
          thread name              times throttled     quota     timer interrupt       CPU   longest
              11 hog                   1   18.1 ms   16.0 ms   25.0 us   34.0 us   2.00 ms   18.1 ms
              12 hog\x1b[31m           1   18.1 ms   16.0 ms   59.0 us      0 ns   2.00 ms   18.1 ms
    "#]].assert_eq(&text(&observed(None)));
}

#[test]
fn counters_alone_say_what_is_missing() {
    let stat = CpuStat {
        periods: 50,
        throttled_periods: 40,
        throttled_ns: 600 * MS,
        bursts: 3,
    };
    let observation = Observation::new(tree(), None);
    let mut report = observation.finish(&[], 0, &BTreeMap::from([(70, stat)]));
    report.source = Source::Counters("BPF programs need root".to_owned());
    report.duration_ns = 1000 * MS;
    report.groups[0].run_delay_ns = Some(1900 * MS);
    expect![[r#"
        Throttling for 1.00 s, by cpu.stat and schedstat alone: BPF programs need root.
        Without BPF programs there are no causes, no tasks, no locks and no times of timers.

        Group /hogs: 4.00 ms of 20.0 ms (0.20 CPUs)
          periods 50, throttled in 40 (80.0 %); cpu.stat: 600 ms throttled, 3 bursts
          its tasks were ready and did not run for 1.90 s (schedstat; throttled and waiting for a CPU together)
    "#]].assert_eq(&text(&report));
    let value = json(&report);
    assert_eq!(value["source"], "counters");
    assert_eq!(value["groups"][0]["run_delay_ns"], 1900 * MS);
}

#[test]
fn the_report_as_json_has_the_same_sums() {
    let report = observed(None);
    let value = json(&report);
    assert_eq!(
        value["groups"][0]["causes"]["total_ns"],
        report.groups[0].causes.total_ns()
    );
    assert_eq!(value["period_timer"]["histogram"][0]["from_ns"], 16_384);
    assert_eq!(value["tasks"][1]["comm"], "hog\u{1b}[31m");
}

#[test]
fn json_of_the_whole() {
    let mut report = observed(None);
    report.source = Source::Counters("no \"root\"".to_owned());
    report.groups[0].run_delay_ns = Some(7);
    report.groups[0].stat.periods = 3;
    report.groups.push(GroupRow::default());
    expect![[r#"
        {
          "counts": {
            "episodes": 0,
            "handlers": 0,
            "lost_events": 0,
            "lost_tasks": 0,
            "not_followed": 0,
            "timers": 0
          },
          "duration_ns": 100000000,
          "groups": [
            {
              "burst_us": 0,
              "bursts": 0,
              "causes": {
                "cpu_ns": 4000000,
                "ipi_ns": 34000,
                "quota_ns": 32000000,
                "timer_ns": 84000,
                "total_ns": 36118000,
                "unassigned_ns": 0
              },
              "cpu_stat_throttled_ns": 16000000,
              "episodes": 2,
              "locks": [
                {
                  "holder": 11,
                  "lock": "0xffff888000001000",
                  "waiter": 30,
                  "waiter_comm": "writer",
                  "waits": 1
                }
              ],
              "longest": {
                "causes": {
                  "cpu_ns": 2000000,
                  "ipi_ns": 34000,
                  "quota_ns": 16000000,
                  "timer_ns": 25000,
                  "total_ns": 18059000,
                  "unassigned_ns": 0
                },
                "comm": "hog",
                "in_cpu": 1,
                "out_cpu": 0,
                "out_ns": 100000000,
                "tid": 11
              },
              "longest_ns": 18059000,
              "p50_ns": 18059000,
              "p99_ns": 18059000,
              "path": "/hogs",
              "period_us": 20000,
              "periods": 3,
              "queues_ns": 16059000,
              "quota_cpus": 0.2,
              "quota_us": 4000,
              "run_delay_ns": 7,
              "throttled_p50_ns": 15990784,
              "throttled_p99_ns": 15990784,
              "throttled_periods": 1,
              "throttled_share": 0.3333333333333333,
              "timer_walks": 1
            },
            {
              "burst_us": null,
              "bursts": 0,
              "causes": {
                "cpu_ns": 0,
                "ipi_ns": 0,
                "quota_ns": 0,
                "timer_ns": 0,
                "total_ns": 0,
                "unassigned_ns": 0
              },
              "cpu_stat_throttled_ns": 0,
              "episodes": 0,
              "locks": [],
              "longest": null,
              "longest_ns": 0,
              "p50_ns": 0,
              "p99_ns": 0,
              "path": "",
              "period_us": null,
              "periods": 0,
              "queues_ns": 0,
              "quota_cpus": null,
              "quota_us": null,
              "run_delay_ns": null,
              "throttled_p50_ns": 0,
              "throttled_p99_ns": 0,
              "throttled_periods": 0,
              "throttled_share": null,
              "timer_walks": 0
            }
          ],
          "handlers": {
            "count": 1,
            "histogram": [
              {
                "count": 1,
                "from_ns": 2048
              }
            ],
            "longest_ns": 4000,
            "sum_ns": 4000
          },
          "left_out": 0,
          "limited_groups": 1,
          "period_timer": {
            "count": 1,
            "histogram": [
              {
                "count": 1,
                "from_ns": 16384
              }
            ],
            "longest_ns": 23000,
            "sum_ns": 23000
          },
          "reason": "no \"root\"",
          "schema": 1,
          "slack_timer": {
            "count": 0,
            "histogram": [],
            "longest_ns": 0,
            "sum_ns": 0
          },
          "source": "counters",
          "tasks": [
            {
              "causes": {
                "cpu_ns": 2000000,
                "ipi_ns": 34000,
                "quota_ns": 16000000,
                "timer_ns": 25000,
                "total_ns": 18059000,
                "unassigned_ns": 0
              },
              "comm": "hog",
              "episodes": 1,
              "longest_ns": 18059000,
              "pid": 10,
              "tid": 11
            },
            {
              "causes": {
                "cpu_ns": 2000000,
                "ipi_ns": 0,
                "quota_ns": 16000000,
                "timer_ns": 59000,
                "total_ns": 18059000,
                "unassigned_ns": 0
              },
              "comm": "hog\u001b[31m",
              "episodes": 1,
              "longest_ns": 18059000,
              "pid": 10,
              "tid": 12
            }
          ],
          "throttled_still": 0
        }"#]].assert_eq(&serde_json::to_string_pretty(&json(&report)).unwrap());
}
