//! The weave phase: merges what the threads did by virtual time and prices it.

use std::io;

use hitm_base::{
    Access, AccessOp, CpuId, Cycles, DataSource, LineAddr, Machine, Outcome, ThreadId,
};
use hitm_coherence::core::{Head, PendingStore, Position, STORE_FORWARD_LATENCY};
use hitm_coherence::directory::{Ask, Capacity, Directory, Grant, LineId};
use hitm_coherence::queue::Request;
use hitm_coherence::services::Services;
use hitm_coherence::tree::WinnerTree;

use crate::pages::{Pages, TemporaryFiles};
use crate::thread::{Blocked, Next, Thread, ThreadEvent, ThreadTotals};

/// A thread's place in a [`Weave`], in order of [`Weave::add_thread`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub usize);

/// All threads of a program on one modelled machine.
///
/// **Invariant:** accesses are priced in order of virtual time; no thread's clock goes back.
#[derive(Debug)]
pub struct Weave {
    directory: Directory,
    threads: Vec<Thread>,
    tree: WinnerTree,
    services: Services,
    now: Cycles,
    locked_hit: Cycles,
    /// Events of threads that are far ahead.
    pages: Pages,
}

impl Weave {
    /// A machine without threads.
    pub fn new(machine: Machine, capacity: Capacity) -> Weave {
        let locked_hit = machine.core.locked_hit;
        Weave {
            directory: Directory::new(machine, capacity),
            threads: Vec::new(),
            tree: WinnerTree::new(),
            services: Services::default(),
            now: Cycles::ZERO,
            locked_hit,
            pages: Pages::default(),
        }
    }

    /// Keeps events of threads that are far ahead in a temporary file when they take more than so many bytes.
    pub fn set_events_limit(&self, bytes: usize, files: TemporaryFiles) {
        self.pages.set_limit(bytes, files);
    }

    /// Why the temporary file could not be written or read, once. Events may be lost.
    pub fn events_failure(&self) -> Option<io::Error> {
        self.pages.failure()
    }

    /// The modelled machine.
    pub fn machine(&self) -> &Machine {
        self.directory.machine()
    }

    /// The virtual time up to which everything has been priced.
    pub fn now(&self) -> Cycles {
        self.now
    }

    /// Adds a thread on `cpu`, present, with its clock at the present time.
    pub fn add_thread(&mut self, id: ThreadId, cpu: CpuId) -> Slot {
        let mut thread = Thread::new((id, cpu), self.directory.machine(), self.pages.clone());
        thread.add_delay(self.now);
        self.threads.push(thread);
        let slot = Slot(self.tree.push(self.now));
        self.rekey(slot);
        slot
    }

    /// Puts a thread on another CPU from now on.
    pub fn place(&mut self, slot: Slot, cpu: CpuId) {
        self.threads[slot.0].cpu = cpu;
    }

    /// The CPU that a thread is on.
    pub fn cpu(&self, slot: Slot) -> CpuId {
        self.threads[slot.0].cpu
    }

    /// Adds what a thread did, in program order; it is at `frontier` now.
    pub fn push(&mut self, slot: Slot, events: &[ThreadEvent], frontier: Position) {
        let thread = &mut self.threads[slot.0];
        thread.events.extend(events);
        thread.frontier = frontier;
        self.rekey(slot);
    }

    /// Makes known that until now `owner` alone used a line, and whether it wrote to it.
    pub fn adopt(&mut self, line: LineAddr, owner: Slot, written: bool) {
        self.directory
            .adopt(line, self.threads[owner.0].cpu, written);
    }

    /// The thread waits for something outside the model (a system call, its end): nobody waits
    /// for it.
    pub fn leave(&mut self, slot: Slot) {
        self.threads[slot.0].present = false;
        self.rekey(slot);
    }

    /// The thread is back: its clock moves on to the present if it was behind.
    pub fn join(&mut self, slot: Slot) {
        self.join_at(slot, Cycles::ZERO);
    }

    /// The thread is back: its clock moves on to the present, or to `earliest` if that is later.
    pub fn join_at(&mut self, slot: Slot, earliest: Cycles) {
        let thread = &mut self.threads[slot.0];
        thread.present = true;
        let behind = self.now.max(earliest).saturating_sub(thread.clock());
        if thread.events.is_empty() && thread.blocked.is_none() {
            thread.add_delay(behind);
        }
        self.rekey(slot);
    }

    /// Lets `span` pass in which no thread was present.
    pub fn pass(&mut self, span: Cycles) {
        self.now += span;
    }

