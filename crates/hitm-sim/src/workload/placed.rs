//! CPUs that the threads of a workload may run on, as a scenario chooses them.

use hitm_base::{CpuId, Topology};

use crate::kernel::CpuMask;
use crate::scenario::Scenario;

/// A program whose threads may be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed<C> {
    /// CPUs that its threads may run on, and their number.
    pub cpus: CpuChoice,
    /// Its other options.
    pub config: C,
}

/// CPUs that threads may run on, and their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuChoice {
    /// The CPUs; absent for all.
    pub cpus: Option<Vec<u16>>,
    /// True if each thread has one of them to itself.
    pub pinned: bool,
    /// Number of threads; absent for one for each of the CPUs.
    pub threads: Option<usize>,
}

impl CpuChoice {
    /// Returns the CPUs that each thread may run on.
    pub(crate) fn masks(&self, scenario: &Scenario, cpu_count: usize) -> Vec<CpuMask> {
        let all: Vec<u16> = (0..cpu_count as u16).collect();
        let cpus = self.cpus.as_ref().unwrap_or(&all);
        let mask_of = |thread: usize| {
            let own = cpus[thread % cpus.len()];
            match (self.pinned, &self.cpus) {
                (true, _) => mask(cpu_count, &[own]),
                (false, Some(cpus)) => mask(cpu_count, cpus),
                (false, None) => scenario.domain_of(CpuId(own), cpu_count),
            }
        };
        let threads = self.threads.unwrap_or(cpus.len());
        (0..threads).map(mask_of).collect()
    }

    pub(crate) fn thread_count(&self, topology: &Topology) -> u64 {
        let own = self.cpus.as_ref().map_or(topology.cpu_count(), Vec::len);
        self.threads.unwrap_or(own) as u64
    }
}

pub(crate) fn mask(cpu_count: usize, cpus: &[u16]) -> CpuMask {
    CpuMask::of(cpu_count, cpus.iter().copied().map(CpuId))
}
