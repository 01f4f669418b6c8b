//! The way to `hitm record`, which holds the threads of all recorded processes together and prices what
//! they do ([`hitm_weave::board`]).
//!
//! QEMU sometimes stops the world itself (translation flushes, fork), and then waits for threads
//! that wait here. It cannot say so, so a thread that has waited for [`PARK_TIME_MAX`] runs one block.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hitm_base::{CpuId, Cycles, LineAddr};
use hitm_trace::{Loss, PROCESS_SHIFT, Record};
use hitm_weave::Slot;
use hitm_weave::board::{
    Answer, Channel, Futex, Message, Port, Request, pack_calls, pack_doings, pack_records,
};

use crate::clock::Clock;
use crate::first_touch::{FirstTouch, Tag};
use crate::heap::Heap;
use crate::home;
use crate::locks;
use crate::parker;
use crate::paths::add_paths;
use crate::thread_name;
use crate::turns::{LockLines, Turns};
use crate::vcpu::Vcpu;

mod memory;
mod processes;
mod time;

/// Longest time that a thread stays parked before it runs a block.
const PARK_TIME_MAX: Duration = Duration::from_millis(20);

/// End of a system call that may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Somebody woke those that slept at the futex.
    Woken(u64),
    /// The futex had another value when the thread was to sleep there.
    Changed(u64),
    /// Its time was over.
    Late,
    /// Anything else.
    Other,
}

impl WaitEnd {
    /// End of a wait at `futex` with this result (futex(2)).
    pub(crate) fn of(futex: u64, result: i64) -> WaitEnd {
        const CHANGED: i64 = -(libc::EAGAIN as i64);
        match result {
            0 => WaitEnd::Woken(futex),
            CHANGED => WaitEnd::Changed(futex),
            _ => WaitEnd::Other,
        }
    }
}

/// Parts of the host that a program sees, where it should see the modelled machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostView {
    pub(crate) cpus: bool,
    pub(crate) clock: bool,
}

/// One process's way to the recorder.
#[derive(Debug)]
pub(crate) struct Link {
    port: Port,
    first_touch: &'static FirstTouch,
    heap: &'static Heap,
    locks: &'static LockLines,
    /// Of programs that live in the modelled machine's time.
    clock: Option<Clock>,
    /// Name of this process on the board; 0 until it attaches.
    name: AtomicU32,
    /// Number of this process in the recording.
    process: AtomicU32,
    /// Number of the process that began with this program: the code is as that one has it.
    image: AtomicU32,
    mailbox: AtomicU32,
    /// A thread reads the mail.
    reads_mail: AtomicBool,
    /// The recording is over for this process: nobody waits any more.
    over: AtomicBool,
}

