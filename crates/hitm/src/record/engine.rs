//! The thread of `hitm record` that holds the threads of all recorded processes together and prices
//! what they do.
//!
//! Processes ask through the board ([`hitm_weave::board`]); nothing that they say is trusted, and one
//! that dies at any moment only leaves.

mod affinity;
mod home;
mod names;
mod processes;
mod timers;
mod watch;

pub(super) use watch::Stalled;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hitm_base::{AccessOp, AddrRange, Cycles};
use hitm_recording::Caveat;
use hitm_trace::{Counter, EndReason, Loss, ProcessExit, Record, SHARED_END, SHARED_FIRST};
use hitm_weave::board::{
    Answer, BadMessage, Board, INTERVAL_TIMER, Incoming, Mail, Message, Request, unpack_calls,
    unpack_doings, unpack_paths, unpack_records,
};
use hitm_weave::{Doings, Doubt, Group, Newcomer, Position, Slot, State, Wake};

use self::home::Home;
use self::processes::Processes;
use self::timers::Ringers;
use self::watch::Watch;
use super::Stall;
use super::caveats::Caveats;
use super::host_time::host_nanos;
use super::region::Backing;

/// Interval at which the engine looks for what nobody reports: processes that died, and the end.
/// Each look reads a file of /proc for each process.
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Interval at which the engine looks for threads that fell asleep, when nobody else can run.
const LOOK_FOR_SLEEP: Duration = Duration::from_micros(100);
/// Longest wait for a thread that could run and does not come: on the busiest host it would.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Free channels that are kept for new threads.
const SPARE_CHANNELS: usize = 64;

/// State that the engine's thread shares with the one that follows the program.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// End of the first process, once it has ended.
    pub(super) first_end: Mutex<Option<EndReason>>,
    /// Followed processes that run, as this process knows them.
    pub(super) running: Mutex<Vec<u32>>,
    /// Ends of processes that the report cannot leave unsaid: the first one's, and any that is a loss, each with
    /// its program.
    pub(super) ends: Mutex<Ends>,
    /// Number of the program that each process ran last, by PID. Forks run their parent's.
    pub(super) programs: Mutex<BTreeMap<u32, u32>>,
    /// Message of the watchdog that has not been told.
    pub(super) stall: Mutex<Option<Stalled>>,
    /// A process has attached.
    pub(super) has_started: AtomicBool,
    /// Programs that were not followed, and why, each with a count.
    pub(super) left_alone: Mutex<BTreeMap<String, u64>>,
    pub(super) caveats: Caveats,
}

/// Ends of processes, as far as `hitm record` tells them.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Of the last program of the first process.
    pub(super) first: Option<EndReason>,
    /// Programs whose rest is not recorded, and why.
    pub(super) losses: Vec<(String, Loss)>,
}

/// A recorded thread.
#[derive(Debug)]
struct Thread {
    channel: u32,
    process: u32,
    /// Position in its latest message.
    position: Position,
    /// Place of its last access.
    last: Position,
    /// Status that it ends with, once it has asked for its end.
    ending: Option<i32>,
    has_ended: bool,
}

#[derive(Debug)]
pub(super) struct Engine {
    board: Board,
    group: Group,
    window: Cycles,
    backing: Backing,
    /// By slot.
    threads: Vec<Thread>,
    /// Slots of the threads that have channels.
    slots: BTreeMap<u32, Slot>,
    processes: Processes,
    ringers: Ringers,
    home: Home,
    /// Numbers of objects that processes share, by device, inode and kind.
    objects: BTreeMap<[u64; 3], u32>,
    released: Vec<Slot>,
    /// Requests of new threads that came before others.
    early: Vec<Incoming>,
    /// Threads that have waited for too long.
    late: Vec<Slot>,
    /// Doubts whose threads slept, or were gone, at the last look. The next look gives up those
    /// that remain so.
    doubts: Vec<Doubt>,
    /// All doubts at the last look, and the time since which they are the same.
    expected: (Vec<Doubt>, Instant),
    watch: Watch,
    /// Threads tell who called the functions that access memory.
    has_callers: bool,
    shared: Arc<Shared>,
    bad_messages: u64,
}

