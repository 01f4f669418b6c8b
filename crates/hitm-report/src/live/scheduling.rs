//! Quantities of throttled groups and of wake-ups. docs/formats/live.md is checked against them, and the JSON of
//! `hitm live throttle` and `hitm live wakeups` by a test below.

use hitm_live::cgroups::Bandwidth;
use hitm_live::throttle::{GroupRow, TaskRow};
use hitm_live::wakeups::{RunDelay, TaskLatencies, quantile_ns};

use crate::fields::{Field, Unit, Value};

/// Of a group with a quota.
pub const LIVE_GROUP_FIELDS: &[Field<GroupRow>] = &[
    Field {
        id: "path",
        title: "group",
        unit: Unit::None,
        description: "Its folder below the root of the hierarchy",
        value: |group| Value::Text(group.path.clone()),
    },
    Field {
        id: "quota_us",
        title: "quota us",
        unit: Unit::None,
        description: "CPU time that it may use in a period, in microseconds",
        value: |group| Value::whole_or_missing(group.bandwidth.map(|own| own.quota_us)),
    },
    Field {
        id: "period_us",
        title: "period us",
        unit: Unit::None,
        description: "Length of a period, in microseconds",
        value: |group| Value::whole_or_missing(group.bandwidth.map(|own| own.period_us)),
    },
    Field {
        id: "burst_us",
        title: "burst us",
        unit: Unit::None,
        description: "Unused time of earlier periods that it may use besides, in microseconds",
        value: |group| Value::whole_or_missing(group.bandwidth.map(|own| own.burst_us)),
    },
    Field {
        id: "quota_cpus",
        title: "quota CPUs",
        unit: Unit::Decimal,
        description: "CPUs that the quota is worth: quota_us over period_us",
        value: |group| Value::number_or_missing(group.bandwidth.map(Bandwidth::cpus)),
    },
    Field {
        id: "periods",
        title: "periods",
        unit: Unit::Count,
        description: "Periods in which it ran",
        value: |group| Value::Whole(group.stat.periods),
    },
    Field {
        id: "throttled_periods",
        title: "used up",
        unit: Unit::Count,
        description: "Periods in which it used its quota up",
        value: |group| Value::Whole(group.stat.throttled_periods),
    },
    Field {
        id: "throttled_share",
        title: "used up",
        unit: Unit::Share,
        description: "throttled_periods as a part of periods",
        value: |group| Value::number_or_missing(group.stat.throttled_share()),
    },
    Field {
        id: "cpu_stat_throttled_ns",
        title: "cpu.stat",
        unit: Unit::Nanos,
        description: "Time that its queues were throttled, each CPU's once, as cpu.stat counts it",
        value: |group| Value::Whole(group.stat.throttled_ns),
    },
    Field {
        id: "bursts",
        title: "bursts",
        unit: Unit::Count,
        description: "Periods in which it used unused time of earlier ones",
        value: |group| Value::Whole(group.stat.bursts),
    },
    Field {
        id: "episodes",
        title: "times",
        unit: Unit::Count,
        description: "Times that a task of it was throttled",
        value: |group| Value::Whole(group.spread.count()),
    },
    Field {
        id: "total_ns",
        title: "throttled",
        unit: Unit::Nanos,
        description: "Time for which its tasks stood still, each throttling from leaving the CPU to running again",
        value: |group| Value::Whole(group.causes.total_ns()),
    },
    Field {
        id: "quota_ns",
        title: "quota",
        unit: Unit::Nanos,
        description: "Its part until the timer was due that gave the quota",
        value: |group| Value::Whole(group.causes.quota_ns),
    },
    Field {
        id: "timer_ns",
        title: "timer",
        unit: Unit::Nanos,
        description: "Its part until the timer reached the task's CPU: late, or walking",
        value: |group| Value::Whole(group.causes.timer_ns),
    },
    Field {
        id: "ipi_ns",
        title: "interrupt",
        unit: Unit::Nanos,
        description: "Its part until that CPU had put its tasks back",
        value: |group| Value::Whole(group.causes.ipi_ns),
    },
    Field {
        id: "cpu_ns",
        title: "CPU",
        unit: Unit::Nanos,
        description: "Its part until the task had a CPU",
        value: |group| Value::Whole(group.causes.cpu_ns),
    },
    Field {
        id: "unassigned_ns",
        title: "no cause",
        unit: Unit::Nanos,
        description: "Its part without a known cause",
        value: |group| Value::Whole(group.causes.unassigned_ns),
    },
    Field {
        id: "p50_ns",
        title: "p50",
        unit: Unit::Nanos,
        description: "Time that half of the throttlings do not exceed",
        value: |group| Value::Whole(group.spread.quantile_ns(500)),
    },
    Field {
        id: "p99_ns",
        title: "p99",
        unit: Unit::Nanos,
        description: "Time that 99 of 100 throttlings do not exceed",
        value: |group| Value::Whole(group.spread.quantile_ns(990)),
    },
    Field {
        id: "throttled_p50_ns",
        title: "p50 stopped",
        unit: Unit::Nanos,
        description: "p50_ns without the wait for a CPU afterwards",
        value: |group| Value::Whole(group.throttled.quantile_ns(500)),
    },
    Field {
        id: "throttled_p99_ns",
        title: "p99 stopped",
        unit: Unit::Nanos,
        description: "p99_ns without the wait for a CPU afterwards",
        value: |group| Value::Whole(group.throttled.quantile_ns(990)),
    },
    Field {
        id: "longest_ns",
        title: "longest",
        unit: Unit::Nanos,
        description: "The longest throttling of a task",
        value: |group| Value::Whole(group.spread.longest_ns()),
    },
    Field {
        id: "queues_ns",
        title: "queues",
        unit: Unit::Nanos,
        description: "Time for which a queue of it had a task that stood still, each CPU's once",
        value: |group| Value::Whole(group.queues_ns),
    },
    Field {
        id: "timer_walks",
        title: "walks",
        unit: Unit::Count,
        description: "Walks of its timers",
        value: |group| Value::Whole(group.walks.count()),
    },
    Field {
        id: "run_delay_ns",
        title: "delay",
        unit: Unit::Nanos,
        description: "Without BPF: time for which its tasks were ready and did not run",
        value: |group| Value::whole_or_missing(group.run_delay_ns),
    },
];

