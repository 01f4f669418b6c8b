//! The barrier: no running thread gets more than a window ahead of the slowest.
//!
//! A thread that has used up its budget parks here. When every present thread is parked, the last
//! one weaves what they did, which moves their clocks, and releases those that are within the
//! window of the slowest. A thread in a system call that may block is not present. A thread that a
//! FUTEX_WAKE woke counts as present from the wake on, or its waker would run alone for as long as
//! the host takes to schedule it.
//!
//! QEMU sometimes stops the world itself (translation flushes, fork), and then waits for threads
//! that are parked here. It cannot say so, so a parked thread looks up after
//! [`BarrierConfig::park_time_max`] and runs one block.

mod records;
mod time;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hitm_base::{Clock, CpuId, Cycles, ThreadId};
use hitm_trace::{Adoption, Counter, EndReason, Record, ThreadPlaced, Turn};
use hitm_weave::{Slot, Weave, WorkLog};

use crate::first_touch::{FirstTouch, Tag};
use crate::heap::Heap;
use crate::output::Output;
use crate::parker::{Parker, host_nanos};
use crate::vcpu::Vcpu;
use crate::wakes::Wakes;

/// How a barrier holds threads together.
#[derive(Debug, Clone)]
pub(crate) struct BarrierConfig {
    /// How far a thread may be ahead of the slowest.
    pub(crate) window: Cycles,
    /// CPUs in the order in which threads get them.
    pub(crate) cpu_order: Vec<CpuId>,
    /// How long a thread stays parked at most before it runs a block.
    pub(crate) park_time_max: Duration,
    /// Time goes on, as the host's does, while no thread is present. Otherwise it stands still.
    pub(crate) idle_time_passes: bool,
}

/// Rounds after which the threads' totals are written: some ten million virtual cycles.
const TOTALS_EVERY_ROUNDS: u64 = 1000;

/// A thread as the barrier sees it.
#[derive(Debug)]
struct Member {
    parker: Arc<Parker>,
    tid: u32,
    seat: u32,
    state: State,
    /// What the thread's own counts were when it was here last.
    accesses: u64,
    log: WorkLog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Parked,
    /// Parked, and told to run this many more instructions.
    Released(u64),
    /// In a system call, or at its end.
    Away,
}

#[derive(Debug)]
struct Inner {
    weave: Weave,
    output: Output,
    members: Vec<Member>,
    present_count: usize,
    /// Slots that are parked and not released.
    parked: Vec<usize>,
    /// Threads that a futex wake has made runnable and that have not come back yet. May fall
    /// below zero when a sleeper is faster than its waker's return.
    awaited_wakes: i64,
    wakes: Wakes,
    /// CPUs in the order in which threads get them.
    cpu_order: Vec<CpuId>,
    /// Tops of the stacks of threads that have not run yet, by tid.
    stacks: BTreeMap<u32, u64>,
    counters: Counters,
    further_counters: Vec<Counter>,
    round_count: u64,
    finished: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) forked_children: u64,
    pub(crate) exec_calls: u64,
    timed_out_parks: u64,
    out_of_range: u64,
}

/// The barrier of one recorded process.
#[derive(Debug)]
pub(crate) struct Barrier {
    inner: Mutex<Inner>,
    heap: &'static Heap,
    first_touch: &'static FirstTouch,
    window: Cycles,
    park_time_max: Duration,
    idle_time_passes: bool,
    /// Virtual time in nanoseconds, for whoever must not wait for the lock. While all threads are
    /// away it may be ahead of the weave's.
    nanos: AtomicU64,
    /// Whether any thread is present, for whoever must not wait for the lock.
    all_away: AtomicBool,
    /// The host's time since when the recording is over, in nanoseconds; 0 until then.
    over_since_nanos: AtomicU64,
    clock: Clock,
    /// The recording is over: nobody waits any more.
    over: AtomicBool,
}

