//! The run: command, machine model and settings, its sums, its threads and processes.

use hitm_base::ThreadId;
use hitm_coherence::stats::LineStats;
use hitm_fields::fields;

use super::counts::{AccessCounts, Counted, Counts, HitmCounts};
use super::share;

fields! {
    /// Command, machine model and settings of a run, and the completeness of its recording.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RunHeader in run {
        /// Recorded command with its arguments.
        pub command: Vec<String> => words "command";
        /// Name of the machine model that priced the accesses.
        pub machine: String => known label "machine";
        /// One line about the machine model.
        pub machine_description: String => known label "";
        /// Logical CPUs of the machine model.
        pub cpu_count: u64 => count "CPUs";
        /// NUMA nodes of the machine model.
        pub node_count: u64 => count "nodes";
        /// Clock of the machine model.
        pub clock_khz: u64 => recorded khz "clock";
        /// Cycles that a thread may run ahead of the slowest one.
        pub window_cycles: u64 => recorded cycles "window";
        /// Placement of the threads on CPUs.
        pub placement: String => known label "placement";
        /// CPUs that the program saw, 0 when that is not recorded.
        pub program_cpu_count: u64 => recorded count "CPUs seen";
        /// Seed of the run.
        pub seed: u64 => recorded number "seed";
        /// Accesses to lines that only one thread had touched, counted by the recorder and not stored; those of a
        /// process that was alone are not counted.
        pub private_access_count: u64 => recorded count "private";
        /// Accesses that the recorder had to drop.
        pub lost_access_count: u64 => recorded count "lost";
        /// True if the recording was closed properly.
        pub complete: bool => label "complete";
        /// True if the accesses are samples, taken by perf; then exact sums are left out.
        pub sampled: Option<Vec<SampledEvent>> => label "sampled", |run| run.sampled.is_some();
    }
}

/// An event that was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledEvent {
    /// Its name.
    pub name: String,
    /// Samples of it, used or not.
    pub sample_count: u64,
    /// Events that these samples stand for.
    pub event_count: u64,
}

fields! {
    /// Sums over all lines of the recording.
    #[derive(Debug, Clone, Copy, PartialEq, Default)]
    pub struct Totals in totals {
        /// Accesses by operation and source.
        pub counts: AccessCounts;
        /// Recorded accesses.
        access_count => count "accesses", |totals| totals.counts.total();
        ..Counts: load_count, store_count, locked_count;
        ..HitmCounts: local_hitm_count "local HITM", remote_hitm_count "remote HITM";
        ..Counts: store_hit_count, store_miss_count;
        /// Lines with at least one recorded access.
        pub line_count: u64 => count "lines";
        /// Lines with a verdict other than no-contention.
        pub flagged_line_count: u64 => count "contended lines";
        /// Virtual time of all threads together.
        pub thread_cycles: u64 => recorded cycles "thread cycles";
        /// Time that threads waited for memory, whatever the source.
        pub stall_cycles: u64 => recorded cycles "memory stall";
        /// Part of stall_cycles whose source is another CPU's use of the line.
        pub lost_cycles: u64 => recorded cycles "lost to contention";
        /// lost_cycles as a part of thread_cycles.
        run_share => recorded share "of the run", |totals| totals.run_share();
        /// Samples that say whether the address was found in a TLB; only of samples.
        pub tlb_known_count: u64 => sampled count "with TLB";
        /// Those of tlb_known_count whose address was in no TLB; only of samples.
        pub tlb_miss_count: u64 => sampled count "TLB misses";
        /// tlb_miss_count as a part of tlb_known_count; only of samples.
        tlb_miss_share => sampled share "TLB misses", |totals| totals.tlb_miss_share();
    }
}

impl Counted for Totals {
    fn counts(&self) -> &AccessCounts {
        &self.counts
    }
}

impl Totals {
    /// Part of the samples that say so whose address was in no TLB, 0 to 1; none when no sample says.
    pub fn tlb_miss_share(&self) -> Option<f64> {
        (self.tlb_known_count > 0).then(|| share(self.tlb_miss_count, self.tlb_known_count))
    }

    /// Part of all threads' time lost to contention, 0 to 1.
    pub fn run_share(&self) -> f64 {
        share(self.lost_cycles, self.thread_cycles)
    }
}

fields! {
    /// Lines that are counted only.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Quiet in quiet {
        /// Lines with contended accesses, but too few for a verdict or to matter.
        pub line_count: u64 => count "quiet lines";
        /// Cycles lost on those lines.
        pub lost_cycles: u64 => recorded cycles "lost there";
        /// Contended lines beyond the number of lines asked for.
        pub left_out_line_count: u64 => count "lines left out";
        /// Cycles lost on the lines left out.
        pub left_out_lost_cycles: u64 => recorded cycles "lost there";
    }
}

impl Quiet {
    /// Counts a line.
    pub(crate) fn add(&mut self, stats: &LineStats) {
        self.line_count += 1;
        self.lost_cycles = self.lost_cycles.saturating_add(stats.contention_stall.0);
    }
}

fields! {
    /// One thread's time.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ThreadSummary in thread {
        /// Number of the thread in the recording, by first appearance.
        pub thread: ThreadId => number "#", |thread| thread.thread.0;
        /// Name of the thread.
        pub name: String => known name "thread";
        /// Id of the thread in the operating system, 0 when unknown.
        pub tid: u64 => number "tid";
        /// Instructions executed.
        pub instruction_count: u64 => recorded count "instructions";
        /// Virtual time that passed while it ran.
        pub cycles: u64 => recorded cycles "cycles";
        /// Cycles that it lost to other CPUs' use of the lines it needed.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// lost_cycles as a part of cycles.
        lost_share => recorded share "lost", |thread| thread.lost_share();
    }
}

impl ThreadSummary {
    /// Part of its time lost to contention, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        share(self.lost_cycles, self.cycles)
    }
}

fields! {
    /// Work of one program of one process.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessSummary in process {
        /// Number of the process in the recording; a program that takes a process over has its own.
        pub process: u64 => number "#";
        /// Id of the process in the operating system.
        pub pid: u64 => number "pid";
        /// Number of the process that it was forked from, or that it was before; null of the first one.
        pub parent: Option<u64> => number "from";
        /// File of the program.
        pub program: String => known name "program";
        /// Threads of the process.
        pub thread_count: u64 => count "threads";
        /// Instructions executed.
        pub instruction_count: u64 => count "instructions";
        /// Cycles that its threads lost to other CPUs' use of the lines they needed.
        pub lost_cycles: u64 => cycles "lost cycles";
        /// Its end: exit and its status, exec, stopped, signal and its number, or killed.
        pub end: String => known label "end";
    }
}