/// Of a task of such a group.
pub const LIVE_THROTTLED_FIELDS: &[Field<TaskRow>] = &[
    Field {
        id: "tid",
        title: "thread",
        unit: Unit::None,
        description: "Its number",
        value: |task| Value::Whole(task.tid.into()),
    },
    Field {
        id: "pid",
        title: "process",
        unit: Unit::None,
        description: "Its process",
        value: |task| Value::Whole(task.pid.into()),
    },
    Field {
        id: "comm",
        title: "name",
        unit: Unit::None,
        description: "Its name",
        value: |task| Value::Text(task.comm.clone()),
    },
    Field {
        id: "episodes",
        title: "times",
        unit: Unit::Count,
        description: "Times that it was throttled",
        value: |task| Value::Whole(task.episodes),
    },
    Field {
        id: "total_ns",
        title: "throttled",
        unit: Unit::Nanos,
        description: "Time for which it stood still, each throttling from leaving the CPU to running again",
        value: |task| Value::Whole(task.causes.total_ns()),
    },
    Field {
        id: "quota_ns",
        title: "quota",
        unit: Unit::Nanos,
        description: "Its part until the timer was due that gave the quota",
        value: |task| Value::Whole(task.causes.quota_ns),
    },
    Field {
        id: "timer_ns",
        title: "timer",
        unit: Unit::Nanos,
        description: "Its part until the timer reached the task's CPU: late, or walking",
        value: |task| Value::Whole(task.causes.timer_ns),
    },
    Field {
        id: "ipi_ns",
        title: "interrupt",
        unit: Unit::Nanos,
        description: "Its part until that CPU had put its tasks back",
        value: |task| Value::Whole(task.causes.ipi_ns),
    },
    Field {
        id: "cpu_ns",
        title: "CPU",
        unit: Unit::Nanos,
        description: "Its part until the task had a CPU",
        value: |task| Value::Whole(task.causes.cpu_ns),
    },
    Field {
        id: "unassigned_ns",
        title: "no cause",
        unit: Unit::Nanos,
        description: "Its part without a known cause",
        value: |task| Value::Whole(task.causes.unassigned_ns),
    },
    Field {
        id: "longest_ns",
        title: "longest",
        unit: Unit::Nanos,
        description: "The longest of them",
        value: |task| Value::Whole(task.longest_ns),
    },
];

/// Of a task that was woken.
pub const LIVE_WAKEUP_FIELDS: &[Field<TaskLatencies>] = &[
    Field {
        id: "tid",
        title: "thread",
        unit: Unit::None,
        description: "Its number",
        value: |task| Value::Whole(task.tid.into()),
    },
    Field {
        id: "pid",
        title: "process",
        unit: Unit::None,
        description: "Its process",
        value: |task| Value::Whole(task.pid.into()),
    },
    Field {
        id: "comm",
        title: "name",
        unit: Unit::None,
        description: "Its name at the first wake-up",
        value: |task| Value::Text(task.comm.clone()),
    },
    Field {
        id: "count",
        title: "wake-ups",
        unit: Unit::Count,
        description: "Times that it was woken and ran",
        value: |task| Value::Whole(task.latencies.count),
    },
    Field {
        id: "sum_ns",
        title: "in all",
        unit: Unit::Nanos,
        description: "Time from waking to running in all",
        value: |task| Value::Whole(task.latencies.sum_ns),
    },
    Field {
        id: "p50_ns",
        title: "p50",
        unit: Unit::Nanos,
        description: "Time that half of them do not exceed",
        value: |task| Value::Whole(quantile_ns(&task.latencies, 500)),
    },
    Field {
        id: "p99_ns",
        title: "p99",
        unit: Unit::Nanos,
        description: "Time that 99 of 100 do not exceed",
        value: |task| Value::Whole(quantile_ns(&task.latencies, 990)),
    },
    Field {
        id: "longest_ns",
        title: "longest",
        unit: Unit::Nanos,
        description: "The longest; of a window of the view that of its histogram, where an earlier window had a longer one",
        value: |task| Value::Whole(task.latencies.longest_ns),
    },
];