impl Engine {
    pub(super) fn new(
        board: Board,
        backing: Backing,
        (group, window): (Group, Cycles),
        stall: Stall,
        shared: Arc<Shared>,
    ) -> Engine {
        Engine {
            board,
            group,
            window,
            backing,
            threads: Vec::new(),
            slots: BTreeMap::new(),
            processes: Processes::default(),
            ringers: Ringers::default(),
            home: Home::new(),
            objects: BTreeMap::new(),
            released: Vec::new(),
            early: Vec::new(),
            late: Vec::new(),
            doubts: Vec::new(),
            expected: (Vec::new(), Instant::now()),
            watch: Watch::new(stall),
            has_callers: false,
            shared,
            bad_messages: 0,
        }
    }

    /// Takes over callers as well.
    pub(super) fn with_callers(self, has_callers: bool) -> Engine {
        Engine {
            has_callers,
            ..self
        }
    }

    /// Serves until the recording is over.
    pub(super) fn run(mut self) {
        let mut looked_at = Instant::now();
        self.come_home();
        while !self.group.is_finished() {
            let requests = self.board.collect();
            if looked_at.elapsed() > LOOK_AROUND {
                self.look_around();
                looked_at = Instant::now();
            }
            if requests.is_empty() && !self.group.is_finished() {
                let is_settled = self.settle() && self.pass_idle_time();
                let time = match is_settled {
                    true => LOOK_AROUND,
                    false => LOOK_FOR_SLEEP,
                };
                self.board.wait(self.group.running_count(), time);
            }
            for incoming in requests {
                self.serve(&incoming);
            }
        }
        self.board.end_time(host_nanos());
        self.board.end();
    }

    fn serve(&mut self, incoming: &Incoming) {
        let channel = incoming.channel;
        let Some(mut message) = incoming.message() else {
            return self.refuse(incoming);
        };
        self.watch.note(message.request);
        self.use_own_numbers(incoming, &mut message);
        if self.comes_early(incoming.process, &message) {
            return self.early.push(incoming.clone());
        }
        let result = match (message.request, self.slots.get(&channel).copied()) {
            (Request::Attach, _) => self.attach(incoming, &message),
            (Request::Enter, None) => self.enter(channel, &message),
            (Request::Close, None) => {
                self.board.free(channel);
                Ok(())
            }
            (Request::ProcessGone, None) => {
                let pid = self.pid_of(incoming);
                self.process_ends(pid, self.end_of(pid));
                self.board.answer(channel, &[]);
                Ok(())
            }
            (Request::NextTimer, None) => {
                self.next_timer(incoming);
                Ok(())
            }
            (_, Some(slot)) if !self.threads[slot.0].has_ended => {
                self.serve_thread(slot, channel, &message)
            }
            (_, Some(_)) => {
                self.board.answer(channel, &[u64::MAX]);
                Ok(())
            }
            _ => Err(BadMessage),
        };
        if result.is_err() {
            self.refuse(incoming);
        }
    }

    /// Ends the recording of a process that says what cannot be.
    fn refuse(&mut self, incoming: &Incoming) {
        self.bad_messages += 1;
        let loss = Loss::BadMessage;
        self.process_ends(self.pid_of(incoming), EndReason::Lost { loss });
        self.board.answer(incoming.channel, &[u64::MAX]);
    }

    /// The pid of the running process that says something; 0 if there is none.
    fn pid_of(&self, incoming: &Incoming) -> u32 {
        let process = self.processes.named(incoming.process);
        process.map_or(0, |process| self.processes.pid(process))
    }

    /// Replaces the numbers of threads and children in a message by those that they have here.
    fn use_own_numbers(&mut self, incoming: &Incoming, message: &mut Message<'_>) {
        /// Higher than any pid: of a thread that is gone, or of another process.
        const UNKNOWN: u32 = 1 << 30;
        let Some(process) = self.processes.named(incoming.process) else {
            return;
        };
        let number = message.args[0] as u32;
        let own = match message.request {
            _ if number == 0 => 0,
            Request::Enter
            | Request::Created
            | Request::Stack
            | Request::Pin
            | Request::Affinity => {
                let tid = self.processes.threads(process).tid(number);
                tid.unwrap_or(number | UNKNOWN)
            }
            Request::Forked => {
                let forker = self.slots.get(&incoming.channel);
                let forker = forker.map_or(0, |slot| self.group.tid(*slot));
                let child = self.processes.threads(process).child(forker, number);
                child.unwrap_or(0)
            }
            _ => return,
        };
        message.args[0] = own.into();
    }