    /// The virtual clock of a thread, at the end of what has been pushed.
    pub fn clock(&self, slot: Slot) -> Cycles {
        self.threads[slot.0].clock()
    }

    /// The virtual clock of a thread when it issues instruction `insn`, by what is known of its
    /// waits so far.
    pub fn time_of(&self, slot: Slot, insn: u64) -> Cycles {
        self.threads[slot.0].time_of(insn)
    }

    /// How many more instructions the thread may run so that it stays within `window` of the
    /// slowest: 0 when its accesses are not all priced yet or it is too far ahead.
    pub fn budget(&self, slot: Slot, window: Cycles) -> u64 {
        let thread = &self.threads[slot.0];
        match thread.next_step() {
            Next::Frontier(_) => thread.insns_until(self.now + window),
            _ => 0,
        }
    }

    /// The sums of a thread so far.
    pub fn totals(&self, slot: Slot) -> ThreadTotals {
        let thread = &self.threads[slot.0];
        ThreadTotals {
            insns: thread.frontier.insn,
            clock: thread.clock(),
            ..thread.totals
        }
    }

    /// Prices everything up to the frontier of the slowest present thread.
    pub fn advance(&mut self, sink: &mut impl FnMut(&Access, &Outcome)) {
        loop {
            let (leaf, key) = self.tree.min();
            if let Some((time, line)) = self.services.take_before(&self.directory, key) {
                self.now = self.now.max(time);
                self.serve(line, sink);
                continue;
            }
            if key == Cycles::MAX {
                return;
            }
            self.now = self.now.max(key);
            let slot = Slot(leaf);
            match self.threads[leaf].next() {
                Next::Drain(time) => self.drain(slot, time, sink),
                Next::Step(time) => self.step(slot, time, sink),
                Next::Frontier(_) => {
                    if !self.reach_frontier(slot, sink) {
                        return;
                    }
                }
                Next::Nothing => unreachable!("a thread with nothing to do has no time"),
            }
            self.rekey(slot);
        }
    }

    /// Prices all that is left: no thread will do anything more.
    pub fn finish(&mut self, sink: &mut impl FnMut(&Access, &Outcome)) {
        for slot in 0..self.threads.len() {
            self.leave(Slot(slot));
        }
        self.advance(sink);
        for thread in &mut self.threads {
            let retired = thread.retire_loads(thread.frontier.insn, sink);
            assert!(retired, "no load is queued when no line has waiters");
            while let Some(oldest) = thread.loads.oldest() {
                let grant = oldest
                    .grant
                    .expect("no load is queued when no line has waiters");
                thread.retire_oldest_load(Cycles::ZERO, grant, sink);
            }
            assert!(thread.is_all_out(), "every access has an outcome");
        }
    }

    fn rekey(&mut self, slot: Slot) {
        self.tree.set(slot.0, self.threads[slot.0].next().time());
    }

    /// Loads that must have retired by the frontier may still move it. True when they did.
    fn reach_frontier(&mut self, slot: Slot, sink: &mut impl FnMut(&Access, &Outcome)) -> bool {
        let thread = &mut self.threads[slot.0];
        let before = thread.clock();
        if !thread.retire_loads(thread.frontier.insn, sink) {
            thread.blocked = Some(Blocked::Load);
            return true;
        }
        thread.clock() > before
    }

    fn serve(&mut self, line: LineId, sink: &mut impl FnMut(&Access, &Outcome)) {
        let (request, grant) = self.directory.serve_next(line);
        self.deliver(line, &request, grant, sink);
        self.rekey(Slot(request.ticket as usize));
        self.services.note(&self.directory, line);
    }

    /// Hands a grant to the thread whose request it answers.
    fn deliver(
        &mut self,
        line: LineId,
        request: &Request,
        grant: Grant,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let slot = Slot(request.ticket as usize);
        let thread = &mut self.threads[slot.0];
        match thread.blocked {
            Some(Blocked::Locked) if request.exclusive => {
                thread.blocked = None;
                self.complete_locked(slot, grant, sink);
            }
            _ if request.exclusive => thread.stores.head = Head::Granted(request.issued, grant),
            blocked => {
                thread.loads.resolve(line, grant);
                let oldest_is_known = thread
                    .loads
                    .oldest()
                    .is_some_and(|load| load.grant.is_some());
                if blocked == Some(Blocked::Load) && oldest_is_known {
                    thread.blocked = None;
                }
            }
        }
    }

