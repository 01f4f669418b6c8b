//! The scheduler of Linux as async Rust on the engine's memory.
//!
//! Each file is named for the kernel's file that it models and says what Linux does, what we do, and
//! what a test could notice. Names of functions and members are the kernel's, so that statistics read
//! like a `perf c2c` report of it ([`functions`]).
//!
//! What one lock protects is kept by value in `RefCell`s, never borrowed across an await; what CPUs
//! look at without that lock has a word of simulated memory. Both are kept in step under the lock.
//!
//! A model is put together in this order: [`Engine`], [`Kernel::new`], [`Kernel::spawn`] for each
//! task, then [`crate::engine::Executor::run`].

mod core;
mod costs;
mod cpumask;
mod cpupri;
mod fair;
mod filemap;
pub mod functions;
mod futex;
mod hrtimer;
mod idle;
mod lock_affinity;
mod lock_stat;
mod mask;
mod mechanisms;
mod mutex;
mod osq;
mod pipe;
mod process;
mod qspinlock;
mod rq;
mod rt;
mod rtmutex;
mod rwsem;
mod smp;
mod syscalls;
mod task;
mod topology;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

pub use self::costs::Costs;
pub use self::cpumask::CpuMask;
use self::cpumask::{KnownMasks, MaskPool};
pub use self::cpupri::{CPUPRI_NR_PRIORITIES, Cpupri, convert_prio};
use self::fair::{Averages, Balancer, FairClass, Wakees};
pub use self::fair::{
    BandwidthCounts, DistributeCall, GroupId, GroupSpec, Histogram, LoadBalancing, Quota,
    Throttling,
};
pub use self::filemap::{BlockCopy, PageCacheFile};
pub use self::futex::{Barrier, Futex};
use self::hrtimer::TimerBase;
use self::lock_affinity::LockAffinity;
pub use self::lock_affinity::{Decision, Placement, needed_cpus};
pub use self::lock_stat::{LockId, LockStat, LockTotals};
pub use self::mask::{SharedCounter, SharedMask};
use self::mechanisms::GlobalLines;
pub use self::mechanisms::{MECHANISMS, Mechanism};
pub use self::mutex::Mutex;
use self::osq::OsqNode;
pub use self::pipe::Pipe;
pub use self::process::Thread;
use self::qspinlock::QNodes;
use self::rq::Rq;
pub use self::rq::RqLockTotals;
pub use self::rt::Balancing;
pub use self::rtmutex::PiMutex;
pub use self::rwsem::{Hold, RwSem};
use self::smp::CallQueue;
pub use self::task::{MAX_PRIO, MAX_RT_PRIO, Policy, Task, TaskId, TaskTotals};
use self::task::{TASK_INTERRUPTIBLE, TASK_RUNNING, TaskPlaces};
pub use self::topology::{Partition, RootDomain};
use crate::engine::{Arena, Engine, HostSpan, SimError, StackId};
use crate::layout::Layouts;

/// How the kernel is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelConfig {
    /// Who moves real-time tasks.
    pub balancing: Balancing,
    /// Whether a waker leaves the woken task to its CPU when that shares no cache or is idle
    /// (`TTWU_QUEUE`, since 3.0; for idle CPUs since 6.0), or always takes the other's lock itself.
    pub wake_lists: bool,
    /// How cpusets divide the machine.
    pub partition: Partition,
    /// Ticks a second (`CONFIG_HZ`; Debian has 250).
    pub hz: u32,
    /// Time that RT tasks may take of each period on a CPU (`sched_rt_runtime_us`); `None` for no
    /// limit (-1).
    pub rt_runtime: Option<Nanos>,
    /// The period (`sched_rt_period_us`).
    pub rt_period: Nanos,
    /// Passive balancing: time between two looks of a busy CPU at the others. Assumed 64 ms (16 to
    /// 256 ms: 2.6.23 starts at the number of CPUs in milliseconds, times a busy factor of 32, and
    /// doubles it up to a limit); bounds how long a queued task stays where it is.
    pub balance_interval: Nanos,
    /// How fair tasks get to other CPUs; [`Balancing::Passive`] has its own way.
    pub load_balancing: LoadBalancing,
    /// What happens to a group that has used its quota.
    pub throttling: Throttling,
    /// Where threads that fight for a lock run.
    pub placement: Placement,
    /// From the write that wakes an idle CPU to its next instruction; [`Costs::idle_exit`].
    pub idle_exit: Nanos,
    /// Instructions of `walk_tg_tree_from` and its callback for one group: what decides how many
    /// visits a core overlaps. Assumed 60 (40 to 120).
    pub visit_instructions: u64,
    /// How often lock-aware placement judges a lock. Assumed 5 ms (1 to 100 ms): how soon it begins
    /// and ends.
    pub lock_window: Nanos,
    /// What is modelled beyond the usual.
    pub mechanisms: Vec<Mechanism>,
}

