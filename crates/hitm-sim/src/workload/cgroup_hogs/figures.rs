//! Figures of quotas: what distributing them took, and whether they held.

use hitm_base::Cycles;

use super::CgroupHogs;
use crate::kernel::{DistributeCall, Histogram};
use crate::workload::figures::{Add, Figures, Window, figures};
use crate::workload::metric::WorkloadResult;

figures! {
    FIGURES {
        DISTRIBUTE_CALLS: "distribute_calls", "count", "Calls of distribute_cfs_runtime";
        FULL_WALK_MS_MEAN: "full_walk_ms_mean", "ms", "Mean of the calls that unthrottled every queue of a subtree themselves";
        FULL_WALKS: "full_walks", "count", "Such calls";
        DISTRIBUTE_US_MAX: "distribute_us_max", "us", "The longest call of distribute_cfs_runtime, all with interrupts off";
        DISTRIBUTE_CFS_RQS_MAX: "distribute_cfs_rqs_max", "count", "Queues that it unthrottled itself";
        DISTRIBUTE_TASKS_MAX: "distribute_tasks_max", "count", "Tasks that it made runnable itself";
        DISTRIBUTE_IPIS: "distribute_ipis", "count", "Interrupts that it sent to CPUs that unthrottle their own queues";
        CSD_UNTHROTTLE_US_MAX: "csd_unthrottle_us_max", "us", "The longest time that a CPU took to unthrottle its own queues when asked to";
        CSD_UNTHROTTLES: "csd_unthrottles", "count", "Times that a CPU was asked to unthrottle its own queues";
        CSD_UNTHROTTLE_US_MEAN: "csd_unthrottle_us_mean", "us", "The mean of these times";
        THROTTLE_WALK_US_MAX: "throttle_walk_us_max", "us", "The longest walk that throttled the queues of a CPU";
        DISTRIBUTE_LOCK_WAIT_US_MAX: "distribute_lock_wait_us_max", "us", "The longest time that a call of distribute_cfs_runtime waited for locks of run queues";
        RQ_LOCK_WAITS: "rq_lock_waits", "count", "Times that anybody had to wait for the lock of a run queue";
        RQ_LOCK_WAIT_US_MAX: "rq_lock_wait_us_max", "us", "The longest such wait";
        RQ_LOCK_WAIT_MS: "rq_lock_wait_ms", "ms", "All such waits together";
        USED_MS: "used_ms", "ms", "CPU time that all subtrees used, of the whole run";
    }
}

impl Figures for CgroupHogs {
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let (histogram, trace) = distribute_metrics(self, window, add);
        WorkloadResult {
            text: Some(format!("{histogram}{trace}")),
            histograms: Some(histogram),
            ..WorkloadResult::default()
        }
    }
}

/// Adds the figures; returns the histogram of all calls, and the trace of the longest.
fn distribute_metrics(hogs: &CgroupHogs, window: Window<'_>, add: Add<'_>) -> (String, String) {
    let calls = window.kernel.distribute_calls();
    add(DISTRIBUTE_CALLS, calls.len() as f64);
    let of_all = |call: &&DistributeCall| call.cfs_rqs == hogs.cfs_rqs();
    let full: Vec<f64> = calls
        .iter()
        .filter(of_all)
        .map(|call| window.micros(call.duration()) / 1e3)
        .collect();
    if !full.is_empty() {
        let mean = full.iter().sum::<f64>() / full.len() as f64;
        add(FULL_WALK_MS_MEAN, mean);
        add(FULL_WALKS, full.len() as f64);
    }
    let most = calls.iter().max_by_key(|call| call.duration());
    if let Some(call) = most {
        add(DISTRIBUTE_US_MAX, window.micros(call.duration()));
        add(DISTRIBUTE_CFS_RQS_MAX, call.cfs_rqs as f64);
        add(DISTRIBUTE_TASKS_MAX, call.tasks as f64);
        add(DISTRIBUTE_IPIS, call.ipis as f64);
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
    add(CSD_UNTHROTTLE_US_MAX, longest(&own));
    add(CSD_UNTHROTTLES, own.len() as f64);
    if !own.is_empty() {
        let sum: u64 = own.iter().map(|call| call.duration().0).sum();
        let mean = window.micros(Cycles(sum)) / own.len() as f64;
        add(CSD_UNTHROTTLE_US_MEAN, mean);
    }
    let throttle = window.kernel.throttle_calls();
    add(THROTTLE_WALK_US_MAX, longest(&throttle));
    let used: u64 = hogs.used(window.end).iter().map(|used| used.0).sum();
    let waits = window
        .kernel
        .distribute_calls()
        .into_iter()
        .map(|call| call.lock_wait);
    let most = window.micros(waits.max().unwrap_or_default());
    add(DISTRIBUTE_LOCK_WAIT_US_MAX, most);
    let locks = window.kernel.rq_lock_totals();
    add(RQ_LOCK_WAITS, locks.contended as f64);
    add(RQ_LOCK_WAIT_US_MAX, window.micros(locks.wait_max));
    add(RQ_LOCK_WAIT_MS, window.micros(locks.wait_sum) / 1e3);
    add(USED_MS, window.micros(Cycles(used)) / 1e3);
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