    fn attach(&mut self, incoming: &Incoming, message: &Message<'_>) -> Result<(), BadMessage> {
        let own_pid = message.args[0] as u32;
        let mark = self.board.mark_of(incoming.process);
        let Some(pid) = names::find(own_pid, &mark) else {
            return self.leave_process_alone(incoming, "not to be seen in /proc");
        };
        let parent = (message.args[1] == 1).then_some(message.args[2] as u32);
        let mut kept = None;
        if let Some(before) = self.processes.running(pid).filter(|_| parent.is_none()) {
            kept = self.group.take_timer((before, INTERVAL_TIMER));
            self.process_ends(pid, EndReason::Exec);
            self.group.counters().exec_calls += 1;
        }
        let program = String::from_utf8_lossy(message.bytes).into_owned();
        let time = self.group.now();
        let name = (incoming.process, pid);
        let Some((start, mailbox)) = self.processes.begin(name, parent, program, time) else {
            self.group.give_up(&Doubt::Newcomer(pid));
            return self.leave_process_alone(incoming, "too many processes");
        };
        self.shared.has_started.store(true, Ordering::Release);
        let seen = [
            (Caveat::HostCpus, message.args[3]),
            (Caveat::HostClock, message.args[4]),
        ];
        for (caveat, _) in seen.into_iter().filter(|(_, is_seen)| *is_seen == 1) {
            self.shared.caveats.note(caveat);
        }
        let number = start.process;
        if parent.is_none() {
            let mut programs = self.shared.programs.lock().expect("no holder panics");
            programs.insert(own_pid, number);
        }
        self.group.record(&Record::ProcessStart(start));
        self.tell_running();
        let mailbox = self.board.mailbox_for(mailbox);
        let mut answer = [number.into(), mailbox.into(), 1, 0, 0];
        if let Some(times) = kept {
            self.group.set_timer((number, INTERVAL_TIMER), Some(times));
            answer[3..].copy_from_slice(&[times.next.0, times.interval.0]);
        }
        self.board.answer(incoming.channel, &answer);
        Ok(())
    }

    /// Lets a process that attaches run unrecorded.
    fn leave_process_alone(&self, incoming: &Incoming, why: &str) -> Result<(), BadMessage> {
        let message = incoming.message().ok_or(BadMessage)?;
        self.count_left_alone(why, &String::from_utf8_lossy(message.bytes));
        self.board.answer(incoming.channel, &[]);
        Ok(())
    }

    /// Returns true for a new thread that comes before others that were created earlier.
    fn comes_early(&self, name: u32, message: &Message<'_>) -> bool {
        let process = self.processes.named(name);
        message.request == Request::Enter
            && process
                .is_some_and(|process| self.group.has_earlier(message.args[0] as u32, process))
    }

    /// Serves threads that came before others which have come meanwhile, or will not come.
    fn serve_early(&mut self) {
        for incoming in std::mem::take(&mut self.early) {
            self.serve(&incoming);
        }
    }

    fn enter(&mut self, channel: u32, message: &Message<'_>) -> Result<(), BadMessage> {
        let [tid, seat, process, ..] = message.args;
        let process = process as u32;
        if !self.processes.is_running(process) {
            return Err(BadMessage);
        }
        let newcomer = Newcomer {
            tid: tid as u32,
            seat: self.processes.seat(process, seat as u32),
            process,
        };
        let name = String::from_utf8_lossy(message.bytes).into_owned();
        let slot = self.group.enter(newcomer, name);
        self.threads.push(Thread {
            channel,
            process,
            position: Position::default(),
            last: Position::default(),
            ending: None,
            has_ended: false,
        });
        self.slots.insert(channel, slot);
        let now = self.group.now();
        let cpu = self.group.cpu(slot);
        self.board
            .answer(channel, &[slot.0 as u64, now.0, cpu.0.into()]);
        self.serve_early();
        Ok(())
    }

