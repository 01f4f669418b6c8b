//! Occasions of load balancing, and the CPUs that it is for: the tick's softirq, idle CPUs whose
//! tick is stopped, newly idle CPUs, and the stopper. See kernel/sched/fair.c and
//! kernel/stop_machine.c, v6.12.
//!
//! **What Linux does:** a busy CPU's tick starts balancing of its domains, each at an interval. A tick
//! that finds too much to do wakes one idle CPU, which balances for all idle ones. A CPU that runs out
//! of tasks looks at its domains in order before it goes idle. A running task is moved by its CPU's
//! stopper, of a class above all others.
//!
//! **What we do:** the same.
//!
//! **What a test could notice:** the softirq runs when the task returns to user mode, not at the
//! end of the interrupt. The stopper is a FIFO task of priority 99. New tasks begin where they
//! are started and are not placed by `fork`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, LINE_SIZE, Nanos};

use super::domains::{self, SchedDomain};
use super::group_stats::{Busiest, Migrate};
use super::load_balance::IdleType;
use crate::engine::{Engine, MemberKey, Place, SimError, Site};
use crate::kernel::class::Class;
use crate::kernel::core::Wake;
use crate::kernel::cpumask::CpuMask;
use crate::kernel::functions as f;
use crate::kernel::process::Thread;
use crate::kernel::rq::Rq;
use crate::kernel::smp::Call;
use crate::kernel::task::{Policy, TASK_INTERRUPTIBLE, TASK_RUNNING, TIF_NEED_RESCHED, Task};
use crate::kernel::{Kernel, TaskSpec};

/// Factor by which a busy CPU balances more rarely: `busy_factor`.
const BUSY_FACTOR: u64 = 16;

hitm_base::words! {
    /// Balancing of fair tasks between CPUs.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum LoadBalancing {
        /// A woken task takes an idle CPU under its last-level cache; a newly idle CPU takes a queued task
        /// from there.
        NewlyIdle = "newly-idle",
        /// As Linux does: by domains, periodically too, and with wake-ups near the waker.
        Domains = "domains",
    }
}

/// `struct sched_domain_shared` of a last-level cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct LlcShared {
    pub(super) nr_busy: Place,
    pub(super) has_idle_cores: Place,
    pub(super) nr_idle_scan: Place,
}

/// Times of the balancer, in cycles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Time for which a task's data is taken to stay in its caches: `sysctl_sched_migration_cost`,
    /// 0.5 ms.
    pub(super) migration_cost: Cycles,
    millisecond: Cycles,
    /// `max_load_balance_interval`: a tenth of a second for each CPU.
    longest_interval_ms: u64,
}

/// Order to a CPU's stopper: give its running task to `target`.
#[derive(Debug, Clone, Copy)]
struct ActiveBalance {
    target: CpuId,
    /// The domain of that CPU that is balanced; `None` where a task leaves the CPUs of a lock's group.
    domain: Option<usize>,
}

/// State of the balancer for a CPU.
#[derive(Debug)]
pub(super) struct CpuBalance {
    pub(super) domains: Vec<SchedDomain>,
    next_balance: Cell<Cycles>,
    /// A tick has requested it.
    is_due: Cell<bool>,
    /// It was asked to balance for all idle CPUs.
    is_kicked: Cell<bool>,
    active: Cell<Option<ActiveBalance>>,
    /// `last_blocked_load_update_tick`.
    pub(super) updated_at: Cell<Cycles>,
}

/// The state of load balancing by domains.
#[derive(Debug)]
pub(in crate::kernel) struct Balancer {
    pub(super) cpus: Vec<CpuBalance>,
    llcs: Vec<LlcShared>,
    stoppers: RefCell<Vec<Rc<Task>>>,
    pub(super) times: Times,
    /// `nohz.next_balance`.
    nohz_next: Cell<Cycles>,
    /// `sched_balance_running`: one CPU at a time balances between NUMA nodes.
    is_numa_busy: Cell<bool>,
}

