//! Weights of samples: the accesses they stand for, their time span, and the waits of CPUs.
//!
//! A sample stands for its period: the accesses that its event counted since the last sample. `perf
//! script` prints none by default, and recordings keep none; there each sample counts once.

use std::collections::BTreeMap;

use hitm_base::{Access, AccessOp, CpuId, Cycles, LineAddr, Machine, Nanos, Outcome};
use hitm_coherence::stats::RowKey;
use hitm_trace::{Record, Visitor};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Smallest part of the sampled time that a CPU is taken to work, one in so many: a few samples can
/// claim more waiting than there was time. Assumed, 10 to 1,000; it matters only where CPUs hardly
/// did anything but wait.
const WORK_SHARE_MIN: u64 = 100;

/// Sums over weighed samples.
#[derive(Debug, Default)]
pub struct Weights {
    accesses: IndexMap<(LineAddr, RowKey), u64, FxBuildHasher>,
    /// Number of samples.
    pub samples: u64,
    /// Accesses that they stand for.
    pub total: u64,
    /// First and last time in nanoseconds.
    times: Option<(u64, u64)>,
    /// Latencies of loads and locked operations that met another CPU's use, times their weight.
    waits: BTreeMap<CpuId, Waits>,
}

/// Waits of a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    loads: u64,
    load_cycles: u64,
    locked_cycles: u64,
}

impl Weights {
    /// Counts a sampled access with weight `period`; 0 when the sample has none.
    pub(crate) fn add(&mut self, access: &Access, outcome: &Outcome, period: u64) {
        let weight = period.max(1);
        let key = RowKey {
            offset: (access.addr - access.line().first_byte()) as u8,
            size: access.size,
            op: access.op,
            thread: access.thread,
            code: access.code,
        };
        let sum = self.accesses.entry((access.line(), key)).or_default();
        *sum = sum.saturating_add(weight);
        self.samples += 1;
        self.total = self.total.saturating_add(weight);
        let time = access.time.0;
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        if !outcome.source.is_contention() {
            return;
        }
        let waits = self.waits.entry(access.cpu).or_default();
        let cycles = outcome.latency.0.saturating_mul(weight);
        match access.op {
            AccessOp::Load => {
                waits.loads = waits.loads.saturating_add(weight);
                waits.load_cycles = waits.load_cycles.saturating_add(cycles);
            }
            AccessOp::LockedRmw => waits.locked_cycles = waits.locked_cycles.saturating_add(cycles),
            // Plain stores are posted.
            AccessOp::Store | AccessOp::Fence => {}
        }
    }

    /// Accesses that the samples of a row stand for.
    pub fn of(&self, line: LineAddr, row: &RowKey) -> u64 {
        self.accesses.get(&(line, *row)).copied().unwrap_or(0)
    }

    /// Returns true if samples have periods.
    pub fn has_periods(&self) -> bool {
        self.total > self.samples
    }

    /// Span of the samples in nanoseconds; none when they have no times.
    pub fn span_ns(&self) -> Option<u64> {
        let (first, last) = self.times?;
        (last > first).then(|| last - first)
    }

    /// Cycles of a CPU's own work in the sampled time, without stalls on lines. A load stalls once
    /// the instructions behind it fill the window.
    pub fn work_of(&self, cpu: CpuId, span_ns: u64, machine: &Machine) -> Cycles {
        let span = machine.clock.cycles(Nanos(span_ns as f64)).0;
        let core = &machine.core;
        // Cycles of each load that the instructions behind it hide.
        let hidden = u64::from(core.load_window_insns) * u64::from(core.cpi_milli) / 1000;
        let waits = self.waits.get(&cpu).copied().unwrap_or_default();
        let loads = waits
            .load_cycles
            .saturating_sub(waits.loads.saturating_mul(hidden));
        let waited = loads.saturating_add(waits.locked_cycles);
        Cycles(
            span.saturating_sub(waited)
                .max(span / WORK_SHARE_MIN)
                .max(1),
        )
    }
}

impl Visitor for Weights {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.add(access, outcome, 0);
    }

    fn record(&mut self, _: Record) {}
}
