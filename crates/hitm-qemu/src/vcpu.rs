//! State of one guest thread: its instruction count, its budget, and what it has done since the
//! last barrier. Touched only by the thread itself.

use hitm_base::{CpuId, Cycles};
use hitm_trace::Adoption;
use hitm_weave::board::Channel;
use hitm_weave::{Doings, LockSleep, Position, Slot, ThreadEvent};

use crate::allocators::ThreadCalls;
use crate::callers::Callers;
use crate::clock::Clock;
use crate::first_touch::{FirstTouch, Near, Tag, Toucher};
use crate::spins::{LastStores, Spins};
use crate::timers::Timer;
use crate::turns::Turns;

mod accesses;
mod table;

pub(crate) use accesses::{GuestAccess, MemInsn, op_of};
pub(crate) use table::VcpuTable;

use accesses::{LAST_LOOKS, LastLook, READ_LINES};

/// Events after which a thread goes to the barrier even within its budget: bounds its memory.
const EVENTS_MAX: usize = 1 << 16;

/// Instructions after which a thread looks if the recording is on again.
const PAUSED_INSNS: u64 = 10_000;

/// A guest thread.
#[derive(Debug)]
pub(crate) struct Vcpu {
    first_touch: &'static FirstTouch,
    near: Near,
    /// Accesses that are still looked at, wherever they are.
    glimpse: u32,
    pub(crate) slot: Slot,
    tag: Tag,
    /// The thread as the filter sees it, since it was let go last.
    toucher: Toucher,
    /// Instructions run, the current block's included.
    pub(crate) insns: u64,
    /// Instructions run before the current block.
    pub(crate) block_start: u64,
    /// The thread may start a block while it has run fewer instructions than this.
    pub(crate) limit: u64,
    /// Plain stores made.
    pub(crate) stores: u64,
    /// The part of them by which the thread writes to its stack.
    stack_stores: u64,
    /// Addresses of the last ones of the others, each in the place that its number says.
    last_stores: LastStores,
    /// All other accesses made.
    others: u64,
    /// The last looks, each in one of the two places that its instruction says.
    last_looks: [[LastLook; 2]; LAST_LOOKS],
    /// Pause instructions run.
    pub(crate) pauses: u64,
    pub(crate) spins: Spins,
    /// Sleeps of tasks for locks that ended here, of a machine's CPU.
    pub(crate) slept: Vec<LockSleep>,
    pub(crate) out_of_range: u64,
    pub(crate) events: Vec<ThreadEvent>,
    /// Lines that it took over since it was heard of last.
    pub(crate) taken: Vec<Adoption>,
    /// Its way to `hitm record`; none on a machine's CPU, and after its end.
    pub(crate) channel: Option<Channel>,
    /// Its virtual clock when it was let go last.
    pub(crate) clock: Cycles,
    /// Instructions run by then.
    released_at: u64,
    /// Its clock when it began.
    began: Cycles,
    /// Time that has passed in system calls that may block.
    pub(crate) away: Cycles,
    /// Time that its process counts as run.
    pub(crate) counted_cpu: Cycles,
    /// Time after which the system call that it is in ends, if it does.
    pub(crate) wait_length: Option<Cycles>,
    /// The modelled CPU that it was on then.
    pub(crate) cpu: CpuId,
    /// Memory for what it says.
    pub(crate) packed: Vec<u8>,
    /// Timers that the host rings for the program that is to take the process over.
    pub(crate) has_lent: Vec<Timer>,
    /// The mapping that goes is to be at another place.
    pub(crate) moves: bool,
    /// The system call that the thread is in, for its return.
    pub(crate) syscall: Option<InSyscall>,
    /// Instructions run when its last system call began: until a block begins, the program does nothing.
    left_block_at: u64,
    /// Place of its last event.
    last_event: u64,
    /// Lines that it has read since they are read-shared, each in the place that its address says,
    /// with the epoch since when: [`Vcpu::has_read`].
    read: Box<[u64]>,
    /// State of the program when something that is no part of it began.
    aside: Option<Aside>,
    /// State of the program when its recording was turned off, until it is on again.
    paused: Option<Aside>,
    is_paused: bool,
    /// Shadow stack, when callers are recorded.
    pub(crate) callers: Option<Box<Callers>>,
    pub(crate) turns: Turns,
    /// Its calls of allocators inside of the program.
    pub(crate) allocations: ThreadCalls,
}

/// A thread's place in its program.
#[derive(Debug, Clone, Copy)]
struct Aside {
    insns: u64,
    limit: u64,
    others: u64,
    stores: u64,
    event_count: usize,
}

/// A system call under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InSyscall {
    pub(crate) kind: crate::guest::Syscall,
    pub(crate) args: [u64; 6],
}

impl Vcpu {
    /// A thread that starts at the time `now`.
    pub(crate) fn new(slot: Slot, tag: Tag, now: Cycles, first_touch: &'static FirstTouch) -> Vcpu {
        let toucher = first_touch.toucher(tag, now);
        Vcpu {
            first_touch,
            near: Near::default(),
            glimpse: 0,
            slot,
            tag,
            toucher,
            insns: 0,
            block_start: 0,
            limit: 0,
            stores: 0,
            stack_stores: 0,
            last_stores: LastStores::default(),
            others: 0,
            last_looks: [[LastLook::default(); 2]; LAST_LOOKS],
            pauses: 0,
            spins: Spins::new(first_touch, toucher),
            slept: Vec::new(),
            out_of_range: 0,
            events: Vec::with_capacity(1024),
            taken: Vec::new(),
            channel: None,
            clock: now,
            released_at: 0,
            began: now,
            away: Cycles::ZERO,
            counted_cpu: Cycles::ZERO,
            wait_length: None,
            cpu: CpuId(0),
            packed: Vec::new(),
            has_lent: Vec::new(),
            moves: false,
            syscall: None,
            left_block_at: u64::MAX,
            last_event: 0,
            read: vec![0; READ_LINES].into(),
            aside: None,
            paused: None,
            is_paused: false,
            callers: None,
            turns: Turns::default(),
            allocations: ThreadCalls::default(),
        }
    }

