//! From the records of a recording to samples.
//!
//! A period of N takes every Nth load and every Nth store, counted apart as the two events of perf
//! are; locked operations count among the loads. A fence touches no line and is no sample.

use hitm_base::{Access, AccessOp, Clock, Cycles, Outcome};

use crate::{CpuMode, DataSrc, EventKind, Sample, Spaces, TaskId};

/// Virtual time begins at one second: perf does not order events at time 0.
pub const TIME_ORIGIN_NS: u64 = 1_000_000_000;

/// Turns accesses into samples.
#[derive(Debug, Clone)]
pub struct Sampler {
    period: u64,
    clock: Clock,
    origin: Origin,
    loads: u64,
    stores: u64,
}

/// Source of the accesses, which decides how times and addresses are written.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A recorded process.
    Process(u32),
    /// Samples of these processes, imported: times and addresses are theirs.
    Samples(Spaces),
}

impl Origin {
    /// The process and the address as it sees it.
    pub fn place(&self, addr: u64) -> (Option<TaskId>, u64) {
        match self {
            Origin::Process(pid) => (Some(TaskId::first(*pid)), addr),
            Origin::Samples(spaces) => spaces.unpack(addr),
        }
    }

    /// The process for records that belong to no other one.
    pub fn process(&self) -> TaskId {
        let first = TaskId::first(1);
        match self {
            Origin::Process(pid) => TaskId::first(*pid),
            Origin::Samples(spaces) => spaces.processes().next().unwrap_or(first),
        }
    }
}

impl Sampler {
    /// Takes one of `period` accesses of each event; `period` is at least 1.
    pub fn new(period: u64, clock: Clock, origin: Origin) -> Sampler {
        assert!(period > 0, "a period of 0 would take no sample");
        Sampler {
            period,
            clock,
            origin,
            loads: 0,
            stores: 0,
        }
    }

    /// Time of a sample, in nanoseconds from [`TIME_ORIGIN_NS`] on, or as imported.
    pub fn time_ns(&self, time: Cycles) -> u64 {
        // Exact to the nanosecond below: cycles * 10^6 / kHz.
        let ns = u128::from(time.0) * 1_000_000 / u128::from(self.clock.khz());
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        match self.origin {
            Origin::Process(_) => TIME_ORIGIN_NS.saturating_add(ns),
            Origin::Samples(_) => ns,
        }
    }

    /// An address as its process sees it.
    pub fn place(&self, addr: u64) -> u64 {
        self.origin.place(addr).1
    }

    /// Returns the sample of an access by thread `tid`, if its turn in the period has come.
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
        let (code_of, ip) = self.origin.place(access.code.0);
        let (data_of, addr) = self.origin.place(access.addr);
        let process = code_of.or(data_of);
        let process = process.unwrap_or_else(|| self.origin.process());
        let sample = Sample {
            pid: process.id,
            tid,
            lives: [process.life, 0],
            cpu: access.cpu.0.into(),
            mode: CpuMode::of_code(ip),
            time_ns: self.time_ns(access.time),
            ip,
            addr,
            data_src,
            weight: outcome.latency.0,
            period: self.period,
            phys_addr: 0,
        };
        Some((kind, sample))
    }
}
