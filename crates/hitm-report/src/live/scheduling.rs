//! Quantities of throttled groups and of wake-ups. A test below checks the JSON of `hitm live throttle` and
//! `hitm live wakeups` against them.

use hitm_fields::fields;
use hitm_live::cgroups::Bandwidth;
use hitm_live::throttle::{Causes, GroupRow, TaskRow};
use hitm_live::wakeups::{RunDelay, TaskLatencies, quantile_ns};

fields! {
    /// Of a group with a quota.
    pub live_group for GroupRow {
        /// Its folder below the root of the hierarchy.
        path => name "group";
        /// CPU time that it may use in a period, in microseconds.
        quota_us => number "quota us", |group| group.bandwidth.map(|own| own.quota_us);
        ..Limits: period_us, burst_us;
        /// CPUs that the quota is worth: quota_us over period_us.
        quota_cpus => decimal "quota CPUs", |group| group.bandwidth.map(Bandwidth::cpus);
        /// Periods in which it ran.
        periods => count "periods", |group| group.stat.periods;
        /// Periods in which it used its quota up.
        throttled_periods => count "used up", |group| group.stat.throttled_periods;
        /// throttled_periods as a part of periods.
        throttled_share => share "used up", |group| group.stat.throttled_share();
        /// Time that its queues were throttled, each CPU's once, as cpu.stat counts it.
        cpu_stat_throttled_ns => nanos "cpu.stat", |group| group.stat.throttled_ns;
        /// Periods in which it used unused time of earlier ones.
        bursts => count "bursts", |group| group.stat.bursts;
        /// Times that a task of it was throttled.
        episodes => count "times", |group| group.spread.count();
        /// Time for which its tasks stood still, each throttling from leaving the CPU to running again.
        total_ns => nanos "throttled", |group| group.causes.total_ns();
        ..Parts: quota_ns, timer_ns, ipi_ns, cpu_ns, unassigned_ns;
        /// Time that half of the throttlings do not exceed.
        p50_ns => nanos "p50", |group| group.spread.quantile_ns(500);
        /// Time that 99 of 100 throttlings do not exceed.
        p99_ns => nanos "p99", |group| group.spread.quantile_ns(990);
        /// p50_ns without the wait for a CPU afterwards.
        throttled_p50_ns => nanos "p50 stopped", |group| group.throttled.quantile_ns(500);
        /// p99_ns without the wait for a CPU afterwards.
        throttled_p99_ns => nanos "p99 stopped", |group| group.throttled.quantile_ns(990);
        /// The longest throttling of a task.
        longest_ns => nanos "longest", |group| group.spread.longest_ns();
        /// Time for which a queue of it had a task that stood still, each CPU's once.
        queues_ns => nanos "queues";
        /// Walks of its timers.
        timer_walks => count "walks", |group| group.walks.count();
        /// Without BPF: time for which its tasks were ready and did not run.
        run_delay_ns => nanos "delay";
    }
}

fields! {
    /// Of a task of such a group.
    pub live_throttled for TaskRow {
        /// Its number.
        tid => number "thread";
        /// Its process.
        pid => number "process";
        /// Its name.
        comm => name "name";
        /// Times that it was throttled.
        episodes => count "times";
        /// Time for which it stood still, each throttling from leaving the CPU to running again.
        total_ns => nanos "throttled", |task| task.causes.total_ns();
        ..Parts: quota_ns, timer_ns, ipi_ns, cpu_ns, unassigned_ns;
        /// The longest of them.
        longest_ns => nanos "longest";
    }
}

fields! {
    /// Of a task that was woken.
    pub live_wakeup for TaskLatencies {
        /// Its number.
        tid => number "thread";
        /// Its process.
        pid => number "process";
        /// Its name at the first wake-up.
        comm => name "name";
        /// Times that it was woken and ran.
        count => count "wake-ups", |task| task.latencies.count;
        /// Time from waking to running in all.
        sum_ns => nanos "in all", |task| task.latencies.sum_ns;
        /// Time that half of them do not exceed.
        p50_ns => nanos "p50", |task| quantile_ns(&task.latencies, 500);
        /// Time that 99 of 100 do not exceed.
        p99_ns => nanos "p99", |task| quantile_ns(&task.latencies, 990);
        /// The longest; of a window of the view that of its histogram, where an earlier window had a longer one.
        longest_ns => nanos "longest", |task| task.latencies.longest_ns;
    }
}

fields! {
    /// Of a task without BPF.
    pub live_run_delay for RunDelay {
        /// Its number.
        tid => number "thread";
        /// Its name.
        comm => name "name";
        /// Time for which it was ready and did not run, preempted or woken.
        run_delay_ns => nanos "delay", |task| task.delay_ns;
        /// Times that it was put on a CPU.
        runs => count "runs";
    }
}

/// Whatever stands still by throttling, for known causes.
trait Throttled {
    /// The time by cause.
    fn causes(&self) -> &Causes;
}

impl Throttled for GroupRow {
    fn causes(&self) -> &Causes {
        &self.causes
    }
}

impl Throttled for TaskRow {
    fn causes(&self) -> &Causes {
        &self.causes
    }
}

fields! {
    /// Parts of the time for which something stood still.
    Parts for T: Throttled {
        /// Its part until the timer was due that gave the quota.
        quota_ns => nanos "quota", |item| item.causes().quota_ns;
        /// Its part until the timer reached the task's CPU: late, or walking.
        timer_ns => nanos "timer", |item| item.causes().timer_ns;
        /// Its part until that CPU had put its tasks back.
        ipi_ns => nanos "interrupt", |item| item.causes().ipi_ns;
        /// Its part until the task had a CPU.
        cpu_ns => nanos "CPU", |item| item.causes().cpu_ns;
        /// Its part without a known cause.
        unassigned_ns => nanos "no cause", |item| item.causes().unassigned_ns;
    }
}

/// Whatever has a quota, perhaps.
pub(super) trait Limited {
    /// The quota.
    fn bandwidth(&self) -> Option<Bandwidth>;
}

impl Limited for GroupRow {
    fn bandwidth(&self) -> Option<Bandwidth> {
        self.bandwidth
    }
}

fields! {
    /// Periods and bursts of quotas.
    pub(super) Limits for T: Limited {
        /// Length of a period, in microseconds.
        period_us => number "period us", |item| item.bandwidth().map(|own| own.period_us);
        /// Unused time of earlier periods that it may use besides, in microseconds.
        burst_us => number "burst us", |item| item.bandwidth().map(|own| own.burst_us);
    }
}

#[cfg(test)]
mod tests {
    use hitm_live::cgroups::CpuStat;
    use hitm_live::throttle::{Source, ThrottleReport, WorkTimes};
    use hitm_live::wakeups::{Latencies, Measured, WakeupReport, WakeupTable};
    use serde_json::Value as Json;

    use super::*;
    use crate::fields::Field;
    use crate::json::Fields;

    /// Each field has its value in `json`, or in its `causes`.
    fn check<T>(fields: &'static [Field<T>], item: &T, json: &Json) {
        let own = serde_json::to_value(Fields::new(fields, item)).unwrap();
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
        check(live_group::ALL, &group, &json["groups"][0]);
        check(live_throttled::ALL, &task, &json["tasks"][0]);
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
        check(live_wakeup::ALL, &task, &json(&woken));
        check(live_run_delay::ALL, &delay, &json(&delayed));
    }
}
