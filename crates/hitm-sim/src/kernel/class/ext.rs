//! A class with one queue for all CPUs: `sched_ext`, kernel/sched/ext.c, v6.12, with the BPF program of
//! tools/sched_ext/scx_simple.bpf.c and its option `-f`.
//!
//! **What Linux does:** a BPF program chooses the dispatch queues on which tasks of `SCHED_EXT` wait. They run when
//! no fair task wants the CPU. A woken task goes to an idle CPU if there is one: the waker takes the CPU's bit
//! from a mask and puts the task on that CPU's own queue. All others wait on a queue that the CPUs share, first
//! come, first served. A CPU without a task takes the first that may run there. It unlinks the task under the
//! queue's lock, then locks the task's run queue. A task that has used its slice of 20 ms goes to the end. One
//! that a higher class preempts stays at the head of its CPU's own queue.
//!
//! **What we do:** the same. Lock and head of the shared queue are words of one line, the mask of idle CPUs is behind it.
//! Queues are kept by value, with an access for each node.
//!
//! **What a test could notice:** tasks of other policies stay with their classes (`SCX_OPS_SWITCH_PARTIAL`). Cores
//! that are wholly idle are not preferred, and a waker that is about to sleep makes no room. Heads of the CPUs' own queues,
//! the built-in global queues, which stay empty, and the program itself cost nothing. There is no watchdog, no
//! bypass, no control group. Ticks look at slices. A node has a line to itself.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, LINE_SIZE, Nanos};

use super::{Class, Enqueue, OwnPolicy, SchedClass};
use crate::engine::{MemberKey, Opaque, Place, Rmw, SimError};
use crate::kernel::core::Wake;
use crate::kernel::fair::Dequeue;
use crate::kernel::functions as f;
use crate::kernel::rq::Rq;
use crate::kernel::rt::Balancing;
use crate::kernel::task::{Policy, Task, TaskId};
use crate::kernel::{CpuMask, Kernel, TaskSpec};

/// Time after which a task goes to the end of the queue: `SCX_SLICE_DFL`.
const SLICE: Nanos = Nanos(20e6);
/// The shared queue, the mask of idle CPUs and the tasks' nodes begin here.
const SHARED: u64 = 0x6f30_0000_0000;
const IDLE: u64 = SHARED + LINE_SIZE;
const NODES: u64 = SHARED + (1 << 20);

/// The queue that a task is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// None: it runs or sleeps.
    None,
    /// None yet: its waker has found an idle CPU, whose own queue it will be on.
    Direct,
    Local,
    Shared,
    /// None any more: this CPU has unlinked it and waits for its run queue (`holding_cpu`).
    Held(CpuId),
}

/// `struct sched_ext_entity`.
#[derive(Debug)]
struct Entity {
    node: Opaque,
    slice: Cell<Cycles>,
    queue: Cell<Queue>,
}

#[derive(Debug)]
struct State {
    slice: Cycles,
    lock: Place,
    /// The number of the first task and 1, or 0.
    head: Place,
    tasks: RefCell<VecDeque<TaskId>>,
    /// `idle_masks.cpu`, 64 CPUs a word.
    idle: Vec<Place>,
    /// The own queue of each CPU, protected by its run queue's lock.
    locals: Vec<RefCell<VecDeque<TaskId>>>,
    entities: RefCell<BTreeMap<TaskId, Rc<Entity>>>,
}

/// The class. Its state is made with its first task: without one nothing changes.
#[derive(Debug, Default)]
pub(in crate::kernel) struct ExtClass(OnceCell<State>);

impl State {
    fn new(kernel: &Kernel) -> State {
        let (engine, all) = (&kernel.engine, CpuMask::all(kernel.cpu_count()));
        let place = |address: u64, object: &str, path: &str| {
            engine.place(
                address,
                CpuId(0),
                MemberKey::new(object, path, address % LINE_SIZE),
            )
        };
        // As `reset_idle_masks` has it. The bit of a busy CPU goes with the first task that is sent there.
        let idle = |index: usize| {
            let word = place(IDLE + index as u64 * 8, "idle_masks", "cpu");
            engine.set(word, all.word(index));
            word
        };
        State {
            slice: kernel.cycles(SLICE),
            lock: place(SHARED, "scx_dispatch_q", "lock"),
            head: place(SHARED + 8, "scx_dispatch_q", "list"),
            tasks: RefCell::default(),
            idle: (0..all.word_count()).map(idle).collect(),
            locals: kernel.rqs.iter().map(|_| RefCell::default()).collect(),
            entities: RefCell::default(),
        }
    }

