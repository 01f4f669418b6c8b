#[path = "../../../../hitm-live/src/throttle/tests/samples.rs"]
mod samples;

use expect_test::expect;
use hitm_live::cgroups::CpuStat;
use hitm_live::spread::Spread;
use hitm_live::throttle::{
    Causes, Episode, GroupRow, HeldLock, Source, TaskRow, ThrottleCounts, ThrottleReport,
};
use serde_json::Value;

use super::*;
use samples::{MS, QUOTA, US, asked, local};

fn work(ns: u64) -> Spread {
    let mut times = Spread::default();
    times.add(ns);
    times
}

fn task(episode: &Episode) -> TaskRow {
    let causes = Causes::of(episode);
    TaskRow {
        tid: episode.tid,
        pid: episode.pid,
        comm: episode.comm.clone(),
        cgroup: episode.cgroup,
        throttled_by: 70,
        episodes: 1,
        causes,
        longest_ns: causes.total_ns(),
    }
}

fn report_of(groups: Vec<GroupRow>, tasks: Vec<TaskRow>) -> ThrottleReport {
    ThrottleReport {
        source: Source::Bpf {
            is_asynchronous: true,
        },
        duration_ns: 100 * MS,
        period_timer: work(23 * US),
        slack_timer: Spread::default(),
        handlers: work(4 * US),
        groups,
        tasks,
        limited_groups: 1,
        throttled_still: 0,
        counts: ThrottleCounts::default(),
        left_out: 0,
    }
}

/// Two episodes of one group.
fn observed() -> ThrottleReport {
    let tasks = vec![task(&asked()), task(&local())];
    let mut group = GroupRow {
        id: 70,
        path: "/hogs".to_owned(),
        bandwidth: Some(QUOTA),
        stat: CpuStat {
            periods: 2,
            throttled_periods: 1,
            throttled_ns: 16 * MS,
            bursts: 0,
        },
        longest: Some(asked()),
        queues_ns: 16 * MS + 59 * US,
        locks: vec![HeldLock {
            lock: 0xffff_8880_0000_1000,
            holder: 11,
            waits: 1,
            waiter: 30,
            waiter_comm: "writer".to_owned(),
        }],
        ..GroupRow::default()
    };
    group.walks.add(23 * US);
    for task in &tasks {
        group.causes.add(&task.causes);
        group.spread.add(task.causes.total_ns());
        group
            .throttled
            .add(task.causes.total_ns() - task.causes.cpu_ns);
    }
    report_of(vec![group], tasks)
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
          cpu.stat says 16.0 ms: it counts the queue of each CPU once, when its throttling ends. Here:
               36.1 ms  sum over tasks
          -    4.00 ms  waiting for a CPU, no longer throttled
          -    16.1 ms  several tasks of one queue at once
          =    16.1 ms  queues with a task that stands still
          lock 0xffff888000001000, held by throttled thread 11: 1 waits began meanwhile, the last by writer (30)

        Tasks, by the time that they were throttled:
          thread name              times throttled     quota     timer interrupt       CPU   longest
              11 hog                   1   18.1 ms   16.0 ms   25.0 us   34.0 us   2.00 ms   18.1 ms
              12 hog\x1b[31m           1   18.1 ms   16.0 ms   59.0 us      0 ns   2.00 ms   18.1 ms
    "#]].assert_eq(&text(&observed()));
}

/// Few tasks fill no table.
#[test]
fn each_loss_has_its_own_reason() {
    let mut report = observed();
    report.counts.unseen_ends = 2;
    report.counts.refused = 3;
    assert_eq!(
        text::losses(&report),
        [
            "2 episodes were lost: nobody saw their end.",
            "3 episodes were lost: the kernel refused to note them."
        ]
    );
}

#[test]
fn counters_alone_say_what_is_missing() {
    let stat = CpuStat {
        periods: 50,
        throttled_periods: 40,
        throttled_ns: 600 * MS,
        bursts: 3,
    };
    let group = GroupRow {
        path: "/hogs".to_owned(),
        bandwidth: Some(QUOTA),
        stat,
        run_delay_ns: Some(1900 * MS),
        ..GroupRow::default()
    };
    let report = ThrottleReport {
        source: Source::Counters("BPF programs need root".to_owned()),
        duration_ns: 1000 * MS,
        ..report_of(vec![group], Vec::new())
    };
    expect![[r#"
        Throttling for 1.00 s, by cpu.stat and schedstat alone: BPF programs need root.
        Without BPF programs there are no causes, no tasks, no locks and no times of timers.

        Group /hogs: 4.00 ms of 20.0 ms (0.20 CPUs)
          periods 50, throttled in 40 (80.0 %); cpu.stat: 600 ms throttled, 3 bursts
          its tasks were ready and did not run for 1.90 s (schedstat; throttled and waiting for a CPU together)
    "#]].assert_eq(&text(&report));
    let value: Value = serde_json::from_str(&json(&report, None)).unwrap();
    assert_eq!(value["source"], "counters");
    assert_eq!(value["groups"][0]["run_delay_ns"], 1900 * MS);
}

#[test]
fn the_report_as_json_has_the_same_sums() {
    let report = observed();
    let value: Value = serde_json::from_str(&json(&report, None)).unwrap();
    assert_eq!(
        value["groups"][0]["causes"]["total_ns"],
        report.groups[0].causes.total_ns()
    );
    assert_eq!(value["period_timer"]["histogram"][0]["from_ns"], 16_384);
    assert_eq!(value["tasks"][1]["comm"], "hog\u{1b}[31m");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a golden, which is longer than code")]
fn json_of_the_whole() {
    let mut report = observed();
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
            "refused": 0,
            "timers": 0,
            "unseen_ends": 0
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
        }"#]]
    .assert_eq(json(&report, None).trim_end());
}