    /// A thread is back from a system call. It runs at once, or waits for its waker's time.
    fn rejoin(&mut self, slot: Slot, channel: u32, args: &[u64; 8]) -> Result<(), BadMessage> {
        if self.group.state(slot) != State::Away {
            return Err(BadMessage);
        }
        if self.threads[slot.0].ending.take().is_some() {
            self.group.cancel_end(slot);
        }
        let budget = match args[0] {
            1 => self.group.rejoin_woken(slot, args[1], self.window),
            2 => {
                self.group.rejoin_unsure(slot, args[1]);
                None
            }
            3 if self.group.rejoin_late(slot) => None,
            _ => Some(self.group.rejoin(slot, self.window)),
        };
        match budget {
            Some(budget) => self.go_on(slot, channel, budget),
            None => {
                self.board.take(channel);
                self.rounds();
            }
        }
        Ok(())
    }

    fn serve_thread(
        &mut self,
        slot: Slot,
        channel: u32,
        message: &Message<'_>,
    ) -> Result<(), BadMessage> {
        let args = &message.args;
        match message.request {
            Request::Pin | Request::Affinity => {
                self.serve_affinity(slot, channel, message);
                return Ok(());
            }
            Request::Memory | Request::Object => {
                self.serve_question(slot, channel, message);
                return Ok(());
            }
            Request::Wait => {
                self.take_in(slot, message.bytes)?;
                self.late.retain(|late| *late != slot);
                match args[0] {
                    1 => self.group.park_for_turn(slot),
                    _ => self.group.park(slot),
                }
                self.board.take(channel);
                self.rounds();
                return Ok(());
            }
            Request::TimedOut => {
                self.timed_out(slot, channel);
                return Ok(());
            }
            Request::Rejoin => return self.rejoin(slot, channel, args),
            Request::Leave | Request::Exec => {
                self.take_in(slot, message.bytes)?;
                self.leave(slot, args)?;
                if message.request == Request::Exec {
                    let pid = self.processes.pid(self.threads[slot.0].process);
                    self.group.bequeath(slot, pid);
                }
            }
            Request::Take => self.take_in(slot, message.bytes)?,
            Request::ThreadExit => {
                self.take_in(slot, message.bytes)?;
                let insn = self.threads[slot.0].position.insn.min(args[0]);
                self.group.end_thread(Wake { slot, insn });
                self.threads[slot.0].ending = Some(args[1] as i32);
                self.leave(slot, &[0; 8])?;
            }
            Request::Close => {
                self.thread_ends(slot);
                self.rounds();
                return Ok(());
            }
            Request::ProcessExit => {
                self.take_in(slot, message.bytes)?;
                let status = args[0] as i32;
                let pid = self.processes.pid(self.threads[slot.0].process);
                self.process_ends(pid, EndReason::Exited { status });
            }
            Request::Calls => {
                let calls = unpack_calls(message.bytes)?;
                let taken = self.group.take_calls(slot, &calls);
                taken.map_err(|_| BadMessage)?;
            }
            Request::Records => {
                for record in unpack_records(message.bytes)? {
                    self.group.record(&record);
                }
            }
            _ => self.serve_note(slot, message)?,
        }
        self.board.answer(channel, &[]);
        self.rounds();
        Ok(())
    }

    /// Answers questions that concern the process.
    fn serve_question(&mut self, slot: Slot, channel: u32, message: &Message<'_>) {
        let args = &message.args;
        let answer = match message.request {
            Request::Memory => {
                let pid = self.processes.pid(self.threads[slot.0].process);
                let is_sent = names::as_seen_here(pid)
                    .is_some_and(|pid| self.backing.send(pid, args[0] as i32));
                is_sent.into()
            }
            _ => self.object([args[0], args[1], args[2]]).into(),
        };
        self.board.answer(channel, &[answer]);
    }

    /// Number of an object that processes share; 0 when there are too many.
    fn object(&mut self, key: [u64; 3]) -> u32 {
        let next = SHARED_FIRST + self.objects.len() as u32;
        match self.objects.get(&key) {
            Some(number) => *number,
            None if next < SHARED_END => *self.objects.entry(key).or_insert(next),
            None => 0,
        }
    }

