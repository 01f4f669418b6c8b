//! Outcome of a run: where its time went, which lines of the kernel were fought over, and how long
//! tasks waited.

use std::collections::BTreeMap;

use hitm_base::{Clock, Cycles, LINE_SIZE, Nanos};
use hitm_coherence::stats::LatencyHistogram;

use super::c2c::{C2cLine, lines};
use super::peaks::{Peak, peaks};
use super::{RunSpec, Variant};
use crate::engine::{Profile, RunHeader, RunTotals};
use crate::kernel::{CpuLoad, KernelCounts};
use crate::workload::metric::{Metric, WorkloadResult};

/// The result of one run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Identity of the run, to repeat it.
    pub header: RunHeader,
    /// The variant that was run.
    pub variant: Variant,
    /// Virtual time that was simulated, and the part of it before counting began, in nanoseconds.
    pub virtual_ns: u64,
    /// The warm-up, in nanoseconds.
    pub warm_up_ns: u64,
    /// Cycles after the warm-up that a CPU did not stand still for lines, mean over the CPUs.
    pub work_cycles_mean: f64,
    /// Shares of the CPUs' time, warm-up included.
    pub modes: ModeShares,
    /// Quantities of single CPUs.
    pub peaks: Vec<Peak>,
    /// Counts of the kernel after the warm-up.
    pub counts: KernelCounts,
    /// All single figures: of the workloads, the time, the scheduler and the lines.
    pub metrics: Vec<Metric>,
    /// Results of each group and workload.
    pub workloads: Vec<WorkloadResult>,
    /// Wake-up latencies after the warm-up.
    pub latencies: Latencies,
    /// Cycles of each function of the whole run, most first.
    pub functions: Vec<(&'static str, Cycles)>,
    /// Calls of each function in the whole run.
    pub calls: BTreeMap<&'static str, u64>,
    /// Lines after the warm-up, by cycles that loads of them took.
    pub lines: Vec<C2cLine>,
    /// Accesses that were priced in the whole run.
    pub accesses: u64,
    /// Accesses and suspensions in the whole run.
    pub events: u64,
    /// Hash over every access: equal runs have equal hashes.
    pub event_hash: u64,
    /// Hash over where and when every access was, without its value.
    pub timing_hash: u64,
}

/// Parts of the time of all CPUs, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModeShares {
    /// User code.
    pub user: f64,
    /// Kernel code of tasks, lock waits apart.
    pub kernel: f64,
    /// Kernel code that waits for a lock.
    pub spin: f64,
    /// Interrupt handlers.
    pub irq: f64,
    /// Nothing to do.
    pub idle: f64,
}

impl ModeShares {
    /// The kernel's part of the time in which CPUs were not idle.
    pub fn kernel_of_busy(&self) -> f64 {
        let kernel = self.kernel + self.spin + self.irq;
        let busy = kernel + self.user;
        if busy > 0.0 { kernel / busy } else { 0.0 }
    }
}

/// Times from wake-up to CPU, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Latencies {
    /// Their number.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The largest.
    pub max_ns: u64,
    /// All of them, to a sixteenth of their value.
    pub histogram: LatencyHistogram,
}

/// Counts at the end of the warm-up.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) profile: Option<Profile>,
    pub(super) counts: KernelCounts,
    pub(super) latency_count: usize,
}

/// A run that has ended, before it is turned into figures.
pub(super) struct Ended<'a> {
    pub(super) totals: RunTotals,
    pub(super) clock: Clock,
    pub(super) variant: &'a Variant,
    pub(super) run: RunSpec,
    pub(super) has_overlapping_cpusets: bool,
    pub(super) snapshot: Snapshot,
    pub(super) counts: KernelCounts,
    pub(super) cpu_loads: Vec<CpuLoad>,
    pub(super) wake_latencies: Vec<Cycles>,
    pub(super) workloads: Vec<WorkloadResult>,
}

