//! Wake-up latency: the time from waking a sleeping task until it runs, by task and by CPU.

mod growth;
mod run;
mod text;

#[cfg(test)]
mod tests;

use hitm_base::{Histogram, Nanos};
use hitm_bpf::slot_start_ns;
pub use hitm_bpf::{Latencies, TaskLatencies, WakeupTable};
use serde_json::{Value, json};

pub use run::{Error, Options, Target, WakeupWindows, measure};
pub use text::{losses, text};

/// Rises when a member changes its meaning or disappears.
const SCHEMA: u32 = 1;

/// Time that one task was ready to run and did not, by /proc/TID/schedstat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDelay {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Growth of its run delay.
    pub delay_ns: u64,
    /// Number of times that it was put on a CPU.
    pub runs: u64,
}

/// Results, by the means that work here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// Every wake-up, from BPF programs.
    Wakeups(WakeupTable),
    /// The kernel's sums, of preempted tasks as well as of woken ones.
    RunDelays {
        /// Reason why there are no wake-ups.
        reason: String,
        /// Threads, longest delay first.
        delays: Vec<RunDelay>,
    },
}

/// Wake-ups of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeupReport {
    /// Length of the window.
    pub duration_ns: u64,
    /// The figures.
    pub measured: Measured,
}

impl WakeupReport {
    /// Sorts tasks by their longest latency. Run delays are sorted already.
    pub fn sort_by_longest(&mut self) {
        if let Measured::Wakeups(table) = &mut self.measured {
            let longest = |task: &TaskLatencies| std::cmp::Reverse(task.latencies.longest_ns);
            table.tasks.sort_by_key(|task| (longest(task), task.tid));
        }
    }
}

/// Latency that `permille` of 1000 do not exceed: the middle of its slot, so it is right to an
/// eighth. Zero without latencies.
pub fn quantile_ns(latencies: &Latencies, permille: u64) -> u64 {
    let rank = (latencies.count * permille).div_ceil(1000).max(1);
    let mut seen = 0;
    for (slot, &count) in latencies.slots.iter().enumerate() {
        seen += u64::from(count);
        if seen >= rank {
            let (low, high) = (slot_start_ns(slot), slot_start_ns(slot + 1));
            return (low + (high - low) / 2).min(latencies.longest_ns);
        }
    }
    0
}

/// Histogram of latencies by powers of two: slots are quarters of bpftrace's buckets.
pub fn histogram(latencies: &Latencies) -> Histogram {
    let mut histogram = Histogram::default();
    for (slot, &count) in latencies.slots.iter().enumerate() {
        histogram.record_many(Nanos(slot_start_ns(slot) as f64), u64::from(count));
    }
    histogram
}

/// Sum of histograms.
fn sum<'a>(all: impl Iterator<Item = &'a Latencies>) -> Latencies {
    let mut total = Latencies {
        count: 0,
        sum_ns: 0,
        longest_ns: 0,
        slots: vec![0; hitm_bpf::SLOTS],
    };
    for latencies in all {
        total.count += latencies.count;
        total.sum_ns = total.sum_ns.saturating_add(latencies.sum_ns);
        total.longest_ns = total.longest_ns.max(latencies.longest_ns);
        for (sum, &count) in total.slots.iter_mut().zip(&latencies.slots) {
            *sum = sum.saturating_add(count);
        }
    }
    total
}

/// The report as JSON; docs/formats/live.md describes the members. Times are nanoseconds.
pub fn json(report: &WakeupReport) -> Value {
    let duration_ns = report.duration_ns;
    match &report.measured {
        Measured::Wakeups(table) => json!({
            "schema": SCHEMA,
            "source": "bpf",
            "duration_ns": duration_ns,
            "count": table.count,
            "tasks": table.tasks.iter().map(|task| {
                let mut row = latencies_json(&task.latencies);
                row["tid"] = json!(task.tid);
                row["pid"] = json!(task.pid);
                row["comm"] = json!(task.comm);
                row
            }).collect::<Vec<_>>(),
            "cpus": table.cpus.iter().map(|(cpu, latencies)| {
                let mut row = latencies_json(latencies);
                row["cpu"] = json!(cpu);
                row
            }).collect::<Vec<_>>(),
            "lost_wakes": table.lost_wakes,
            "lost_tasks": table.lost_tasks,
        }),
        Measured::RunDelays { reason, delays } => json!({
            "schema": SCHEMA,
            "source": "schedstat",
            "reason": reason,
            "duration_ns": duration_ns,
            "tasks": delays.iter().map(|delay| json!({
                "tid": delay.tid,
                "comm": delay.comm,
                "run_delay_ns": delay.delay_ns,
                "runs": delay.runs,
            })).collect::<Vec<_>>(),
        }),
    }
}

fn latencies_json(latencies: &Latencies) -> Value {
    let slots = latencies.slots.iter().enumerate();
    let slots = slots.filter(|(_, count)| **count > 0);
    json!({
        "count": latencies.count,
        "sum_ns": latencies.sum_ns,
        "p50_ns": quantile_ns(latencies, 500),
        "p99_ns": quantile_ns(latencies, 990),
        "longest_ns": latencies.longest_ns,
        "histogram": slots
            .map(|(slot, count)| json!({ "from_ns": slot_start_ns(slot), "count": count }))
            .collect::<Vec<_>>(),
    })
}