    /// Serves requests that change no thread's state.
    fn serve_note(&mut self, slot: Slot, message: &Message<'_>) -> Result<(), BadMessage> {
        let args = &message.args;
        let process = self.threads[slot.0].process;
        let text = || String::from_utf8_lossy(message.bytes).into_owned();
        match message.request {
            Request::Wake => {
                let insn = args[1].min(hitm_trace::COUNT_MAX);
                self.group.begin_wake(args[0], Wake { slot, insn });
            }
            Request::Woken => self.group.end_wake(args[1], args[0] as u32),
            Request::Created => {
                let futex = (args[1] == 1).then_some(args[2]);
                self.group
                    .expect_thread(args[0] as u32, Some(process), futex);
                self.group.inherit(slot, args[0] as u32);
            }
            Request::Stack => {
                let range = AddrRange::new(args[1], args[2]).ok_or(BadMessage)?;
                self.group.register_stack(args[0] as u32, range);
            }
            Request::Rename => self.group.rename(slot, text()),
            Request::Forking => self.processes.begin_fork(process),
            Request::Forked => {
                let child = args[0] as u32;
                self.processes.end_fork(process, child);
                if child != 0 {
                    self.group.expect_thread(child, None, None);
                    self.group.inherit(slot, child);
                }
            }
            Request::Unfollowed => self.processes.set_left_alone(process, Some(text())),
            Request::Stays => self.processes.set_left_alone(process, None),
            Request::NoNamespace => self.shared.caveats.note(Caveat::NoNamespace),
            Request::SetTimer => self.set_timer(slot, args)?,
            Request::UnfollowedFork => self.group.counters().forked_children += 1,
            _ => return Err(BadMessage),
        }
        Ok(())
    }

    fn take_in(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), BadMessage> {
        let thread = &self.threads[slot.0];
        let doings = unpack_doings(bytes, (thread.position, thread.last))?;
        let owners = doings.taken.iter().map(|taken| taken.owner.0 as usize);
        if owners
            .max()
            .is_some_and(|owner| owner >= self.threads.len())
        {
            return Err(BadMessage);
        }
        let thread = &mut self.threads[slot.0];
        thread.position = doings.position;
        if let Some(last) = doings.events.last() {
            thread.last = Position {
                insn: last.insn,
                stores: last.stores,
            };
        }
        if self.has_callers {
            let paths = unpack_paths(bytes, doings.taken.len()).zip(&doings.events);
            let paths = paths.filter(|(_, event)| event.op != AccessOp::Fence);
            let taken = self.group.take_paths(slot, paths.map(|(path, _)| path));
            taken.map_err(|_| BadMessage)?;
        }
        let doings = Doings {
            taken: &doings.taken,
            events: &doings.events,
            position: doings.position,
            accesses: doings.accesses,
            out_of_range: doings.out_of_range,
            spins: &doings.spins,
        };
        self.group.take_in(slot, doings);
        Ok(())
    }

    fn leave(&mut self, slot: Slot, args: &[u64; 8]) -> Result<(), BadMessage> {
        let futex = (args[0] == 1).then_some(args[1]);
        match (self.group.state(slot), futex) {
            (State::Running, Some(futex)) => self.group.leave_for(slot, futex),
            (State::Running, None) => self.group.leave(slot),
            // It runs unrecorded for a while.
            (State::Away, _) => {}
            _ => return Err(BadMessage),
        }
        if args[2] == 1 {
            let delay = args[3].min(hitm_trace::COUNT_MAX);
            self.group.set_alarm(slot, Cycles(delay));
        }
        Ok(())
    }

    fn timed_out(&mut self, slot: Slot, channel: u32) {
        if let Some(budget) = self.group.start(slot) {
            return self.go_on(slot, channel, budget);
        }
        self.board.take(channel);
        self.late.push(slot);
        self.rounds();
        self.let_late_go();
    }

