//! Histograms as bpftrace prints them: of this host (`hitm-live`) and of simulated kernels (`hitm-sim`), which do not
//! know each other.

use std::fmt::Write;

use crate::Nanos;

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
        self.record_many(span, 1);
    }

    fn record_many(&mut self, span: Nanos, count: u64) {
        if count == 0 {
            return;
        }
        let bucket = (span.0.max(1.0) as u64).ilog2() as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += count;
    }

    /// The number of values counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
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

/// From the start of each slot in nanoseconds, with the number of values in it.
impl FromIterator<(u64, u64)> for Histogram {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(slots: I) -> Histogram {
        let mut histogram = Histogram::default();
        for (from_ns, count) in slots {
            histogram.record_many(Nanos(from_ns as f64), count);
        }
        histogram
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
        assert_eq!(histogram.count(), 4);
    }
}