impl KernelConfig {
    /// Whether cpusets share CPUs, as in 2007.
    pub fn has_overlapping_cpusets(&self) -> bool {
        matches!(self.partition, Partition::Overlapping(_))
    }

    /// One root domain, 250 Hz, no RT limit, and wake-ups as the kernels of that balancing do them.
    pub fn new(balancing: Balancing) -> KernelConfig {
        KernelConfig {
            balancing,
            wake_lists: balancing == Balancing::PushIpi,
            partition: Partition::Whole,
            hz: 250,
            rt_runtime: None,
            rt_period: Nanos(1e9),
            balance_interval: Nanos(64e6),
            load_balancing: LoadBalancing::NewlyIdle,
            throttling: Throttling::Async,
            placement: Placement::Default,
            idle_exit: Nanos(1000.0),
            visit_instructions: 60,
            lock_window: Nanos(5e6),
            mechanisms: Vec::new(),
        }
    }
}

/// What happened in a run, over all CPUs.
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
}

/// A task to be made.
#[derive(Debug, Clone)]
pub struct TaskSpec {
    /// Its name.
    pub name: String,
    /// How it is scheduled.
    pub policy: Policy,
    /// Where it may run; `None` for everywhere in its root domain.
    pub allowed: Option<CpuMask>,
    /// The CPU on which it begins.
    pub cpu: CpuId,
    /// When it begins.
    pub start: Cycles,
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
    call_queues: Vec<CallQueue>,
    timers: Vec<TimerBase>,
    tasks: RefCell<Vec<Rc<Task>>>,
    counts: Cell<KernelCounts>,
    rq_locks: Cell<RqLockTotals>,
    wake_latency: RefCell<Vec<Cycles>>,
    user_lines: Cell<u64>,
    mutex_count: Cell<u64>,
    lock_count: Cell<usize>,
    lock_affinity: Option<LockAffinity>,
    known_masks: KnownMasks,
    masks: MaskPool,
    fair: FairClass,
    /// Load balancing by domains, if it is on.
    balancer: Option<Balancer>,
}

/// Lines of [`mechanisms`] begin here.
const GLOBALS_BASE: u64 = 0x6f00_0000_0000;
/// What CPUs under one last-level cache share of the load balancer begins here.
const SHARED_DOMAINS_BASE: u64 = 0x6f10_0000_0000;
/// User memory begins here.
const USER_BASE: u64 = 0x7000_0000_0000;