    fn local(&self, rq: &Rq) -> RefMut<'_, VecDeque<TaskId>> {
        self.locals[rq.cpu.index()].borrow_mut()
    }

    fn entity(&self, kernel: &Kernel, p: &Task) -> Rc<Entity> {
        let mut entities = self.entities.borrow_mut();
        let entity = entities.entry(p.id).or_insert_with(|| {
            let address = NODES + u64::from(p.id.0) * LINE_SIZE;
            let key = MemberKey::new("sched_ext_entity", "dsq_list", 0);
            let node = kernel.engine.place(address, p.cpu.get(), key);
            Rc::new(Entity {
                node: kernel.engine.opaque(node),
                slice: Cell::new(self.slice),
                queue: Cell::new(Queue::None),
            })
        });
        Rc::clone(entity)
    }

    /// `test_and_clear_cpu_idle`.
    async fn take_idle(&self, kernel: &Kernel, cpu: CpuId) -> bool {
        let bit = 1 << (cpu.index() % 64);
        let (site, word) = (f::SELECT_TASK_RQ_SCX, self.idle[cpu.index() / 64]);
        kernel.engine.rmw(site, word, Rmw::And(!bit)).await & bit != 0
    }

    /// `scx_pick_idle_cpu`: another one of those that the task may use each time.
    async fn pick_idle(&self, kernel: &Kernel, p: &Task) -> Option<CpuId> {
        let engine = &kernel.engine;
        let previous = &kernel.rq(engine.cpu()).distribute_prev;
        let mut idle = CpuMask::empty(kernel.cpu_count());
        loop {
            let take = |index, word| idle.set_word(index, word);
            engine
                .load_all(f::SELECT_TASK_RQ_SCX, &self.idle, take)
                .await;
            let cpu = idle.next_and_wrapping(&p.allowed.borrow(), previous.get())?;
            previous.set(Some(cpu));
            if self.take_idle(kernel, cpu).await {
                return Some(cpu);
            }
        }
    }

    /// `dispatch_enqueue` to the shared queue, with a new slice.
    async fn enqueue_shared(&self, kernel: &Kernel, p: &Task) {
        let (engine, site, entity) = (&kernel.engine, f::ENQUEUE_TASK_SCX, self.entity(kernel, p));
        entity.slice.set(self.slice);
        kernel.spin_lock(self.lock).await;
        entity.queue.set(Queue::Shared);
        let last = self.tasks.borrow().back().copied();
        self.tasks.borrow_mut().push_back(p.id);
        engine.dirty(site, entity.node).await;
        match last.map(|last| kernel.task(last)) {
            Some(last) => engine.dirty(site, self.entity(kernel, &last).node).await,
            None => engine.store(site, self.head, u64::from(p.id.0) + 1).await,
        }
        kernel.spin_unlock(self.lock).await;
    }

    /// Takes a task off the shared queue, which is locked.
    async fn unlink(&self, kernel: &Kernel, p: &Task) {
        let (site, node) = (f::CONSUME_DISPATCH_Q, self.entity(kernel, p).node);
        kernel.engine.dirty(site, node).await;
        let was_first = self.tasks.borrow().front() == Some(&p.id);
        self.tasks.borrow_mut().retain(|id| *id != p.id);
        if was_first {
            let head = self
                .tasks
                .borrow()
                .front()
                .map_or(0, |id| u64::from(id.0) + 1);
            kernel.engine.store(site, self.head, head).await;
        }
    }

    /// The first task of the shared queue, which is locked, that may run here, and the CPU that it is on.
    async fn first_for(&self, kernel: &Kernel, cpu: CpuId) -> Option<(Rc<Task>, CpuId)> {
        let (engine, site) = (&kernel.engine, f::CONSUME_DISPATCH_Q);
        let tasks: Vec<TaskId> = self.tasks.borrow().iter().copied().collect();
        for p in tasks.into_iter().map(|id| kernel.task(id)) {
            engine.touch(site, self.entity(kernel, &p).node).await;
            let from = CpuId(engine.load(site, p.p.cpu).await as u16);
            if from == cpu || p.may_run_on(cpu) {
                return Some((p, from));
            }
        }
        None
    }

    /// `consume_dispatch_q`: a task comes from the shared queue to this CPU's own. The lock of the run queue is dropped
    /// for one of another CPU.
    async fn consume(&self, kernel: &Kernel, rq: &Rq) -> bool {
        // Looked at without the lock, as in Linux: one that comes now is left to the next look.
        while kernel.engine.load(f::CONSUME_DISPATCH_Q, self.head).await != 0 {
            kernel.spin_lock(self.lock).await;
            let Some((p, from)) = self.first_for(kernel, rq.cpu).await else {
                kernel.spin_unlock(self.lock).await;
                return false;
            };
            self.unlink(kernel, &p).await;
            if from == rq.cpu {
                self.entity(kernel, &p).queue.set(Queue::Local);
                self.local(rq).push_back(p.id);
                kernel.spin_unlock(self.lock).await;
                return true;
            }
            self.entity(kernel, &p).queue.set(Queue::Held(rq.cpu));
            kernel.rq_unlock(rq).await;
            kernel.spin_unlock(self.lock).await;
            if self.move_held(kernel, &p, kernel.rq(from), rq).await {
                return true;
            }
        }
        false
    }

    /// `consume_remote_task`: false if the task was dequeued meanwhile. Locks `to`.
    async fn move_held(&self, kernel: &Kernel, p: &Task, from: &Rq, to: &Rq) -> bool {
        let entity = self.entity(kernel, p);
        kernel.rq_lock(from).await;
        let is_held = entity.queue.get() == Queue::Held(to.cpu);
        if is_held {
            kernel.deactivate_task(from, p, false).await;
            kernel.set_task_cpu(p, to.cpu).await;
            entity.queue.set(Queue::Direct);
        }
        kernel.rq_unlock(from).await;
        kernel.rq_lock(to).await;
        if is_held {
            kernel.activate_task(to, p).await;
        }
        is_held
    }

    /// Charges a running task for its time; returns true if it has a slice left.
    async fn update_curr(&self, kernel: &Kernel, curr: &Task) -> bool {
        let span = kernel.update_curr_common(curr, f::UPDATE_CURR_SCX).await;
        let slice = &self.entity(kernel, curr).slice;
        slice.set(slice.get().saturating_sub(span));
        slice.get() > Cycles::ZERO
    }
}