    /// Asks for a line; the caller waits for the queue when `None` comes back.
    fn request(&mut self, slot: Slot, line: LineId, now: Cycles, exclusive: bool) -> Option<Grant> {
        let cpu = self.threads[slot.0].cpu;
        let ask = Ask {
            now,
            cpu,
            line,
            exclusive,
            ticket: slot.0 as u64,
        };
        let grant = self.directory.request(ask);
        if grant.is_none() {
            self.services.note(&self.directory, line);
        }
        grant
    }

    /// Progress at the head of the store buffer.
    fn drain(&mut self, slot: Slot, now: Cycles, sink: &mut impl FnMut(&Access, &Outcome)) {
        let thread = &mut self.threads[slot.0];
        let Some(&PendingStore { line, .. }) = thread.stores.oldest() else {
            return;
        };
        if let Head::Granted(issued, grant) = thread.stores.head {
            let outcome = Outcome {
                source: grant.source,
                latency: grant.done - issued,
                queued: grant.queued,
                stall: Cycles::ZERO,
            };
            self.commit_run(slot, now, outcome, sink);
            return;
        }
        if let Some((source, latency)) = self.directory.hit(thread.cpu, line, true) {
            let outcome = Outcome {
                source,
                latency,
                queued: Cycles::ZERO,
                stall: Cycles::ZERO,
            };
            self.commit_run(slot, now, outcome, sink);
            return;
        }
        let grant = self.request(slot, line, now, true);
        self.threads[slot.0].stores.head = match grant {
            Some(grant) => Head::Granted(now, grant),
            None => Head::Queued(now),
        };
    }

    /// Commits the store at the head, whose line is here, and those behind it whose lines are here
    /// too: one a cycle, during which the line is not given away. (The next owner's snoop needs
    /// longer to arrive than the whole buffer needs to commit: about half a transfer's occupancy
    /// against one cycle a store.)
    fn commit_run(
        &mut self,
        slot: Slot,
        now: Cycles,
        head_outcome: Outcome,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let thread = &mut self.threads[slot.0];
        let Some(&PendingStore { line, .. }) = thread.stores.oldest() else {
            return;
        };
        thread.charge_oldest_store(now);
        thread.stores.head = Head::Idle;
        let mut outcome = head_outcome;
        let mut committed = 0;
        while let Some(store) = thread.stores.oldest().copied() {
            let loads_done = thread.loads.done_before(store.position.insn);
            let is_ready = loads_done.is_some_and(|done| done.max(store.older_loads_done) <= now);
            let is_here =
                store.line == line || self.directory.hit(thread.cpu, store.line, true).is_some();
            if committed > 0 && !(is_ready && is_here) {
                break;
            }
            thread.stores.pop();
            let stall = store.stall;
            let outcome_of_store = Outcome { stall, ..outcome };
            thread.emit(store.ordinal, (&store.access, &outcome_of_store), sink);
            outcome = unhindered(DataSource::L1, Cycles(1));
            committed += 1;
        }
        let free_at = now + Cycles(committed);
        thread.stores.commit_free_at = free_at;
        match thread.blocked {
            Some(Blocked::Drain { .. }) if thread.stores.is_empty() => {
                thread.add_delay(Cycles(committed));
                thread.blocked = None;
            }
            _ => {}
        }
        self.directory.hold(line, free_at);
    }

    /// The thread's next access in program order.
    fn step(&mut self, slot: Slot, now: Cycles, sink: &mut impl FnMut(&Access, &Outcome)) {
        let thread = &mut self.threads[slot.0];
        let event = *thread.events.front().expect("a step has an event");
        if !thread.retire_loads(event.insn, sink) {
            thread.blocked = Some(Blocked::Load);
            return;
        }
        if thread.time_of(event.insn) > now {
            return; // Waiting for a load moved the clock: others come first.
        }
        let access = thread.access(&event);
        match event.op {
            AccessOp::Load => self.load(slot, event.insn, access, sink),
            AccessOp::Store => self.store(slot, event.position(), access),
            AccessOp::LockedRmw | AccessOp::Fence => self.locked(slot, access, sink),
        }
    }