impl Balancer {
    pub(in crate::kernel) fn new(engine: &Engine, rqs: &[Rq], address: u64) -> Balancer {
        let machine = engine.machine();
        let topology = &machine.topology;
        let cycles = |span| machine.clock.cycles(span);
        let cpus = domains::build(topology, rqs).into_iter();
        let cpus = cpus.map(|domains| CpuBalance {
            domains,
            next_balance: Cell::default(),
            is_due: Cell::default(),
            is_kicked: Cell::default(),
            active: Cell::default(),
            updated_at: Cell::default(),
        });
        let mut llcs = Vec::new();
        for llc in 0..topology.llc_count() as u16 {
            let of_llc = || topology.cpus().filter(|cpu| topology.llc_of(*cpu) == llc);
            let weight = of_llc().count() as u64;
            let home = of_llc().next().unwrap_or(CpuId(0));
            let place = |offset_bytes: u64, path: &str| {
                let key = MemberKey::new("sched_domain_shared", path, offset_bytes);
                engine.place(
                    address + u64::from(llc) * LINE_SIZE + offset_bytes,
                    home,
                    key,
                )
            };
            let shared = LlcShared {
                nr_busy: place(4, "nr_busy_cpus"),
                has_idle_cores: place(8, "has_idle_cores"),
                nr_idle_scan: place(12, "nr_idle_scan"),
            };
            // All CPUs count as busy until their tick stops; a search may go over the whole of an
            // idle machine.
            engine.set(shared.nr_busy, weight);
            engine.set(shared.nr_idle_scan, weight);
            llcs.push(shared);
        }
        Balancer {
            cpus: cpus.collect(),
            llcs,
            stoppers: RefCell::default(),
            times: Times {
                migration_cost: cycles(Nanos(5e5)),
                millisecond: cycles(Nanos(1e6)),
                longest_interval_ms: 100 * rqs.len() as u64,
            },
            nohz_next: Cell::default(),
            is_numa_busy: Cell::default(),
        }
    }
}

impl Kernel {
    pub(super) fn balancer_of(&self) -> &Balancer {
        let balancer = self.balancer.as_ref();
        balancer.expect("only a kernel that balances by domains asks")
    }

    pub(super) fn llc_shared(&self, cpu: CpuId) -> LlcShared {
        let llc = self.engine.machine().topology.llc_of(cpu);
        self.balancer_of().llcs[usize::from(llc)]
    }

    /// Before the run: a stopper for each CPU that has others to give tasks to.
    pub(in crate::kernel) fn start_stoppers(self: &Rc<Self>) -> Result<(), SimError> {
        let Some(balancer) = &self.balancer else {
            return Ok(());
        };
        for rq in &self.rqs {
            let only = crate::kernel::CpuMask::of(self.cpu_count(), [rq.cpu]);
            let spec = TaskSpec {
                name: format!("migration/{}", rq.cpu.0),
                policy: Policy::Fifo(99),
                allowed: Some(only),
                cpu: rq.cpu,
                start: Cycles::ZERO,
            };
            let stopper =
                self.spawn(&spec, |thread| async move { stop_for_ever(&thread).await })?;
            balancer.stoppers.borrow_mut().push(stopper);
        }
        Ok(())
    }

    /// A CPU's tick is stopped, or it has one again: `nr_busy_cpus` of its cache.
    pub(in crate::kernel) async fn note_busy(&self, cpu: CpuId, by: i64) {
        if self.balancer.is_some() {
            let place = self.llc_shared(cpu).nr_busy;
            self.engine
                .fetch_add(f::NOHZ_BALANCER_KICK, place, by)
                .await;
        }
    }

    /// Does a tick's part of balancing: `sched_balance_trigger`. No lock is held.
    pub(in crate::kernel) async fn sched_balance_trigger(&self, rq: &Rq) {
        let Some(balancer) = &self.balancer else {
            return;
        };
        let state = &balancer.cpus[rq.cpu.index()];
        if state.domains.is_empty() || rq.curr.get() == rq.idle {
            return;
        }
        if self.engine.now() >= state.next_balance.get() {
            state.is_due.set(true);
        }
        self.move_strangers(rq).await;
        self.nohz_balancer_kick(rq).await;
    }

