//! The threads that are held together: who runs, who waits for the others, and when what they did is
//! priced.
//!
//! A thread that has used up its budget parks. When every present thread has parked, a round weaves
//! what they did, which moves their clocks, and releases those that are within the window of the
//! slowest. A thread in a system call that may block is not present. Threads that were woken or created
//! are waited for until they come ([`crate::expected`]), or the others would run alone for as long as
//! the host takes to schedule them.

mod affinity;
mod alarms;
mod parked;
mod records;
#[cfg(test)]
mod tests;
mod timers;
mod waited;
mod waits;

pub use affinity::Pinned;
pub use timers::{TimerName, TimerTimes};
pub use waited::{LockSleep, Spin};
pub use waits::Doubt;
use waits::Sleep;

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::machine::MachineCost;
use hitm_base::{AddrRange, CodeAddr, CpuId, Cycles, LineAddr, ThreadId};
use hitm_trace::{Adoption, Counter, EndReason, Record, Turn};

use self::alarms::Alarms;
use self::parked::{LastLocked, Parked};
use self::timers::Timers;
use self::waited::Waited;
use crate::expected::Expected;
use crate::output::{Lonely, Output};
use crate::wakes::Wakes;
use crate::{Call, PathId, Position, ProgramCpus, Slot, ThreadEvent, UnknownCall, Weave, WorkLog};

/// Accesses of a thread that are kept in mind: the last ones before it sleeps are to the lock, or near it.
const LAST_USED: usize = 8;

/// Rounds after which the threads' totals are written: some ten million virtual cycles.
const TOTALS_EVERY_ROUNDS: u64 = 1000;

/// The way from FUTEX_WAKE to the sleeper's first instruction: an interrupt to its CPU, the switch to
/// the thread, and its way out of the kernel. The CPU idles, as each thread has one for itself.
const WAKE: [MachineCost; 5] = [
    MachineCost::IpiSend,
    MachineCost::IpiDelivery,
    MachineCost::IdleExit,
    MachineCost::ContextSwitch,
    MachineCost::Syscall,
];

/// A thread of the group.
#[derive(Debug)]
struct Member {
    tid: u32,
    seat: u32,
    process: u32,
    state: State,
    /// It has ended.
    is_gone: bool,
    /// Word that it wakes others at when it ends.
    ends_at: Option<u64>,
    /// The thread's own count when it was here last.
    accesses: u64,
    /// It is about to use a lock that others fight over.
    awaits_turn: bool,
    /// Wakes, at any futex, before it went into its last wait.
    wakes_before: u64,
    /// The futex that had another value when it was to sleep there, until it is known why.
    unsure: Option<u64>,
    /// Its sleep at a futex, until it is heard of again.
    sleep: Option<Sleep>,
    /// Its last accesses, the latest last.
    last_used: [(LineAddr, CodeAddr); LAST_USED],
    last_locked: LastLocked,
    /// Its last sleep, until it is known for which lock.
    parked: Option<Parked>,
    log: WorkLog,
    /// CPUs on which the program lets it run; none before it says so.
    mask: Option<Vec<CpuId>>,
}

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It waits for the others.
    Parked,
    /// It may run this many more instructions.
    Released(u64),
    /// In a system call, or at its end.
    Away,
}

/// A new thread.
#[derive(Debug, Clone, Copy)]
pub struct Newcomer {
    /// The operating system's number.
    pub tid: u32,
    /// Number of its place among the placement's CPUs.
    pub seat: u32,
    /// Number of its process in the recording.
    pub process: u32,
}

/// Work of a thread since it was heard of last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Doings<'a> {
    /// Lines that it took over from others, each of which alone had used its line.
    pub taken: &'a [Adoption],
    /// Its accesses, in program order.
    pub events: &'a [ThreadEvent],
    /// Place that it has reached.
    pub position: Position,
    /// All accesses that it has made so far.
    pub accesses: u64,
    /// Accesses outside the program's memory since it was heard of last.
    pub out_of_range: u64,
    /// Its waits that are over since then.
    pub spins: &'a [Spin],
}

impl<'a> Doings<'a> {
    /// The rest, after so many lines and events were told.
    pub fn after(self, line_count: usize, event_count: usize) -> Doings<'a> {
        Doings {
            taken: &self.taken[line_count..],
            events: &self.events[event_count..],
            out_of_range: 0,
            spins: &[],
            ..self
        }
    }
}

/// Counts about the recording.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Children that run unrecorded.
    pub forked_children: u64,
    /// Programs that were started in place of others.
    pub exec_calls: u64,
    timed_out_parks: u64,
    given_up: u64,
    out_of_range: u64,
}