impl Barrier {
    pub(crate) fn new(
        weave: Weave,
        output: Output,
        (heap, first_touch): (&'static Heap, &'static FirstTouch),
        config: BarrierConfig,
    ) -> Barrier {
        let clock = weave.machine().clock;
        Barrier {
            inner: Mutex::new(Inner {
                weave,
                output,
                members: Vec::new(),
                present_count: 0,
                parked: Vec::new(),
                awaited_wakes: 0,
                wakes: Wakes::default(),
                cpu_order: config.cpu_order,
                stacks: BTreeMap::new(),
                counters: Counters::default(),
                further_counters: Vec::new(),
                round_count: 0,
                finished: false,
            }),
            heap,
            first_touch,
            window: config.window,
            park_time_max: config.park_time_max,
            idle_time_passes: config.idle_time_passes,
            nanos: AtomicU64::new(0),
            all_away: AtomicBool::new(false),
            over_since_nanos: AtomicU64::new(0),
            clock,
            over: AtomicBool::new(false),
        }
    }

    /// Whether the recording is over.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The recording ends without another word: this process is a forked child.
    pub(crate) fn abandon(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A new thread, called on that thread. Its CPU follows from QEMU's `index` of it, which is
    /// given at its creation: when threads come here, in their first blocks, is up to the host.
    pub(crate) fn enter(&self, index: u32, tid: u32, name: String) -> Vcpu {
        let mut inner = self.lock();
        let cpu = inner.cpu_order[index as usize % inner.cpu_order.len()];
        self.end_idle_time(&mut inner);
        let thread = ThreadId(inner.members.len() as u32);
        let slot = inner.weave.add_thread(thread, cpu);
        inner.members.push(Member {
            parker: Arc::default(),
            tid,
            seat: index,
            state: State::Running,
            accesses: 0,
            log: WorkLog::default(),
        });
        inner.present_count += 1;
        inner.record_start(slot, name);
        if let Some(stack) = inner.stacks.remove(&tid) {
            inner.record_stack(thread, stack);
        }
        let now = inner.weave.now();
        Vcpu::new(slot, Tag::of_thread(thread.0), now, self.first_touch)
    }

    /// The thread has a new name: its start, told again.
    pub(crate) fn rename(&self, vcpu: &Vcpu, name: String) {
        self.lock().record_start(vcpu.slot, name);
    }

    /// The new thread `tid` has the stack whose top is `stack`. It may have run already, or not.
    pub(crate) fn has_stack(&self, tid: u32, stack: u64) {
        let mut inner = self.lock();
        match inner.slot_of(tid) {
            Some(slot) => inner.record_stack(ThreadId(slot as u32), stack),
            None => drop(inner.stacks.insert(tid, stack)),
        }
    }

    /// The thread has used up its budget: it parks until it has a new one.
    pub(crate) fn wait(&self, vcpu: &mut Vcpu) {
        let mut inner = self.lock();
        inner.take_in(vcpu, self.heap);
        inner.park(vcpu.slot);
        let parker = Arc::clone(&inner.members[vcpu.slot.0].parker);
        loop {
            if self.is_over() {
                inner.unpark(vcpu.slot);
                vcpu.limit = u64::MAX;
                return;
            }
            if inner.everybody_is_here() {
                self.round(&mut inner);
            }
            if let State::Released(budget) = inner.members[vcpu.slot.0].state {
                inner.members[vcpu.slot.0].state = State::Running;
                vcpu.release(budget, inner.weave.now());
                return;
            }
            drop(inner);
            let timed_out = parker.park(self.park_time_max);
            inner = self.lock();
            if timed_out && inner.members[vcpu.slot.0].state == State::Parked {
                inner.counters.timed_out_parks += 1;
                inner.awaited_wakes = 0;
                if !inner.everybody_is_here() {
                    inner.unpark(vcpu.slot);
                    vcpu.release(1, inner.weave.now());
                    return;
                }
            }
        }
    }

    /// The thread goes into a system call that may block, or to its end.
    pub(crate) fn leave(&self, vcpu: &mut Vcpu) {
        let mut inner = self.lock();
        inner.take_in(vcpu, self.heap);
        inner.weave.leave(vcpu.slot);
        inner.record_turn(Turn::Left {
            thread: ThreadId(vcpu.slot.0 as u32),
        });
        inner.members[vcpu.slot.0].state = State::Away;
        inner.present_count -= 1;
        if inner.everybody_is_here() && !self.is_over() {
            self.round(&mut inner);
        }
        if inner.present_count == 0 {
            self.all_away.store(true, Ordering::Release);
        }
    }

    /// The thread is back from a system call. `woken_at`: from a wait at that futex, which a wake
    /// ended.
    pub(crate) fn rejoin(&self, vcpu: &mut Vcpu, woken_at: Option<u64>) {
        let mut inner = self.lock();
        if woken_at.is_some() {
            inner.awaited_wakes -= 1;
        }
        self.end_idle_time(&mut inner);
        inner.weave.join(vcpu.slot);
        inner.record_return(vcpu.slot, woken_at);
        inner.members[vcpu.slot.0].state = State::Running;
        inner.present_count += 1;
        let budget = inner.weave.budget(vcpu.slot, self.window);
        vcpu.release(budget, inner.weave.now());
    }

    /// As [`Barrier::rejoin`], for a CPU that may not have left.
    pub(crate) fn rejoin_if_away(&self, vcpu: &mut Vcpu) {
        let is_away = self.lock().members[vcpu.slot.0].state == State::Away;
        if is_away {
            self.rejoin(vcpu, None);
        }
    }

    /// The thread is about to wake those that wait at `futex`.
    pub(crate) fn wakes_at(&self, vcpu: &Vcpu, futex: u64) {
        self.lock().wakes.asked(futex, vcpu.wake());
    }

    /// The thread is at its end.
    pub(crate) fn ends(&self, vcpu: &Vcpu) {
        self.lock().wakes.ended(vcpu.wake());
    }

    /// A futex wake made `count` threads runnable.
    pub(crate) fn expect_woken(&self, count: i64) {
        self.lock().awaited_wakes += count;
    }

    /// The program pins the thread `tid` (0: `vcpu`'s own) to the CPUs of a mask. When that is one
    /// CPU, and the modelled machine has it, the thread runs there from now on.
    pub(crate) fn pin(&self, vcpu: &Vcpu, tid: u32, mask: &[CpuId]) {
        let mut inner = self.lock();
        let slot = match tid {
            0 => Some(vcpu.slot.0),
            _ => inner.slot_of(tid),
        };
        let cpu_count = inner.weave.machine().topology.cpu_count();
        let cpu = mask.iter().copied().find(|cpu| cpu.index() < cpu_count);
        // A mask of all CPUs, or of those that the host has, is no wish for a place.
        if let (Some(slot), Some(cpu), true) = (slot, cpu, mask.len() == 1) {
            inner.weave.place(Slot(slot), cpu);
            let time = inner.weave.now();
            let placed = ThreadPlaced {
                thread: ThreadId(slot as u32),
                cpu,
                time,
            };
            inner.output.record(&Record::ThreadPlaced(placed));
        }
    }

    /// The thread's virtual clock.
    pub(crate) fn clock(&self, vcpu: &Vcpu) -> Cycles {
        self.lock().weave.clock(vcpu.slot)
    }

    /// Writes a record that is no access.
    pub(crate) fn record(&self, record: &Record) {
        self.lock().output.record(record);
    }

    /// Counts something about the recording.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.lock().counters);
    }

