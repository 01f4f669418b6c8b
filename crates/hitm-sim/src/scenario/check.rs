//! A scenario against the machine that it names: what only both together show to be impossible.

use hitm_base::{CpuId, Machine, Topology};

use super::{CpuChoice, Scenario, ScenarioError};
use crate::kernel::{CpuMask, Partition};
use crate::workload::placed::mask;

impl Scenario {
    /// The part of `machine` that the scenario runs on; `machine` is what [`Scenario::machine`]
    /// names.
    ///
    /// # Errors
    /// More CPUs or cores than the machine has, cpusets that overlap, threads that may run nowhere:
    /// with line and column.
    pub fn check(&self, machine: &Machine) -> Result<Machine, ScenarioError> {
        let machine = self.restrict(machine)?;
        let topology = &machine.topology;
        self.check_cpusets(topology)?;
        self.check_products(topology)?;
        for (index, workload) in self.workloads.iter().enumerate() {
            let check = Check {
                scenario: self,
                topology,
                index,
            };
            workload.kind.program().check(&check)?;
        }
        Ok(machine)
    }

    /// Returns the kernel's partition of the machine by cpusets.
    pub(super) fn partition(&self, cpu_count: usize) -> Partition {
        let sets = self.kernel.cpusets.iter();
        let sets: Vec<CpuMask> = sets.map(|set| mask(cpu_count, set)).collect();
        match (sets.is_empty(), self.kernel.overlapping) {
            (true, _) => Partition::Whole,
            (false, false) => Partition::Exclusive(sets),
            (false, true) => Partition::Overlapping(sets),
        }
    }

    /// The CPUs that share a root domain with `cpu`: where a task that begins there may go.
    pub(crate) fn domain_of(&self, cpu: CpuId, cpu_count: usize) -> CpuMask {
        let has = |set: &&Vec<u16>| set.contains(&cpu.0);
        if let Some(set) = self.kernel.cpusets.iter().rfind(has) {
            return mask(cpu_count, set);
        }
        let free = |cpu: &CpuId| !self.kernel.cpusets.iter().any(|set| set.contains(&cpu.0));
        CpuMask::of(cpu_count, CpuMask::all(cpu_count).iter().filter(free))
    }

    fn restrict(&self, machine: &Machine) -> Result<Machine, ScenarioError> {
        let has = machine.topology.cpu_count();
        let Some(wanted) = self.machine.cpus else {
            return Ok(machine.clone());
        };
        if wanted > has {
            let expected = format!("at most {has}, which is what {} has", machine.name);
            return Err(self.error("machine.cpus", format!("{wanted} CPUs"), expected));
        }
        let places = (0..wanted as u16).map(|cpu| machine.topology.place(CpuId(cpu)));
        let topology = Topology::from_places(places.collect());
        let topology = topology.map_err(|error| {
            let expected = "CPUs that form a machine".to_owned();
            self.error("machine.cpus", error.to_string(), expected)
        })?;
        Ok(Machine {
            topology,
            ..machine.clone()
        })
    }

    fn check_cpusets(&self, topology: &Topology) -> Result<(), ScenarioError> {
        let mut taken = CpuMask::empty(topology.cpu_count());
        for (number, set) in self.kernel.cpusets.iter().enumerate() {
            self.check_exist("kernel.cpusets", set.last().copied(), topology)?;
            let again = set.iter().find(|cpu| taken.contains(CpuId(**cpu)));
            if let (Some(cpu), false) = (again, self.kernel.overlapping) {
                let found = format!("CPU {cpu} in cpuset {number} and in an earlier one");
                let expected = "cpusets without common CPUs, or `overlapping_cpusets = true`";
                return Err(self.error("kernel.cpusets", found, expected.to_owned()));
            }
            set.iter().for_each(|cpu| taken.set(CpuId(*cpu)));
        }
        Ok(())
    }

    /// Fails when there is no such CPU as the last of a key's.
    fn check_exist(
        &self,
        key: &str,
        last: Option<u16>,
        topology: &Topology,
    ) -> Result<(), ScenarioError> {
        let has = topology.cpu_count();
        match last {
            Some(last) if usize::from(last) >= has => {
                let expected = format!("CPUs from 0 to {}", has - 1);
                Err(self.error(key, format!("CPU {last}"), expected))
            }
            _ => Ok(()),
        }
    }
}

/// A workload that is held against the machine.
pub(crate) struct Check<'a> {
    scenario: &'a Scenario,
    pub(crate) topology: &'a Topology,
    /// Its number.
    index: usize,
}

impl Check<'_> {
    /// An error at the place of one of its keys.
    pub(crate) fn error(&self, key: &str, found: String, expected: String) -> ScenarioError {
        let key = format!("workload[{}].{key}", self.index);
        self.scenario.error(&key, found, expected)
    }

    /// Fails when there is no such CPU as the last of a key's.
    pub(crate) fn exist(&self, key: &str, last: Option<u16>) -> Result<(), ScenarioError> {
        let key = format!("workload[{}].{key}", self.index);
        self.scenario.check_exist(&key, last, self.topology)
    }

    /// Fails when threads cannot run where they may.
    pub(crate) fn choice(&self, choice: &CpuChoice) -> Result<(), ScenarioError> {
        let has = self.topology.cpu_count();
        let count = choice.cpus.as_ref().map_or(has, Vec::len);
        if let Some(cpus) = &choice.cpus {
            self.exist("cpus", cpus.last().copied())?;
            let domain = self.scenario.domain_of(CpuId(cpus[0]), has);
            let outside = cpus.iter().find(|cpu| !domain.contains(CpuId(**cpu)));
            let mut sets = self.scenario.kernel.cpusets.iter();
            let is_in_one = sets.any(|set| cpus.iter().all(|cpu| set.contains(cpu)));
            if let (Some(cpu), false) = (outside, choice.pinned || is_in_one) {
                let found = format!("CPUs {} and {cpu} of two cpusets", cpus[0]);
                let expected = "CPUs of one cpuset: no task may run in two".to_owned();
                return Err(self.error("cpus", found, expected));
            }
        }
        match choice.threads {
            Some(threads) if choice.pinned && threads > count => {
                let found = format!("{threads} threads, each with a CPU to itself");
                Err(self.error("threads", found, format!("at most {count}")))
            }
            _ => Ok(()),
        }
    }
}
