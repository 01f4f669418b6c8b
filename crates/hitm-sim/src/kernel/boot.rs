//! Start of a kernel: its run queues, idle tasks and interrupt stacks, and the tasks that run on
//! it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::class::{Class, ClassStates};
use super::config::{KernelConfig, TaskSpec};
use super::costs::Costs;
use super::cpumask::{CpuMask, KnownMasks, MaskPool};
use super::deadline::DlTask;
use super::fair::{Averages, Balancer, FairClass, GroupId, LoadBalancing, Wakees};
use super::hrtimer::{Expiry, TimerBase};
use super::mechanisms::GlobalLines;
use super::osq::{OsqKind, OsqNode};
use super::placement::ActivePolicy;
use super::process::Thread;
use super::qspinlock::QNodes;
use super::rq::Rq;
use super::rt::Balancing;
use super::slice_extension::SliceExtension;
use super::smp::CallQueue;
use super::spinlock::{McsNodes, SecondaryQueues, SpinlockKind};
use super::task::{
    MAX_PRIO, MAX_RT_PRIO, Policy, TASK_INTERRUPTIBLE, TASK_RUNNING, Task, TaskId, TaskPlaces,
    TaskTotals,
};
use super::{Kernel, KernelCounts, rtmutex, topology};
use crate::engine::{Arena, Engine, Extent, HostSpan, SimError, StackId};
use crate::layout::Layouts;

/// Lines of [`super::mechanisms`] begin here.
const GLOBALS_BASE: u64 = 0x6f00_0000_0000;
/// Lines of the load balancer that CPUs under one last-level cache share begin here.
const SHARED_DOMAINS_BASE: u64 = 0x6f10_0000_0000;

/// Parts of the kernel by CPU.
#[derive(Default)]
struct CpuParts {
    rqs: Vec<Rq>,
    qnodes: Vec<QNodes>,
    osq_nodes: Vec<OsqNode>,
    call_queues: Vec<CallQueue>,
    timers: Vec<TimerBase>,
}

impl CpuParts {
    /// Adds the next CPU, which has this run queue.
    fn add(&mut self, arena: &mut Arena, rq: Rq) -> Result<(), SimError> {
        let (cpu, engine) = (rq.cpu, Rc::clone(arena.engine()));
        self.rqs.push(rq);
        let make = || -> Result<(), SimError> {
            self.qnodes.push(QNodes::new(arena, cpu)?);
            self.osq_nodes.push(OsqNode::new(arena, cpu)?);
            self.call_queues.push(CallQueue::new(arena, cpu)?);
            self.timers.push(TimerBase::new(arena, cpu)?);
            Ok(())
        };
        let (made, extent) = engine.extent_of(make);
        engine.add_cpu_footprint(cpu, &[], &[extent]);
        made
    }
}

/// Priorities whose lists are prefetched before a CPU's turn: the best.
const FIRST_PRIOS: usize = 4;

/// The memory for what the kernel of this configuration has.
fn arena_of(engine: &Rc<Engine>, mut layouts: Layouts, config: &KernelConfig) -> Arena {
    if config.osq == OsqKind::PerNode {
        layouts.overlay([super::osq::per_node_layout()]);
    }
    Arena::new(Rc::clone(engine), layouts)
}

/// Nodes of MCS spinlocks by CPU; none with another protocol.
fn mcs_nodes(arena: &mut Arena, config: &KernelConfig) -> Result<Vec<McsNodes>, SimError> {
    if config.spinlock != SpinlockKind::Mcs {
        return Ok(Vec::new());
    }
    let cpus: Vec<CpuId> = arena.engine().machine().topology.cpus().collect();
    cpus.into_iter()
        .map(|cpu| McsNodes::new(arena, cpu))
        .collect()
}

fn check(config: &KernelConfig) -> Result<(), SimError> {
    if config.has_overlapping_cpusets() && config.balancing == Balancing::PushIpi {
        let text =
            "cpusets overlap: the chain of interrupts goes through root domains, which do not";
        return Err(SimError::Workload(text.to_owned()));
    }
    Ok(())
}

