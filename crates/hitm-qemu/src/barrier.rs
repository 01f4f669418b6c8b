//! The barrier of a recorded machine: no running CPU gets more than a window ahead of the slowest.
//!
//! The CPUs are the threads of one process, so the last one that parks weaves what they did
//! ([`hitm_weave::Group`]) and lets the others continue. Programs have many processes; their
//! threads are held together by `hitm record` (`port`).
//!
//! QEMU sometimes stops the world itself (translation flushes), and then waits for CPUs that are
//! parked here. It cannot say so, so a parked CPU looks up after [`BarrierConfig::park_time_max`]
//! and runs one block.

mod time;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hitm_base::{Clock, CpuId, Cycles};
use hitm_trace::ring::Producer;
use hitm_trace::{Counter, EndReason};
use hitm_weave::{Group, Newcomer, Output, ProgramCpus, State, Weave};

use crate::first_touch::{FirstTouch, Tag};
use crate::locks::{Rank, RankedMutex};
use crate::parker::{Parker, host_nanos};
use crate::vcpu::Vcpu;

/// Time that the recorder sleeps while the ring is full.
const RING_FULL_WAIT: Duration = Duration::from_micros(100);

/// Limits within which a barrier holds threads together.
#[derive(Debug, Clone)]
pub(crate) struct BarrierConfig {
    /// Cycles that a thread may be ahead of the slowest.
    pub(crate) window: Cycles,
    /// CPUs in the order in which threads get them.
    pub(crate) cpu_order: Vec<CpuId>,
    /// Longest time that a thread stays parked before it runs a block.
    pub(crate) park_time_max: Duration,
}

#[derive(Debug)]
struct Inner {
    group: Group,
    /// By slot.
    parkers: Vec<Arc<Parker>>,
}