impl Kernel {
    /// A kernel whose CPUs are idle.
    pub fn new(
        engine: &Rc<Engine>,
        layouts: Layouts,
        config: KernelConfig,
    ) -> Result<Rc<Kernel>, SimError> {
        let mut arena = Arena::new(Rc::clone(engine), layouts);
        let machine = engine.machine();
        if config.has_overlapping_cpusets() && config.balancing == Balancing::PushIpi {
            let text =
                "cpusets overlap: the chain of interrupts goes through root domains, which do not";
            return Err(SimError::Workload(text.to_owned()));
        }
        let (root_domains, domain_of) =
            topology::root_domains(&mut arena, engine, &config.partition)?;
        let all = CpuMask::all(machine.topology.cpu_count());
        let known_masks = KnownMasks::default();
        let mut rqs = Vec::new();
        let mut qnodes = Vec::new();
        let mut osq_nodes = Vec::new();
        let mut call_queues = Vec::new();
        let mut timers = Vec::new();
        for cpu in machine.topology.cpus() {
            let root = domain_of[cpu.index()];
            // Cpusets that overlap leave the scheduling domains as they are.
            let span = match config.has_overlapping_cpusets() {
                true => &all,
                false => &root_domains[root].span,
            };
            let domains = topology::sched_domains(&machine.topology, span, cpu, &known_masks);
            rqs.push(Rq::new(&mut arena, cpu, root, domains)?);
            qnodes.push(QNodes::new(&mut arena, cpu)?);
            osq_nodes.push(OsqNode::new(&mut arena, cpu)?);
            call_queues.push(CallQueue::new(&mut arena, cpu)?);
            timers.push(TimerBase::new(&mut arena, cpu)?);
        }
        let cycles = |span: Nanos| machine.clock.cycles(span).0;
        let lock_affinity = (config.placement == Placement::LockAware)
            .then(|| LockAffinity::new(rqs.len(), config.lock_window, &machine.clock));
        let fair = FairClass::new(&mut arena, rqs.len(), &config, cycles)?;
        let by_domains = config.load_balancing == LoadBalancing::Domains
            && config.balancing != Balancing::Passive;
        let balancer = by_domains.then(|| Balancer::new(engine, &rqs, SHARED_DOMAINS_BASE));
        let kernel = Rc::new(Kernel {
            balancer,
            fair,
            costs: Costs {
                idle_exit: machine.clock.cycles(config.idle_exit),
                ..Costs::new(machine.clock)
            },
            globals: GlobalLines::new(engine, GLOBALS_BASE, machine.topology.cpu_count()),
            tick_period: machine.clock.cycles(Nanos(1e9 / f64::from(config.hz))),
            engine: Rc::clone(engine),
            arena: RefCell::new(arena),
            balancing: Cell::new(config.balancing),
            config,
            rqs,
            root_domains,
            qnodes,
            osq_nodes,
            call_queues,
            timers,
            tasks: RefCell::new(Vec::new()),
            counts: Cell::new(KernelCounts::default()),
            rq_locks: Cell::default(),
            wake_latency: RefCell::new(Vec::new()),
            user_lines: Cell::new(0),
            mutex_count: Cell::new(0),
            lock_count: Cell::new(0),
            lock_affinity,
            known_masks,
            masks: MaskPool::new(engine.machine().topology.cpu_count()),
        });
        kernel.boot()?;
        Ok(kernel)
    }

    /// Starts the idle task of each CPU.
    fn boot(self: &Rc<Self>) -> Result<(), SimError> {
        self.note_llc_domains();
        for cpu in self.engine.machine().topology.cpus() {
            let rq = self.rq(cpu);
            let engine = &self.engine;
            engine.set(rq.p.rt_highest_curr, u64::from(MAX_RT_PRIO - 1));
            engine.set(rq.p.rt_highest_next, u64::from(MAX_RT_PRIO - 1));
            let spec = TaskSpec {
                name: format!("swapper/{}", cpu.0),
                policy: Policy::Normal(0),
                allowed: Some(CpuMask::of(self.cpu_count(), [cpu])),
                cpu,
                start: Cycles::ZERO,
            };
            let idle = self.new_task(&spec, GroupId::ROOT, true)?;
            engine.set(rq.p.curr, u64::from(idle.id.0));
            engine.set(idle.p.on_cpu, 1);
            let kernel = Rc::clone(self);
            let stack = engine.spawn(async move { kernel.cpu_idle().await });
            self.set_stack(&idle, stack);
            engine.set_cpu_footprint(cpu, HostSpan::of(rq), rq.p.extent);
            let kernel = Rc::clone(self);
            let irq_stack = engine.spawn(async move { kernel.handle_interrupts().await });
            engine.boot(cpu, stack, Some(irq_stack));
        }
        self.start_stoppers()
    }

    /// Makes a task that runs `program`, in the root group.
    pub fn spawn<F, P>(self: &Rc<Self>, spec: &TaskSpec, program: P) -> Result<Rc<Task>, SimError>
    where
        F: Future<Output = ()> + 'static,
        P: FnOnce(Thread) -> F + 'static,
    {
        self.spawn_in(GroupId::ROOT, spec, program)
    }

    /// Makes a task that runs `program`, in a group.
    pub fn spawn_in<F, P>(
        self: &Rc<Self>,
        group: GroupId,
        spec: &TaskSpec,
        program: P,
    ) -> Result<Rc<Task>, SimError>
    where
        F: Future<Output = ()> + 'static,
        P: FnOnce(Thread) -> F + 'static,
    {
        let task = self.new_task(spec, group, false)?;
        let thread = Thread {
            kernel: Rc::clone(self),
            task: Rc::clone(&task),
        };
        let stack = self.task_stack(&task, || program(thread));
        self.set_stack(&task, stack);
        self.timers[spec.cpu.index()].add_first(spec.start, task.id);
        Ok(task)
    }

