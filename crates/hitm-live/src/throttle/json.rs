//! The report as JSON.

use hitm_bpf::Episode;
use serde_json::{Value, json};

use super::{Causes, GroupRow, Source, TaskRow, ThrottleReport, WorkTimes};
use crate::cgroups::Bandwidth;

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.
pub fn json(report: &ThrottleReport) -> Value {
    let (source, reason) = match &report.source {
        Source::Bpf {
            is_asynchronous: true,
        } => ("bpf", Value::Null),
        Source::Bpf {
            is_asynchronous: false,
        } => ("bpf-sync", Value::Null),
        Source::Counters(reason) => ("counters", Value::from(reason.as_str())),
    };
    let counts = &report.counts;
    json!({
        "schema": SCHEMA,
        "source": source,
        "reason": reason,
        "duration_ns": report.duration_ns,
        "period_timer": work(&report.period_timer),
        "slack_timer": work(&report.slack_timer),
        "handlers": work(&report.handlers),
        "groups": report.groups.iter().map(group).collect::<Vec<_>>(),
        "tasks": report.tasks.iter().map(task).collect::<Vec<_>>(),
        "limited_groups": report.limited_groups,
        "throttled_still": report.throttled_still,
        "counts": {
            "episodes": counts.episodes,
            "timers": counts.timers,
            "handlers": counts.handlers,
            "lost_events": counts.lost_events,
            "lost_tasks": counts.lost_tasks,
            "not_followed": counts.not_followed,
        },
        "left_out": report.left_out,
    })
}

fn work(times: &WorkTimes) -> Value {
    let rows = times.histogram.rows();
    let histogram = rows
        .iter()
        .map(|(low, count)| json!({ "from_ns": low, "count": count }));
    json!({
        "count": times.spread.count(),
        "sum_ns": times.spread.sum_ns(),
        "longest_ns": times.spread.longest_ns(),
        "histogram": histogram.collect::<Vec<_>>(),
    })
}

fn group(group: &GroupRow) -> Value {
    let locks = group.locks.iter().map(|held| {
        json!({
            "lock": format!("{:#x}", held.lock),
            "holder": held.holder,
            "waits": held.waits,
            "waiter": held.waiter,
            "waiter_comm": held.waiter_comm,
        })
    });
    json!({
        "path": group.path,
        "quota_us": group.bandwidth.map(|quota| quota.quota_us),
        "period_us": group.bandwidth.map(|quota| quota.period_us),
        "burst_us": group.bandwidth.map(|quota| quota.burst_us),
        "quota_cpus": group.bandwidth.map(Bandwidth::cpus),
        "periods": group.stat.periods,
        "throttled_periods": group.stat.throttled_periods,
        "throttled_share": group.stat.throttled_share(),
        "cpu_stat_throttled_ns": group.stat.throttled_ns,
        "bursts": group.stat.bursts,
        "episodes": group.spread.count(),
        "causes": causes(&group.causes),
        "p50_ns": group.spread.quantile_ns(500),
        "p99_ns": group.spread.quantile_ns(990),
        "throttled_p50_ns": group.throttled.quantile_ns(500),
        "throttled_p99_ns": group.throttled.quantile_ns(990),
        "longest_ns": group.spread.longest_ns(),
        "longest": group.longest.as_ref().map(episode),
        "queues_ns": group.queues_ns,
        "timer_walks": group.walks.count(),
        "locks": locks.collect::<Vec<_>>(),
        "run_delay_ns": group.run_delay_ns,
    })
}

fn task(task: &TaskRow) -> Value {
    json!({
        "tid": task.tid,
        "pid": task.pid,
        "comm": task.comm,
        "episodes": task.episodes,
        "causes": causes(&task.causes),
        "longest_ns": task.longest_ns,
    })
}

fn causes(causes: &Causes) -> Value {
    json!({
        "total_ns": causes.total_ns(),
        "quota_ns": causes.quota_ns,
        "timer_ns": causes.timer_ns,
        "ipi_ns": causes.ipi_ns,
        "cpu_ns": causes.cpu_ns,
        "unassigned_ns": causes.unassigned_ns,
    })
}

fn episode(episode: &Episode) -> Value {
    json!({
        "tid": episode.tid,
        "comm": episode.comm,
        "out_ns": episode.out_ns,
        "out_cpu": episode.out_cpu,
        "in_cpu": episode.in_cpu,
        "causes": causes(&Causes::of(episode)),
    })
}