    /// Lets threads that have waited for too long run a block, if those that they wait for sleep: QEMU may
    /// wait for them. While one of those can run, the host is busy, and the threads go on waiting.
    fn let_late_go(&mut self) {
        if self.late.is_empty() || self.somebody_comes() {
            return;
        }
        for slot in std::mem::take(&mut self.late) {
            // A woken thread is in a system call, where QEMU does not wait for it.
            if self.group.state(slot) == State::Parked && !self.group.is_returning(slot) {
                self.group.time_out();
                self.group.unpark(slot);
                self.go_on(slot, self.threads[slot.0].channel, 1);
            }
        }
    }

    /// Returns true if one of the threads that the others wait for can run.
    fn somebody_comes(&self) -> bool {
        let running = self.group.running().map(|slot| self.group.tid(slot));
        let expected = self.group.doubts().into_iter().flat_map(|(_, tids)| tids);
        let comes = |tid| !processes::is_asleep(tid);
        running.chain(expected).any(comes) || self.board.has_requests()
    }

    /// Weaves and releases for as long as every present thread waits.
    fn rounds(&mut self) {
        while self.group.everybody_is_here() && !self.group.is_finished() {
            self.group.weave_all();
            self.give_back();
            if self.group.stop_requested() {
                return self.finish(EndReason::Stopped);
            }
            self.board.tell_time(self.group.now());
            if self.ring() {
                return; // The others wait until those are back.
            }
            self.group.release(self.window, &mut self.released);
            self.home.note_round(self.released.len());
            for slot in std::mem::take(&mut self.released) {
                let State::Released(budget) = self.group.state(slot) else {
                    continue;
                };
                let channel = self.threads[slot.0].channel;
                let answer = self.answer_to(slot, budget);
                // A thread that has timed out meanwhile asks again, and finds that it may continue.
                if self.board.release(channel, &answer) {
                    self.group.start(slot);
                }
            }
        }
    }

    /// Wakes threads whose waits end, and lets timers ring; true if there are any.
    fn ring(&mut self) -> bool {
        let due = self.group.ring(self.window);
        for slot in &due {
            self.board.ring(self.threads[slot.0].channel);
        }
        self.ring_timers() || !due.is_empty()
    }

    /// Lets time pass to the first end of a wait, when nobody runs and nobody is about to; false while that is
    /// unknown.
    fn pass_idle_time(&mut self) -> bool {
        if !self.group.is_idle() || self.board.is_paused() {
            return true;
        }
        // A thread that waits for an answer sleeps as well. It had asked before.
        if !self.group.away().all(processes::is_asleep) || self.board.has_requests() {
            return false;
        }
        self.group.pass_to_alarm();
        self.board.tell_time(self.group.now());
        self.ring();
        true
    }

    fn go_on(&self, slot: Slot, channel: u32, budget: u64) {
        self.board.answer(channel, &self.answer_to(slot, budget));
    }

    /// Answer to a thread that continues: its budget, the time, its clock, its CPU, and instructions until its
    /// turn at locks is over.
    fn answer_to(&self, slot: Slot, budget: u64) -> Answer {
        let clock = self.group.weave().clock(slot);
        let cpu = self.group.cpu(slot).0.into();
        [
            budget,
            self.group.now().0,
            clock.0,
            cpu,
            self.group.turn(slot),
        ]
    }

    /// Tells processes of lines that only one of their threads uses any more.
    fn give_back(&mut self) {
        const LOWER: u64 = (1 << hitm_trace::PROCESS_SHIFT) - 1;
        let mut count = 0;
        for lonely in self.group.take_lonely() {
            let addr = lonely.line.first_byte();
            let number = (addr >> hitm_trace::PROCESS_SHIFT) as u32;
            let Some(mailbox) = self.processes.mailbox(number) else {
                continue;
            };
            let mail = Mail {
                addr: addr & LOWER,
                thread: lonely.thread.0,
                time: lonely.time.0,
                is_written: lonely.is_written,
            };
            count += u64::from(self.board.post(mailbox, mail));
        }
        self.group.count_reprivatised(count);
    }

    fn thread_ends(&mut self, slot: Slot) {
        let thread = &mut self.threads[slot.0];
        if !std::mem::replace(&mut thread.has_ended, true) {
            self.group.remove(slot);
            self.slots.remove(&thread.channel);
            self.board.free(thread.channel);
        }
    }

