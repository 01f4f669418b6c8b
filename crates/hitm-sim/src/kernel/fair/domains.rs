//! Scheduling domains as the load balancer sees them: kernel/sched/topology.c (`sd_init`,
//! `build_sched_groups`) and fair.c, v6.12.
//!
//! **What Linux does:** a CPU has a domain for each level of the machine. Levels are threads of its
//! core, its cluster, its last-level cache, its package, NUMA nodes. The spans of the level below
//! are a domain's groups, between which it balances.
//!
//! **What we do:** the same, from the machine model ([`crate::kernel::topology`]).
//!
//! **What a test could notice:** NUMA levels follow packages and halves of the machine, not a table
//! of distances. Groups of a level never overlap. All CPUs have the same capacity.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Distance, Topology};

use crate::kernel::cpumask::CpuMask;
use crate::kernel::rq::Rq;

/// CPUs between which a domain does not balance.
#[derive(Debug)]
pub(super) struct SchedGroup {
    pub(super) cpus: Vec<CpuId>,
    pub(super) cores: u64,
    /// Tasks that could not leave make the level above help (`sgc->imbalance`).
    pub(super) is_imbalanced: Cell<bool>,
}

/// Part of the machine that a domain's CPUs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Smt,
    Cluster,
    Llc,
    Package,
    Numa,
}

/// One domain of one CPU.
#[derive(Debug)]
pub(super) struct SchedDomain {
    pub(super) level: Level,
    pub(super) span: Rc<CpuMask>,
    pub(super) groups: Rc<Vec<SchedGroup>>,
    /// Index of the group that the CPU is in.
    pub(super) local: usize,
    /// True if tasks are spread over its groups although the local one has room
    /// (`SD_PREFER_SIBLING` of the level below).
    pub(super) prefers_sibling: bool,
    /// Tasks that a NUMA node may have more than another.
    pub(super) imb_numa_nr: u64,
    /// Milliseconds between two balancings of an idle CPU.
    pub(super) interval_ms: Cell<u64>,
    pub(super) last_balance: Cell<Cycles>,
    pub(super) failed: Cell<u32>,
    /// The longest that a newly idle CPU took for it.
    pub(super) newidle_cost: Cell<Cycles>,
}

impl SchedDomain {
    /// Load that another group must have, in per cent of the local one's, to count as busier.
    pub(super) fn imbalance_pct(&self) -> u64 {
        if self.level == Level::Smt { 110 } else { 117 }
    }

    /// Failures after which tasks move although their data is in a cache.
    pub(super) fn cache_nice_tries(&self) -> u32 {
        match self.level {
            Level::Smt => 0,
            Level::Cluster | Level::Llc | Level::Package => 1,
            Level::Numa => 2,
        }
    }

    pub(super) fn shares_llc(&self) -> bool {
        self.level <= Level::Llc
    }

    pub(super) fn weight(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| group.cpus.len() as u64)
            .sum()
    }
}

/// Groups of domains that are known already, by span and level.
type Known = BTreeMap<(CpuId, usize), Rc<Vec<SchedGroup>>>;

/// The domains of each CPU, smallest first.
pub(super) fn build(topology: &Topology, rqs: &[Rq]) -> Vec<Vec<SchedDomain>> {
    let mut known = Known::new();
    let of_cpu = |rq: &Rq| -> Vec<SchedDomain> {
        let levels = 0..rq.domains.len();
        levels
            .map(|number| domain(topology, rqs, rq.cpu, number, &mut known))
            .collect()
    };
    rqs.iter().map(of_cpu).collect()
}

fn domain(
    topology: &Topology,
    rqs: &[Rq],
    cpu: CpuId,
    number: usize,
    known: &mut Known,
) -> SchedDomain {
    let spans = &rqs[cpu.index()].domains;
    let span = Rc::clone(&spans[number]);
    let first = span.iter().next().expect("a domain has CPUs");
    // The first CPU's list may lack a level that this one has: the span's size tells them apart.
    let groups = known
        .entry((first, span.count()))
        .or_insert_with(|| Rc::new(groups(topology, rqs, &span)));
    let groups = Rc::clone(groups);
    let local = groups.iter().position(|group| group.cpus.contains(&cpu));
    let level = level_of(topology, cpu, &span);
    let weight = span.count() as u64;
    SchedDomain {
        level,
        local: local.expect("a CPU is in its own domain"),
        prefers_sibling: number > 0 && level_of(topology, cpu, &spans[number - 1]) < Level::Numa,
        imb_numa_nr: allowed_numa_imbalance(topology, &groups),
        interval_ms: Cell::new(weight),
        last_balance: Cell::default(),
        failed: Cell::default(),
        newidle_cost: Cell::default(),
        span,
        groups,
    }
}

/// The spans of the level below.
fn groups(topology: &Topology, rqs: &[Rq], span: &Rc<CpuMask>) -> Vec<SchedGroup> {
    let mut groups: Vec<SchedGroup> = Vec::new();
    for cpu in span.iter() {
        if groups.iter().any(|group| group.cpus.contains(&cpu)) {
            continue;
        }
        let domains = &rqs[cpu.index()].domains;
        let is_below = |domain: &&Rc<CpuMask>| domain.count() < span.count();
        let below = domains.iter().take_while(is_below).last();
        let cpus: Vec<CpuId> = below.map_or_else(|| vec![cpu], |below| below.iter().collect());
        groups.push(SchedGroup {
            cores: parts(&cpus, |cpu| topology.core_of(cpu)),
            cpus,
            is_imbalanced: Cell::new(false),
        });
    }
    groups
}

/// Number of parts of the machine that CPUs are of; `part` says which one a CPU is of.
fn parts(cpus: &[CpuId], part: impl Fn(CpuId) -> u16) -> u64 {
    let parts: BTreeSet<u16> = cpus.iter().map(|cpu| part(*cpu)).collect();
    parts.len() as u64
}

fn level_of(topology: &Topology, cpu: CpuId, span: &CpuMask) -> Level {
    let farthest = span.iter().map(|other| topology.distance(cpu, other)).max();
    let is_one_node = span
        .iter()
        .all(|other| topology.node_of(other) == topology.node_of(cpu));
    match farthest.unwrap_or(Distance::Same) {
        Distance::Same | Distance::Smt => Level::Smt,
        Distance::Cluster => Level::Cluster,
        Distance::Llc => Level::Llc,
        _ if is_one_node => Level::Package,
        _ => Level::Numa,
    }
}

/// `imb_numa_nr`: as many tasks as a node has last-level caches, or an eighth of its CPUs.
fn allowed_numa_imbalance(topology: &Topology, groups: &[SchedGroup]) -> u64 {
    let Some(node) = groups.first() else {
        return 1;
    };
    let allowed = match parts(&node.cpus, |cpu| topology.llc_of(cpu)) {
        1 => node.cpus.len() as u64 / 8,
        several => several,
    };
    allowed.max(1)
}
