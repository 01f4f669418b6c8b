//! Lines of a running program: what samples and watches bound their cost by.

use hitm_fields::fields;
use hitm_trace::{WatchedLine, WatchedRun};

use super::share;

fields! {
    /// Samples and watches of a running program, and what its shared lines cost by them.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct Watched in watched {
        /// Time from the first sample to the last.
        pub duration_ns: u64 => nanos "time";
        /// CPU time of the threads in their program while they were sampled.
        pub cpu_ns: u64 => nanos "CPU time";
        /// Samples of all threads' clocks.
        pub sample_count: u64 => count "samples";
        /// Part of the samples at an instruction that may have accessed memory at a known address.
        pub addressed_share: f64 => share "addressed";
        /// Lines that were watched.
        pub watched_count: u64 => count "watched";
        /// Accesses that watches saw.
        pub hit_count: u64 => count "hits";
        /// Part of the CPU time that stands at accesses to shared lines: what they cost at most.
        pub most_share: f64 => share "at most";
        /// Part of the CPU time of the hand-overs that are certain by watches: what shared lines cost at least.
        pub least_share: f64 => share "at least";
        /// Calibration of the host: where samples stand, and what its events cost; null for others.
        pub host: Option<String> => label "host";
        /// True where nothing was watched: the lines are candidates, at which several threads were sampled.
        pub is_by_samples: bool => label "by samples";
    }
}

/// Bounds of a finding's cost in CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CostBounds {
    /// Part of it that stands at its accesses.
    pub most_share: f64,
    /// Standard error of that by the number of samples.
    pub most_error: f64,
    /// Part of the hand-overs that are certain by watches.
    pub least_share: f64,
    /// Hand-overs of its lines in a second, at least.
    pub change_rate_per_s: u64,
}

impl Watched {
    /// Sums over all lines.
    pub(crate) fn of(run: &WatchedRun) -> Watched {
        let bounds = CostBounds::of(run, run.lines.iter());
        Watched {
            duration_ns: run.duration_ns,
            cpu_ns: run.cpu_ns,
            sample_count: run.sample_count,
            addressed_share: share(run.addressed_count, run.sample_count),
            watched_count: run.watched_count,
            hit_count: run.hit_count,
            most_share: bounds.most_share,
            least_share: bounds.least_share,
            host: (!run.host.is_empty()).then(|| run.host.clone()),
            is_by_samples: run.is_by_samples,
        }
    }
}

impl CostBounds {
    /// Bounds of some lines together.
    pub(crate) fn of<'l>(
        run: &WatchedRun,
        lines: impl Iterator<Item = &'l WatchedLine>,
    ) -> CostBounds {
        let (mut most, mut least, mut change_rate_per_s) = (0u64, 0u64, 0u64);
        for line in lines {
            most = most.saturating_add(line.most_ns);
            least = least.saturating_add(line.least_ns);
            change_rate_per_s = change_rate_per_s.saturating_add(line.change_rate_per_s);
        }
        // A sample that may stand at two lines counts for both.
        let most_share = share(most, run.cpu_ns).min(1.0);
        let samples = run.sample_count.max(1) as f64;
        CostBounds {
            most_share,
            most_error: (most_share * (1.0 - most_share) / samples).sqrt(),
            least_share: share(least, run.cpu_ns).min(most_share),
            change_rate_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_at_lines_is_no_more_than_all() {
        let line = |most_ns, least_ns| WatchedLine {
            most_ns,
            least_ns,
            ..WatchedLine::default()
        };
        let run = WatchedRun {
            cpu_ns: 1000,
            sample_count: 100,
            lines: vec![line(250, 50), line(250, 10)],
            ..WatchedRun::default()
        };
        let bounds = CostBounds::of(&run, run.lines.iter());
        assert_eq!((bounds.most_share, bounds.least_share), (0.5, 0.06));
        assert!((bounds.most_error - 0.05).abs() < 1e-9);
        let many = [line(900, 900), line(900, 900)];
        assert_eq!(CostBounds::of(&run, many.iter()).most_share, 1.0);
    }
}
