//! A scenario against the machine that it names: what only both together show to be impossible.

use hitm_base::{CpuId, Machine, Topology};

use super::workload::{CpuChoice, WorkloadKind};
use super::{Scenario, ScenarioError};
use crate::kernel::{CpuMask, Partition};

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
            let key = |key: &str| format!("workload[{index}].{key}");
            match &workload.kind {
                WorkloadKind::Pool(pool) => {
                    let cores = topology.core_count();
                    let most = cores / pool.cores_per_instance;
                    let wanted = pool.instances.unwrap_or(1);
                    if wanted > most {
                        let found = format!("{wanted} of {} cores", pool.cores_per_instance);
                        let expected = format!("at most {most}: the machine has {cores} cores");
                        let at = if pool.instances.is_some() {
                            "instances"
                        } else {
                            "cores_per_instance"
                        };
                        return Err(self.error(&key(at), found, expected));
                    }
                }
                WorkloadKind::RequestResponse(config) => {
                    let clients = config.pairs.last().map(|pair| pair.0.0);
                    self.check_exist(&key("clients"), clients, topology)?;
                    let servers = config.pairs.last().map(|pair| pair.1.0);
                    self.check_exist(&key("servers"), servers, topology)?;
                }
                kind => {
                    if let WorkloadKind::Requests { placed, .. } = kind {
                        let last = placed.config.arrival_cpus.last().map(|cpu| cpu.0);
                        self.check_exist(&key("arrival_cpus"), last, topology)?;
                    }
                    if let Some(choice) = kind.cpus() {
                        self.check_choice(choice, topology, &key)?;
                    }
                }
            }
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
    pub(super) fn domain_of(&self, cpu: CpuId, cpu_count: usize) -> CpuMask {
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

    fn check_choice(
        &self,
        choice: &CpuChoice,
        topology: &Topology,
        key: &dyn Fn(&str) -> String,
    ) -> Result<(), ScenarioError> {
        let has = topology.cpu_count();
        let count = choice.cpus.as_ref().map_or(has, Vec::len);
        if let Some(cpus) = &choice.cpus {
            self.check_exist(&key("cpus"), cpus.last().copied(), topology)?;
            let domain = self.domain_of(CpuId(cpus[0]), has);
            let outside = cpus.iter().find(|cpu| !domain.contains(CpuId(**cpu)));
            let mut sets = self.kernel.cpusets.iter();
            let is_in_one = sets.any(|set| cpus.iter().all(|cpu| set.contains(cpu)));
            if let (Some(cpu), false) = (outside, choice.pinned || is_in_one) {
                let found = format!("CPUs {} and {cpu} of two cpusets", cpus[0]);
                let expected = "CPUs of one cpuset: no task may run in two".to_owned();
                return Err(self.error(&key("cpus"), found, expected));
            }
        }
        match choice.threads {
            Some(threads) if choice.pinned && threads > count => {
                let found = format!("{threads} threads, each with a CPU to itself");
                Err(self.error(&key("threads"), found, format!("at most {count}")))
            }
            _ => Ok(()),
        }
    }
}

impl CpuChoice {
    /// Returns the CPUs that each thread may run on.
    pub(super) fn masks(&self, scenario: &Scenario, cpu_count: usize) -> Vec<CpuMask> {
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
}

fn mask(cpu_count: usize, cpus: &[u16]) -> CpuMask {
    CpuMask::of(cpu_count, cpus.iter().copied().map(CpuId))
}
