//! From the records of a recording to samples.
//!
//! A period of N takes one of each N loads and one of each N stores, counted apart as the two events of
//! perf are; locked operations count among the loads. A fence touches no line and is no sample. Which
//! one of N is chance, the same in each export: accesses of a loop over 5 members would lie in step
//! with a period of 10, and hardware varies the low bits of its periods for the same reason.

use hitm_base::{Access, AccessOp, Clock, Cycles, Outcome, Random};

use crate::{CpuMode, DataSrc, EventKind, Sample, Spaces, TaskId};

/// Virtual time begins at one second: perf does not order events at time 0.
pub const TIME_ORIGIN_NS: u64 = 1_000_000_000;

/// Turns accesses into samples.
#[derive(Debug, Clone)]
pub struct Sampler {
    period: u64,
    clock: Clock,
    origin: Origin,
    loads: Turns,
    stores: Turns,
}

/// Turns of one event.
#[derive(Debug, Clone)]
struct Turns {
    random: Random,
    /// Accesses of the present period so far.
    seen: u64,
    /// Access of the present period that is taken, from 0.
    taken: u64,
}

impl Turns {
    fn new(period: u64, event: &str) -> Turns {
        let mut random = Random::stream(0, event);
        let taken = random.below(period);
        Turns {
            random,
            seen: 0,
            taken,
        }
    }

    fn takes_next(&mut self, period: u64) -> bool {
        let takes = self.seen == self.taken;
        self.seen += 1;
        if self.seen == period {
            self.seen = 0;
            self.taken = self.random.below(period);
        }
        takes
    }
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
            loads: Turns::new(period, "loads"),
            stores: Turns::new(period, "stores"),
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
        let (kind, turns) = match access.op {
            AccessOp::Store => (EventKind::Stores, &mut self.stores),
            _ => (EventKind::Loads, &mut self.loads),
        };
        if !turns.takes_next(self.period) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The accesses out of `count` that are samples with a period of 10.
    fn taken(count: u64) -> Vec<u64> {
        let mut turns = Turns::new(10, "loads");
        (0..count).filter(|_| turns.takes_next(10)).collect()
    }

    #[test]
    fn each_period_has_one_sample_and_no_loop_keeps_step_with_it() {
        let taken = taken(1000);
        let periods: Vec<u64> = taken.iter().map(|access| access / 10).collect();
        assert_eq!(periods, (0..100).collect::<Vec<_>>());
        for length in [2, 5, 10] {
            let mut hits = vec![0; length];
            for &access in &taken {
                hits[access as usize % length] += 1;
            }
            let fair = 100 / length;
            assert!(
                hits.iter().all(|&hits| hits > fair / 4),
                "{length}: {hits:?}"
            );
        }
    }
}