    /// Tasks that do not sleep leave a CPU that a lock's group has to itself, one at a tick.
    async fn move_strangers(&self, rq: &Rq) {
        if !self.placement.is_reserved(rq.cpu) {
            return;
        }
        let stranger = {
            let queued = &self.fair.cpu_tasks.borrow()[rq.cpu.index()];
            let mut queued = queued.iter().map(|id| self.task(*id));
            queued.find(|p| self.placement.is_stranger(p, rq.cpu) && !self.is_delayed(p.se))
        };
        let Some(stranger) = stranger else {
            return;
        };
        let target = self.select_outside(&stranger, rq.cpu).await;
        let active = &self.balancer_of().cpus[rq.cpu.index()].active;
        if target == rq.cpu || active.get().is_some() {
            return;
        }
        active.set(Some(ActiveBalance {
            target,
            domain: None,
        }));
        self.wake_stopper(rq.cpu).await;
    }

    async fn wake_stopper(&self, cpu: CpuId) {
        let stopper = Rc::clone(&self.balancer_of().stoppers.borrow()[cpu.index()]);
        self.try_to_wake_up(&stopper, Wake::Plain).await;
    }

    /// Wakes an idle CPU to balance when there is something for it.
    async fn nohz_balancer_kick(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::NOHZ_BALANCER_KICK);
        let balancer = self.balancer_of();
        if engine.load(site, self.globals.nohz_count()).await == 0
            || engine.now() < balancer.nohz_next.get()
        {
            return;
        }
        // Several busy CPUs may be too many for their cache, with one task each, too.
        let has_more = engine.load(site, rq.p.nr_running).await >= 2;
        let place = self.llc_shared(rq.cpu).nr_busy;
        if !has_more && engine.load(site, place).await <= 1 {
            return;
        }
        let stopped = self.stopped_cpus(site).await;
        for other in stopped.iter().filter(|other| *other != rq.cpu) {
            if !self.is_idle_cpu(other, site).await {
                continue;
            }
            if !balancer.cpus[other.index()].is_kicked.replace(true) {
                self.queue_call(other, Call::NohzKick, site).await;
            }
            return;
        }
    }

    /// CPUs whose tick is stopped, as `nohz.idle_cpus_mask` says.
    async fn stopped_cpus(&self, site: Site) -> CpuMask {
        let mut stopped = CpuMask::empty(self.cpu_count());
        for (index, word) in self.globals.nohz_mask().iter().enumerate() {
            stopped.set_word(index, self.engine.load(site, *word).await);
        }
        stopped
    }

    /// Returns true if the CPU, which is idle, shall balance for all idle ones.
    pub(in crate::kernel) fn is_nohz_kicked(&self, rq: &Rq) -> bool {
        let balancer = self.balancer.as_ref();
        balancer.is_some_and(|balancer| balancer.cpus[rq.cpu.index()].is_kicked.get())
    }

    /// Balances for all idle CPUs, itself last, until this one has something to do:
    /// `_nohz_idle_balance`. Called by the idle task.
    pub(in crate::kernel) async fn nohz_idle_balance(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_DOMAINS);
        let balancer = self.balancer_of();
        balancer.cpus[rq.cpu.index()].is_kicked.set(false);
        let idle_flags = self.task(rq.idle).p.flags;
        let now = engine.now();
        let mut next = now + Cycles(balancer.times.millisecond.0 * 60_000);
        let count = self.cpu_count();
        let stopped = self.stopped_cpus(site).await;
        for step in 1..=count {
            let other = &self.rqs[(rq.cpu.index() + step) % count];
            if !stopped.contains(other.cpu) && other.cpu != rq.cpu {
                continue;
            }
            if !self.is_idle_cpu(other.cpu, site).await {
                continue;
            }
            // The flag alone says nothing: any request to an idle CPU sets it.
            if engine.load(site, idle_flags).await & TIF_NEED_RESCHED != 0
                && !self.is_idle_cpu(rq.cpu, site).await
            {
                // This CPU has got work: the CPU that the next tick kicks does the rest.
                next = now;
                break;
            }
            self.update_nohz_stats(other).await;
            let state = &balancer.cpus[other.cpu.index()];
            if engine.now() >= state.next_balance.get() {
                self.sched_balance_domains(other, IdleType::Idle).await;
            }
            next = next.min(state.next_balance.get());
        }
        balancer.nohz_next.set(next);
    }

    /// Returns true if the tick asked this CPU to balance; forgets that request and one to it as an
    /// idle CPU.
    pub(in crate::kernel) fn takes_balance_request(&self) -> bool {
        let Some(balancer) = &self.balancer else {
            return false;
        };
        let state = &balancer.cpus[self.engine.cpu().index()];
        state.is_kicked.set(false);
        state.is_due.replace(false)
    }

    /// `sched_balance_softirq` of a busy CPU, interrupts on.
    pub(in crate::kernel) async fn sched_balance_softirq(&self) {
        let rq = self.rq(self.engine.cpu());
        self.update_blocked_averages(rq).await;
        self.sched_balance_domains(rq, IdleType::Busy).await;
    }

    /// Balances the domains of a CPU whose interval is over.
    async fn sched_balance_domains(&self, rq: &Rq, mut idle: IdleType) {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_DOMAINS);
        let balancer = self.balancer_of();
        let state = &balancer.cpus[rq.cpu.index()];
        let mut next = engine.now() + Cycles(balancer.times.millisecond.0 * 60_000);
        for (number, domain) in state.domains.iter().enumerate() {
            engine.call(site, self.costs.function);
            let interval = self.interval(domain, idle);
            let is_numa = domain.level == domains::Level::Numa;
            let is_due = engine.now() >= domain.last_balance.get() + interval;
            if is_due && !(is_numa && balancer.is_numa_busy.get()) {
                balancer
                    .is_numa_busy
                    .set(is_numa || balancer.is_numa_busy.get());
                if self.sched_balance_rq(rq, number, idle).await > 0 && idle == IdleType::Idle {
                    idle = IdleType::Busy;
                }
                if is_numa {
                    balancer.is_numa_busy.set(false);
                }
                domain.last_balance.set(engine.now());
            }
            next = next.min(domain.last_balance.get() + self.interval(domain, idle));
        }
        state.next_balance.set(next);
    }

    /// `get_sd_balance_interval`.
    fn interval(&self, domain: &SchedDomain, idle: IdleType) -> Cycles {
        let times = &self.balancer_of().times;
        let mut interval = domain.interval_ms.get();
        if idle == IdleType::Busy {
            // One less, so that levels do not all come at once.
            interval = interval * BUSY_FACTOR - 1;
        }
        Cycles(times.millisecond.0 * interval.clamp(1, times.longest_interval_ms.max(1)))
    }

    /// The CPU has nothing to run and looks for something, smallest domain first, as long as it
    /// expects to be idle longer than that takes. `rq` is locked before and after. True when there may
    /// be something now.
    pub(in crate::kernel) async fn newidle_by_domains(&self, rq: &Rq) -> bool {
        let (engine, site) = (&self.engine, f::SCHED_BALANCE_NEWIDLE);
        let domains = &self.balancer_of().cpus[rq.cpu.index()].domains;
        let Some(first) = domains.first() else {
            return false;
        };
        // With a woken task on this CPU's list already, there is no need for another.
        if engine.load(site, rq.p.ttwu_pending).await != 0 {
            return false;
        }
        engine.touch(site, rq.p.rd).await;
        engine
            .load_known(site, rq.p.avg_idle, rq.avg_idle.get().0)
            .await;
        let overloaded = self.root_domains[rq.root_domain].overloaded;
        let expected = rq.avg_idle.get();
        if engine.load(site, overloaded).await == 0 || expected < first.newidle_cost.get() {
            return false;
        }
        self.rq_unlock(rq).await;
        self.update_blocked_averages(rq).await;
        let (mut spent, mut since) = (Cycles::ZERO, engine.now());
        for (number, domain) in domains.iter().enumerate() {
            if expected < spent + domain.newidle_cost.get() {
                break;
            }
            let moved = self.sched_balance_rq(rq, number, IdleType::NewlyIdle).await;
            let cost = engine.now().saturating_sub(since);
            since = engine.now();
            spent += cost;
            domain.newidle_cost.set(cost.max(domain.newidle_cost.get()));
            if moved > 0 || engine.load(site, rq.p.nr_running).await > 0 {
                break;
            }
        }
        self.rq_lock(rq).await;
        rq.inner.borrow().nr_running > 0
    }

    /// Nothing could be moved from a run queue: after several failures its stopper is asked to move
    /// the task that runs.
    pub(super) async fn push_running(&self, rq: &Rq, number: usize, busiest: &Busiest) {
        let domain = &self.balancer_of().cpus[rq.cpu.index()].domains[number];
        if busiest.migrate != Migrate::Task || domain.failed.get() <= domain.cache_nice_tries() + 2
        {
            return;
        }
        let engine = &self.engine;
        let source = self.rq(busiest.cpu);
        engine.set_irqs(false);
        self.rq_lock(source).await;
        let running = self.task(source.curr.get());
        let may = running.class() == Class::Fair
            && running.may_run_on(rq.cpu)
            && self.placement.can_migrate(self, &running, rq.cpu);
        let active = &self.balancer_of().cpus[source.cpu.index()].active;
        let is_asked = may && active.get().is_none();
        if is_asked {
            active.set(Some(ActiveBalance {
                target: rq.cpu,
                domain: Some(number),
            }));
        }
        self.rq_unlock(source).await;
        engine.set_irqs(true);
        if is_asked {
            domain.interval_ms.set(domain.weight());
            self.wake_stopper(source.cpu).await;
        }
    }

    /// `active_load_balance_cpu_stop`: the task that ran here is queued now and can move.
    async fn active_load_balance(&self, active: ActiveBalance) {
        let (engine, site) = (&self.engine, f::ACTIVE_LOAD_BALANCE);
        engine.call(site, self.costs.function);
        engine.set_irqs(false);
        let (source, target) = (self.rq(engine.cpu()), self.rq(active.target));
        self.double_rq_lock(source, target).await;
        self.update_rq_clock(source).await;
        let queued = self.fair.cpu_tasks.borrow()[source.cpu.index()].clone();
        let leaves = active.domain.is_none();
        let found = queued.iter().map(|id| self.task(*id)).find(|p| {
            p.may_run_on(target.cpu)
                && p.id != source.curr.get()
                && (!leaves || self.placement.is_stranger(p, source.cpu))
                && self.placement.can_migrate(self, p, target.cpu)
                && !self.is_delayed(p.se)
                && !self.is_hierarchy_stopped(self.queue_of(p.se))
        });
        if let Some(p) = found {
            self.move_queued_task_fair(source, target, &p).await;
            let domains = &self.balancer_of().cpus[target.cpu.index()].domains;
            if let Some(number) = active.domain {
                domains[number].failed.set(0);
            }
        }
        self.balancer_of().cpus[source.cpu.index()].active.set(None);
        self.rq_unlock(source).await;
        self.rq_unlock(target).await;
        engine.set_irqs(true);
    }
}

/// Body of a stopper.
async fn stop_for_ever(thread: &Thread) {
    let kernel = thread.kernel();
    let (engine, task) = (&kernel.engine, thread.task());
    loop {
        kernel.set_current_state(task, TASK_INTERRUPTIBLE).await;
        let state = &kernel.balancer_of().cpus[engine.cpu().index()];
        match state.active.get() {
            None => kernel.schedule().await,
            Some(active) => {
                engine.store(f::SCHEDULE, task.p.state, TASK_RUNNING).await;
                kernel.active_load_balance(active).await;
            }
        }
    }
}