/// Of a task without BPF.
pub const LIVE_RUN_DELAY_FIELDS: &[Field<RunDelay>] = &[
    Field {
        id: "tid",
        title: "thread",
        unit: Unit::None,
        description: "Its number",
        value: |task| Value::Whole(task.tid.into()),
    },
    Field {
        id: "comm",
        title: "name",
        unit: Unit::None,
        description: "Its name",
        value: |task| Value::Text(task.comm.clone()),
    },
    Field {
        id: "run_delay_ns",
        title: "delay",
        unit: Unit::Nanos,
        description: "Time for which it was ready and did not run, preempted or woken",
        value: |task| Value::Whole(task.delay_ns),
    },
    Field {
        id: "runs",
        title: "runs",
        unit: Unit::Count,
        description: "Times that it was put on a CPU",
        value: |task| Value::Whole(task.runs),
    },
];

#[cfg(test)]
mod tests {
    use hitm_live::cgroups::CpuStat;
    use hitm_live::throttle::{Causes, Source, ThrottleReport, WorkTimes};
    use hitm_live::wakeups::{Latencies, Measured, WakeupReport, WakeupTable};
    use serde_json::Value as Json;

    use super::*;
    use crate::json::Fields;

    /// Each field has its value in `json`, or in its `causes`.
    fn check<T>(fields: &'static [Field<T>], item: &T, json: &Json) {
        let own = serde_json::to_value(Fields(fields, item, &[])).unwrap();
        for (id, value) in own.as_object().unwrap() {
            let found = json.get(id).or_else(|| json.get("causes")?.get(id));
            match (value.as_f64(), found.and_then(Json::as_f64)) {
                (Some(value), Some(found)) => assert!((value - found).abs() < 1e-6, "{id}"),
                _ => assert_eq!(Some(value), found, "{id}"),
            }
        }
    }

    #[test]
    fn json_of_throttling_has_the_fields() {
        let causes = Causes {
            quota_ns: 5,
            timer_ns: 4,
            ipi_ns: 3,
            cpu_ns: 2,
            unassigned_ns: 1,
        };
        let mut group = GroupRow {
            path: "/hogs".into(),
            bandwidth: Some(Bandwidth {
                quota_us: 4000,
                period_us: 30_000,
                burst_us: 7,
            }),
            stat: CpuStat {
                periods: 30,
                throttled_periods: 10,
                throttled_ns: 77,
                bursts: 2,
            },
            causes,
            queues_ns: 9,
            run_delay_ns: Some(6),
            ..GroupRow::default()
        };
        for ns in [100, 200, 300] {
            group.spread.add(ns);
            group.throttled.add(ns / 2);
        }
        let task = TaskRow {
            tid: 11,
            pid: 10,
            comm: "hog".into(),
            cgroup: 70,
            throttled_by: 70,
            episodes: 3,
            causes,
            longest_ns: 8,
        };
        let report = ThrottleReport {
            source: Source::Bpf {
                is_asynchronous: true,
            },
            duration_ns: 1,
            period_timer: WorkTimes::default(),
            slack_timer: WorkTimes::default(),
            handlers: WorkTimes::default(),
            groups: vec![group.clone()],
            tasks: vec![task.clone()],
            limited_groups: 1,
            throttled_still: 0,
            counts: hitm_live::throttle::ThrottleCounts::default(),
            left_out: 0,
        };
        let json = hitm_live::throttle::json(&report);
        check(LIVE_GROUP_FIELDS, &group, &json["groups"][0]);
        check(LIVE_THROTTLED_FIELDS, &task, &json["tasks"][0]);
    }

    #[test]
    fn json_of_wakeups_has_the_fields() {
        let task = TaskLatencies {
            tid: 7,
            pid: 6,
            comm: "a".into(),
            latencies: Latencies {
                count: 3,
                sum_ns: 40,
                longest_ns: 20,
                slots: vec![0, 0, 0, 1, 2],
            },
        };
        let delay = RunDelay {
            tid: 8,
            comm: "b".into(),
            delay_ns: 50,
            runs: 4,
        };
        let report = |measured| WakeupReport {
            duration_ns: 1,
            measured,
        };
        let woken = report(Measured::Wakeups(WakeupTable {
            tasks: vec![task.clone()],
            ..WakeupTable::default()
        }));
        let delayed = report(Measured::RunDelays {
            reason: "no".into(),
            delays: vec![delay.clone()],
        });
        let json = |report| hitm_live::wakeups::json(report)["tasks"][0].clone();
        check(LIVE_WAKEUP_FIELDS, &task, &json(&woken));
        check(LIVE_RUN_DELAY_FIELDS, &delay, &json(&delayed));
    }
}