/// The state, with a task of the class.
fn state(kernel: &Kernel) -> &State {
    kernel.classes.ext.0.get_or_init(|| State::new(kernel))
}

/// The running task, if it is of the class and does not sleep.
fn runnable_curr(kernel: &Kernel, rq: &Rq) -> Option<Rc<Task>> {
    let curr = kernel.task(rq.curr.get());
    (curr.class() == Class::Ext && curr.on_rq.get()).then_some(curr)
}

impl SchedClass for ExtClass {
    fn has(p: &Task) -> bool {
        p.policy.get() == Policy::Own(OwnPolicy::Ext)
    }

    fn admit(kernel: &Kernel, spec: &TaskSpec, _allowed: &CpuMask) -> Result<(), SimError> {
        if spec.policy != Policy::Own(OwnPolicy::Ext) {
            return Ok(());
        }
        if kernel.balancing.get() == Balancing::Passive {
            return Err(SimError::Workload(format!(
                "task {} of SCHED_EXT: found a kernel from before 6.12, expected one that has the class",
                spec.name
            )));
        }
        state(kernel);
        Ok(())
    }

    async fn enqueue_task(kernel: &Kernel, rq: &Rq, p: &Task, _why: Enqueue) {
        let (state, site) = (state(kernel), f::ENQUEUE_TASK_SCX);
        let entity = state.entity(kernel, p);
        kernel.engine.call(site, kernel.costs.function);
        kernel.add_nr_running(site, rq, 1).await;
        if rq.curr.get() == p.id {
            entity.queue.set(Queue::None);
        } else if entity.queue.get() == Queue::Direct {
            entity.queue.set(Queue::Local);
            state.local(rq).push_back(p.id);
            kernel.engine.dirty(site, entity.node).await;
        } else {
            state.enqueue_shared(kernel, p).await;
        }
    }

