//! Run queues: `struct rq`, kernel/sched/sched.h, v6.12.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;

use hitm_base::{CpuId, Cycles};

use super::Kernel;
use super::fair::{Averages, CfsMember, CfsWord, opaque_in, places_in};
use super::functions as f;
use super::idle::{IdleHistory, IdleState};
use super::places::places;
use super::rt::{PrioArray, USUAL_ROOM};
use super::task::{MAX_RT_PRIO, NO_TASK, TaskId};
use crate::engine::{Arena, Extent, Object, Opaque, Place, SimError};

places! {
    /// Places of the shared members of a run queue.
    #[derive(Debug)]
    RqPlaces {
        lock = "__lock",
        nr_running = "nr_running",
        ttwu_pending = "ttwu_pending",
        nr_switches = "nr_switches",
        curr = "curr",
        clock: Opaque = "clock",
        clock_task: Opaque = "clock_task",
        rd: Opaque = "rd",
        balance_callback: Opaque = "balance_callback",
        rt_nr_running = "rt.rt_nr_running",
        rt_highest_curr = "rt.highest_prio.curr",
        rt_highest_next = "rt.highest_prio.next",
        rt_overloaded = "rt.overloaded",
        rt_pushable = "rt.pushable_tasks",
        rt_bitmap: Opaque = "rt.active.bitmap",
        avg_idle = "avg_idle",
    }
    with {
        rt_queue: Opaque,
        /// Of the root group's queue, by [`CfsWord`].
        cfs,
        /// The others of its members, by [`CfsMember`].
        cfs_opaque: Opaque,
    }
}

/// The paths of the lists of priorities, the same on all CPUs.
static RT_QUEUES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let path = |prio| format!("rt.active.queue[{prio}]");
    (0..MAX_RT_PRIO).map(path).collect()
});

impl RqPlaces {
    /// The places, and the memory of all but the queues of priorities, of which a CPU uses few.
    fn new(arena: &mut Arena, cpu: CpuId) -> Result<(RqPlaces, Extent, Object), SimError> {
        let rq = arena.allocate("rq", cpu)?;
        let rt_queue = RT_QUEUES.iter().map(|path| arena.opaque(&rq, path));
        let rt_queue = rt_queue.collect::<Result<Vec<Opaque>, SimError>>()?;
        let engine = Rc::clone(arena.engine());
        let (places, extent) = engine.extent_of(|| {
            let cfs = places_in(arena, &rq, "cfs", CfsWord::PATHS)?;
            let cfs_opaque = opaque_in(arena, &rq, "cfs", CfsMember::PATHS)?;
            RqPlaces::within(arena, &rq, rt_queue, cfs, cfs_opaque)
        });
        Ok((places?, extent, rq))
    }
}

/// Waiting for the locks of run queues, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RqLockTotals {
    /// Times that somebody had to wait.
    pub contended: u64,
    /// Time that they waited, in all.
    pub wait_sum: Cycles,
    /// The longest of them.
    pub wait_max: Cycles,
}

/// `struct rt_rq`: what the lock holder alone reads.
#[derive(Debug)]
pub(super) struct RtRq {
    pub(super) queue: PrioArray,
    pub(super) nr_running: u64,
    /// Tasks that may move, best first; equal priorities as they came.
    pub(super) pushable: Vec<(u32, TaskId)>,
    pub(super) highest_curr: u32,
    pub(super) overloaded: bool,
    /// True if its tasks are counted in the run queue's `nr_running`.
    pub(super) queued: bool,
    /// Time used in the present period, and whether it was too much.
    pub(super) time: Cycles,
    pub(super) throttled: bool,
}

impl RtRq {
    /// The word at the head of the pushable tasks.
    pub(super) fn first_pushable(&self) -> u64 {
        let first = self.pushable.first();
        first.map_or(NO_TASK, |(_, id)| u64::from(id.0))
    }
}

/// State that the lock holder alone reads and writes.
#[derive(Debug)]
pub(super) struct RqInner {
    pub(super) nr_running: u64,
    pub(super) nr_switches: u64,
    pub(super) rt: RtRq,
    /// `balance_callback`: push, pull.
    pub(super) push_wanted: bool,
    pub(super) pull_wanted: bool,
}

/// CPUs that share a last-level cache, and where they say how many fair tasks they have.
#[derive(Debug)]
pub(super) struct LlcDomain {
    pub(super) cpus: Vec<CpuId>,
    pub(super) nr_queued: Vec<Place>,
}

/// A run queue.
#[derive(Debug)]
pub(super) struct Rq {
    pub(super) cpu: CpuId,
    pub(super) object: Object,
    pub(super) p: RqPlaces,
    /// The memory that it uses whenever its CPU runs.
    pub(super) extent: Extent,
    pub(super) inner: RefCell<RqInner>,
    pub(super) curr: Cell<TaskId>,
    pub(super) idle: TaskId,
    /// The task that the CPU has just switched from.
    pub(super) prev: Cell<TaskId>,
    pub(super) idle_since: Cell<Cycles>,
    /// The idle state that the CPU is in and has not left yet.
    pub(super) idle_state: Cell<Option<IdleState>>,
    pub(super) idle_history: IdleHistory,
    /// `nohz_tick_stopped`.
    pub(super) nohz_tick_stopped: Cell<bool>,
    pub(super) avg_idle: Cell<Cycles>,
    /// Averages of the load of its fair tasks.
    pub(super) averages: Cell<Averages>,
    /// Scheduling domains, smallest first.
    pub(super) domains: Vec<Rc<super::cpumask::CpuMask>>,
    /// The largest domain within the last-level cache, and which of its CPUs this one is.
    pub(super) llc: OnceCell<(Rc<LlcDomain>, usize)>,
    pub(super) root_domain: usize,
    /// `distribute_cpu_mask_prev`.
    pub(super) distribute_prev: Cell<Option<CpuId>>,
    pub(super) load: Cell<CpuLoad>,
    /// Interrupts that it has taken.
    pub(super) interrupts: Cell<u64>,
    /// So many of them were followed by a look at the flags of a task.
    pub(super) interrupts_seen: Cell<u64>,
}