    /// The recording is off: what the thread does from here on is forgotten. It is away.
    pub(crate) fn pause(&mut self) {
        self.paused = Some(self.place());
        self.is_paused = true;
        self.run_paused();
    }

    /// Returns true while the recording is off for this thread.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Lets the thread run until it is to look again if the recording is on.
    pub(crate) fn run_paused(&mut self) {
        self.limit = self.insns + PAUSED_INSNS;
    }

    /// Instructions of the block that the thread is in.
    pub(crate) fn block_insns(&self) -> u64 {
        self.insns - self.block_start
    }

    /// The thread is where it was when the recording was turned off, and begins a block of so many
    /// instructions.
    pub(crate) fn resume(&mut self, block_insns: u64) {
        if let Some(paused) = self.paused.take() {
            self.return_to(paused);
            self.block_start = self.insns;
            self.insns += block_insns;
        }
        self.is_paused = false;
    }

    /// Lets the thread run `budget` more instructions, at the time `now`.
    pub(crate) fn release(&mut self, budget: u64, now: Cycles) {
        self.limit = self.insns + budget;
        self.released_at = self.insns;
        self.toucher = self.first_touch.toucher(self.tag, now);
        self.begin_glimpse();
    }

    /// Its virtual clock, by what is known of its waits. It stands still while the recording is off.
    pub(crate) fn local_clock(&self, clock: &Clock) -> Cycles {
        match self.is_paused {
            true => self.clock,
            false => self.clock + clock.cycles_of(self.insns.saturating_sub(self.released_at)),
        }
    }

    /// Its virtual clock where it is in its block, but for what its accesses wait since it was let go last.
    pub(crate) fn clock_here(&self, cpi_milli: u64) -> Cycles {
        let insns = self.insns.saturating_sub(self.released_at);
        self.clock + Cycles(insns * cpi_milli / 1000)
    }

    /// Time that it has run.
    pub(crate) fn cpu_time(&self, clock: &Clock) -> Cycles {
        let lived = self.local_clock(clock).saturating_sub(self.began);
        lived.saturating_sub(self.away)
    }

    /// The thread stops being part of the program for a while: it runs without a budget, and what it
    /// does is forgotten by [`Vcpu::take_up`].
    pub(crate) fn set_aside(&mut self) {
        if !self.is_paused {
            self.aside = Some(self.place());
            self.limit = u64::MAX;
        }
    }

    fn place(&self) -> Aside {
        Aside {
            insns: self.insns,
            limit: self.limit,
            others: self.others,
            stores: self.stores,
            event_count: self.events.len(),
        }
    }

    /// Returns true while the thread does what is no part of its program, on a stack of its own.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    fn return_to(&mut self, aside: Aside) {
        self.insns = aside.insns;
        self.limit = aside.limit;
        self.others = aside.others;
        self.stores = aside.stores;
        self.events.truncate(aside.event_count);
        self.last_event = self.last_event.min(self.insns);
        self.spins.forget();
        if let Some(callers) = &mut self.callers {
            callers.paths.truncate(aside.event_count);
        }
    }

    /// The thread resumes where it was set aside.
    pub(crate) fn take_up(&mut self) {
        if let Some(aside) = self.aside.take() {
            self.return_to(aside);
        }
    }

    /// Counts after all what the thread did since it was set aside, if it was: it goes to the barrier.
    pub(crate) fn keep_aside(&mut self) {
        if let Some(aside) = self.aside.take() {
            self.limit = aside.limit;
        }
    }

    /// A block of `insn_count` instructions starts; whether its budget allows that.
    #[inline(always)]
    pub(crate) fn start_block(&mut self, insn_count: u64) -> bool {
        self.block_start = self.insns;
        self.insns += insn_count;
        self.block_start < self.limit && self.events.len() < EVENTS_MAX
    }

    /// A block with a locked operation has started, which `goes_on` if it has the budget; true if the
    /// thread has to wait for its turn.
    pub(crate) fn is_turn_over(&mut self, goes_on: bool) -> bool {
        !self.is_paused && !self.is_aside() && self.turns.is_over(self.block_start, goes_on)
    }

    /// A system call begins.
    pub(crate) fn begin_syscall(&mut self, syscall: InSyscall) {
        self.syscall = Some(syscall);
        self.left_block_at = self.insns;
    }

    /// Position of the thread in its program.
    pub(crate) fn position(&self) -> Position {
        Position {
            insn: self.insns,
            stores: self.stores,
        }
    }

    /// Its work since it was heard of last.
    pub(crate) fn doings(&self) -> Doings<'_> {
        Doings {
            taken: &self.taken,
            events: &self.events,
            position: self.position(),
            accesses: self.accesses(),
            out_of_range: self.out_of_range,
            spins: &self.spins.over,
        }
    }

    /// Its work was told.
    pub(crate) fn forget_doings(&mut self) {
        self.taken.clear();
        self.events.clear();
        self.spins.over.clear();
        self.slept.clear();
        self.out_of_range = 0;
    }
}

#[cfg(test)]
mod tests;