/// Threads on one modelled machine, and the recording of what they do.
///
/// **Invariant:** `present_count` is the number of members that are not away.
#[derive(Debug)]
pub struct Group {
    weave: Weave,
    output: Output,
    members: Vec<Member>,
    present_count: usize,
    /// Slots that are parked and not released.
    parked: Vec<usize>,
    /// Threads that are about to come.
    expected: Expected,
    alarms: Alarms,
    timers: Timers,
    /// Words at which threads that have not come yet wake others when they end, by tid.
    ends_of_newcomers: BTreeMap<u32, u64>,
    wakes: Wakes,
    waited: Waited,
    /// From a wake to the first instruction of the woken thread.
    wake_cost: Cycles,
    cpus: ProgramCpus,
    /// CPUs on which threads that have not come yet may run, by tid.
    masks_of_newcomers: BTreeMap<u32, Vec<CpuId>>,
    /// Stacks of threads that have not run yet, by tid.
    stacks: BTreeMap<u32, AddrRange>,
    counters: Counters,
    further_counters: Vec<Counter>,
    round_count: u64,
    /// The two slowest of those that were present at the last round, with their clocks.
    slowest: [Option<(Cycles, Slot)>; 2],
    finished: bool,
}

impl Group {
    /// A group without threads.
    pub fn new(weave: Weave, output: Output, cpus: ProgramCpus) -> Group {
        let costs = &weave.machine().costs;
        let wake_cost = WAKE
            .iter()
            .fold(Cycles::ZERO, |sum, cost| sum + costs.get(*cost));
        Group {
            weave,
            output,
            members: Vec::new(),
            present_count: 0,
            parked: Vec::new(),
            expected: Expected::default(),
            alarms: Alarms::default(),
            timers: Timers::default(),
            ends_of_newcomers: BTreeMap::new(),
            wakes: Wakes::default(),
            waited: Waited::default(),
            wake_cost,
            cpus,
            masks_of_newcomers: BTreeMap::new(),
            stacks: BTreeMap::new(),
            counters: Counters::default(),
            further_counters: Vec::new(),
            round_count: 0,
            slowest: [None; 2],
            finished: false,
        }
    }

    /// The clocks.
    pub fn weave(&self) -> &Weave {
        &self.weave
    }

    /// Virtual time up to which everything is priced.
    pub fn now(&self) -> Cycles {
        self.weave.now()
    }

    /// Returns true after [`Group::finish`].
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Threads that are not away.
    pub fn present_count(&self) -> usize {
        self.present_count
    }

    /// Threads that run: they are neither parked nor away.
    pub fn running_count(&self) -> usize {
        self.present_count - self.parked.len()
    }

    /// Threads that run.
    pub fn running(&self) -> impl Iterator<Item = Slot> {
        let members = self.members.iter().enumerate();
        let running = members.filter(|(_, member)| member.state == State::Running);
        running.map(|(slot, _)| Slot(slot))
    }

    /// Returns true if the user has asked the recording to end.
    pub fn stop_requested(&self) -> bool {
        self.output.stop_requested()
    }

    /// Adds a thread, present. It has no budget yet.
    pub fn enter(&mut self, newcomer: Newcomer, name: String) -> Slot {
        let mask = self.masks_of_newcomers.remove(&newcomer.tid);
        let cpu = self.cpus.of_seat(newcomer.seat, mask.as_deref());
        let thread = ThreadId(self.members.len() as u32);
        let slot = self.weave.add_thread(thread, cpu);
        self.members.push(Member {
            tid: newcomer.tid,
            seat: newcomer.seat,
            process: newcomer.process,
            state: State::Running,
            is_gone: false,
            ends_at: self.ends_of_newcomers.remove(&newcomer.tid),
            accesses: 0,
            awaits_turn: false,
            wakes_before: 0,
            unsure: None,
            sleep: None,
            last_used: [(LineAddr(0), CodeAddr(0)); LAST_USED],
            last_locked: LastLocked::default(),
            parked: None,
            log: WorkLog::of(thread),
            mask,
        });
        self.present_count += 1;
        self.expected.arrive(newcomer.tid);
        self.record_start(slot, name);
        if let Some(stack) = self.stacks.remove(&newcomer.tid) {
            self.record_stack(thread, stack);
        }
        slot
    }

    /// Gives a thread a new name: its start, told again.
    pub fn rename(&mut self, slot: Slot, name: String) {
        self.record_start(slot, name);
    }

