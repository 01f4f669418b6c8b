//! From the records of a recording to samples.
//!
//! A period of N takes every Nth load and every Nth store, counted apart as the two events of perf
//! are; locked operations count among the loads. A fence touches no line and is no sample.

use hitm_base::{Access, AccessOp, Clock, Cycles, Outcome};

use crate::{CpuMode, DataSrc, EventKind, Sample};

/// perf does not order events at time 0, so virtual time begins at one second.
pub const TIME_ORIGIN_NS: u64 = 1_000_000_000;

/// Turns accesses into samples.
#[derive(Debug, Clone)]
pub struct Sampler {
    period: u64,
    clock: Clock,
    pid: u32,
    loads: u64,
    stores: u64,
}

impl Sampler {
    /// Samples of a process; `period` is at least 1.
    pub fn new(period: u64, clock: Clock, pid: u32) -> Sampler {
        assert!(period > 0, "a period of 0 would take no sample");
        Sampler {
            period,
            clock,
            pid,
            loads: 0,
            stores: 0,
        }
    }

    /// The time of a sample.
    pub fn time_ns(&self, time: Cycles) -> u64 {
        // Exact to the nanosecond below: cycles * 10^6 / kHz.
        let ns = u128::from(time.0) * 1_000_000 / u128::from(self.clock.khz());
        TIME_ORIGIN_NS.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The sample of an access by the thread with this tid, if it is one of those that are taken.
    pub fn sample(
        &mut self,
        tid: u32,
        access: &Access,
        outcome: &Outcome,
    ) -> Option<(EventKind, Sample)> {
        let data_src = DataSrc::of_access(access.op, outcome.source)?;
        let (kind, count) = match access.op {
            AccessOp::Store => (EventKind::Stores, &mut self.stores),
            _ => (EventKind::Loads, &mut self.loads),
        };
        *count += 1;
        if !count.is_multiple_of(self.period) {
            return None;
        }
        let sample = Sample {
            pid: self.pid,
            tid,
            cpu: access.cpu.0.into(),
            mode: CpuMode::User,
            time_ns: self.time_ns(access.time),
            ip: access.code.0,
            addr: access.addr,
            data_src,
            weight: outcome.latency.0,
            period: self.period,
            phys_addr: 0,
        };
        Some((kind, sample))
    }
}