    fn set_stack(&self, task: &Task, stack: StackId) {
        task.stack.set(Some(stack));
        let host = HostSpan::of(task);
        self.engine.set_stack_footprint(stack, host, task.extent);
    }

    fn new_task(
        &self,
        spec: &TaskSpec,
        group: GroupId,
        is_idle: bool,
    ) -> Result<Rc<Task>, SimError> {
        let span = &self.root_domains[self.rq(spec.cpu).root_domain].span;
        let allowed = spec.allowed.as_ref().unwrap_or(span).clone();
        if !allowed.contains(spec.cpu) {
            return Err(SimError::Workload(format!(
                "task {} begins on CPU {}, where it may not run",
                spec.name, spec.cpu.0
            )));
        }
        let cpuset = self.cpuset_of(spec, &allowed)?;
        let id = TaskId(self.tasks.borrow().len() as u32);
        let make_places = || TaskPlaces::new(&mut self.arena.borrow_mut(), spec.cpu);
        let (places, extent) = self.engine.extent_of(make_places);
        let places = places?;
        let prio = if is_idle {
            MAX_PRIO
        } else {
            spec.policy.prio()
        };
        let state = if is_idle {
            TASK_RUNNING
        } else {
            TASK_INTERRUPTIBLE
        };
        self.engine.set(places.prio, u64::from(prio));
        self.engine.set(places.state, state);
        self.engine.set(places.cpu, u64::from(spec.cpu.0));
        let task = Rc::new(Task {
            id,
            name: spec.name.clone(),
            p: places,
            extent,
            stack: Cell::new(None),
            policy: Cell::new(spec.policy),
            prio: Cell::new(prio),
            normal_prio: Cell::new(prio),
            cpu: Cell::new(spec.cpu),
            cpuset,
            on_rq: Cell::new(false),
            allowed_count: Cell::new(allowed.count()),
            allowed: RefCell::new(self.known_masks.share(allowed)),
            time_slice: Cell::new(self.rr_timeslice()),
            exec_start: Cell::new(Cycles::ZERO),
            se: self
                .fair
                .add_task(id, (group, spec.cpu.index()), spec.policy),
            group,
            is_placed: Cell::new(false),
            averages: Cell::new(Averages::default()),
            wakees: Cell::new(Wakees::default()),
            recent_cpu: Cell::new(spec.cpu),
            is_throttled: Cell::new(false),
            has_throttle_work: Cell::new(false),
            woken_at: Cell::new(None),
            on_cpu_since: Cell::default(),
            on_cpu_sum: Cell::default(),
            spun_on: Cell::new(None),
            domain: RefCell::new(None),
            totals: Cell::new(TaskTotals::default()),
            pi: RefCell::new(rtmutex::PiState::default()),
            is_idle,
        });
        self.tasks.borrow_mut().push(Rc::clone(&task));
        Ok(task)
    }

    /// The engine.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// How it is set up.
    pub fn config(&self) -> &KernelConfig {
        &self.config
    }

    /// Switches the scheduler's feature `RT_PUSH_IPI`, as a write to `sched/features` does while the
    /// kernel runs: CPUs that look for tasks ask others by interrupts, or take the locks themselves.
    /// A kernel with passive balancing has no such feature.
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

    /// What happened so far.
    pub fn counts(&self) -> KernelCounts {
        self.counts.get()
    }

    /// Waiting for the locks of run queues so far.
    pub fn rq_lock_totals(&self) -> RqLockTotals {
        self.rq_locks.get()
    }

    /// Every time from wake-up to CPU so far, in order.
    pub fn wake_latencies(&self) -> Vec<Cycles> {
        self.wake_latency.borrow().clone()
    }

    /// `span` in cycles of the machine.
    pub fn cycles(&self, span: Nanos) -> Cycles {
        self.engine.machine().clock.cycles(span)
    }

    /// The state of a run queue, without accesses: for checks.
    pub fn peek_rq(&self, cpu: CpuId) -> RqView {
        let rq = self.rq(cpu);
        let inner = rq.inner.borrow();
        RqView {
            curr: rq.curr.get(),
            rt_queued: inner.rt.queue.iter().flatten().copied().collect(),
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
    fn user_line(&self) -> u64 {
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
    /// Whether it has pushable tasks.
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
    /// Whether it is on a run queue.
    pub is_on_rq: bool,
    /// Whether it runs.
    pub is_on_cpu: bool,
}