    /// Gives the new thread `tid` a stack. It may have run already, or not.
    pub fn register_stack(&mut self, tid: u32, stack: AddrRange) {
        match self.slot_of(tid) {
            Some(slot) => self.record_stack(ThreadId(slot as u32), stack),
            None => drop(self.stacks.insert(tid, stack)),
        }
    }

    /// State of a thread.
    pub fn state(&self, slot: Slot) -> State {
        self.members[slot.0].state
    }

    /// Takes over what a thread did since it was here last.
    pub fn take_in(&mut self, slot: Slot, doings: Doings<'_>) {
        if self.finished {
            return;
        }
        self.note_sleep(slot);
        self.look_for_lock(slot, doings.events);
        self.waited.spun(slot, doings.spins);
        let mut adoptions = Vec::with_capacity(doings.taken.len());
        for taken in doings.taken {
            let owner = Slot(taken.owner.0 as usize);
            self.weave.adopt(taken.line, owner, taken.is_written);
            let line = self.output.written_line(taken.line);
            adoptions.push(Adoption { line, ..*taken });
        }
        let (events, position) = (doings.events, doings.position);
        self.weave.push(slot, events, position);
        let output = &mut self.output;
        let member = &mut self.members[slot.0];
        member.log.note(&adoptions, events, position, &mut |work| {
            output.record(&Record::Work(work));
        });
        member.accesses = doings.accesses;
        member.last_locked.note(events);
        let last = events.len().saturating_sub(LAST_USED);
        for event in &events[last..] {
            member.last_used.rotate_left(1);
            member.last_used[LAST_USED - 1] = (LineAddr::of(event.addr), event.code);
        }
        self.counters.out_of_range += doings.out_of_range;
    }

    /// Takes over sleeps for locks of the kernel that runs on a machine's CPU.
    pub fn take_sleeps(&mut self, slot: Slot, sleeps: &[LockSleep]) {
        for slept in sleeps {
            self.waited.slept_in_kernel(slot, slept);
        }
    }

    /// Takes over calls in the chains of what the thread tells next.
    pub fn take_calls(&mut self, slot: Slot, calls: &[Call]) -> Result<(), UnknownCall> {
        self.output.paths().told(ThreadId(slot.0 as u32), calls)
    }

    /// Takes over the chains of the accesses of the next [`Group::take_in`], fences apart.
    pub fn take_paths(
        &mut self,
        slot: Slot,
        paths: impl Iterator<Item = PathId>,
    ) -> Result<(), UnknownCall> {
        match self.finished {
            true => Ok(()),
            false => self.output.paths().pushed(ThreadId(slot.0 as u32), paths),
        }
    }

    /// The thread waits for the others.
    pub fn park(&mut self, slot: Slot) {
        self.members[slot.0].state = State::Parked;
        self.members[slot.0].awaits_turn = false;
        self.parked.push(slot.0);
    }

    /// The thread is about to use a lock that others fight over: it waits until it is the slowest.
    pub fn park_for_turn(&mut self, slot: Slot) {
        self.park(slot);
        self.members[slot.0].awaits_turn = true;
    }

    /// Returns the number of further instructions in which the thread is no later than any other one was at
    /// the last round: so far it may fight over locks.
    pub fn turn(&self, slot: Slot) -> u64 {
        let others = self
            .slowest
            .iter()
            .flatten()
            .filter(|(_, other)| *other != slot);
        match others.map(|(clock, _)| *clock).min() {
            Some(clock) => self.weave.insns_until(slot, clock.max(self.weave.now())),
            None => u64::MAX,
        }
    }

    /// The thread runs, whatever the others do.
    pub fn unpark(&mut self, slot: Slot) {
        self.parked.retain(|parked| *parked != slot.0);
        self.members[slot.0].state = State::Running;
    }

    /// A released thread runs; returns its budget. None when it is not released.
    pub fn start(&mut self, slot: Slot) -> Option<u64> {
        match self.members[slot.0].state {
            State::Released(budget) => {
                self.members[slot.0].state = State::Running;
                Some(budget)
            }
            _ => None,
        }
    }

    /// A thread that was started has not gone on: it is released still.
    pub fn release_later(&mut self, slot: Slot, budget: u64) {
        if self.members[slot.0].state == State::Running {
            self.members[slot.0].state = State::Released(budget);
        }
    }

    /// A parked thread has waited for too long: it runs a block.
    pub fn time_out(&mut self) {
        self.counters.timed_out_parks += 1;
    }

    /// Returns true if every present thread has parked.
    pub fn everybody_is_here(&self) -> bool {
        self.parked.len() == self.present_count
            && self.present_count > 0
            && self.expected.is_empty()
            && !self.alarms.is_any_rung()
            && !self.timers.is_any_ringing()
    }

