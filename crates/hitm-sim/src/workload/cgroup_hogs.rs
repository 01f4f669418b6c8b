//! CPU hogs in a tree of groups with quotas. There are first-level groups with a quota each, in
//! each of them children, in each child leaves, in each leaf hogs.
//!
//! Hogs are spread over the CPUs one after the other and stay there: where load balancing would have
//! put them in the long run. They begin at random times in the first tick, so that CPUs do not reach
//! the end of their slices together.

mod figures;

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

pub(crate) use self::figures::FIGURES;
use super::WorkloadKind;
use super::figures::Figures;
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use crate::engine::SimError;
use crate::kernel::{GroupId, GroupSpec, Kernel, Quota, Task, TaskSpec};
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// The tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CgroupHogsConfig {
    /// First-level groups.
    pub subtrees: usize,
    /// Groups in each of them.
    pub children: usize,
    /// Groups in each of these.
    pub leaves: usize,
    /// Hogs in each of those.
    pub hogs: usize,
    /// CPU time that each first-level group may use.
    pub quota: Quota,
}

/// A tree whose hogs run.
#[derive(Debug)]
pub struct CgroupHogs {
    kernel: Rc<Kernel>,
    config: CgroupHogsConfig,
    /// Of each subtree.
    tasks: Vec<Vec<Rc<Task>>>,
    groups: Vec<GroupId>,
}

impl CgroupHogs {
    /// Makes the groups and the hogs.
    ///
    /// # Errors
    /// A quota or period that Linux would refuse.
    pub fn spawn(kernel: &Rc<Kernel>, config: CgroupHogsConfig) -> Result<CgroupHogs, SimError> {
        let mut random = kernel.engine().random("cgroup-hogs");
        let tick = kernel.cycles(Nanos(1e9 / f64::from(kernel.config().hz)));
        let cpus = kernel.cpu_count();
        let mut started = CgroupHogs {
            kernel: Rc::clone(kernel),
            tasks: Vec::new(),
            groups: Vec::new(),
            config,
        };
        let config = &started.config;
        let mut number = 0;
        for _ in 0..config.subtrees {
            let group = kernel.create_group(&GroupSpec {
                quota: Some(config.quota),
                ..GroupSpec::within(GroupId::ROOT)
            })?;
            let mut tasks = Vec::new();
            for _ in 0..config.children {
                let child = kernel.create_group(&GroupSpec::within(group))?;
                for _ in 0..config.leaves {
                    let leaf = kernel.create_group(&GroupSpec::within(child))?;
                    for _ in 0..config.hogs {
                        let cpu = CpuId((number % cpus) as u16);
                        number += 1;
                        let start = Cycles(random.below(tick.0));
                        tasks.push(hog(kernel, leaf, cpu, start)?);
                    }
                }
            }
            started.groups.push(group);
            started.tasks.push(tasks);
        }
        Ok(started)
    }

    /// The first-level groups.
    pub fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    /// CPU time that the tasks of each subtree have used by `at`, the time that the run has come to.
    pub fn used(&self, at: Cycles) -> Vec<Cycles> {
        let used = |task: &Rc<Task>| self.kernel.used(task, at).0;
        let sum = |tasks: &Vec<Rc<Task>>| tasks.iter().map(used).sum();
        self.tasks.iter().map(|tasks| Cycles(sum(tasks))).collect()
    }

    /// The tasks of each subtree.
    pub fn tasks(&self) -> &[Vec<Rc<Task>>] {
        &self.tasks
    }

    /// Queues of one subtree on all CPUs.
    pub fn cfs_rqs(&self) -> u64 {
        let config = &self.config;
        let groups = 1 + config.children + config.children * config.leaves;
        (groups * self.kernel.cpu_count()) as u64
    }

    /// The kernel that they run under.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

/// A task of a group that burns the CPU that it is bound to.
pub(super) fn hog(
    kernel: &Rc<Kernel>,
    group: GroupId,
    cpu: CpuId,
    start: Cycles,
) -> Result<Rc<Task>, SimError> {
    let spec = TaskSpec::bound(kernel, "hog".to_owned(), cpu, start);
    kernel.spawn_in(
        group,
        &spec,
        |thread| async move { thread.run_always().await },
    )
}

pub(super) const KIND: Kind = Kind {
    name: "cgroup-hogs",
    default_name: "cgroup_hogs",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
children = 2 | 1
leaves = 2 | 1
hogs = 1 | 3
quota = "50ms" | "1ms"
"#,
    optional: r#"
subtrees = 1 | 2
period = "100ms"
burst = "0s" | "10ms"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let config = CgroupHogsConfig {
        subtrees: keys::count(table, "subtrees", 64)?.unwrap_or(1),
        children: keys::required(table, "children", 1, keys::GROUPS_MAX)? as usize,
        leaves: keys::required(table, "leaves", 0, keys::GROUPS_MAX)? as usize,
        hogs: keys::required(table, "hogs", 1, keys::THREADS_MAX)? as usize,
        quota: keys::quota(table)?,
    };
    Ok(WorkloadKind::CgroupHogs(config))
}

impl Program for CgroupHogsConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        Ok(Rc::new(CgroupHogs::spawn(start.kernel, *self)?))
    }

    fn tasks(&self, _topology: &Topology) -> Product {
        let factors = [
            ("subtrees", self.subtrees as u64),
            ("children", self.children as u64),
            ("leaves", self.leaves as u64),
            ("hogs", self.hogs as u64),
        ];
        Product::new("hogs", &factors)
    }

    fn queues(&self, topology: &Topology) -> Option<Product> {
        let (children, leaves) = (self.children as u64, self.leaves as u64);
        let factors = [
            ("subtrees", self.subtrees as u64),
            (
                "(1 + children + children x leaves)",
                1 + children + children * leaves,
            ),
            ("CPUs", topology.cpu_count() as u64),
        ];
        Some(Product::new("children", &factors))
    }
}