impl Ended<'_> {
    pub(super) fn outcome(self) -> Outcome {
        let virtual_ns = self.clock.nanos(self.totals.end).0 as u64;
        let warm_up_ns = self.run.warm_up.as_nanos() as u64;
        let seconds = virtual_ns.saturating_sub(warm_up_ns).max(1) as f64 / 1e9;
        let lines = lines(&self.totals.profile, self.snapshot.profile.as_ref());
        let work_cycles_mean = self.work_cycles_mean();
        let counts = minus(self.counts, self.snapshot.counts);
        let modes = modes(&self.totals);
        let peaks = peaks(&self.totals, &self.cpu_loads, self.clock);
        let latencies = self.latencies();
        let mut metrics: Vec<Metric> = Vec::new();
        for workload in &self.workloads {
            metrics.extend(workload.metrics.iter().cloned());
        }
        time_metrics(&modes, &mut metrics);
        self.irqs_off_metric(&mut metrics);
        let cpus = self.totals.cpus.len() as f64;
        count_metrics(&counts, seconds * cpus, &mut metrics);
        if self.has_overlapping_cpusets {
            let text =
                "CPUs that stood in a cpuset's overload mask without reason and were taken out";
            let count = counts.stale_overloads as f64;
            let id = "stale_overloads";
            metrics.push(Metric::new("sched", id, "count", count, text));
        }
        latency_metrics(&latencies, &mut metrics);
        line_metrics(&lines, &mut metrics);
        Outcome {
            functions: self.totals.profile.functions(),
            calls: self.totals.profile.calls(),
            header: self.totals.header,
            variant: self.variant.clone(),
            virtual_ns,
            warm_up_ns,
            work_cycles_mean,
            modes,
            peaks,
            counts,
            metrics,
            workloads: self.workloads,
            latencies,
            lines,
            accesses: self.totals.accesses,
            events: self.totals.events,
            event_hash: self.totals.event_hash,
            timing_hash: self.totals.timing_hash,
        }
    }

    fn work_cycles_mean(&self) -> f64 {
        let warm_up = Nanos(self.run.warm_up.as_nanos() as f64);
        let counted = self.totals.end.saturating_sub(self.clock.cycles(warm_up));
        let before = self.snapshot.profile.as_ref().map(Profile::stall_sum);
        let stall = self.totals.profile.stall_sum() - before.unwrap_or_default();
        let stall_mean = stall.0 as f64 / self.totals.cpus.len().max(1) as f64;
        (counted.0 as f64 - stall_mean).max(0.0)
    }

    fn irqs_off_metric(&self, metrics: &mut Vec<Metric>) {
        let longest = self.totals.cpus.iter().map(|cpu| cpu.irqs_off_max).max();
        let micros = self.clock.nanos(longest.unwrap_or_default()).0 / 1e3;
        let text = "The longest time with interrupts off on any CPU, of the whole run";
        let id = "irqs_off_us_max";
        metrics.push(Metric::new("time", id, "us", micros, text));
        let all = self.totals.cpus.iter().map(|cpu| cpu.irqs_off_max.0);
        let mean = all.sum::<u64>() / self.totals.cpus.len().max(1) as u64;
        let micros = self.clock.nanos(Cycles(mean)).0 / 1e3;
        let text = "The longest time of each CPU with interrupts off, mean over the CPUs";
        let id = "irqs_off_us_max_mean";
        metrics.push(Metric::new("time", id, "us", micros, text));
    }

    fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        let mut sum = 0.0;
        for latency in self.wake_latencies.iter().skip(self.snapshot.latency_count) {
            let nanos = self.clock.nanos(*latency).0;
            latencies.histogram.record(nanos as u64);
            latencies.max_ns = latencies.max_ns.max(nanos as u64);
            latencies.count += 1;
            sum += nanos;
        }
        latencies.mean_ns = sum / latencies.count.max(1) as f64;
        latencies
    }
}

fn minus(end: KernelCounts, start: KernelCounts) -> KernelCounts {
    KernelCounts {
        wakeups: end.wakeups - start.wakeups,
        switches: end.switches - start.switches,
        migrations: end.migrations - start.migrations,
        pushes: end.pushes - start.pushes,
        pulls: end.pulls - start.pulls,
        ipis: end.ipis - start.ipis,
        stale_overloads: end.stale_overloads - start.stale_overloads,
        slices_extended: end.slices_extended - start.slices_extended,
        slices_expired: end.slices_expired - start.slices_expired,
    }
}

