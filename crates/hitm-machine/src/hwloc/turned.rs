//! Levels that hwloc nests otherwise than the model, turned round: the model has packages, in them dies, in
//! them NUMA nodes.
//!
//! Invariant: every NUMA node that is the nearest one of some CPU is one node of the model.
//!
//! Sources: hwloc 3 calls a core complex of AMD's a die, of which a NUMA node has several. Machines whose
//! memory is behind one controller, or is interleaved, have several packages in a node. Memory of another
//! kind, such as HBM beside DRAM, is a node with the CPUs of another one.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::Topology;

use crate::facts::{CpuFacts, UNKNOWN};

/// The NUMA nodes of a machine, each with its CPUs, in document order.
#[derive(Debug, Default)]
pub(super) struct Nodes(Vec<(u32, Vec<usize>)>);

impl Nodes {
    /// Adds node `part`.
    pub(super) fn add(&mut self, part: u32, cpus: Vec<usize>) {
        self.0.push((part, cpus));
    }

    /// Number of all nodes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The nearest node of each CPU: of several the one with the fewest CPUs, of equal ones the first.
    pub(super) fn nearest(&self) -> BTreeMap<usize, u32> {
        let mut by_size: Vec<&(u32, Vec<usize>)> = self.0.iter().collect();
        by_size.sort_by_key(|(_, cpus)| cpus.len());
        let mut nearest = BTreeMap::new();
        for (part, cpus) in by_size {
            for cpu in cpus {
                nearest.entry(*cpu).or_insert(*part);
            }
        }
        nearest
    }
}

/// A level of a CPU.
type Level = fn(&CpuFacts) -> u32;

/// Returns true if a part of `outer` has CPUs of several parts of `inner`.
fn holds_several(cpus: &[CpuFacts], outer: Level, inner: Level) -> bool {
    let mut first = BTreeMap::new();
    cpus.iter()
        .filter(|cpu| outer(cpu) != UNKNOWN && inner(cpu) != UNKNOWN)
        .any(|cpu| *first.entry(outer(cpu)).or_insert(inner(cpu)) != inner(cpu))
}

fn count(cpus: &[CpuFacts], level: Level) -> usize {
    let parts: BTreeSet<u32> = cpus.iter().map(level).collect();
    parts.into_iter().filter(|part| *part != UNKNOWN).count()
}

/// Result of [`turn`].
#[derive(Debug, Default)]
pub(super) struct Turned {
    /// A sentence for each change.
    pub(super) notes: Vec<String>,
    /// True if last-level caches of one package of the model are those of several real packages.
    pub(super) llcs_are_packages: bool,
}

/// Turns levels round where the nearest nodes of the CPUs hold what the model has outside of nodes.
pub(super) fn turn(cpus: &mut [CpuFacts], nodes: &Nodes) -> Turned {
    let (die, node, llc): (Level, Level, Level) = (|cpu| cpu.die, |cpu| cpu.node, |cpu| cpu.llc);
    let mut turned = Turned::default();
    let node_count = count(cpus, node);
    let others = nodes.len() - node_count;
    if others > 0 {
        turned.notes.push(format!(
            "NUMA nodes without CPUs of their own ({others} of {}): memory that is left out",
            nodes.len()
        ));
    }
    let alone = cpus.iter().filter(|cpu| cpu.node == UNKNOWN).count();
    if alone > 0 && node_count > 0 {
        turned.notes.push(format!(
            "CPUs without a NUMA node ({alone} of {}): those of a package are read as a node",
            cpus.len()
        ));
    }
    if holds_several(cpus, node, die) {
        turned.notes.push(turn_dies(cpus, node_count));
    }
    if holds_several(cpus, node, |cpu| cpu.package) {
        turn_packages(cpus, node_count, &mut turned);
    }
    if holds_several(cpus, llc, node) {
        let llcs = count(cpus, llc);
        turned.notes.push(format!(
            "last-level caches span NUMA nodes ({llcs} for {node_count}): such a cache is split, one for each \
             node"
        ));
    }
    turned
}

/// Takes dies out of the tree. Returns the sentence that says so.
fn turn_dies(cpus: &mut [CpuFacts], node_count: usize) -> String {
    let dies = count(cpus, |cpu| cpu.die);
    let are_llcs = count(cpus, |cpu| cpu.llc) == 0 && dies <= Topology::LLCS_MAX;
    for cpu in cpus.iter_mut() {
        if are_llcs {
            cpu.llc = cpu.die;
        }
        cpu.die = UNKNOWN;
    }
    let read_as = match are_llcs {
        true => "each is read as the CPUs of a last-level cache",
        false => "they are left out",
    };
    format!(
        "NUMA nodes hold dies ({dies} in {node_count}), as hwloc 3 has AMD's core complexes: {read_as}"
    )
}

/// Reads each node with its packages as one package, and the packages as its last-level caches, unless a
/// package has several of those.
fn turn_packages(cpus: &mut [CpuFacts], node_count: usize, turned: &mut Turned) {
    let package: Level = |cpu| cpu.package;
    let packages = count(cpus, package);
    let is_whole = !holds_several(cpus, package, |cpu| cpu.llc) && packages <= Topology::LLCS_MAX;
    if !is_whole {
        turned.notes.push(format!(
            "NUMA nodes hold packages ({packages} in {node_count}): each package is read with a node of its own"
        ));
        return;
    }
    for cpu in cpus.iter_mut().filter(|cpu| cpu.node != UNKNOWN) {
        cpu.llc = cpu.package;
        // Numbers of parts are the machine's, so that a node's cannot be a package's.
        cpu.package = cpu.node;
    }
    turned.llcs_are_packages = true;
    turned.notes.push(format!(
        "NUMA nodes hold packages ({packages} in {node_count}): each node is read as one package, whose \
         last-level caches are the packages; transfers between them have the price of another package"
    ));
}