    /// Counts that the caller has kept itself, for the end of the recording.
    pub(crate) fn add_counters(&self, counters: impl IntoIterator<Item = Counter>) {
        self.lock().further_counters.extend(counters);
    }

    /// Makes everything that the thread did part of the recording, now.
    pub(crate) fn flush(&self, vcpu: &mut Vcpu) {
        let mut inner = self.lock();
        inner.take_in(vcpu, self.heap);
        inner.weave_all();
    }

    /// Nothing more is recorded; the recording's end is still to come.
    pub(crate) fn stop(&self, vcpu: &mut Vcpu) {
        let mut inner = self.lock();
        inner.take_in(vcpu, self.heap);
        inner.weave_all();
        self.release_all(&inner);
    }

    /// The end of the recording.
    pub(crate) fn finish(&self, vcpu: Option<&mut Vcpu>, reason: EndReason) {
        let mut inner = self.lock();
        if inner.finished {
            return;
        }
        if let Some(vcpu) = vcpu {
            inner.take_in(vcpu, self.heap);
        }
        self.end(&mut inner, reason);
    }

    /// Writes the recording's end and lets every thread go.
    fn end(&self, inner: &mut Inner, reason: EndReason) {
        inner.finish(reason);
        self.release_all(inner);
    }

    /// Lets every thread go, for good.
    fn release_all(&self, inner: &Inner) {
        self.over.store(true, Ordering::Relaxed);
        if self.idle_time_passes && self.over_since_nanos.load(Ordering::Relaxed) == 0 {
            // Nobody drives the clock any more, and a guest that sleeps must wake up.
            self.publish_time(inner);
            self.over_since_nanos.store(host_nanos(), Ordering::Relaxed);
        }
        for member in &inner.members {
            member.parker.unpark();
        }
    }

