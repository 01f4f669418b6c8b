//! One simulated CPU: its clock, why it waits, its interrupts and its store buffer.

use hitm_base::machine::CoreModel;
use hitm_base::{CpuId, Cycles};
use hitm_coherence::directory::LineId;

use super::join::Join;
use super::memory::{Op, Place, Site};
use super::store_buffer::StoreBuffer;

/// An interrupt vector; of several that are due the lowest number is taken first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Vector(pub u8);

/// Vectors that a CPU has: 0 to 7.
pub const VECTORS: usize = 8;

/// Use of a CPU's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// User code.
    User,
    /// Kernel code of a task.
    Kernel,
    /// Kernel code that waits for a lock.
    Spin,
    /// Interrupt handlers.
    Irq,
    /// Nothing to do.
    Idle,
}

/// Number of modes.
pub(super) const MODES: usize = 5;

/// A kernel stack: the future of a task or of a CPU's interrupt handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackId(pub(super) u32);

/// Reason for which the instruction stream of a CPU does not continue before `resume_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It is ahead of the others, or has just switched stacks.
    Sync,
    /// It runs code without accesses.
    Run,
    /// Its access has been served and completes then.
    Served,
    /// Its request waits in a line's queue.
    Queue,
    /// A locked operation waits for older stores.
    Drain,
    /// A store waits for room in the store buffer.
    Full,
    /// Independent loads are under way.
    Joined,
    /// It spins on a line of which it has a copy.
    Parked(LineId),
    /// It has nothing to run but interrupts.
    Off,
}

impl Wait {
    /// Returns true if an interrupt may be taken while the wait lasts.
    pub(super) fn is_interruptible(self) -> bool {
        matches!(self, Wait::Sync | Wait::Run | Wait::Parked(_) | Wait::Off)
    }

    /// Returns true if an interrupt may be taken at its end, before the code continues.
    pub(super) fn may_be_interrupted_at_end(self) -> bool {
        self.is_interruptible() || self == Wait::Served
    }
}

/// State in which an interrupt handler found the CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interrupted {
    pub(super) wait: Wait,
    /// Time that the wait still has to last.
    pub(super) left: Cycles,
    pub(super) result: u64,
    pub(super) mode: Mode,
}

/// An access that waits for its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) place: Place,
    pub(super) op: Op,
    pub(super) site: Site,
    pub(super) issued: Cycles,
}

/// No CPU, at the end of a list of parked ones.
pub(super) const NO_CPU: u16 = u16::MAX;

/// One CPU. The most used members come first, by cache lines of the host: hundreds of CPUs do not
/// fit its nearest caches.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Cpu {
    /// Local time of the instruction stream.
    pub(super) clock: Cycles,
    pub(super) resume_at: Cycles,
    /// Time at which the store buffer has something to do.
    pub(super) drain_at: Cycles,
    /// Time at which the next interrupt is taken, if the CPU is in a state to take it.
    pub(super) irq_time: Cycles,
    pub(super) wait: Wait,
    pub(super) stack: Option<StackId>,
    /// Next CPU that is parked on the same line.
    pub(super) parked_next: u16,
    pub(super) irqs_on: bool,
    pub(super) mode: Mode,

    pub(super) buffer: StoreBuffer,
    /// The cache is busy committing stores until then.
    pub(super) commit_free_at: Cycles,

    pub(super) request: Option<Request>,
    pub(super) result: u64,
    /// Rest of a span of work that an interrupt left.
    pub(super) run_left: Cycles,

    pub(super) interrupted: Option<Interrupted>,
    mode_since: Cycles,
    pub(super) irq_stack: Option<StackId>,
    /// Independent loads that are under way.
    pub(super) join: Option<Box<Join>>,

    /// Arrival of each vector.
    pub(super) irq_at: [Cycles; VECTORS],
    /// Time at which interrupts were switched on or off last.
    irqs_since: Cycles,

    mode_sums: [i64; MODES],
    pub(super) irqs_off_max: Cycles,
}