/// Load that others put on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuLoad {
    /// Interrupts that other CPUs, or itself, sent to it.
    pub ipis: u64,
    /// Time that CPUs waited for the lock of its run queue.
    pub rq_lock_wait: Cycles,
}

impl Rq {
    pub(super) fn new(
        arena: &mut Arena,
        cpu: CpuId,
        root_domain: usize,
        domains: Vec<Rc<super::cpumask::CpuMask>>,
    ) -> Result<Rq, SimError> {
        let idle = TaskId(u32::from(cpu.0));
        let (places, extent, object) = RqPlaces::new(arena, cpu)?;
        Ok(Rq {
            cpu,
            object,
            p: places,
            extent,
            inner: RefCell::new(RqInner {
                nr_running: 0,
                nr_switches: 0,
                rt: RtRq {
                    queue: PrioArray::new(),
                    nr_running: 0,
                    pushable: Vec::with_capacity(USUAL_ROOM),
                    highest_curr: MAX_RT_PRIO - 1,
                    overloaded: false,
                    queued: false,
                    time: Cycles::ZERO,
                    throttled: false,
                },
                push_wanted: false,
                pull_wanted: false,
            }),
            curr: Cell::new(idle),
            idle,
            prev: Cell::new(idle),
            idle_since: Cell::new(Cycles::ZERO),
            idle_state: Cell::new(None),
            idle_history: IdleHistory::default(),
            nohz_tick_stopped: Cell::new(false),
            avg_idle: Cell::new(Cycles::ZERO),
            averages: Cell::default(),
            domains,
            llc: OnceCell::new(),
            root_domain,
            distribute_prev: Cell::new(None),
            load: Cell::default(),
            interrupts: Cell::new(0),
            interrupts_seen: Cell::new(0),
        })
    }
}

impl Kernel {
    /// Takes the lock of a run queue; how long others kept it meanwhile. Interrupts are off.
    pub(super) async fn rq_lock(&self, rq: &Rq) -> Cycles {
        let begin = self.engine.now();
        if !self.spin_lock(rq.p.lock).await {
            return Cycles::ZERO;
        }
        let waited = self.engine.now().saturating_sub(begin);
        let mut totals = self.rq_locks.get();
        totals.contended += 1;
        totals.wait_sum += waited;
        totals.wait_max = totals.wait_max.max(waited);
        self.rq_locks.set(totals);
        let mut load = rq.load.get();
        load.rq_lock_wait += waited;
        rq.load.set(load);
        waited
    }

    /// Gives it back.
    pub(super) async fn rq_unlock(&self, rq: &Rq) {
        self.spin_unlock(rq.p.lock).await;
    }

    /// Takes the locks of both, the first in order of CPU number.
    pub(super) async fn double_rq_lock(&self, a: &Rq, b: &Rq) {
        let (first, second) = if a.cpu <= b.cpu { (a, b) } else { (b, a) };
        self.rq_lock(first).await;
        if first.cpu != second.cpu {
            self.rq_lock(second).await;
        }
    }

    /// With `this` locked, locks `busiest` too; true when `this` was unlocked meanwhile, so that
    /// everything may have changed.
    pub(super) async fn double_lock_balance(&self, this: &Rq, busiest: &Rq) -> bool {
        if self.spin_trylock(busiest.p.lock).await {
            return false;
        }
        // Two locks are taken in order of CPU number; against that order `this` is given up first.
        if this.cpu < busiest.cpu {
            self.rq_lock(busiest).await;
            return false;
        }
        self.rq_unlock(this).await;
        self.double_rq_lock(this, busiest).await;
        true
    }

    /// Reads the clock into the run queue.
    pub(super) async fn update_rq_clock(&self, rq: &Rq) {
        let (engine, site) = (&self.engine, f::UPDATE_RQ_CLOCK);
        engine.call(site, self.costs.function);
        engine.touch(site, rq.p.clock).await;
        engine.dirty(site, rq.p.clock).await;
        engine.dirty(site, rq.p.clock_task).await;
    }

    /// `count` more tasks run here.
    pub(super) async fn add_nr_running(&self, site: crate::engine::Site, rq: &Rq, count: u64) {
        let engine = &self.engine;
        let before = rq.inner.borrow().nr_running;
        engine.load_known(site, rq.p.nr_running, before).await;
        let now = before + count;
        rq.inner.borrow_mut().nr_running = now;
        engine.store(site, rq.p.nr_running, now).await;
        if before < 2 && now >= 2 {
            let domain = &self.root_domains[rq.root_domain];
            engine.touch(site, rq.p.rd).await;
            // Written only when it changes: the line stays shared while the domain is overloaded
            // anyway.
            if engine.load(site, domain.overloaded).await == 0 {
                engine.store(site, domain.overloaded, 1).await;
            }
        }
    }

    /// `count` fewer.
    pub(super) async fn sub_nr_running(&self, site: crate::engine::Site, rq: &Rq, count: u64) {
        let engine = &self.engine;
        let before = rq.inner.borrow().nr_running;
        engine.load_known(site, rq.p.nr_running, before).await;
        let now = before - count;
        rq.inner.borrow_mut().nr_running = now;
        engine.store(site, rq.p.nr_running, now).await;
    }
}