impl Link {
    /// Joins the board at `base`. The recorder holds the robust mutex at `guard`.
    ///
    /// # Safety
    /// As for [`Port::attach`], and the mutex stays mapped as well.
    pub(crate) unsafe fn new(
        base: NonNull<u8>,
        guard: NonNull<u8>,
        first_touch: &'static FirstTouch,
        heap: &'static Heap,
        clock: Option<Clock>,
    ) -> Result<Link, String> {
        let futex = Futex {
            wait: parker::wait_shared,
            wake: parker::wake_shared,
        };
        // SAFETY: as the caller says; a mutex of the C library begins with the kernel's word.
        let port = unsafe { Port::attach(base, futex, guard.cast().as_ref()) };
        Ok(Link {
            port: port.ok_or("the recorder is of another version")?,
            first_touch,
            heap,
            locks: Box::leak(Box::new(LockLines::new())),
            clock,
            name: AtomicU32::new(0),
            process: AtomicU32::new(0),
            image: AtomicU32::new(0),
            mailbox: AtomicU32::new(u32::MAX),
            reads_mail: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    /// Makes this process known, which runs `program`. It is a fork of process `parent`, or a new
    /// program.
    ///
    /// Returns the times of the timer that the process has from the program before.
    pub(crate) fn attach(
        &self,
        program: &str,
        parent: Option<u32>,
        sees_host: HostView,
    ) -> Option<[Cycles; 2]> {
        let name = self.port.name_process();
        self.name.store(name, Ordering::Relaxed);
        self.reads_mail.store(false, Ordering::Relaxed);
        let Some(channel) = self.port.claim(name, name) else {
            self.lose(Loss::Threads);
            return None;
        };
        let origin = parent.map_or([0, 0], |parent| [1, parent.into()]);
        let pid = std::process::id().into();
        let HostView { cpus, clock } = sees_host;
        let args = [pid, origin[0], origin[1], cpus.into(), clock.into()];
        let message = Message::new(Request::Attach, &args).with_bytes(program.as_bytes());
        // The pid need not be the one that the recorder sees, nor be seen there at all.
        let ask = || self.port.ask(channel, message);
        let answer = thread_name::with(&self.port.mark_of(name), ask);
        self.port.send(channel, Message::new(Request::Close, &[]));
        let Some([number, mailbox, is_followed, next, interval]) =
            answer.filter(|answer| answer[2] != 0)
        else {
            self.abandon();
            return None;
        };
        debug_assert!(is_followed == 1);
        self.process.store(number as u32, Ordering::Relaxed);
        self.mailbox.store(mailbox as u32, Ordering::Relaxed);
        if parent.is_none() {
            self.image.store(number as u32, Ordering::Relaxed);
        }
        (next != 0).then_some([Cycles(next), Cycles(interval)])
    }

    /// Returns true once the process, or the one that it is a fork of, has attached.
    pub(crate) fn is_attached(&self) -> bool {
        self.name() != 0
    }

    fn name(&self) -> u32 {
        self.name.load(Ordering::Relaxed)
    }

    /// Number of this process in the recording.
    pub(crate) fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }

    /// Returns true when the recording is over.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The process runs on unrecorded, which the recorder does not know.
    fn lose(&self, loss: Loss) {
        self.port.lose(self.name(), loss);
        self.abandon();
    }

    /// The recording ends without another word: it is over, or the recorder knows why.
    pub(crate) fn abandon(&self) {
        if !self.over.swap(true, Ordering::Relaxed) {
            home::leave();
        }
    }

    /// A new thread, called on that thread. Its CPU follows from QEMU's `index` of it, which is
    /// given at its creation: when threads come here, in their first blocks, is up to the host.
    pub(crate) fn enter(&self, index: u32, tid: u32, name: &str) -> Vcpu {
        let channel = self.port.claim(self.name(), tid);
        let message = Message::new(
            Request::Enter,
            &[tid.into(), index.into(), self.process().into()],
        );
        if channel.is_none() {
            self.lose(Loss::Threads);
        }
        let answer =
            channel.and_then(|channel| self.port.ask(channel, message.with_bytes(name.as_bytes())));
        let Some([slot, now, cpu, ..]) = answer.filter(|answer| answer[0] != u64::MAX) else {
            self.abandon();
            let tag = Tag::of_thread(0);
            return Vcpu::new(Slot(0), tag, Cycles::ZERO, self.first_touch);
        };
        let tag = Tag::of_thread(slot as u32);
        let mut vcpu = Vcpu::new(Slot(slot as usize), tag, Cycles(now), self.first_touch);
        vcpu.channel = channel;
        vcpu.turns = Turns::at(self.locks);
        vcpu.cpu = CpuId(cpu as u16);
        home::begin(self.port.home());
        self.pause_if_asked(&mut vcpu);
        vcpu
    }

    /// The thread has used up its budget: it waits until it has a new one.
    pub(crate) fn wait(&self, vcpu: &mut Vcpu) {
        self.park(vcpu, &[]);
    }

    /// The thread is about to use a lock that others fight over: it waits until it is the slowest.
    pub(crate) fn wait_for_turn(&self, vcpu: &mut Vcpu) {
        self.park(vcpu, &[1]);
    }

    fn park(&self, vcpu: &mut Vcpu, args: &[u64]) {
        if vcpu.is_paused() {
            return self.look_again(vcpu, vcpu.block_insns());
        }
        if self.pause_if_asked(vcpu) {
            return;
        }
        let Some(channel) = self.say_doings(vcpu, Request::Wait, args) else {
            return self.let_go(vcpu);
        };
        locks::none_is_held("a wait for other threads");
        let other = Message::new(Request::TimedOut, &[]);
        let answer = self.port.answer_or(channel, PARK_TIME_MAX, other);
        self.go_on(vcpu, answer);
    }

    /// The thread goes into a system call that may block, and that ends after `length` at the latest if it says
    /// so.
    pub(crate) fn leave(&self, vcpu: &mut Vcpu, length: Option<Cycles>) {
        let [is_timed, length] = timed(length);
        if !vcpu.is_paused() {
            self.say_doings(vcpu, Request::Leave, &[0, 0, is_timed, length]);
        }
    }

    /// Like [`Link::leave`], for a wait at `futex`.
    pub(crate) fn leave_for(&self, vcpu: &mut Vcpu, futex: u64, length: Option<Cycles>) {
        let [is_timed, length] = timed(length);
        if !vcpu.is_paused() {
            vcpu.turns.note_futex(futex);
            let args = [1, self.data_addr(futex), is_timed, length];
            self.say_doings(vcpu, Request::Leave, &args);
        }
    }

    /// The thread leaves, and runs unrecorded from here on, if that is asked for; true if it is.
    fn pause_if_asked(&self, vcpu: &mut Vcpu) -> bool {
        let is_asked = self.port.is_paused() && vcpu.channel.is_some();
        if is_asked {
            self.leave(vcpu, None);
            vcpu.pause();
        }
        is_asked
    }

    /// A thread that runs unrecorded looks if it is recorded again, from a block of so many instructions
    /// on.
    fn look_again(&self, vcpu: &mut Vcpu, block_insns: u64) {
        if self.port.is_over() {
            self.let_go(vcpu);
        } else if self.port.is_paused() {
            vcpu.run_paused();
        } else {
            vcpu.resume(block_insns);
            self.ask_to_rejoin(vcpu, [0, 0]);
        }
    }

    /// The thread asks for its end. It comes back ([`Link::rejoin`]) if QEMU has a signal for it.
    pub(crate) fn begin_end(&self, vcpu: &mut Vcpu, status: i32) {
        let insn = vcpu.insns;
        self.say_doings(vcpu, Request::ThreadExit, &[insn, status as u64]);
    }

    /// The thread has ended.
    pub(crate) fn end_thread(&self, vcpu: &mut Vcpu) {
        if let Some(channel) = vcpu.channel.take() {
            self.port.send(channel, Message::new(Request::Close, &[]));
        }
    }

    /// The thread is back from a system call.
    pub(crate) fn rejoin(&self, vcpu: &mut Vcpu, end: WaitEnd) {
        if vcpu.is_paused() {
            return self.look_again(vcpu, 0);
        }
        let args = match end {
            WaitEnd::Woken(futex) => [1, self.data_addr(futex)],
            WaitEnd::Changed(futex) => [2, self.data_addr(futex)],
            WaitEnd::Late => [3, 0],
            WaitEnd::Other => [0, 0],
        };
        self.ask_to_rejoin(vcpu, args);
        if !self.is_over() {
            self.pause_if_asked(vcpu);
        }
    }

    fn ask_to_rejoin(&self, vcpu: &mut Vcpu, args: [u64; 2]) {
        let left_at = self.clock.as_ref().map(|clock| vcpu.local_clock(clock));
        let answer = self.ask(vcpu, Request::Rejoin, &args, &[]);
        self.go_on(vcpu, answer);
        if let Some(left_at) = left_at {
            vcpu.away += vcpu.clock.saturating_sub(left_at);
        }
    }

    /// The thread is about to wake those that wait at `futex`.
    pub(crate) fn begin_wake(&self, vcpu: &mut Vcpu, futex: u64) {
        if vcpu.is_paused() {
            return;
        }
        vcpu.turns.note_futex(futex);
        let args = [self.data_addr(futex), vcpu.insns];
        self.say(vcpu, Request::Wake, &args, &[]);
    }

    /// A wake at `futex` made `count` threads runnable.
    pub(crate) fn end_wake(&self, vcpu: &mut Vcpu, futex: u64, count: i64) {
        if !vcpu.is_paused() {
            let count = count.max(0) as u64;
            if count > 0 {
                // The others have become more.
                vcpu.turns.begin(vcpu.insns);
            }
            self.say(vcpu, Request::Woken, &[count, self.data_addr(futex)], &[]);
        }
    }

    /// The thread `tid` was created. At its end it wakes those that wait at `futex`.
    pub(crate) fn expect_thread(&self, vcpu: &Vcpu, tid: u32, futex: Option<u64>) {
        let [wakes, futex] = futex.map_or([0, 0], |futex| [1, self.data_addr(futex)]);
        self.say(vcpu, Request::Created, &[tid.into(), wakes, futex], &[]);
    }

    /// Lets the thread `tid` (0: this one) run on the CPUs of a mask only. False if the program has none of
    /// them; none if nobody knows the thread.
    pub(crate) fn pin(&self, vcpu: &mut Vcpu, tid: u32, mask: &[CpuId]) -> Option<bool> {
        if !vcpu.is_paused() {
            // What it did so far happened where it was, and a thread that moves waits for its stores.
            vcpu.fence_in_syscall();
            self.say_doings(vcpu, Request::Take, &[]);
        }
        let cpus: Vec<u8> = mask.iter().flat_map(|cpu| cpu.0.to_le_bytes()).collect();
        let [outcome, cpu, ..] = self.ask(vcpu, Request::Pin, &[tid.into()], &cpus)?;
        if outcome <= 1 {
            vcpu.cpu = CpuId(cpu as u16);
        }
        match outcome {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        }
    }

    /// The CPUs on which the thread `tid` (0: this one) may run, as `words` words of a mask; none if nobody
    /// knows the thread.
    pub(crate) fn affinity(&self, vcpu: &Vcpu, tid: u32, words: usize) -> Option<Vec<u64>> {
        let mut mask = Vec::new();
        while mask.len() < words {
            let args = [tid.into(), mask.len() as u64];
            let [outcome, part @ ..] = self.ask(vcpu, Request::Affinity, &args, &[])?;
            if outcome != 0 {
                return None;
            }
            mask.extend(part);
        }
        mask.truncate(words);
        Some(mask)
    }

    /// The thread has a new name.
    pub(crate) fn rename(&self, vcpu: &Vcpu, name: &str) {
        self.say(vcpu, Request::Rename, &[], name.as_bytes());
    }

    /// Writes records that are no accesses.
    pub(crate) fn record(&self, vcpu: &Vcpu, records: &[Record]) {
        pack_records(records, |block| {
            self.say(vcpu, Request::Records, &[], block)
        });
    }

    fn say(&self, vcpu: &Vcpu, request: Request, args: &[u64], bytes: &[u8]) {
        if let Some(channel) = vcpu.channel {
            self.port
                .send(channel, Message::new(request, args).with_bytes(bytes));
        }
    }

    fn ask(&self, vcpu: &Vcpu, request: Request, args: &[u64], bytes: &[u8]) -> Option<Answer> {
        locks::none_is_held("a question to the recorder");
        let message = Message::new(request, args).with_bytes(bytes);
        self.port.ask(vcpu.channel?, message)
    }

    /// Says what the thread did since it was heard of last, and makes a request with it.
    fn say_doings(&self, vcpu: &mut Vcpu, request: Request, args: &[u64]) -> Option<Channel> {
        vcpu.resume(0);
        vcpu.keep_aside();
        self.count_cpu(vcpu);
        let channel = vcpu.channel?;
        self.say_blocks(vcpu);
        self.say_calls(vcpu, channel);
        let upper = u64::from(self.process()) << PROCESS_SHIFT;
        for taken in &mut vcpu.taken {
            taken.line = LineAddr::of(taken.line.first_byte() | upper);
        }
        for event in &mut vcpu.events {
            // Shared memory has a number of its own already.
            if event.addr >> PROCESS_SHIFT == 0 {
                event.addr |= upper;
            }
        }
        for spin in &mut vcpu.spins.over {
            for word in std::iter::once(&mut spin.word).chain(&mut spin.queue) {
                if *word >> PROCESS_SHIFT == 0 {
                    *word |= upper;
                }
            }
        }
        let path_memory = vcpu.take_paths();
        let mut paths = path_memory.as_slice();
        let mut bytes = std::mem::take(&mut vcpu.packed);
        let mut doings = vcpu.doings();
        loop {
            let (line_count, event_count) = pack_doings(&doings, &mut bytes);
            paths = add_paths(&mut bytes, line_count, paths, event_count);
            doings = doings.after(line_count, event_count);
            let is_last = doings.taken.is_empty() && doings.events.is_empty();
            let message = match is_last {
                true => Message::new(request, args),
                false => Message::new(Request::Take, &[]),
            };
            self.port.send(channel, message.with_bytes(&bytes));
            if is_last {
                break;
            }
        }
        vcpu.packed = bytes;
        vcpu.forget_doings();
        vcpu.reuse_paths(path_memory);
        Some(channel)
    }

    /// Tells calls that the recorder does not know yet.
    fn say_calls(&self, vcpu: &mut Vcpu, channel: Channel) {
        if let Some(callers) = &mut vcpu.callers {
            pack_calls(callers.take_new_calls(), |calls| {
                let message = Message::new(Request::Calls, &[]);
                self.port.send(channel, message.with_bytes(calls));
            });
        }
    }

    fn go_on(&self, vcpu: &mut Vcpu, answer: Option<Answer>) {
        match answer {
            Some([budget, now, clock, cpu, turn]) if budget != u64::MAX => {
                home::go(self.port.home());
                self.read_mail();
                vcpu.clock = Cycles(clock);
                vcpu.cpu = CpuId(cpu as u16);
                vcpu.turns.begin(vcpu.insns.saturating_add(turn));
                vcpu.release(budget, Cycles(now));
            }
            _ => self.let_go(vcpu),
        }
    }

    fn let_go(&self, vcpu: &mut Vcpu) {
        self.abandon();
        vcpu.limit = u64::MAX;
    }

    /// Takes back lines that only one thread uses any more.
    fn read_mail(&self) {
        if self.reads_mail.swap(true, Ordering::Acquire) {
            return;
        }
        self.port
            .mail(self.mailbox.load(Ordering::Relaxed), |mail| {
                let owner = self
                    .first_touch
                    .toucher(Tag::of_thread(mail.thread), Cycles(mail.time));
                self.first_touch
                    .make_private(mail.addr, owner, mail.is_written);
            });
        self.reads_mail.store(false, Ordering::Release);
    }
}

/// Arguments of a wait's length.
fn timed(length: Option<Cycles>) -> [u64; 2] {
    length.map_or([0, 0], |length| [1, length.0])
}
