//! Overload masks of cpusets, as the patch set of October 2007 had them.
//!
//! **What it does:** root domains do not exist yet. A cpuset keeps the mask of the CPUs with more
//! than one RT task, and cpusets may share CPUs. Then a CPU may stand in one mask while the task
//! that waits there is of the other cpuset. That one's CPUs do not find it, and when it goes its
//! cpuset's mask is cleared and the other is left. A pull that comes to a CPU of the mask with no
//! more than one RT task takes it out.
//!
//! **What we do:** a task is of one cpuset, which has an object with mask and count, the
//! `root_domain` of later. A CPU enters the mask of the cpuset of the task that makes it
//! overloaded. It leaves that of the task whose going ends the overload; it is counted when its bit
//! changes. A CPU that looks for tasks reads the mask of the cpuset of the task that it ran last.
//! The first two of these are assumed: the description says where the mask is, not by which task it
//! is found. Source: \[PATCH -v2 0/7\] New RT Task Balancing -v2, 22 October 2007; what a pull
//! takes out is in kernel/sched_rt.c on the way to 2.6.25.
//!
//! **What a test could notice:** cpupri does not exist either. A task that is pushed looks at the
//! run queues that it may use one after the other. Push targets are as in 2.6.32 besides.

use hitm_base::CpuId;

use crate::engine::{SimError, Site};
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::rt::Balancing;
use crate::kernel::task::Task;
use crate::kernel::topology::RootDomain;
use crate::kernel::{Kernel, TaskSpec};

impl Kernel {
    /// The cpuset of a new task that may run on `allowed`: that of its CPU, or where cpusets overlap
    /// the last one that has all of these.
    pub(in crate::kernel) fn cpuset_of(
        &self,
        spec: &TaskSpec,
        allowed: &CpuMask,
    ) -> Result<usize, SimError> {
        let is_within = |number: &usize| {
            let mut inside = allowed.clone();
            inside.keep(&self.root_domains[*number].span);
            inside == *allowed
        };
        let own = self.rq(spec.cpu).root_domain;
        if is_within(&own) {
            return Ok(own);
        }
        let mut others = (0..self.root_domains.len()).rev();
        let found = match self.config.has_overlapping_cpusets() {
            true => others.find(is_within),
            false => None,
        };
        found.ok_or_else(|| {
            SimError::Workload(format!(
                "task {} may run on CPUs outside of its cpuset",
                spec.name
            ))
        })
    }

    /// The run queue has pushable tasks from now on; `p` is the first.
    pub(super) async fn rt_set_overload(&self, site: Site, rq: &Rq, p: &Task) {
        if self.balancing.get() == Balancing::Passive {
            return;
        }
        let engine = &self.engine;
        engine.touch(site, rq.p.rd).await;
        let domain = &self.root_domains[p.cpuset];
        let was_there = domain.rto_mask.set(engine, site, rq.cpu).await;
        // A CPU that sees the count sees the mask: both are locked operations on x86.
        if !was_there || !self.config.has_overlapping_cpusets() {
            domain.rto_count.add(engine, site, rq.cpu, 1).await;
        }
    }

    /// The run queue has none any more; `p` was the last.
    pub(super) async fn rt_clear_overload(&self, site: Site, rq: &Rq, p: &Task) {
        if self.balancing.get() == Balancing::Passive {
            return;
        }
        let engine = &self.engine;
        engine.touch(site, rq.p.rd).await;
        let domain = &self.root_domains[p.cpuset];
        if self.config.has_overlapping_cpusets() {
            self.leave_overload_mask(site, domain, rq.cpu).await;
            return;
        }
        domain.rto_count.add(engine, site, rq.cpu, -1).await;
        domain.rto_mask.clear(engine, site, rq.cpu).await;
    }

    /// Takes a CPU out of a cpuset's mask; true when it was there.
    async fn leave_overload_mask(&self, site: Site, domain: &RootDomain, cpu: CpuId) -> bool {
        let engine = &self.engine;
        let was_there = domain.rto_mask.clear(engine, site, cpu).await;
        if was_there {
            domain.rto_count.add(engine, site, cpu, -1).await;
        }
        was_there
    }

    /// A pull by `this`, which is locked, has found `source` in a cpuset's mask: takes it out when it
    /// has nothing to give. True when it did. The lock of `this` may be dropped meanwhile.
    pub(super) async fn clean_overload(&self, this: &Rq, source: &Rq, domain: &RootDomain) -> bool {
        let (engine, site) = (&self.engine, f::PULL_RT_TASK);
        if engine.load(site, source.p.rt_nr_running).await > 1 {
            return false;
        }
        self.double_lock_balance(this, source).await;
        let is_stale = !source.inner.borrow().rt.overloaded;
        if is_stale && self.leave_overload_mask(site, domain, source.cpu).await {
            self.count(|counts| counts.stale_overloads += 1);
        }
        self.rq_unlock(source).await;
        is_stale
    }

    /// The CPUs of lowest priority among those that may run a task, by a look at each; false when all
    /// run something as good.
    pub(super) async fn find_lowest_cpus(&self, p: &Task, lowest: &mut CpuMask) -> bool {
        let (engine, site) = (&self.engine, f::FIND_LOWEST_CPUS);
        let allowed = std::rc::Rc::clone(&p.allowed.borrow());
        let mut worst = u64::from(p.prio.get());
        lowest.clone_from(&CpuMask::empty(self.cpu_count()));
        for cpu in allowed.iter() {
            let highest = engine.load(site, self.rq(cpu).p.rt_highest_curr).await;
            if highest > worst {
                worst = highest;
                lowest.clone_from(&CpuMask::empty(self.cpu_count()));
            }
            if highest == worst && highest > u64::from(p.prio.get()) {
                lowest.set(cpu);
            }
        }
        !lowest.is_empty()
    }
}
