//! State of one guest thread: its instruction count, its budget, and what it has done since the
//! last barrier. Touched only by the thread itself.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use hitm_base::{AccessOp, AddrRange, CodeAddr, CpuId, Cycles, LINE_SIZE, LineAddr, ThreadId};
use hitm_trace::Adoption;
use hitm_weave::board::Channel;
use hitm_weave::{Doings, LockSleep, Position, Slot, ThreadEvent};

use crate::allocators::ThreadCalls;
use crate::callers::Callers;
use crate::clock::Clock;
use crate::first_touch::{FirstTouch, Near, Tag, Touch, Toucher};
use crate::spins::{LAST_STORES, LastStores, Look, Place, Spins};
use crate::timers::Timer;
use crate::turns::Turns;

/// Events after which a thread goes to the barrier even within its budget: bounds its memory.
const EVENTS_MAX: usize = 1 << 16;

/// Instructions after which a thread looks if the recording is on again.
const PAUSED_INSNS: u64 = 10_000;

/// Read-shared lines that a thread remembers to have read; a power of two.
const READ_LINES: usize = 4096;

/// Pairs of instructions that a thread remembers to have looked with; a power of two.
const LAST_LOOKS: usize = 8;

/// Accesses at the start of a window, and behind an interrupt, that are all looked at: the thread may wait at a line
/// that is its own, where loads are not seen otherwise. Assumed 32 (16 to 64): three rounds of the longest loops.
const GLIMPSE_ACCESSES: u32 = 32;

/// A load of shared memory: by which instruction, of which word, after how many stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LastLook {
    code: CodeAddr,
    word: u64,
    stores: u64,
}

/// An access of the guest's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestAccess {
    pub(crate) addr: u64,
    pub(crate) op: AccessOp,
    /// Bytes.
    pub(crate) size: u64,
}

/// One instruction that touches memory, made when its block is translated.
#[derive(Debug)]
pub(crate) struct MemInsn {
    pub(crate) code: CodeAddr,
    /// Position in its translation block.
    pub(crate) index: u16,
    pub(crate) locked: bool,
    /// Bytes of the instruction.
    pub(crate) len: u8,
    /// It is the heap observer's.
    pub(crate) is_observers: bool,
}

impl MemInsn {
    /// The instruction as a callback's argument: its address, and whether it is locked in the lowest
    /// bit.
    pub(crate) fn into_argument(self) -> *const c_void {
        let locked = usize::from(self.locked);
        const { assert!(align_of::<MemInsn>() > 1, "the lowest bit is free") };
        // Kept for ever: translated code holds the pointer for as long as QEMU keeps the code.
        let insn: *const MemInsn = Box::leak(Box::new(self));
        insn.cast::<c_void>().wrapping_byte_add(locked)
    }

    /// The instruction of a callback's argument.
    ///
    /// # Safety
    /// The argument is one that [`MemInsn::into_argument`] made.
    #[inline(always)]
    pub(crate) unsafe fn of_argument(argument: *const c_void) -> &'static MemInsn {
        let insn = argument.map_addr(|addr| addr & !1).cast::<MemInsn>();
        // SAFETY: the caller's promise; such an instruction lives for ever.
        unsafe { &*insn }
    }
}

/// Kind of access of the instruction behind a callback's argument; none for the read of a locked
/// operation, which comes before its write. The instruction itself is not looked at: it is seldom in
/// the host's cache, and a private access needs no more of it.
#[inline(always)]
pub(crate) fn op_of(argument: *const c_void, is_store: bool) -> Option<AccessOp> {
    match (is_store, argument.addr() & 1 == 1) {
        (false, false) => Some(AccessOp::Load),
        (true, false) => Some(AccessOp::Store),
        (true, true) => Some(AccessOp::LockedRmw),
        (false, true) => None,
    }
}

