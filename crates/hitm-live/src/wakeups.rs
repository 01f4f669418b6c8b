//! Wake-up latency: the time from waking a sleeping task until it runs, by task and by CPU.

mod growth;
mod run;

#[cfg(test)]
mod tests;

use hitm_base::Histogram;
use hitm_bpf::slot_start_ns;
pub use hitm_bpf::{Latencies, TaskLatencies, WakeupTable};
use hitm_fields::fields;

pub use run::{Error, WakeupWindows, measure};

/// Something that has latencies.
pub trait HasLatencies {
    /// The latencies.
    fn latencies(&self) -> &Latencies;
}

impl HasLatencies for Latencies {
    fn latencies(&self) -> &Latencies {
        self
    }
}

impl HasLatencies for TaskLatencies {
    fn latencies(&self) -> &Latencies {
        &self.latencies
    }
}

fields! {
    /// Fields of everything that has latencies.
    pub Latent for T: HasLatencies {
        /// Times that it was woken and ran.
        count => count "wake-ups", |item| item.latencies().count;
        /// Time from waking to running in all.
        sum_ns => nanos "in all", |item| item.latencies().sum_ns;
        /// Time that half of them do not exceed.
        p50_ns => nanos "p50", |item| quantile_ns(item.latencies(), 500);
        /// Time that 99 of 100 do not exceed.
        p99_ns => nanos "p99", |item| quantile_ns(item.latencies(), 990);
        /// The longest; of a window of the view that of its histogram, where an earlier window had a longer one.
        longest_ns => nanos "longest", |item| item.latencies().longest_ns;
    }
}

fields! {
    /// Latencies.
    pub latencies for Latencies {
        ..Latent: count, sum_ns, p50_ns, p99_ns, longest_ns;
    }
}

fields! {
    /// A task that was woken.
    pub task_latencies for TaskLatencies {
        /// Its number.
        tid => number "thread";
        /// Its process.
        pid => number "process";
        /// Its name at the first wake-up.
        comm => name "name";
        ..Latent: count, sum_ns, p50_ns, p99_ns, longest_ns;
    }
}

fields! {
    /// All wake-ups of a window.
    pub wakeup_table for WakeupTable {
        /// Wake-ups that ended.
        count => count "wake-ups";
        /// Wake-ups that are missing because too many tasks waited for a CPU already.
        lost_wakes => count "lost wake-ups";
        /// Wake-ups that are in the rows of CPUs alone, because too many tasks have rows.
        lost_tasks => count "without a row";
    }
}

fields! {
    /// Time that one task was ready to run and did not, by /proc/TID/schedstat.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RunDelay in run_delay {
        /// Its number.
        pub tid: u32 => number "thread";
        /// Its name.
        pub comm: String => name "name";
        /// Time for which it was ready and did not run, preempted or woken.
        pub run_delay_ns: u64 => nanos "delay";
        /// Times that it was put on a CPU.
        pub runs: u64 => count "runs";
    }
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

impl Measured {
    /// The means in JSON.
    pub const fn id(&self) -> &'static str {
        match self {
            Measured::Wakeups(_) => "bpf",
            Measured::RunDelays { .. } => "schedstat",
        }
    }
}

fields! {
    /// Wake-ups of a window.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WakeupReport in wakeup_report {
        /// Length of the window.
        pub duration_ns: u64 => nanos "time";
        /// The figures.
        pub measured: Measured;
        /// The means.
        source => label "source", |report| report.measured.id();
    }
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

/// Start of each slot in use, and the latencies in it.
pub fn slots(latencies: &Latencies) -> impl Iterator<Item = (u64, u64)> {
    let slots = latencies.slots.iter().enumerate();
    let used = slots.filter(|(_, count)| **count > 0);
    used.map(|(slot, count)| (slot_start_ns(slot), u64::from(*count)))
}

/// Histogram of latencies by powers of two: slots are quarters of bpftrace's buckets.
pub fn histogram(latencies: &Latencies) -> Histogram {
    slots(latencies).collect()
}

/// Sum of histograms.
pub fn sum<'a>(all: impl Iterator<Item = &'a Latencies>) -> Latencies {
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