impl Cpu {
    pub(super) fn new(core: &CoreModel) -> Cpu {
        Cpu {
            clock: Cycles::ZERO,
            resume_at: Cycles::MAX,
            drain_at: Cycles::MAX,
            irq_time: Cycles::MAX,
            wait: Wait::Off,
            stack: None,
            parked_next: NO_CPU,
            irqs_on: true,
            mode: Mode::Idle,
            buffer: StoreBuffer::new(usize::from(core.store_buffer_entries)),
            commit_free_at: Cycles::ZERO,
            request: None,
            result: 0,
            run_left: Cycles::ZERO,
            interrupted: None,
            mode_since: Cycles::ZERO,
            irq_stack: None,
            join: None,
            irq_at: [Cycles::MAX; VECTORS],
            irqs_since: Cycles::ZERO,
            mode_sums: [0; MODES],
            irqs_off_max: Cycles::ZERO,
        }
    }

    /// Returns the time at which the CPU does something.
    pub(super) fn key(&self) -> Cycles {
        // A choice of values: a branch on the kind of event would be mispredicted.
        let is_interruptible = self.wait.is_interruptible();
        let irq = if is_interruptible {
            self.irq_time
        } else {
            Cycles::MAX
        };
        self.resume_at.min(irq).min(self.drain_at)
    }

    /// Returns the stack that the CPU is on.
    pub(super) fn current_stack(&self) -> Option<StackId> {
        if self.interrupted.is_some() {
            self.irq_stack
        } else {
            self.stack
        }
    }

    pub(super) fn set_irq(&mut self, vector: Vector, at: Cycles) {
        self.irq_at[usize::from(vector.0)] = at;
        self.note_irqs();
    }

    fn note_irqs(&mut self) {
        let due = self.irq_at.into_iter().min().unwrap_or(Cycles::MAX);
        self.irq_time = match self.irqs_on {
            true => due.max(self.irqs_since),
            false => Cycles::MAX,
        };
    }

    /// The lowest vector that has arrived by `now`.
    pub(super) fn take_irq(&mut self, now: Cycles) -> Option<Vector> {
        let index = self.irq_at.iter().position(|at| *at <= now)?;
        let vector = Vector(index as u8);
        self.set_irq(vector, Cycles::MAX);
        Some(vector)
    }

    pub(super) fn switch_irqs(&mut self, on: bool, now: Cycles) {
        if on && !self.irqs_on {
            let span = now.saturating_sub(self.irqs_since);
            self.irqs_off_max = self.irqs_off_max.max(span);
        }
        if on != self.irqs_on {
            self.irqs_since = now;
        }
        self.irqs_on = on;
        self.note_irqs();
    }

    pub(super) fn set_mode(&mut self, mode: Mode, now: Cycles) -> Mode {
        // An interrupt is taken before the end of work that is already in the clock: such a span
        // is negative and makes the sum right.
        self.mode_sums[self.mode as usize] += now.0 as i64 - self.mode_since.0 as i64;
        self.mode_since = now;
        std::mem::replace(&mut self.mode, mode)
    }

    /// Cycles spent in each mode up to `end`.
    pub(super) fn mode_sums(&self, end: Cycles) -> [Cycles; MODES] {
        let mut sums = self.mode_sums;
        sums[self.mode as usize] += end.0 as i64 - self.mode_since.0 as i64;
        sums.map(|sum| Cycles(sum.max(0) as u64))
    }
}

/// Totals of one CPU in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTotals {
    /// The CPU that they are of.
    pub cpu: CpuId,
    /// User code.
    pub user: Cycles,
    /// Kernel code of tasks, lock waits apart.
    pub kernel: Cycles,
    /// Lock waits.
    pub spin: Cycles,
    /// Interrupt handlers.
    pub irq: Cycles,
    /// Nothing to do.
    pub idle: Cycles,
    /// The longest time for which interrupts were off.
    pub irqs_off_max: Cycles,
}