/// The states of all guest threads, by QEMU's index of them.
///
/// **Invariant:** a thread asks for its own index only, and holds one state at a time: that is what
/// makes the references sound.
#[derive(Debug)]
pub(crate) struct VcpuTable {
    /// Null until the thread runs its first block.
    states: Box<[AtomicPtr<Vcpu>]>,
}

#[allow(
    clippy::mut_from_ref,
    reason = "each pointer is used by its own thread only"
)]
impl VcpuTable {
    pub(crate) fn new(count_max: usize) -> VcpuTable {
        VcpuTable {
            states: (0..count_max).map(|_| AtomicPtr::default()).collect(),
        }
    }

    /// Forgets all threads but one, which is the only one of a forked child.
    pub(crate) fn forget_others(&self, index: c_uint) {
        for (other, state) in self.states.iter().enumerate() {
            if other != index as usize && !state.load(Ordering::Relaxed).is_null() {
                state.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
    }

    /// The calling thread's state, made at its first block.
    #[inline(always)]
    pub(crate) fn get_or_make(&self, index: c_uint, make: impl FnOnce() -> Vcpu) -> &mut Vcpu {
        match self.get(index) {
            Some(vcpu) => vcpu,
            None => self.put(index, make),
        }
    }

    /// The calling thread's state, if it has run.
    #[inline(always)]
    pub(crate) fn get(&self, index: c_uint) -> Option<&mut Vcpu> {
        let vcpu = self.states[index as usize].load(Ordering::Relaxed);
        // SAFETY: QEMU passes the index of the thread that it runs on; only that thread uses it.
        unsafe { vcpu.as_mut() }
    }

    /// Another thread gets the index. The old state is leaked: it is small, and its thread's last
    /// callbacks may still be running.
    pub(crate) fn forget(&self, index: c_uint) {
        self.states[index as usize].store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn put(&self, index: c_uint, make: impl FnOnce() -> Vcpu) -> &mut Vcpu {
        let vcpu = Box::leak(Box::new(make()));
        self.states[index as usize].store(vcpu, Ordering::Relaxed);
        vcpu
    }
}

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

    /// The next accesses go the slow way, each.
    fn begin_glimpse(&mut self) {
        self.glimpse = GLIMPSE_ACCESSES;
        self.near = Near::default();
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

    /// All accesses made.
    pub(crate) fn accesses(&self) -> u64 {
        self.stores + self.others
    }

    /// Counts an access; true if that is all that is to be done about it.
    #[inline(always)]
    pub(crate) fn count(&mut self, addr: u64, op: AccessOp, size: u64) -> bool {
        if self.is_paused {
            return true;
        }
        match op {
            AccessOp::Store => self.stores += 1,
            _ => self.others += 1,
        }
        self.near.is_private(addr, self.toucher, op.is_write()) && is_in_line(addr, size)
    }

    /// A store that is about to be counted, on the thread's stack or elsewhere.
    #[inline(always)]
    pub(crate) fn note_store(&mut self, addr: u64, is_on_stack: bool) {
        match is_on_stack {
            true => self.stack_stores += 1,
            false => self.last_stores[self.stores as usize % LAST_STORES] = addr,
        }
    }

    /// An access; `value` is asked for what is there now.
    pub(crate) fn access(
        &mut self,
        insn: &MemInsn,
        access: GuestAccess,
        value: impl FnOnce() -> Option<u64>,
    ) {
        if !self.count(access.addr, access.op, access.size) {
            self.access_slowly(insn, access, value);
        }
    }

    /// Returns true if the thread has read the line before, since that epoch; from now on it has.
    fn has_read(&mut self, line: LineAddr, since: u32) -> bool {
        // Never 0, and no two lines of a place are alike in it.
        let read = (line.0 + 1) << 16 | u64::from(since);
        let place = &mut self.read[line.0 as usize % READ_LINES];
        std::mem::replace(place, read) == read
    }

    /// An access that may be recorded, or that may straddle two lines.
    pub(crate) fn access_slowly(
        &mut self,
        insn: &MemInsn,
        access: GuestAccess,
        value: impl FnOnce() -> Option<u64>,
    ) {
        let GuestAccess { addr, op, size } = access;
        let touch = self.first_touch.touch(addr, self.toucher, op.is_write());
        let is_glimpse = self.glimpse > 0;
        match is_glimpse {
            true => self.glimpse -= 1,
            false => self.near = self.first_touch.near(addr),
        }
        let is_private = touch == Touch::Private;
        let may_look = || is_glimpse || self.spins.are_at(addr, self.far_stores());
        let is_look = match is_private {
            true => op == AccessOp::Load && may_look(),
            false => touch != Touch::OutOfRange,
        };
        if is_private && !is_look && is_in_line(addr, size) || !self.is_of_program(insn) {
            return;
        }
        if is_look {
            let shared = match touch {
                // Other processes know the word by this address.
                Touch::Foreign => self.first_touch.shared_addr(addr),
                _ => None,
            };
            let addr = shared.unwrap_or(addr);
            self.look(insn, GuestAccess { addr, ..access }, is_private, value);
        }
        if is_private && is_in_line(addr, size) {
            return;
        }
        let mut touch = Some(touch);
        for (addr, size) in hitm_coherence::core::split_by_line(addr, size) {
            let touch = touch
                .take()
                .unwrap_or_else(|| self.first_touch.touch(addr, self.toucher, op.is_write()));
            match touch {
                Touch::Private => continue,
                Touch::OutOfRange => {
                    self.out_of_range += 1;
                    continue;
                }
                Touch::Recorded => self.note_locked(op, addr),
                Touch::Foreign => {
                    self.note_locked(op, addr);
                    let Some(addr) = self.first_touch.shared_addr(addr) else {
                        self.out_of_range += 1;
                        continue;
                    };
                    self.push_event(insn, addr, size, op);
                    continue;
                }
                Touch::ReadShared(since) => {
                    if self.has_read(LineAddr::of(addr), since) {
                        continue;
                    }
                }
                Touch::TakenFrom(former) => {
                    self.note_locked(op, addr);
                    self.taken.push(Adoption {
                        line: LineAddr::of(addr),
                        owner: ThreadId(former.owner.first_thread()),
                        is_written: former.written,
                    });
                }
            }
            self.push_event(insn, addr, size, op);
        }
    }

    /// Stores elsewhere than on its stack.
    fn far_stores(&self) -> u64 {
        self.stores.wrapping_sub(self.stack_stores)
    }

    /// Progress of the thread at an instruction of its block.
    fn place_of(&self, insn: &MemInsn) -> Place {
        Place {
            insn: self.block_start + u64::from(insn.index),
            stores: self.far_stores(),
            pauses: self.pauses,
            loads: self.others,
        }
    }

    /// The instruction returns from an interrupt.
    pub(crate) fn return_from_interrupt(&mut self, insn: &MemInsn) {
        self.spins.returned(self.place_of(insn));
        self.begin_glimpse();
    }

    /// Returns true if the instruction looked at the word last, and the thread has written nothing since: most
    /// loads are over with that.
    fn looks_again(&mut self, insn: &MemInsn, word: u64) -> bool {
        let look = LastLook {
            code: insn.code,
            word,
            stores: self.far_stores(),
        };
        let spread = insn.code.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let pair = &mut self.last_looks[spread as usize % LAST_LOOKS];
        if pair[0].code != insn.code {
            pair.swap(0, 1);
        }
        // Loops look with several instructions: one that goes makes place for another.
        if pair[0].code != insn.code {
            pair.swap(0, 1);
            pair[1] = pair[0];
        }
        std::mem::replace(&mut pair[0], look) == look
    }

    /// Keeps the access in mind: the thread may wait for the word to change.
    fn look(
        &mut self,
        insn: &MemInsn,
        access: GuestAccess,
        is_private: bool,
        value: impl FnOnce() -> Option<u64>,
    ) {
        let GuestAccess { addr, op, .. } = access;
        if op == AccessOp::Store {
            return self.spins.end(self.far_stores());
        }
        let is_again = op == AccessOp::LockedRmw
            || self.looks_again(insn, addr)
            || is_private && self.spins.are_at(addr, self.far_stores());
        let Some(value) = is_again.then(value).flatten() else {
            return;
        };
        let look = Look {
            addr,
            code: insn.code,
            is_locked: op == AccessOp::LockedRmw,
            is_private,
            value,
            at: self.place_of(insn),
        };
        self.spins.look(look, &self.last_stores);
    }

    /// The lines of a range that nobody has touched are the thread's.
    pub(crate) fn own_untouched(&self, range: AddrRange) {
        self.first_touch.own_untouched(range, self.toucher);
    }

    /// Returns false for accesses of QEMU's own. It writes and reads signal frames by helpers, for which it keeps
    /// the callback of the last instruction that had any, in this block or one before.
    fn is_of_program(&self, insn: &MemInsn) -> bool {
        let index = u64::from(insn.index);
        let is_in_block = index < self.block_insns() && self.insns != self.left_block_at;
        is_in_block && self.block_start + index >= self.last_event
    }

    fn note_locked(&mut self, op: AccessOp, addr: u64) {
        if op == AccessOp::LockedRmw {
            self.turns.note_locked(LineAddr::of(addr));
        }
    }

    fn push_event(&mut self, insn: &MemInsn, addr: u64, size: u8, op: AccessOp) {
        let position = self.block_start + u64::from(insn.index);
        // This store itself is counted already.
        let stores = self.stores - u64::from(op == AccessOp::Store);
        let code = insn.code;
        self.last_event = position;
        self.events.push(ThreadEvent {
            insn: position,
            stores,
            addr,
            code,
            size,
            op,
        });
        if let Some(callers) = &mut self.callers {
            let path = callers.path();
            callers.paths.push(path);
        }
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

    /// A full fence.
    pub(crate) fn fence(&mut self, insn: &MemInsn) {
        // Without a shared access since the last barrier there is nothing to wait for.
        if !self.events.is_empty() {
            self.push_event(insn, 0, 0, AccessOp::Fence);
        }
    }

    /// A full fence by the system call that ends the block.
    pub(crate) fn fence_in_syscall(&mut self) {
        self.fence(&MemInsn {
            code: CodeAddr(0),
            index: self.block_insns().saturating_sub(1) as u16,
            locked: false,
            len: 0,
            is_observers: false,
        });
    }
}

/// Returns true if an access of `size` bytes straddles no two lines.
#[inline(always)]
fn is_in_line(addr: u64, size: u64) -> bool {
    addr % LINE_SIZE + size <= LINE_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDR: u64 = 0x7fff_1234_5640;
    const INSN: MemInsn = MemInsn {
        code: CodeAddr(0x1000),
        index: 0,
        locked: false,
        len: 4,
        is_observers: false,
    };

    const STORE: GuestAccess = GuestAccess {
        addr: ADDR,
        op: AccessOp::Store,
        size: 8,
    };

    fn threads() -> [Vcpu; 2] {
        let epoch = Cycles(10_000);
        let first_touch = Box::leak(Box::new(FirstTouch::with_hand_over(epoch)));
        let first_touch: &'static FirstTouch = first_touch;
        [0, 1].map(|number| {
            let tag = Tag::of_thread(number as u32);
            Vcpu::new(Slot(number), tag, Cycles::ZERO, first_touch)
        })
    }

    #[test]
    fn each_reader_of_a_read_shared_line_is_recorded_once() {
        let mut threads = threads();
        let mut counts = |op: AccessOp, by: usize| {
            threads[by].start_block(1);
            threads[by].access(&INSN, GuestAccess { op, ..STORE }, || None);
            [0, 1].map(|index| threads[index].events.len())
        };
        assert_eq!(counts(AccessOp::Load, 0), [0, 0], "private");
        assert_eq!(counts(AccessOp::Load, 1), [0, 1], "read-shared");
        assert_eq!(counts(AccessOp::Load, 0), [1, 1]);
        // The read that shared the line was no read of a read-shared one yet.
        assert_eq!(counts(AccessOp::Load, 1), [1, 2]);
        for _ in 0..9 {
            assert_eq!(counts(AccessOp::Load, 0), [1, 2]);
            assert_eq!(counts(AccessOp::Load, 1), [1, 2]);
        }
        assert_eq!(counts(AccessOp::Store, 1), [1, 3], "shared");
        assert_eq!(counts(AccessOp::Load, 0), [2, 3]);
        assert_eq!(counts(AccessOp::Load, 0), [3, 3]);
    }

    #[test]
    fn what_a_thread_does_while_the_recording_is_off_is_forgotten() {
        let [mut thread, _] = threads();
        thread.release(100, Cycles::ZERO);
        assert!(thread.start_block(90));
        thread.access(&INSN, STORE, || None);
        thread.pause();
        assert!(thread.start_block(PAUSED_INSNS), "further than its budget");
        assert!(!thread.start_block(1), "it looks again");
        thread.run_paused();
        assert!(thread.start_block(1));
        thread.access(&INSN, STORE, || None);
        // An unwinding under way, which ends after the recording is on again.
        thread.set_aside();
        thread.resume(thread.block_insns());
        thread.take_up();
        let counted = (thread.insns, thread.accesses(), thread.stores, thread.limit);
        assert_eq!(counted, (91, 1, 1, 100), "it is in a block of one");
        thread.access(&INSN, STORE, || None);
        assert!(thread.start_block(9) && !thread.is_paused());
        assert_eq!((thread.block_start, thread.stores), (91, 2));
    }

    #[test]
    fn accesses_that_qemu_makes_by_helpers_are_not_the_programs() {
        let [mut thread, mut other] = threads();
        other.start_block(1);
        other.access(&INSN, STORE, || None);
        let at = |index| MemInsn { index, ..INSN };
        let count = |thread: &mut Vcpu, index| {
            thread.access(&at(index), STORE, || None);
            thread.events.len()
        };
        thread.start_block(4);
        assert_eq!(count(&mut thread, 2), 1);
        assert_eq!(count(&mut thread, 1), 1, "before the last one");
        assert_eq!(count(&mut thread, 4), 1, "of a longer block");
        assert_eq!(count(&mut thread, 3), 2);
        thread.begin_syscall(InSyscall {
            kind: crate::guest::Syscall::Short,
            args: [0; 6],
        });
        assert_eq!(count(&mut thread, 3), 2, "no block has begun");
        thread.start_block(4);
        assert_eq!(count(&mut thread, 0), 3);
    }

    #[test]
    fn what_a_thread_did_aside_is_forgotten_unless_it_goes_to_the_barrier() {
        let [mut thread, _] = threads();
        thread.release(100, Cycles::ZERO);
        let work = |thread: &mut Vcpu| {
            assert!(thread.start_block(90));
            thread.access(&INSN, STORE, || None);
            thread.push_event(&INSN, ADDR, 8, AccessOp::Store);
            (
                thread.insns,
                thread.stores,
                thread.accesses(),
                thread.events.len(),
            )
        };
        assert_eq!(work(&mut thread), (90, 1, 1, 1));
        thread.set_aside();
        work(&mut thread);
        assert_eq!(work(&mut thread), (270, 3, 3, 3), "without a budget");
        thread.take_up();
        assert_eq!(work(&mut thread), (180, 2, 2, 2));
        thread.set_aside();
        thread.keep_aside();
        thread.take_up();
        assert!(!thread.start_block(1), "the budget is used up");
        assert_eq!((thread.stores, thread.events.len()), (2, 2));
    }
}