/// The barrier of one recorded machine. Its time advances, as the host's does, while no CPU is
/// present.
#[derive(Debug)]
pub(crate) struct Barrier {
    inner: RankedMutex<Inner>,
    first_touch: &'static FirstTouch,
    window: Cycles,
    park_time_max: Duration,
    /// Virtual time in nanoseconds, for readers that must not wait for the lock. While all threads
    /// are away it may be ahead of the weave's.
    nanos: AtomicU64,
    /// True while all threads are away, for readers that must not wait for the lock.
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
        producer: Producer,
        first_touch: &'static FirstTouch,
        config: BarrierConfig,
    ) -> Barrier {
        let clock = weave.machine().clock;
        let output = Output::of_kernel(producer, wait_for_reader);
        let inner = Inner {
            group: Group::new(weave, output, ProgramCpus::all(config.cpu_order)),
            parkers: Vec::new(),
        };
        Barrier {
            inner: RankedMutex::new(Rank::Barrier, inner),
            first_touch,
            window: config.window,
            park_time_max: config.park_time_max,
            nanos: AtomicU64::new(0),
            all_away: AtomicBool::new(false),
            over_since_nanos: AtomicU64::new(0),
            clock,
            over: AtomicBool::new(false),
        }
    }

    /// Returns true if the recording is over.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// A new CPU, called on its thread. Its modelled CPU follows from QEMU's `index` of it: when CPUs
    /// come here, in their first blocks, is up to the host.
    pub(crate) fn enter(&self, index: u32, name: String) -> Vcpu {
        let mut inner = self.inner.lock();
        self.end_idle_time(&mut inner.group);
        let newcomer = Newcomer {
            tid: index,
            seat: index,
            process: 0,
        };
        let slot = inner.group.enter(newcomer, name);
        inner.parkers.push(Arc::default());
        let tag = Tag::of_thread(slot.0 as u32);
        Vcpu::new(slot, tag, inner.group.now(), self.first_touch)
    }

    /// The CPU has used up its budget: it parks until it has a new one.
    pub(crate) fn wait(&self, vcpu: &mut Vcpu) {
        let mut inner = self.inner.lock();
        inner.take_in(vcpu);
        inner.group.park(vcpu.slot);
        let parker = Arc::clone(&inner.parkers[vcpu.slot.0]);
        loop {
            if self.is_over() {
                inner.group.unpark(vcpu.slot);
                vcpu.limit = u64::MAX;
                return;
            }
            if inner.group.everybody_is_here() {
                self.round(&mut inner);
            }
            if let Some(budget) = inner.group.start(vcpu.slot) {
                inner.release(vcpu, budget);
                return;
            }
            drop(inner);
            let timed_out = parker.park(self.park_time_max);
            inner = self.inner.lock();
            if timed_out && inner.group.state(vcpu.slot) == State::Parked {
                inner.group.time_out();
                if !inner.group.everybody_is_here() {
                    inner.group.unpark(vcpu.slot);
                    inner.release(vcpu, 1);
                    return;
                }
            }
        }
    }

    /// The CPU goes idle.
    pub(crate) fn leave(&self, vcpu: &mut Vcpu) {
        let mut inner = self.inner.lock();
        inner.take_in(vcpu);
        inner.group.leave(vcpu.slot);
        if inner.group.everybody_is_here() && !self.is_over() {
            self.round(&mut inner);
        }
        if inner.group.present_count() == 0 {
            self.all_away.store(true, Ordering::Release);
        }
    }

    /// The CPU runs again, if it had left.
    pub(crate) fn rejoin_if_away(&self, vcpu: &mut Vcpu) {
        let mut inner = self.inner.lock();
        if inner.group.state(vcpu.slot) != State::Away {
            return;
        }
        self.end_idle_time(&mut inner.group);
        let budget = inner.group.rejoin(vcpu.slot, self.window);
        inner.release(vcpu, budget);
    }

    /// Counts that the caller has kept itself, for the end of the recording.
    pub(crate) fn add_counters(&self, counters: impl IntoIterator<Item = Counter>) {
        self.inner.lock().group.add_counters(counters);
    }

    /// Nothing more is recorded; the recording's end is still to come.
    pub(crate) fn stop(&self, vcpu: &mut Vcpu) {
        let mut inner = self.inner.lock();
        inner.take_in(vcpu);
        self.weave_all(&mut inner.group);
        self.release_all(&inner);
    }

    /// The end of the recording.
    pub(crate) fn finish(&self, reason: EndReason) {
        let mut inner = self.inner.lock();
        if !inner.group.is_finished() {
            self.end(&mut inner, reason);
        }
    }

    /// Writes the recording's end and lets every thread go.
    fn end(&self, inner: &mut Inner, reason: EndReason) {
        inner.group.finish(reason);
        self.release_all(inner);
    }

    /// Lets every thread go, for good.
    fn release_all(&self, inner: &Inner) {
        self.over.store(true, Ordering::Relaxed);
        if self.over_since_nanos.load(Ordering::Relaxed) == 0 {
            // Nobody drives the clock any more, and a guest that sleeps must wake up.
            self.publish_time(&inner.group);
            self.over_since_nanos.store(host_nanos(), Ordering::Relaxed);
        }
        for parker in &inner.parkers {
            parker.unpark();
        }
    }

    /// Weaves, and gives lines back to threads that have used them alone for long.
    fn weave_all(&self, group: &mut Group) {
        group.weave_all();
        let mut count = 0;
        for lonely in group.take_lonely() {
            let tag = Tag::of_thread(lonely.thread.0);
            let owner = self.first_touch.toucher(tag, lonely.time);
            let addr = lonely.line.first_byte();
            let is_done = self
                .first_touch
                .make_private(addr, owner, lonely.is_written);
            count += u64::from(is_done);
        }
        group.count_reprivatised(count);
    }

    /// Weaves, and releases the threads that are within the window of the slowest.
    fn round(&self, inner: &mut Inner) {
        self.weave_all(&mut inner.group);
        self.publish_time(&inner.group);
        if inner.group.stop_requested() {
            self.end(inner, EndReason::Stopped);
            return;
        }
        let mut released = Vec::new();
        inner.group.release(self.window, &mut released);
        for slot in released {
            inner.parkers[slot.0].unpark();
        }
    }
}

impl Inner {
    /// Takes over what the CPU did since it was here last.
    fn take_in(&mut self, vcpu: &mut Vcpu) {
        vcpu.keep_aside();
        self.group.take_in(vcpu.slot, vcpu.doings());
        self.group.take_sleeps(vcpu.slot, &vcpu.slept);
        vcpu.forget_doings();
    }

    fn release(&self, vcpu: &mut Vcpu, budget: u64) {
        vcpu.release(budget, self.group.now());
        vcpu.clock = self.group.weave().clock(vcpu.slot);
    }
}

/// Waits a little for a full ring's reader; false when there is none.
fn wait_for_reader(producer: &Producer) -> bool {
    let pid = producer.consumer_pid() as libc::pid_t;
    // SAFETY: signal 0 only asks whether the process exists.
    let is_alive = !producer.is_consumer_gone() && unsafe { libc::kill(pid, 0) } == 0;
    if is_alive {
        std::thread::sleep(RING_FULL_WAIT);
    }
    is_alive
}
