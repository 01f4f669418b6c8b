//! What distributing quotas took: the figures that a probe on `distribute_cfs_runtime` gives, and
//! their histogram as bpftrace prints it.

use std::fmt::Write;

use hitm_base::{CpuId, Cycles, Nanos};

use super::throttle::Walked;

/// One call of `distribute_cfs_runtime`, or of the part of it that a CPU does for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DistributeCall {
    /// The CPU that did it.
    pub cpu: CpuId,
    /// When it began.
    pub begin: Cycles,
    /// When it ended.
    pub end: Cycles,
    /// Run queues that it locked.
    pub rqs: u64,
    /// Queues that it walked over.
    pub cfs_rqs: u64,
    /// Tasks that became runnable.
    pub tasks: u64,
    /// For how long others kept run queues locked that it wanted.
    pub lock_wait: Cycles,
    /// Whether it gave out what came back within a period.
    pub is_slack: bool,
}

impl DistributeCall {
    pub(in crate::kernel) fn add(&mut self, walked: Walked) {
        self.cfs_rqs += walked.cfs_rqs;
        self.tasks += walked.tasks;
    }

    /// How long it took.
    pub fn duration(&self) -> Cycles {
        self.end.saturating_sub(self.begin)
    }
}

/// Durations by powers of two of nanoseconds, as bpftrace's `hist()` counts and prints them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Bucket N counts values from 2^N to below 2^(N + 1); 0 and 1 are in the first.
    buckets: Vec<u64>,
}

/// Width of the longest bar.
const BAR: u64 = 52;

impl Histogram {
    /// Counts a value.
    pub fn record(&mut self, span: Nanos) {
        let bucket = (span.0.max(1.0) as u64).ilog2() as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Lower bound in nanoseconds and count of each bucket, from the first to the last in use.
    pub fn rows(&self) -> Vec<(u64, u64)> {
        let first = self.buckets.iter().position(|count| *count > 0);
        let rows = self.buckets.iter().enumerate().skip(first.unwrap_or(0));
        rows.map(|(bucket, count)| (1 << bucket, *count)).collect()
    }

    /// The text of bpftrace, bars as long as counts are large.
    pub fn text(&self) -> String {
        let rows = self.rows();
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let mut text = String::new();
        for (low, count) in rows {
            let range = format!("[{}, {})", short(low), short(low * 2));
            let bar = "@".repeat((count * BAR / most.max(1)) as usize);
            let _ = writeln!(text, "{range:<16}{count:>10} |{bar:<52}|");
        }
        text
    }
}

/// A power of two with bpftrace's suffixes.
fn short(value: u64) -> String {
    match value.ilog2() {
        0..10 => value.to_string(),
        10..20 => format!("{}K", value >> 10),
        20..30 => format!("{}M", value >> 20),
        _ => format!("{}G", value >> 30),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_histogram_looks_like_bpftrace_s() {
        let mut histogram = Histogram::default();
        for nanos in [3_000.0, 4_100.0, 5_000.0, 9_000.0] {
            histogram.record(Nanos(nanos));
        }
        expect![[r#"
            [2K, 4K)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
            [4K, 8K)                 2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
            [8K, 16K)                1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
        "#]]
        .assert_eq(&histogram.text());
    }
}