impl Kernel {
    /// A kernel whose CPUs are idle.
    pub fn new(
        engine: &Rc<Engine>,
        layouts: Layouts,
        config: KernelConfig,
    ) -> Result<Rc<Kernel>, SimError> {
        let mut arena = arena_of(engine, layouts, &config);
        let machine = engine.machine();
        check(&config)?;
        let (root_domains, domain_of) =
            topology::root_domains(&mut arena, engine, &config.partition)?;
        let all = CpuMask::all(machine.topology.cpu_count());
        let known_masks = KnownMasks::default();
        let mut parts = CpuParts::default();
        for cpu in machine.topology.cpus() {
            let root = domain_of[cpu.index()];
            // Cpusets that overlap leave the scheduling domains as they are.
            let span = match config.has_overlapping_cpusets() {
                true => &all,
                false => &root_domains[root].span,
            };
            let domains = topology::sched_domains(&machine.topology, span, cpu, &known_masks);
            let rq = Rq::new(&mut arena, cpu, root, domains)?;
            parts.add(&mut arena, rq)?;
        }
        let CpuParts {
            rqs,
            qnodes,
            osq_nodes,
            call_queues,
            timers,
        } = parts;
        let cycles = |span: Nanos| machine.clock.cycles(span).0;
        let costs = Costs::new(machine, &config.costs);
        let placement = ActivePolicy::new(engine, &config, &costs);
        let mcs_nodes = mcs_nodes(&mut arena, &config)?;
        let fair = FairClass::new(&mut arena, rqs.len(), &config, cycles)?;
        let by_domains = config.load_balancing == LoadBalancing::Domains
            && config.balancing != Balancing::Passive;
        let balancer = by_domains.then(|| Balancer::new(engine, &rqs, SHARED_DOMAINS_BASE));
        let kernel = Rc::new(Kernel {
            balancer,
            classes: ClassStates::default(),
            deadline: OnceCell::new(),
            fair,
            costs,
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
            mcs_nodes,
            secondary_queues: SecondaryQueues::new(engine.random("cna")),
            call_queues,
            timers,
            tasks: RefCell::new(Vec::new()),
            arrivals: RefCell::new(Vec::new()),
            counts: Cell::new(KernelCounts::default()),
            rq_locks: Cell::default(),
            wake_latency: RefCell::new(Vec::new()),
            user_lines: Cell::new(0),
            mutex_count: Cell::new(0),
            lock_count: Cell::new(0),
            placement,
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
            let name = format!("swapper/{}", cpu.0);
            let spec = TaskSpec::bound(self, name, cpu, Cycles::ZERO);
            let idle = self.new_task(&spec, GroupId::ROOT, true)?;
            engine.set(rq.p.curr, u64::from(idle.id.0));
            engine.set(idle.p.on_cpu, 1);
            let kernel = Rc::clone(self);
            let stack = engine.spawn(async move { kernel.cpu_idle().await });
            self.set_stack(&idle, stack);
            self.set_cpu_footprint(rq);
            let kernel = Rc::clone(self);
            let irq_stack = engine.spawn(async move { kernel.handle_interrupts().await });
            engine.boot(cpu, stack, Some(irq_stack));
        }
        self.start_stoppers()
    }

    fn set_cpu_footprint(&self, rq: &Rq) {
        let (cpu, rt) = (rq.cpu.index(), &rq.inner.borrow().rt);
        let host = [
            HostSpan::of(rq),
            HostSpan::of(&rq.p.cfs[..]),
            HostSpan::of(&rq.p.cfs_opaque[..]),
            HostSpan::of(&rq.p.rt_queue[..FIRST_PRIOS]),
            HostSpan::of_buffer(rt.queue.buffer()),
            HostSpan::of_buffer(&rt.pushable),
            HostSpan::of(&self.timers[cpu]),
            HostSpan::of(&self.call_queues[cpu]),
        ];
        self.engine.add_cpu_footprint(rq.cpu, &host, &[rq.extent]);
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
        self.timers[spec.cpu.index()].add_first(spec.start, Expiry::Wake(task.id));
        Ok(task)
    }

    fn set_stack(&self, task: &Task, stack: StackId) {
        task.stack.set(Some(stack));
        self.add_footprint(task, &[HostSpan::of(task)], &[task.extent]);
    }

    /// Adds memory that a task uses whenever it runs, of the host and of the simulated machine. It
    /// is prefetched before the task's turn, as far as there is room. It must stay where it is.
    pub fn add_footprint(&self, task: &Task, host: &[HostSpan], simulated: &[Extent]) {
        if let Some(stack) = task.stack.get() {
            self.engine.add_stack_footprint(stack, host, simulated);
        }
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
        let (made, extent) = self.engine.extent_of(make_places);
        let (places, object) = made?;
        Class::admit(self, spec, &allowed)?;
        let dl = match spec.policy {
            Policy::Deadline(params) => {
                let arena = &mut self.arena.borrow_mut();
                Some(DlTask::new(arena, &object, params)?)
            }
            _ => None,
        };
        let (prio, state) = match is_idle {
            true => (MAX_PRIO, TASK_RUNNING),
            false => (spec.policy.prio(), TASK_INTERRUPTIBLE),
        };
        self.engine.set(places.prio, u64::from(prio));
        self.engine.set(places.state, state);
        self.engine
            .set(places.nr_cpus_allowed, allowed.count() as u64);
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
            se: self.fair.add_task(id, group, spec.cpu.index(), spec.policy),
            group,
            is_placed: Cell::new(false),
            averages: Cell::new(Averages::default()),
            wakees: Cell::new(Wakees::default()),
            ran_on: Cell::new(None),
            recent_cpu: Cell::new(spec.cpu),
            is_throttled: Cell::new(false),
            has_throttle_work: Cell::new(false),
            woken_at: Cell::new(None),
            ready: Cell::new(None),
            on_cpu_since: Cell::default(),
            on_cpu_sum: Cell::default(),
            spun_on: Cell::new(None),
            domain: RefCell::new(None),
            totals: Cell::new(TaskTotals::default()),
            pi: RefCell::new(rtmutex::PiState::default()),
            dl,
            slice: SliceExtension::default(),
            holds: RefCell::default(),
            is_idle,
        });
        self.tasks.borrow_mut().push(Rc::clone(&task));
        Ok(task)
    }
}
