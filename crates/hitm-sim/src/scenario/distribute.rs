//! Figures of quotas: what distributing them took, and whether they held.

use std::fmt::Write;

use hitm_base::Cycles;

use super::figures::{Add, Window};
use crate::kernel::{DistributeCall, Histogram};
use crate::workload::cgroup_hogs::CgroupHogs;
use crate::workload::lock_holder::LockWaits;

/// Adds the figures; returns the histogram of all calls, and the trace of the longest.
pub(super) fn distribute_metrics(
    hogs: &CgroupHogs,
    window: Window<'_>,
    add: Add<'_>,
) -> (String, String) {
    let calls = window.kernel.distribute_calls();
    add(
        "distribute_calls",
        "count",
        calls.len() as f64,
        "Calls of distribute_cfs_runtime",
    );
    let of_all = |call: &&DistributeCall| call.cfs_rqs == hogs.cfs_rqs();
    let full: Vec<f64> = calls
        .iter()
        .filter(of_all)
        .map(|call| window.micros(call.duration()) / 1e3)
        .collect();
    if !full.is_empty() {
        let mean = full.iter().sum::<f64>() / full.len() as f64;
        let text = "Mean of the calls that unthrottled every queue of a subtree themselves";
        add("full_walk_ms_mean", "ms", mean, text);
        let text = "Such calls";
        add("full_walks", "count", full.len() as f64, text);
    }
    let most = calls.iter().max_by_key(|call| call.duration());
    if let Some(call) = most {
        let text = "The longest call of distribute_cfs_runtime, all with interrupts off";
        add(
            "distribute_us_max",
            "us",
            window.micros(call.duration()),
            text,
        );
        let text = "Queues that it unthrottled itself";
        add("distribute_cfs_rqs_max", "count", call.cfs_rqs as f64, text);
        let text = "Tasks that it made runnable itself";
        add("distribute_tasks_max", "count", call.tasks as f64, text);
        let text = "Interrupts that it sent to CPUs that unthrottle their own queues";
        add("distribute_ipis", "count", call.ipis as f64, text);
    }
    parts(hogs, window, add);
    let mut text = histogram("durations", &calls, window);
    let own = window.kernel.csd_unthrottle_calls();
    if !own.is_empty() {
        text += &histogram("csd_unthrottle", &own, window);
    }
    (text, trace(&calls, window))
}

/// Adds the figures of what CPUs did for themselves, and of what was used.
fn parts(hogs: &CgroupHogs, window: Window<'_>, add: Add<'_>) {
    let longest = |calls: &[DistributeCall]| {
        let durations = calls.iter().map(DistributeCall::duration);
        window.micros(durations.max().unwrap_or_default())
    };
    let own = window.kernel.csd_unthrottle_calls();
    let text = "The longest time that a CPU took to unthrottle its own queues when asked to";
    add("csd_unthrottle_us_max", "us", longest(&own), text);
    let text = "Times that a CPU was asked to unthrottle its own queues";
    add("csd_unthrottles", "count", own.len() as f64, text);
    if !own.is_empty() {
        let sum: u64 = own.iter().map(|call| call.duration().0).sum();
        let text = "The mean of these times";
        let mean = window.micros(Cycles(sum)) / own.len() as f64;
        add("csd_unthrottle_us_mean", "us", mean, text);
    }
    let throttle = window.kernel.throttle_calls();
    let text = "The longest walk that throttled the queues of a CPU";
    add("throttle_walk_us_max", "us", longest(&throttle), text);
    let used: u64 = hogs.used().iter().map(|used| used.0).sum();
    let waits = window
        .kernel
        .distribute_calls()
        .into_iter()
        .map(|call| call.lock_wait);
    let text =
        "The longest time that a call of distribute_cfs_runtime waited for locks of run queues";
    let most = window.micros(waits.max().unwrap_or_default());
    add("distribute_lock_wait_us_max", "us", most, text);
    let locks = window.kernel.rq_lock_totals();
    let text = "Times that anybody had to wait for the lock of a run queue";
    add("rq_lock_waits", "count", locks.contended as f64, text);
    let text = "The longest such wait";
    add(
        "rq_lock_wait_us_max",
        "us",
        window.micros(locks.wait_max),
        text,
    );
    let text = "All such waits together";
    add(
        "rq_lock_wait_ms",
        "ms",
        window.micros(locks.wait_sum) / 1e3,
        text,
    );
    let text = "CPU time that all subtrees used, of the whole run";
    add("used_ms", "ms", window.micros(Cycles(used)) / 1e3, text);
}

fn histogram(name: &str, calls: &[DistributeCall], window: Window<'_>) -> String {
    let mut histogram = Histogram::default();
    for call in calls {
        histogram.record(window.clock.nanos(call.duration()));
    }
    format!("@{name}:\n{}", histogram.text())
}

/// The longest call as the mail's trace has it.
fn trace(calls: &[DistributeCall], window: Window<'_>) -> String {
    let Some(call) = calls.iter().max_by_key(|call| call.duration()) else {
        return String::new();
    };
    let seconds = |at: Cycles| window.clock.nanos(at).0 / 1e9;
    let cpu = call.cpu.0;
    format!(
        "{:.6}: cpu{cpu}: begins\n{:.6}: cpu{cpu}: finishes: unthrottled_rqs={}, \
         unthrottled_cfs_rq={}, unthrottled_task={}\n",
        seconds(call.begin),
        seconds(call.end),
        call.rqs,
        call.cfs_rqs,
        call.tasks
    )
}

/// Adds how long tasks waited for a lock; returns the histograms.
pub(super) fn lock_metrics(waits: &LockWaits, window: Window<'_>, add: Add<'_>) -> String {
    let mut text = String::new();
    let mut of = |name: &str, waits: &[Cycles]| {
        let mut histogram = Histogram::default();
        for wait in waits {
            histogram.record(window.clock.nanos(*wait));
        }
        let _ = write!(text, "@{name}_wait:\n{}", histogram.text());
        let most = waits.iter().max().copied().unwrap_or_default();
        window.clock.nanos(most).0 / 1e3
    };
    let writer = of("writer", &waits.writer);
    let readers = of("reader", &waits.readers);
    let own = of("holder", &waits.holders);
    let text_of = "The longest time that the writer waited for the lock";
    add("writer_wait_us_max", "us", writer, text_of);
    let text_of = "The longest time that a reader without a quota waited for it";
    add("reader_wait_us_max", "us", readers, text_of);
    let text_of = "The longest time that a holder of the group with a quota waited for it";
    add("holder_wait_us_max", "us", own, text_of);
    let uses = "Times that readers without a quota had it";
    add("reader_uses", "count", waits.readers.len() as f64, uses);
    text
}