    async fn dequeue_task(kernel: &Kernel, rq: &Rq, p: &Task, _how: Dequeue) -> bool {
        let (state, site) = (state(kernel), f::DEQUEUE_TASK_SCX);
        let entity = state.entity(kernel, p);
        kernel.engine.call(site, kernel.costs.function);
        if rq.curr.get() == p.id {
            state.update_curr(kernel, p).await;
        }
        kernel.sub_nr_running(site, rq, 1).await;
        kernel.engine.touch(site, entity.node).await;
        if matches!(entity.queue.get(), Queue::Shared | Queue::Held(_)) {
            kernel.spin_lock(state.lock).await;
            if entity.queue.get() == Queue::Shared {
                state.unlink(kernel, p).await;
            }
            // A CPU that holds it sees that it is too late.
            entity.queue.set(Queue::None);
            kernel.spin_unlock(state.lock).await;
        }
        entity.queue.set(Queue::None);
        state.local(rq).retain(|id| *id != p.id);
        true
    }

    /// The running task while it has a slice left, else the first of the CPU's own queue.
    async fn pick_task(kernel: &Kernel, rq: &Rq) -> Option<Rc<Task>> {
        let state = kernel.classes.ext.0.get()?;
        if let Some(curr) = runnable_curr(kernel, rq)
            && state.update_curr(kernel, &curr).await
        {
            return Some(curr);
        }
        let first = state.local(rq).front().copied();
        first.map(|id| kernel.task(id))
    }

    async fn newidle(kernel: &Kernel, rq: &Rq) -> bool {
        let Some(state) = kernel.classes.ext.0.get() else {
            return false;
        };
        if state.consume(kernel, rq).await {
            return true;
        }
        // Nobody waits: the running task has another slice.
        let curr = runnable_curr(kernel, rq);
        curr.inspect(|curr| state.entity(kernel, curr).slice.set(state.slice))
            .is_some()
    }

    async fn put_prev_task(kernel: &Kernel, rq: &Rq, p: &Task) {
        let state = state(kernel);
        if !p.on_rq.get() {
            return;
        }
        if state.update_curr(kernel, p).await {
            state.entity(kernel, p).queue.set(Queue::Local);
            state.local(rq).push_front(p.id);
        } else {
            state.enqueue_shared(kernel, p).await;
        }
    }

    async fn set_next_task(kernel: &Kernel, rq: &Rq, p: &Task) {
        let (state, site, now) = (state(kernel), f::PICK_TASK_SCX, kernel.engine.now());
        let entity = state.entity(kernel, p);
        entity.queue.set(Queue::None);
        state.local(rq).retain(|id| *id != p.id);
        p.exec_start.set(now);
        kernel.engine.dirty(site, entity.node).await;
        kernel.engine.store(site, p.p.exec_start, now.0).await;
    }

    async fn task_tick(kernel: &Kernel, rq: &Rq, curr: &Task) {
        if !state(kernel).update_curr(kernel, curr).await {
            kernel.resched_curr(rq).await;
        }
    }

    async fn yield_task(kernel: &Kernel, _rq: &Rq, p: &Task) {
        let entity = state(kernel).entity(kernel, p);
        entity.slice.set(Cycles::ZERO);
    }

    /// `scx_select_cpu_dfl`.
    async fn select_task_rq(kernel: &Kernel, p: &Task, cpu: CpuId, _wake: Wake) -> CpuId {
        let (state, site) = (state(kernel), f::SELECT_TASK_RQ_SCX);
        kernel.engine.call(site, kernel.costs.function);
        let idle = match state.take_idle(kernel, cpu).await {
            true => Some(cpu),
            false => state.pick_idle(kernel, p).await,
        };
        if idle.is_some() {
            let entity = state.entity(kernel, p);
            entity.slice.set(state.slice);
            entity.queue.set(Queue::Direct);
        }
        idle.unwrap_or(cpu)
    }

    async fn update_idle(kernel: &Kernel, rq: &Rq, is_idle: bool) {
        let Some(state) = kernel.classes.ext.0.get() else {
            return;
        };
        let (bit, word) = (1 << (rq.cpu.index() % 64), state.idle[rq.cpu.index() / 64]);
        let change = if is_idle {
            Rmw::Or(bit)
        } else {
            Rmw::And(!bit)
        };
        kernel.engine.rmw(f::SCX_UPDATE_IDLE, word, change).await;
    }
}