    /// The end of a process that is gone: its last thread's, or none that it told.
    fn end_of(&self, pid: u32) -> EndReason {
        let Some(process) = self.processes.running(pid) else {
            return EndReason::Killed;
        };
        if self.processes.is_left_alone(process) {
            return EndReason::Exec;
        }
        let mut threads = self
            .threads
            .iter()
            .filter(|thread| thread.process == process);
        let last = threads.clone().rfind(|thread| !thread.has_ended);
        let is_at_its_end = threads.all(|thread| thread.has_ended || thread.ending.is_some());
        let status = last.and_then(|thread| thread.ending);
        match (status.filter(|_| is_at_its_end), self.first_end()) {
            (Some(status), _) => EndReason::Exited { status },
            (None, Some(reason @ EndReason::Signalled { .. })) if pid == self.processes.pid(0) => {
                reason
            }
            _ => EndReason::Killed,
        }
    }

    /// End of the first process, once it has ended.
    fn first_end(&self) -> Option<EndReason> {
        *self.shared.first_end.lock().expect("no holder panics")
    }

    /// The process `pid` runs no more, or runs something else.
    fn process_ends(&mut self, pid: u32, reason: EndReason) {
        let Some(process) = self.processes.running(pid) else {
            return;
        };
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if thread.process == process && !std::mem::replace(&mut thread.has_ended, true) {
                self.group.remove(Slot(index));
                // QEMU's exit waits for threads that wait here, those that timed out among them.
                self.board.release(thread.channel, &[u64::MAX]);
            }
        }
        let early = std::mem::take(&mut self.early).into_iter();
        let (early, others): (Vec<_>, Vec<_>) =
            early.partition(|incoming| self.pid_of(incoming) == pid);
        self.early = others;
        for incoming in early {
            self.board.answer(incoming.channel, &[u64::MAX]);
        }
        self.note_end(pid, reason);
        self.forget_timers(process);
        if reason == EndReason::Exec {
            // The new program's first request waits in a channel of its own.
            self.free_ended(pid);
            self.free_all(pid);
        }
        self.tell_running();
        self.rounds();
    }

    /// Writes that a process has ended, and counts what it ran unrecorded.
    fn note_end(&mut self, pid: u32, reason: EndReason) {
        let now = self.group.now();
        let running = self.processes.running(pid);
        let ended = running.and_then(|process| self.processes.end(process, reason, now));
        if let Some((exit, left_alone)) = ended {
            self.group.record(&Record::ProcessExit(exit));
            self.note_reason(exit);
            if let Some(text) = left_alone {
                let (why, program) = text.split_once(':').unwrap_or((&text, ""));
                self.count_left_alone(why, program);
            }
        }
    }

    /// Keeps a reason that `hitm record` tells.
    fn note_reason(&self, exit: ProcessExit) {
        let mut ends = self.shared.ends.lock().expect("no holder panics");
        if self.processes.pid(exit.process) == self.processes.pid(0) {
            ends.first = Some(exit.reason);
        }
        if let EndReason::Lost { loss } = exit.reason {
            let program = self.processes.program(exit.process);
            ends.losses.push((program.to_owned(), loss));
        }
    }

    /// Frees the channels of threads that have ended with their process.
    fn free_ended(&mut self, pid: u32) {
        let ended: Vec<u32> = self
            .slots
            .iter()
            .filter(|(_, slot)| {
                let thread = &self.threads[slot.0];
                thread.has_ended && self.processes.pid(thread.process) == pid
            })
            .map(|(channel, _)| *channel)
            .collect();
        for channel in ended {
            self.slots.remove(&channel);
            self.board.free(channel);
        }
    }

    /// Frees whatever channels the last program of the process has.
    fn free_all(&mut self, pid: u32) {
        if let Some(name) = self.processes.last_name(pid) {
            self.board.free_all(name);
        }
    }

    /// Finds out which threads have fallen asleep, when nobody can run before that is known; false while
    /// it is unknown.
    fn settle(&mut self) -> bool {
        if self.group.running_count() > 0 || !self.group.has_doubts() {
            return true;
        }
        let unsettled = self.group.unsettled();
        for slot in &unsettled {
            if processes::is_asleep(self.group.tid(*slot)) && !self.board.has_requests() {
                self.group.settle(*slot);
            }
        }
        self.rounds();
        self.group.unsettled().is_empty()
    }

    /// Gives up waiting for threads that have slept, or been gone, at this look and the one before, or
    /// that do not come for very long.
    fn doubt(&mut self) {
        let expected = self.group.doubts();
        let names: Vec<Doubt> = expected.iter().map(|(doubt, _)| doubt.clone()).collect();
        if self.expected.0 != names {
            self.expected = (names, Instant::now());
        }
        let is_late = self.expected.1.elapsed() > WAIT_MAX;
        let mut doubts = Vec::new();
        for (doubt, tids) in expected {
            let comes = |tid: &u32| !processes::is_asleep(*tid);
            if tids.iter().any(comes) && !is_late {
                continue;
            }
            match self.doubts.contains(&doubt) || is_late {
                true => self.group.give_up(&doubt),
                false => doubts.push(doubt),
            }
        }
        self.doubts = doubts;
        self.rounds();
    }

    /// Ends the recording of processes that have told that they run on unrecorded.
    fn note_losses(&mut self) {
        for (name, loss) in self.board.take_losses() {
            match self.processes.named(name) {
                Some(process) => {
                    let pid = self.processes.pid(process);
                    self.process_ends(pid, EndReason::Lost { loss });
                }
                None => self.count_left_alone(&loss.to_string(), "a process"),
            }
        }
    }

    /// Looks for processes that died, makes room for more threads, and finds the end.
    fn look_around(&mut self) {
        self.note_losses();
        for pid in self.processes.take_dead() {
            if pid == self.processes.pid(0) && self.first_end().is_none() {
                continue; // How it ended is about to be known.
            }
            self.process_ends(pid, self.end_of(pid));
            self.free_ended(pid);
            if self.processes.running(pid).is_none() {
                self.free_all(pid);
            }
        }
        self.look_at_home();
        self.watch();
        self.doubt();
        self.serve_early();
        self.let_late_go();
        if self.board.free_count() < SPARE_CHANNELS {
            let wanted = self.board.backed() + 2 * SPARE_CHANNELS;
            if self.backing.grow(wanted) {
                self.board.back(wanted);
            }
        }
        if self.group.stop_requested() {
            return self.finish(EndReason::Stopped);
        }
        if let Some(reason) = self.first_end()
            && !self.processes.any_is_left()
        {
            self.finish(reason);
        }
    }

    fn finish(&mut self, reason: EndReason) {
        if self.group.is_finished() {
            return;
        }
        for pid in self.processes.running_pids() {
            let reason = match reason {
                EndReason::Exited { .. } | EndReason::Signalled { .. } => self.end_of(pid),
                reason => reason,
            };
            self.note_end(pid, reason);
        }
        let left_alone = self.shared.left_alone.lock().expect("no holder panics");
        let mut counters: Vec<Counter> = left_alone
            .iter()
            .map(|(text, count)| Counter {
                name: format!("not_followed:{text}"),
                value: *count,
            })
            .collect();
        drop(left_alone);
        let named = [
            ("refused_messages", self.bad_messages),
            ("program_cpus", self.group.seen_cpu_count()),
        ];
        let caveats =
            Caveat::ALL.map(|caveat| (caveat.counter(), self.shared.caveats.count(caveat)));
        counters.extend(
            named
                .into_iter()
                .chain(caveats)
                .map(|(name, value)| Counter {
                    name: name.into(),
                    value,
                }),
        );
        self.group.add_counters(counters);
        self.group.finish(reason);
    }

    fn count_left_alone(&self, why: &str, program: &str) {
        let mut left_alone = self.shared.left_alone.lock().expect("no holder panics");
        *left_alone.entry(format!("{why}:{program}")).or_default() += 1;
    }

    fn tell_running(&self) {
        let mut running = self.shared.running.lock().expect("no holder panics");
        let pids = self.processes.all_pids();
        *running = pids.into_iter().filter_map(names::as_seen_here).collect();
    }
}
