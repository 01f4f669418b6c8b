//! Figures of requests: how long they took, and why.

use hitm_base::Cycles;

use super::{Done, Requests};
use crate::kernel::Histogram;
use crate::workload::figures::{Add, Figures, Window, figures};
use crate::workload::metric::WorkloadResult;

figures! {
    FIGURES {
        REQUESTS: "requests", "count", "Requests done in the whole run";
        REQUESTS_PER_SECOND: "requests_per_second", "1/s", "Requests done a second";
        UNFINISHED: "unfinished", "count", "Requests that had arrived and were not done at the end";
        THROTTLED_REQUESTS: "throttled_requests", "%", "The part of requests whose thread a group without quota stopped";
        LATENCY_US_MEAN: "latency_us_mean", "us", "Mean time from arrival to end of a request: the sum of its parts";
        RUN_US_MEAN: "run_us_mean", "us", "The part of it that the thread was on a CPU, interrupts and system calls included";
        WAIT_THREAD_US_MEAN: "wait_thread_us_mean", "us", "The part of it until a thread was free";
        WAIT_QUOTA_US_MEAN: "wait_quota_us_mean", "us", "The part of it until the timer was due that gave quota";
        WAIT_TIMER_US_MEAN: "wait_timer_us_mean", "us", "The part of it until that timer had reached the CPU: late, or walking";
        WAIT_INTERRUPT_US_MEAN: "wait_interrupt_us_mean", "us", "The part of it until the CPU had put its tasks back";
        WAIT_CPU_US_MEAN: "wait_cpu_us_mean", "us", "The part of it that the thread could run and had no CPU";
        LATENCY_US_P50: "latency_us_p50", "us", "From arrival to end of a request, half of all take at most this";
        LATENCY_US_P90: "latency_us_p90", "us", "The same, 90 % of all";
        LATENCY_US_P99: "latency_us_p99", "us", "The same, 99 % of all";
        LATENCY_US_P999: "latency_us_p999", "us", "The same, 99.9 % of all";
        LATENCY_US_MAX: "latency_us_max", "us", "The longest of all";
    }
}

impl Figures for Requests {
    fn operations(&self) -> u64 {
        self.done.borrow().latencies.len() as u64
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        let done = self.done();
        let count = done.latencies.len();
        add(REQUESTS, count as f64);
        add(REQUESTS_PER_SECOND, window.per_second);
        add(UNFINISHED, (self.arrived() - count as u64) as f64);
        if count == 0 {
            return WorkloadResult::default();
        }
        add(
            THROTTLED_REQUESTS,
            done.throttled as f64 * 100.0 / count as f64,
        );
        means(&done, window, add);
        let mut sorted = done.latencies;
        sorted.sort_unstable();
        let mut histogram = Histogram::default();
        for latency in &sorted {
            histogram.record(window.clock.nanos(*latency));
        }
        let quantiles = [
            (LATENCY_US_P50, 500),
            (LATENCY_US_P90, 900),
            (LATENCY_US_P99, 990),
            (LATENCY_US_P999, 999),
            (LATENCY_US_MAX, 1000),
        ];
        for (figure, thousandths) in quantiles {
            add(figure, window.micros(quantile(&sorted, thousandths)));
        }
        WorkloadResult {
            text: Some(format!("@latency:\n{}", histogram.text())),
            ..WorkloadResult::default()
        }
    }
}

/// Adds the mean latency and its parts.
fn means(done: &Done, window: Window<'_>, add: Add<'_>) {
    let (waits, count) = (&done.waits, done.latencies.len() as f64);
    let all = done.latencies.iter().map(|latency| latency.0).sum();
    let parts = [
        (LATENCY_US_MEAN, Cycles(all)),
        (RUN_US_MEAN, done.ran),
        (WAIT_THREAD_US_MEAN, done.thread_wait),
        (WAIT_QUOTA_US_MEAN, waits.quota),
        (WAIT_TIMER_US_MEAN, waits.timer),
        (WAIT_INTERRUPT_US_MEAN, waits.interrupt),
        (WAIT_CPU_US_MEAN, waits.cpu),
    ];
    for (figure, sum) in parts {
        add(figure, window.micros(sum) / count);
    }
}

/// The least of `sorted`, which is not empty, that so many thousandths of all do not exceed.
fn quantile(sorted: &[Cycles], thousandths: usize) -> Cycles {
    let rank = (sorted.len() * thousandths).div_ceil(1000);
    sorted[rank.max(1) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_least_that_so_many_do_not_exceed() {
        let hundred: Vec<Cycles> = (1..=100).map(Cycles).collect();
        let of = |thousandths| quantile(&hundred, thousandths).0;
        assert_eq!(
            [of(500), of(900), of(990), of(999), of(1000)],
            [50, 90, 99, 100, 100]
        );
        assert_eq!(quantile(&[Cycles(7)], 1), Cycles(7));
    }
}
