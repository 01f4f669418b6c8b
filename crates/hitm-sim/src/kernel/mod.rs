//! The scheduler of Linux as async Rust on the engine's memory.
//!
//! Each file is named for the kernel's file that it models and says what Linux does, what we do, and
//! what a test could notice. Names of functions and members are the kernel's, so that statistics read
//! like a `perf c2c` report of it ([`functions`]).
//!
//! State that one lock protects is kept by value in `RefCell`s, never borrowed across an await.
//! State that CPUs look at without that lock has a word of simulated memory. Both are kept in step
//! under the lock.
//!
//! A model is put together in this order: [`Engine`], [`Kernel::new`], [`Kernel::spawn`] for each
//! task, then [`crate::engine::Executor::run`].

mod arrivals;
mod boot;
mod class;
mod config;
mod core;
mod costs;
mod cpumask;
mod cpupri;
mod deadline;
mod fair;
mod fault;
mod filemap;
pub mod functions;
mod futex;
mod holder;
mod hrtimer;
mod idle;
mod lock_affinity;
mod lock_stat;
mod mask;
mod mechanisms;
mod mutex;
mod osq;
mod pipe;
mod placement;
mod places;
mod preempt;
mod process;
mod qspinlock;
mod rq;
mod rt;
mod rtmutex;
mod rwsem;
mod slice_extension;
mod smp;
mod spinlock;
mod syscalls;
mod task;
mod topology;
mod waits;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

pub use self::arrivals::Arrivals;
use self::class::ClassStates;
pub use self::class::OwnPolicy;
pub use self::config::{KernelConfig, TaskSpec};
pub use self::costs::{CostOverrides, Costs, KernelCost, cost_parameters};
pub use self::cpumask::CpuMask;
use self::cpumask::{KnownMasks, MaskPool};
pub use self::cpupri::{CPUPRI_NR_PRIORITIES, Cpupri, convert_prio};
use self::deadline::DlClass;
pub use self::deadline::DlParams;
use self::fair::{Balancer, FairClass};
pub use self::fair::{
    BandwidthCounts, DistributeCall, GroupId, GroupSpec, Histogram, LoadBalancing, Quota,
    Throttling, weight_of_nice,
};
pub use self::fault::UserMapping;
pub use self::filemap::{BlockCopy, PageCacheFile};
pub use self::futex::{Barrier, Futex};
pub use self::holder::{HolderState, HolderWatch};
use self::hrtimer::TimerBase;
pub use self::idle::{IdleGovernor, IdleWake};
pub use self::lock_affinity::Decision;
pub use self::lock_stat::{LockId, LockStat, LockTotals};
pub use self::mask::{SharedCounter, SharedMask, Wanted};
use self::mechanisms::GlobalLines;
pub use self::mechanisms::Mechanism;
pub use self::mutex::Mutex;
pub use self::osq::OsqKind;
use self::osq::OsqNode;
pub use self::pipe::Pipe;
use self::placement::ActivePolicy;
pub use self::placement::Placement;
pub use self::preempt::Preemption;
pub use self::process::Thread;
use self::qspinlock::QNodes;
use self::rq::Rq;
pub use self::rq::{CpuLoad, RqLockTotals};
pub use self::rt::Balancing;
pub use self::rtmutex::PiMutex;
pub use self::rwsem::{Held, Hold, RwSem};
use self::smp::CallQueue;
use self::spinlock::{McsNodes, SecondaryQueues};
pub use self::spinlock::{RawSpinlock, SpinlockKind};
pub use self::task::{MAX_PRIO, MAX_RT_PRIO, Policy, Task, TaskId, TaskTotals};
pub use self::topology::{Partition, RootDomain};
pub use self::waits::WaitCauses;
use crate::engine::{Arena, Engine, TracedTask};

/// Counts of events in a run, over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelCounts {
    /// Tasks woken.
    pub wakeups: u64,
    /// Context switches.
    pub switches: u64,
    /// Tasks put on another CPU, by whatever.
    pub migrations: u64,
    /// RT tasks pushed.
    pub pushes: u64,
    /// RT tasks pulled.
    pub pulls: u64,
    /// Interrupts sent to other CPUs.
    pub ipis: u64,
    /// CPUs that stood in a cpuset's overload mask without reason and were taken out.
    pub stale_overloads: u64,
    /// Time slices that were extended because a thread had asked for it.
    pub slices_extended: u64,
    /// Extensions that ended by their timer.
    pub slices_expired: u64,
}

/// The kernel of one simulated machine.
#[derive(Debug)]
pub struct Kernel {
    engine: Rc<Engine>,
    arena: RefCell<Arena>,
    config: KernelConfig,
    /// As configured, or what was switched since.
    balancing: Cell<Balancing>,
    costs: Costs,
    globals: GlobalLines,
    tick_period: Cycles,
    rqs: Vec<Rq>,
    root_domains: Vec<RootDomain>,
    qnodes: Vec<QNodes>,
    osq_nodes: Vec<OsqNode>,
    /// Nodes of MCS spinlocks; none with another protocol.
    mcs_nodes: Vec<McsNodes>,
    secondary_queues: SecondaryQueues,
    call_queues: Vec<CallQueue>,
    timers: Vec<TimerBase>,
    tasks: RefCell<Vec<Rc<Task>>>,
    /// Sources of work from outside.
    arrivals: RefCell<Vec<Rc<dyn Arrivals>>>,
    counts: Cell<KernelCounts>,
    rq_locks: Cell<RqLockTotals>,
    wake_latency: RefCell<Vec<Cycles>>,
    user_lines: Cell<u64>,
    mutex_count: Cell<u64>,
    lock_count: Cell<usize>,
    placement: ActivePolicy,
    known_masks: KnownMasks,
    masks: MaskPool,
    classes: ClassStates,
    fair: FairClass,
    /// The deadline class, made with its first task.
    deadline: OnceCell<DlClass>,
    /// Load balancing by domains, if it is on.
    balancer: Option<Balancer>,
}

