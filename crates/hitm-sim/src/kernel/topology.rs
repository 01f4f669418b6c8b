//! Root domains and scheduling domains, kernel/sched/topology.c, v6.12.
//!
//! **What Linux does:** cpusets that partition the machine exclusively get a root domain each, with
//! the masks and counters that RT balancing shares. Within one, each CPU has a list of domains from
//! its core to the whole.
//!
//! **What we do:** the same, made once before the run. The set-up of 2007 is available too
//! ([`Partition::Overlapping`]): there a cpuset and not a root domain kept the overload mask, and
//! cpusets might overlap. A mask may then name CPUs without waiting tasks and lack some that have
//! them, and pulls clean it up (`rt/cpusets.rs`).
//!
//! **What a test could notice:** domains do not change during a run; no CPU goes offline.

use std::rc::Rc;

use hitm_base::{CpuId, Distance, Topology};

use super::cpumask::{CpuMask, KnownMasks};
use super::cpupri::Cpupri;
use super::mask::{SharedCounter, SharedMask};
use crate::engine::{Arena, Engine, Object, Place, SimError};

/// Partition of the machine by cpusets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// One root domain with all CPUs.
    Whole,
    /// Exclusive cpusets; what no cpuset has is one more root domain.
    Exclusive(Vec<CpuMask>),
    /// The form of 2007: cpusets that may overlap, each with an overload mask of its own; a task is
    /// of one of them. What is left of a root domain (`overloaded`) a CPU has in the last one that
    /// contains it. Not with [`super::Balancing::PushIpi`].
    Overlapping(Vec<CpuMask>),
}

/// `struct root_domain`.
#[derive(Debug)]
pub struct RootDomain {
    /// Its CPUs.
    pub span: CpuMask,
    /// Number of run queues with more than one RT task.
    pub rto_count: SharedCounter,
    /// Mask of their CPUs.
    pub rto_mask: SharedMask,
    pub(super) object: Object,
    pub(super) overloaded: Place,
    pub(super) rto_push_work: Place,
    pub(super) rto_lock: Place,
    pub(super) rto_loop: Place,
    pub(super) rto_cpu: Place,
    pub(super) rto_loop_next: Place,
    pub(super) rto_loop_start: Place,
    /// The priorities of its CPUs.
    pub cpupri: Cpupri,
}

/// No CPU, as a value of `rto_cpu` (-1 in the kernel).
pub(super) const RTO_NO_CPU: u64 = u64::MAX;

impl RootDomain {
    fn new(
        arena: &mut Arena,
        engine: &Engine,
        span: CpuMask,
        members: &[CpuId],
    ) -> Result<RootDomain, SimError> {
        let topology = &engine.machine().topology;
        // The boot CPU allocates it.
        let object = arena.allocate("root_domain", CpuId(0))?;
        let cpupri = Cpupri::new(arena, &object, topology)?;
        for cpu in members {
            cpupri.boot(engine, *cpu);
        }
        let rto_count = SharedCounter::new(arena, &object, "rto_count", topology)?;
        let rto_mask = SharedMask::new(arena, &object, "rto_mask", topology)?;
        let mut place = |path| arena.place(&object, path);
        let domain = RootDomain {
            object: object.clone(),
            span,
            rto_count,
            rto_mask,
            overloaded: place("overloaded")?,
            rto_push_work: place("rto_push_work")?,
            rto_lock: place("rto_lock")?,
            rto_loop: place("rto_loop")?,
            rto_cpu: place("rto_cpu")?,
            rto_loop_next: place("rto_loop_next")?,
            rto_loop_start: place("rto_loop_start")?,
            cpupri,
        };
        engine.set(domain.rto_cpu, RTO_NO_CPU);
        Ok(domain)
    }
}

/// The root domains, and the one of each CPU.
pub(super) fn root_domains(
    arena: &mut Arena,
    engine: &Engine,
    partition: &Partition,
) -> Result<(Vec<RootDomain>, Vec<usize>), SimError> {
    let cpus = engine.machine().topology.cpu_count();
    let all = CpuMask::all(cpus);
    let mut sets = match partition {
        Partition::Whole => Vec::new(),
        Partition::Exclusive(sets) | Partition::Overlapping(sets) => sets.clone(),
    };
    if matches!(partition, Partition::Exclusive(_)) {
        for (number, set) in sets.iter().enumerate() {
            let taken = sets[..number].iter().flat_map(CpuMask::iter);
            if let Some(cpu) = taken.into_iter().find(|cpu| set.contains(*cpu)) {
                return Err(SimError::Workload(format!(
                    "exclusive cpuset {number} has CPU {}, which an earlier one has",
                    cpu.0
                )));
            }
        }
    }
    let covered = CpuMask::of(cpus, sets.iter().flat_map(CpuMask::iter));
    let rest = CpuMask::of(cpus, all.iter().filter(|cpu| !covered.contains(*cpu)));
    if !rest.is_empty() {
        sets.insert(0, rest);
    }
    let mut of_cpu = vec![0; cpus];
    for (number, set) in sets.iter().enumerate() {
        for cpu in set.iter() {
            of_cpu[cpu.index()] = number;
        }
    }
    let mut domains = Vec::new();
    for (number, set) in sets.into_iter().enumerate() {
        let members: Vec<CpuId> = all
            .iter()
            .filter(|cpu| of_cpu[cpu.index()] == number)
            .collect();
        domains.push(RootDomain::new(arena, engine, set, &members)?);
    }
    Ok((domains, of_cpu))
}

/// The scheduling domains of a CPU, smallest first: CPUs of its root domain in ever larger parts of
/// the machine. Parts of equal CPUs are one domain, as Linux degenerates them.
pub(super) fn sched_domains(
    topology: &Topology,
    span: &CpuMask,
    cpu: CpuId,
    masks: &KnownMasks,
) -> Vec<Rc<CpuMask>> {
    let nobody = CpuMask::empty(topology.cpu_count());
    let mut at_distance = Distance::ALL.map(|_| nobody.clone());
    for other in span.iter() {
        at_distance[topology.distance(cpu, other).index()].set(other);
    }
    let mut domains: Vec<Rc<CpuMask>> = Vec::new();
    let mut reached = nobody;
    for farther in &at_distance {
        reached.add(farther);
        let is_new = domains.last().is_none_or(|last| **last != reached);
        if is_new && reached.count() > 1 {
            domains.push(masks.share(reached.clone()));
        }
    }
    domains
}

#[cfg(test)]
mod tests {
    use hitm_base::machine::preset;

    use super::*;

    #[test]
    fn domains_of_a_two_socket_machine_are_core_llc_package_and_all() {
        let machine =
            hitm_base::Machine::from_toml(preset("xeon-480").unwrap(), "xeon-480").unwrap();
        let span = CpuMask::all(480);
        let masks = KnownMasks::default();
        let sizes: Vec<usize> = sched_domains(&machine.topology, &span, CpuId(7), &masks)
            .iter()
            .map(|domain| domain.count())
            .collect();
        assert_eq!(sizes, [2, 80, 240, 480]);
    }
}