    /// The thread goes into a system call that may block, or to its end.
    pub fn leave(&mut self, slot: Slot) {
        self.weave.leave(slot);
        self.record_turn(Turn::Left {
            thread: ThreadId(slot.0 as u32),
        });
        self.members[slot.0].state = State::Away;
        self.present_count -= 1;
    }

    /// The thread is gone, wherever it was.
    pub fn remove(&mut self, slot: Slot) {
        self.expected.end_wait(slot, false);
        self.alarms.forget(slot);
        self.members[slot.0].is_gone = true;
        self.members[slot.0].unsure = None;
        if self.members[slot.0].state == State::Parked {
            self.unpark(slot);
        }
        if self.members[slot.0].state != State::Away {
            self.leave(slot);
        }
    }

    /// Lets `span` pass in which no thread was present.
    pub fn pass(&mut self, span: Cycles) {
        self.weave.pass(span);
        self.record_turn(Turn::Passed { span });
    }

    /// Writes a record that is no access.
    pub fn record(&mut self, record: &Record) {
        self.output.record(record);
    }

    /// Counts something about the recording.
    pub fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Adds counts that the caller has kept itself, for the end of the recording.
    pub fn add_counters(&mut self, counters: impl IntoIterator<Item = Counter>) {
        self.further_counters.extend(counters);
    }

    /// Prices everything up to the slowest present thread.
    pub fn weave_all(&mut self) {
        self.return_unsure();
        self.record_turn(Turn::Priced);
        let output = &mut self.output;
        self.weave
            .advance(&mut |access, outcome| output.access(access, outcome));
        self.output.commit();
    }

    /// Lines that were handed over between threads since the first call, the first 65,536 of them; whoever has taken
    /// some out makes room for others.
    pub fn handed_over(&mut self) -> &mut BTreeSet<LineAddr> {
        self.output.handed_over()
    }

    /// Lines that one thread has used alone for long, since the last call, and that no other thread has used at a
    /// later time already.
    pub fn take_lonely(&mut self) -> Vec<Lonely> {
        let mut lonely = self.output.take_lonely();
        if !lonely.is_empty() {
            let used = self.weave.lines_ahead(lonely.iter().map(|one| one.line));
            lonely.retain(|one| {
                let of_line = |(line, slot): &(LineAddr, Slot)| {
                    *line == one.line && slot.0 != one.thread.0 as usize
                };
                !used.iter().any(of_line)
            });
        }
        lonely
    }

    /// Counts lines that one thread got back for itself.
    pub fn count_reprivatised(&mut self, count: u64) {
        self.output.count_reprivatised(count);
    }

    /// Releases parked threads that are within the window of the slowest; those that wait for their turn at a
    /// lock only if they are the slowest. Call it after [`Group::weave_all`].
    pub fn release(&mut self, window: Cycles, released: &mut Vec<Slot>) {
        let parked_count = self.parked.len();
        self.find_slowest();
        let (weave, members) = (&self.weave, &mut self.members);
        let of_slowest = |slot: &&usize| (weave.budget(Slot(**slot), window), usize::MAX - **slot);
        let slowest = self.parked.iter().max_by_key(of_slowest).copied();
        self.parked.retain(|&slot| {
            let budget = match members[slot].awaits_turn && slowest != Some(slot) {
                true => 0,
                false => weave.budget(Slot(slot), window),
            };
            if budget > 0 {
                members[slot].state = State::Released(budget);
                released.push(Slot(slot));
            }
            budget == 0
        });
        assert!(
            self.parked.len() < parked_count,
            "the slowest thread is within its own window"
        );
        self.round_count += 1;
        if self.round_count.is_multiple_of(TOTALS_EVERY_ROUNDS) {
            self.record_totals();
        }
    }

    fn find_slowest(&mut self) {
        self.slowest = [None; 2];
        for slot in self.parked.iter().map(|slot| Slot(*slot)) {
            let this = Some((self.weave.clock(slot), slot));
            let [first, second] = self.slowest;
            if first.is_none() || this < first {
                self.slowest = [this, first];
            } else if second.is_none() || this < second {
                self.slowest[1] = this;
            }
        }
    }

    /// The latest thread with this tid: tids are used again.
    fn slot_of(&self, tid: u32) -> Option<usize> {
        self.members.iter().rposition(|member| member.tid == tid)
    }

    /// The end of the recording.
    pub fn finish(&mut self, reason: EndReason) {
        if !self.finished {
            self.write_end(reason);
        }
    }
}