/// User memory begins here.
const USER_BASE: u64 = 0x7000_0000_0000;

impl Kernel {
    /// Returns the engine that the kernel runs on.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// Returns its configuration.
    pub fn config(&self) -> &KernelConfig {
        &self.config
    }

    /// Switches the scheduler's feature `RT_PUSH_IPI`, as a write to `sched/features` does while
    /// the kernel runs. CPUs that look for tasks ask others by interrupts, or take the locks
    /// themselves. A kernel with passive balancing has no such feature.
    pub fn set_rt_push_ipi(&self, is_on: bool) {
        self.balancing.set(match (self.balancing.get(), is_on) {
            (Balancing::Passive, _) => Balancing::Passive,
            (_, true) => Balancing::PushIpi,
            (_, false) => Balancing::PushPull,
        });
    }

    /// CPUs of the machine.
    pub fn cpu_count(&self) -> usize {
        self.rqs.len()
    }

    /// The root domains.
    pub fn root_domains(&self) -> &[RootDomain] {
        &self.root_domains
    }

    /// All tasks; those of index below [`Kernel::cpu_count`] are the idle tasks.
    pub fn tasks(&self) -> Vec<Rc<Task>> {
        self.tasks.borrow().clone()
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> KernelCounts {
        self.counts.get()
    }

    /// Waiting for the locks of run queues so far.
    pub fn rq_lock_totals(&self) -> RqLockTotals {
        self.rq_locks.get()
    }

    /// Load that others put on each CPU so far.
    pub fn cpu_loads(&self) -> Vec<CpuLoad> {
        self.rqs.iter().map(|rq| rq.load.get()).collect()
    }

    /// Every time from wake-up to CPU so far, in order.
    pub fn wake_latencies(&self) -> Vec<Cycles> {
        self.wake_latency.borrow().clone()
    }

    /// `span` in cycles of the machine.
    pub fn cycles(&self, span: Nanos) -> Cycles {
        self.engine.machine().clock.cycles(span)
    }

    /// Traces the run, before it begins: all CPUs are on their idle tasks.
    pub(crate) fn start_trace(&self) {
        self.engine.start_trace();
        let tasks = self.tasks.borrow();
        for (cpu, idle) in tasks.iter().take(self.cpu_count()).enumerate() {
            let cpu = CpuId(cpu as u16);
            self.engine.trace(|tracer, _, _| {
                tracer.switch(cpu, TracedTask::from(&**idle), Cycles::ZERO);
            });
        }
    }

    /// The state of a run queue, without accesses: for checks.
    pub fn peek_rq(&self, cpu: CpuId) -> RqView {
        let rq = self.rq(cpu);
        let inner = rq.inner.borrow();
        RqView {
            curr: rq.curr.get(),
            rt_queued: inner.rt.queue.iter().collect(),
            rt_overloaded: inner.rt.overloaded,
            rt_highest_prio: inner.rt.highest_curr,
            root_domain: rq.root_domain,
        }
    }

    /// The state of a task, without accesses: for checks.
    pub fn peek_task(&self, task: &Task) -> TaskView {
        TaskView {
            cpu: task.cpu.get(),
            state: self.engine.value(task.p.state),
            is_on_rq: task.on_rq.get(),
            is_on_cpu: self.engine.value(task.p.on_cpu) != 0,
        }
    }

    fn rq(&self, cpu: CpuId) -> &Rq {
        &self.rqs[cpu.index()]
    }

    fn task(&self, id: TaskId) -> Rc<Task> {
        Rc::clone(&self.tasks.borrow()[id.index()])
    }

    /// The task that a word of simulated memory names.
    fn task_of(&self, word: u64) -> Rc<Task> {
        self.task(TaskId(word as u32))
    }

    fn count(&self, change: impl FnOnce(&mut KernelCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// The address of a new line of user memory.
    pub(crate) fn user_line(&self) -> u64 {
        let number = self.user_lines.get();
        self.user_lines.set(number + 1);
        USER_BASE + number * hitm_base::LINE_SIZE
    }

    /// Starts a new period of RT throttling on a run queue, which is locked, when it is time.
    async fn rt_period(&self, rq: &Rq) {
        if self.config.rt_runtime.is_none() {
            return;
        }
        let period = self.cycles(self.config.rt_period).0;
        let now = self.engine.now();
        let before = now.saturating_sub(self.tick_period);
        if now.0 / period > before.0 / period {
            self.rt_period_begins(rq).await;
        }
    }
}

/// A look at a run queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RqView {
    /// The running task.
    pub curr: TaskId,
    /// RT tasks on it, the running one included, best first.
    pub rt_queued: Vec<TaskId>,
    /// True if it has pushable tasks.
    pub rt_overloaded: bool,
    /// Priority of the best, 99 for none.
    pub rt_highest_prio: u32,
    /// Its root domain.
    pub root_domain: usize,
}

/// A look at a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskView {
    /// The CPU that it is on or was on last.
    pub cpu: CpuId,
    /// Its `__state`: 0 runs or wants to, 1 sleeps, 0x80 has ended.
    pub state: u64,
    /// True if it is on a run queue.
    pub is_on_rq: bool,
    /// True if it runs.
    pub is_on_cpu: bool,
}