    /// Issues a load, or waits for a free fill buffer.
    fn load(
        &mut self,
        slot: Slot,
        insn: u64,
        access: Access,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let now = access.time;
        let line = self.directory.line(access.line(), access.cpu);
        let thread = &mut self.threads[slot.0];
        if thread.stores.forwards(access.addr, access.size) {
            let outcome = unhindered(DataSource::StoreBuffer, STORE_FORWARD_LATENCY);
            thread.emit(thread.next_ordinal(), (&access, &outcome), sink);
        } else if let Some(grant) = fill_under_way(thread, line, now) {
            thread.push_load(access, (line, insn), grant, true);
        } else if let Some((source, latency)) = self.directory.hit(access.cpu, line, false) {
            let outcome = unhindered(source, latency);
            thread.emit(thread.next_ordinal(), (&access, &outcome), sink);
        } else if thread.loads.fill_buffers_full() {
            wait_for_oldest_load(thread, now, sink);
            return;
        } else {
            let grant = self.request(slot, line, now, false);
            self.threads[slot.0].push_load(access, (line, insn), grant, false);
        }
        self.threads[slot.0].pop_event();
    }

    /// Puts a store into the store buffer, which has room: a thread without room has no next step.
    fn store(&mut self, slot: Slot, position: Position, access: Access) {
        let line = self.directory.line(access.line(), access.cpu);
        let thread = &mut self.threads[slot.0];
        thread.stores.push(PendingStore {
            access,
            line,
            position,
            ordinal: thread.next_ordinal(),
            older_loads_done: Cycles::ZERO,
            stall: Cycles::ZERO,
        });
        thread.pop_event();
    }

    /// A locked operation or a fence: older loads and stores complete first.
    fn locked(&mut self, slot: Slot, access: Access, sink: &mut impl FnMut(&Access, &Outcome)) {
        let now = access.time;
        let thread = &mut self.threads[slot.0];
        if !thread.loads.is_empty() {
            wait_for_oldest_load(thread, now, sink);
            return;
        }
        if !thread.stores.is_empty() {
            thread.blocked = Some(Blocked::Drain { since: now });
            return;
        }
        if access.op == AccessOp::Fence {
            thread.pop_event();
            return;
        }
        let line = self.directory.line(access.line(), access.cpu);
        if let Some((source, _)) = self.directory.hit(access.cpu, line, true) {
            let grant = Grant {
                source,
                done: now + self.locked_hit,
                queued: Cycles::ZERO,
                other_node: false,
            };
            self.complete_locked(slot, grant, sink);
            return;
        }
        match self.request(slot, line, now, true) {
            Some(grant) => self.complete_locked(slot, grant, sink),
            None => self.threads[slot.0].blocked = Some(Blocked::Locked),
        }
    }

    /// The thread's locked operation has its line: the thread waited for it.
    fn complete_locked(
        &mut self,
        slot: Slot,
        grant: Grant,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let thread = &mut self.threads[slot.0];
        let ordinal = thread.next_ordinal();
        let event = thread
            .pop_event()
            .expect("a locked operation is the thread's next event");
        let access = thread.access(&event);
        let wait = grant.done - access.time;
        thread.add_delay(wait);
        let outcome = Outcome {
            source: grant.source,
            latency: wait,
            queued: grant.queued,
            stall: wait,
        };
        thread.emit(ordinal, (&access, &outcome), sink);
    }
}

/// An answer that nobody waited for.
fn unhindered(source: DataSource, latency: Cycles) -> Outcome {
    Outcome {
        source,
        latency,
        queued: Cycles::ZERO,
        stall: Cycles::ZERO,
    }
}

/// The fill of `line` that this core has under way, for a load or for the store at the head of its
/// store buffer; the inner option is `None` while it is queued.
fn fill_under_way(thread: &Thread, line: LineId, now: Cycles) -> Option<Option<Grant>> {
    let joined = |grant: Grant| Grant {
        source: DataSource::FillBuffer,
        ..grant
    };
    if let Some(miss) = thread.loads.miss_for(line, now) {
        return Some(miss.grant.map(joined));
    }
    match (thread.stores.head, thread.stores.oldest()) {
        (Head::Granted(_, grant), Some(oldest)) if oldest.line == line && grant.done > now => {
            Some(Some(joined(grant)))
        }
        _ => None,
    }
}

/// The thread goes on when its oldest load is there: at a known time, or when its line is served.
fn wait_for_oldest_load(
    thread: &mut Thread,
    now: Cycles,
    sink: &mut impl FnMut(&Access, &Outcome),
) {
    let oldest = thread
        .loads
        .oldest()
        .expect("the caller has seen that loads are under way");
    match oldest.grant {
        Some(grant) => thread.retire_oldest_load(grant.done.saturating_sub(now), grant, sink),
        None => thread.blocked = Some(Blocked::Load),
    }
}