fn modes(totals: &RunTotals) -> ModeShares {
    let mut sums = [0u64; 5];
    for cpu in &totals.cpus {
        let parts = [cpu.user, cpu.kernel, cpu.spin, cpu.irq, cpu.idle];
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum += part.0;
        }
    }
    let all = sums.iter().sum::<u64>().max(1) as f64;
    let [user, kernel, spin, irq, idle] = sums.map(|sum| sum as f64 / all);
    ModeShares {
        user,
        kernel,
        spin,
        irq,
        idle,
    }
}

fn time_metrics(modes: &ModeShares, metrics: &mut Vec<Metric>) {
    let kernel_of_busy =
        "The kernel's part of the time in which CPUs were not idle, lock waits included";
    for (id, share, text) in [
        ("kernel_of_busy", modes.kernel_of_busy(), kernel_of_busy),
        ("user", modes.user, "User code's part of all CPU time"),
        (
            "kernel",
            modes.kernel,
            "The part of kernel code of tasks, lock waits apart",
        ),
        ("spin", modes.spin, "The part of lock waits"),
        ("irq", modes.irq, "The part of interrupt handlers"),
        ("idle", modes.idle, "The part without anything to do"),
    ] {
        metrics.push(Metric::new("time", id, "%", share * 100.0, text));
    }
}

fn count_metrics(counts: &KernelCounts, cpu_seconds: f64, metrics: &mut Vec<Metric>) {
    for (id, count, text) in [
        ("wakeups", counts.wakeups, "Tasks woken a second and CPU"),
        (
            "switches",
            counts.switches,
            "Context switches a second and CPU",
        ),
        ("migrations", counts.migrations, "Tasks that changed CPU"),
        ("pushes", counts.pushes, "RT tasks pushed away"),
        ("pulls", counts.pulls, "RT tasks pulled"),
        ("ipis", counts.ipis, "Interrupts sent to other CPUs"),
    ] {
        let (id, rate) = (format!("{id}_per_cpu_second"), count as f64 / cpu_seconds);
        metrics.push(Metric::new("sched", &id, "1/s", rate, text));
    }
}

fn latency_metrics(latencies: &Latencies, metrics: &mut Vec<Metric>) {
    if latencies.count == 0 {
        return;
    }
    let quantile = |q| latencies.histogram.value_at_quantile(q).unwrap_or(0);
    let capped = |q| quantile(q).min(latencies.max_ns) as f64;
    let most = latencies.max_ns as f64;
    for (id, nanos, text) in [
        ("mean", latencies.mean_ns, "Mean time from wake-up to CPU"),
        (
            "p50",
            capped(0.5),
            "Half of all wake-ups took at most this long",
        ),
        (
            "p99",
            capped(0.99),
            "99 % of all wake-ups took at most this long",
        ),
        ("max", most, "The longest time from wake-up to CPU"),
    ] {
        let id = format!("latency_us_{id}");
        metrics.push(Metric::new("wakeup", &id, "us", nanos / 1e3, text));
    }
}

/// Figures of the lines of `root_domain`, whose lines are numbered from 1 where they were published.
fn line_metrics(lines: &[C2cLine], metrics: &mut Vec<Metric>) {
    let mut of_domain: Vec<&C2cLine> = lines
        .iter()
        .filter(|line| line.object == "root_domain" && line.counts.loads > 0)
        .collect();
    of_domain.sort_by_key(|line| line.offset_bytes);
    for line in of_domain {
        let owner = format!("root_domain.line_{}", line.offset_bytes / LINE_SIZE + 1);
        let mut add = |id, value, text| {
            metrics.push(Metric::new(&owner, id, "cycles", value, text));
        };
        let text = "Mean cycles of a load of the line";
        add("load_cycles_mean", line.counts.load_cycles_mean(), text);
        if let Some((least, most)) = line.load_cycles_range() {
            let text = "The least mean of a member and function with 1 % of the line's loads";
            add("load_cycles_row_min", least, text);
            let text = "The largest mean of a member and function with 1 % of the line's loads";
            add("load_cycles_row_max", most, text);
        }
    }
}