    /// Weaves, and releases the threads that are within the window of the slowest.
    fn round(&self, inner: &mut Inner) {
        inner.weave_all();
        self.publish_time(inner);
        if inner.output.stop_requested() {
            self.end(inner, EndReason::Stopped);
            return;
        }
        inner.release(self.window);
        inner.round_count += 1;
        if inner.round_count.is_multiple_of(TOTALS_EVERY_ROUNDS) {
            inner.record_totals();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("a panic in the recorder ends the process")
    }
}

impl Inner {
    /// Takes over what the thread did since it was here last.
    fn take_in(&mut self, vcpu: &mut Vcpu, heap: &Heap) {
        vcpu.keep_aside();
        if self.finished {
            vcpu.events.clear();
            return;
        }
        let mut adoptions = Vec::with_capacity(vcpu.adoptions.len());
        for adoption in vcpu.adoptions.drain(..) {
            let owner = adoption.former.owner.first_thread();
            let is_written = adoption.former.written;
            let line = adoption.line;
            self.weave.adopt(line, Slot(owner as usize), is_written);
            for object in heap.objects_on(line) {
                self.output.record(&Record::HeapObject(object));
            }
            adoptions.push(Adoption {
                line: self.output.written_line(line),
                owner: ThreadId(owner),
                is_written,
            });
        }
        self.weave.push(vcpu.slot, &vcpu.events, vcpu.position());
        let thread = ThreadId(vcpu.slot.0 as u32);
        let output = &mut self.output;
        self.members[vcpu.slot.0].log.note(
            thread,
            &adoptions,
            (&vcpu.events, vcpu.position()),
            &mut |work| output.record(&Record::Work(work)),
        );
        vcpu.events.clear();
        self.members[vcpu.slot.0].accesses = vcpu.accesses;
        self.counters.out_of_range += std::mem::take(&mut vcpu.out_of_range);
    }

    /// The latest thread with this tid: tids are used again.
    fn slot_of(&self, tid: u32) -> Option<usize> {
        self.members.iter().rposition(|member| member.tid == tid)
    }

    fn park(&mut self, slot: Slot) {
        self.members[slot.0].state = State::Parked;
        self.parked.push(slot.0);
    }

    fn unpark(&mut self, slot: Slot) {
        self.parked.retain(|parked| *parked != slot.0);
        self.members[slot.0].state = State::Running;
    }

    fn everybody_is_here(&self) -> bool {
        self.parked.len() == self.present_count && self.present_count > 0 && self.awaited_wakes <= 0
    }

    fn weave_all(&mut self) {
        self.record_turn(Turn::Priced);
        let output = &mut self.output;
        self.weave
            .advance(&mut |access, outcome| output.access(access, outcome));
        self.output.commit();
    }

    fn release(&mut self, window: Cycles) {
        let parked_count = self.parked.len();
        let (weave, members) = (&self.weave, &mut self.members);
        self.parked.retain(|&slot| {
            let budget = weave.budget(Slot(slot), window);
            if budget > 0 {
                members[slot].state = State::Released(budget);
                members[slot].parker.unpark();
            }
            budget == 0
        });
        assert!(
            self.parked.len() < parked_count,
            "the slowest thread is within its own window"
        );
    }
}
