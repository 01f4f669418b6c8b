//! Placement by quotas: a group runs on as many CPUs as its quota is worth.
//!
//! **What Linux does:** nothing of the kind. Tasks of a group spread over all CPUs that they may use. Each of
//! these CPUs takes a slice of the quota and keeps some of it, and a burst on many CPUs uses all up at once.
//!
//! **What we do:** the CPU on which a task of the group is woken first, and those nearest to it, are the
//! group's. Woken tasks go to the one with the fewest tasks, and balancing takes none out. Affinity that has
//! none of them goes first.
//!
//! **What a test could notice:** the choice is for good, whatever else those CPUs have to do. Threads of one
//! core count as CPUs. The quota lies beside the word of the first CPU, so that one access reads both.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hitm_base::{CpuId, LINE_SIZE};

use super::PlacementPolicy;
use crate::engine::{Engine, MemberKey, Rmw};
use crate::kernel::costs::Costs;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::task::Task;
use crate::kernel::{GroupId, Kernel, KernelConfig};

/// The words of groups begin here, each on a line of its own.
const FIRST_CPUS: u64 = 0x6f20_0000_0000;

/// The CPUs of each group that has come to some.
#[derive(Debug)]
pub(in crate::kernel) struct GroupCpus(RefCell<BTreeMap<GroupId, Rc<CpuMask>>>);

impl PlacementPolicy for GroupCpus {
    fn new(_engine: &Engine, _config: &KernelConfig, _costs: &Costs) -> GroupCpus {
        GroupCpus(RefCell::default())
    }

    async fn select_task_rq(&self, kernel: &Kernel, p: &Task, cpu: CpuId) -> Option<CpuId> {
        let (group, count) = kernel.fair.tightest_quota(p.group)?;
        let first = first_cpu(&kernel.engine, group, cpu).await;
        let cpus = self.0.borrow().get(&group).cloned();
        let cpus = cpus.unwrap_or_else(|| {
            let cpus = Rc::new(nearest(kernel, first, count));
            self.0.borrow_mut().insert(group, Rc::clone(&cpus));
            cpus
        });
        if !cpus.iter().any(|cpu| p.may_run_on(cpu)) {
            return None;
        }
        Some(kernel.select_in_domain(p, cpu, &cpus).await)
    }

    fn can_migrate(&self, kernel: &Kernel, p: &Task, to: CpuId) -> bool {
        let group = kernel.fair.tightest_quota(p.group);
        let groups = self.0.borrow();
        let cpus = group.and_then(|(group, _)| groups.get(&group));
        cpus.is_none_or(|cpus| cpus.contains(to) || !cpus.iter().any(|cpu| p.may_run_on(cpu)))
    }
}

/// The CPU that a group came to first: `cpu`, if it has come to none.
async fn first_cpu(engine: &Engine, group: GroupId, cpu: CpuId) -> CpuId {
    let key = MemberKey::new("task_group", "first_cpu", 0);
    let address = FIRST_CPUS + u64::from(group.0) * LINE_SIZE;
    let place = engine.place(address, CpuId(0), key);
    let mut word = engine.load(f::SELECT_TASK_RQ_FAIR, place).await;
    if word == 0 {
        let own = u64::from(cpu.0) + 1;
        let change = Rmw::CompareSwap {
            expected: 0,
            new: own,
        };
        word = engine.rmw(f::SELECT_TASK_RQ_FAIR, place, change).await;
        word = if word == 0 { own } else { word };
    }
    CpuId(word as u16 - 1)
}

/// The `count` CPUs nearest to `first`, with it, in its root domain.
fn nearest(kernel: &Kernel, first: CpuId, count: usize) -> CpuMask {
    let topology = &kernel.engine.machine().topology;
    let span = &kernel.root_domains()[kernel.rq(first).root_domain].span;
    let mut cpus: Vec<CpuId> = span.iter().collect();
    cpus.sort_by_key(|cpu| topology.distance(first, *cpu));
    CpuMask::of(kernel.cpu_count(), cpus.into_iter().take(count))
}
