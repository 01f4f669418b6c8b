//! The weave phase: merges what the threads did by virtual time and prices it.

use std::collections::BTreeSet;
use std::io;

use hitm_base::{
    Access, AccessOp, CpuId, Cycles, DataSource, LineAddr, Machine, Outcome, ThreadId,
};
use hitm_coherence::core::{Head, PendingLoad, PendingStore, Position, STORE_FORWARD_LATENCY};
use hitm_coherence::directory::{Ask, Capacity, Directory, Grant, LineId};
use hitm_coherence::queue::Request;
use hitm_coherence::services::Services;
use hitm_coherence::tree::WinnerTree;

use crate::pages::{Pages, TemporaryFiles};
use crate::thread::{Blocked, Next, PendingWake, Return, Thread, ThreadEvent, ThreadTotals};
use crate::wakes::Wake;

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

    /// The failure to write or read the temporary file, told once. Events may be lost.
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
        let mut thread = Thread::new(id, cpu, self.directory.machine(), self.pages.clone());
        thread.add_delay(self.now);
        self.threads.push(thread);
        let slot = Slot(self.tree.push(self.now));
        self.rekey(slot);
        slot
    }

    /// Puts a thread on another CPU: what it has not done yet happens there, what it was pushed for before
    /// on the CPU before.
    pub fn place(&mut self, slot: Slot, cpu: CpuId) {
        self.threads[slot.0].move_to(cpu);
    }

    /// The CPU that a thread is on, at the end of what has been pushed.
    pub fn cpu(&self, slot: Slot) -> CpuId {
        self.threads[slot.0].last_cpu()
    }

    /// Adds what a thread did, in program order; it is at `frontier` now.
    pub fn push(&mut self, slot: Slot, events: &[ThreadEvent], frontier: Position) {
        let has_run = !events.is_empty() || frontier != self.threads[slot.0].frontier;
        // It did not wait for its waker's time.
        if has_run && let Some(time) = self.forget_wake_of(slot) {
            self.join_at(slot, time);
        }
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
        self.forget_wake_of(slot);
        self.threads[slot.0].present = false;
        self.rekey(slot);
    }

    /// The thread was woken: it is back that much later than its waker was there. It has no budget until
    /// all is priced that it and its waker did before.
    pub fn wake(&mut self, slot: Slot, by: Wake, delay: i64) {
        self.forget_wake_of(slot);
        let wakes = &mut self.threads[by.slot.0].wakes;
        let insn = by.insn;
        wakes.push_back(PendingWake { slot, insn, delay });
        self.threads[slot.0].returns = Some(Return::After(by.slot));
        self.rekey(by.slot);
    }

    /// Returns true for a thread that was woken and is not back.
    pub fn is_returning(&self, slot: Slot) -> bool {
        self.threads[slot.0].returns.is_some()
    }

    /// Returns true if all that a thread did so far is priced.
    pub fn is_priced(&self, slot: Slot) -> bool {
        self.threads[slot.0].is_idle()
    }

    /// Takes back [`Weave::wake`], if it is still to come; the time of the return as far as it is known.
    fn forget_wake_of(&mut self, slot: Slot) -> Option<Cycles> {
        let waker = match self.threads[slot.0].returns.take()? {
            Return::After(waker) => waker,
            Return::At(time) => return Some(time),
        };
        let wakes = &mut self.threads[waker.0].wakes;
        let index = wakes.iter().position(|wake| wake.slot == slot)?;
        let wake = wakes.remove(index)?;
        Some(self.time_of_return(waker, wake))
    }

    fn time_of_return(&self, waker: Slot, wake: PendingWake) -> Cycles {
        let at = self.time_of(waker, wake.insn);
        Cycles(at.0.saturating_add_signed(wake.delay))
    }

    /// Tells those whom the thread has woken when that was, where it is known.
    fn tell_woken(&mut self, waker: Slot) {
        while let Some(wake) = self.threads[waker.0].take_known_wake() {
            let time = self.time_of_return(waker, wake);
            self.threads[wake.slot.0].returns = Some(Return::At(time));
            self.return_if_idle(wake.slot);
        }
    }

    /// Brings a woken thread back, when all that it did before is priced.
    fn return_if_idle(&mut self, slot: Slot) {
        let thread = &mut self.threads[slot.0];
        if let Some(Return::At(time)) = thread.returns
            && thread.is_idle()
        {
            thread.returns = None;
            self.join_at(slot, time);
        }
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
        if thread.is_idle() {
            thread.add_delay(behind);
            thread.away += behind;
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

    /// The accesses to `lines` that threads have made and that are not priced yet: line and thread. Of one that is
    /// very far ahead, only the next ones.
    pub(crate) fn lines_ahead(
        &self,
        lines: impl Iterator<Item = LineAddr>,
    ) -> BTreeSet<(LineAddr, Slot)> {
        let lines: BTreeSet<LineAddr> = lines.collect();
        let threads = self.threads.iter().enumerate();
        let accesses = threads.flat_map(|(slot, thread)| {
            let events = thread.events.next();
            events.map(move |event| (LineAddr::of(event.addr), Slot(slot)))
        });
        accesses.filter(|(line, _)| lines.contains(line)).collect()
    }

    /// Cycles that went by while a thread was away.
    pub fn away(&self, slot: Slot) -> Cycles {
        self.threads[slot.0].away
    }

    /// The virtual clock of a thread when it issues instruction `insn`, by what is known of its
    /// waits so far.
    pub fn time_of(&self, slot: Slot, insn: u64) -> Cycles {
        self.threads[slot.0].time_of(insn)
    }

    /// Returns the number of further instructions that keep the thread within `window` of the
    /// slowest. It is 0 when its accesses are not all priced yet or it is too far ahead.
    pub fn budget(&self, slot: Slot, window: Cycles) -> u64 {
        let thread = &self.threads[slot.0];
        match thread.next_step() {
            Next::Frontier(_) => thread.insns_until(self.now + window),
            _ => 0,
        }
    }

    /// Returns the number of further instructions after which a thread's clock reads `until`, if it waits
    /// for nothing.
    pub fn insns_until(&self, slot: Slot, until: Cycles) -> u64 {
        self.threads[slot.0].insns_until(until)
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
                Next::Retire(time) => self.retire(slot, time, sink),
                Next::Step(time) => self.step(slot, time, sink),
                Next::Frontier(_) => {
                    if !self.reach_frontier(slot, sink) {
                        self.tell_woken(slot);
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
        if !self.threads[slot.0].wakes.is_empty() {
            self.tell_woken(slot);
        }
        if self.threads[slot.0].returns.is_some() {
            self.return_if_idle(slot);
        }
        self.tree.set(slot.0, self.threads[slot.0].next().time());
    }

    /// Loads that must have retired by the frontier may still move it. True when they did.
    fn reach_frontier(&mut self, slot: Slot, sink: &mut impl FnMut(&Access, &Outcome)) -> bool {
        let thread = &mut self.threads[slot.0];
        if thread.retirement.is_some() {
            return thread.wait_for_window(thread.frontier.insn);
        }
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
                if let Some(retirement) = &mut thread.retirement {
                    retirement.resolve(line, grant);
                    return; // The oldest load resumes the thread when it retires.
                }
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
            self.commit_run(slot, grant, grant.done - issued, sink);
            return;
        }
        let hit = self.directory.hit(thread.cpu, line, true);
        if let Some((source, latency)) = hit
            && now < self.directory.visit_end(line)
        {
            self.commit_run(slot, Grant::own(source, now), latency, sink);
            return;
        }
        let grant = self.request(slot, line, now, true);
        self.threads[slot.0].stores.head = match grant {
            Some(grant) => Head::Granted(now, grant),
            None => Head::Queued(now),
        };
    }

    /// Commits the store at the head, whose line is here now that the grant is done, and those behind it
    /// whose lines are here too: one a cycle. What does not fit into the owner's visit waits for the next.
    fn commit_run(
        &mut self,
        slot: Slot,
        mut grant: Grant,
        mut latency: Cycles,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let now = grant.done;
        let thread = &mut self.threads[slot.0];
        let Some(&PendingStore { line, .. }) = thread.stores.oldest() else {
            return;
        };
        thread.charge_oldest_store(now);
        thread.stores.head = Head::Idle;
        let mut free_at = now;
        while let Some(store) = thread.stores.oldest().copied() {
            let loads_done = thread.older_loads_done(store.position.insn, store.ordinal);
            let is_ready = loads_done.is_some_and(|done| done.max(store.older_loads_done) <= now);
            let is_here =
                store.line == line || self.directory.hit(thread.cpu, store.line, true).is_some();
            let is_visit = free_at < self.directory.visit_end(store.line);
            if free_at > now && !(is_ready && is_here && is_visit) {
                break;
            }
            thread.stores.pop();
            let outcome = grant.outcome(latency, store.stall, Cycles::ZERO);
            thread.emit(store.ordinal, &store.access, &outcome, sink);
            (grant, latency) = (Grant::own(DataSource::L1, now), Cycles(1));
            free_at += Cycles(1);
        }
        thread.stores.commit_free_at = free_at;
        match thread.blocked {
            Some(Blocked::Drain { .. }) if thread.stores.is_empty() => {
                thread.add_delay(free_at - now);
                thread.blocked = None;
            }
            _ => {}
        }
        self.directory.hold(line, free_at);
    }

    /// The thread's next access in program order.
    fn step(&mut self, slot: Slot, now: Cycles, sink: &mut impl FnMut(&Access, &Outcome)) {
        let thread = &mut self.threads[slot.0];
        if let Some(load) = thread.take_again() {
            self.load_again(slot, load, sink);
            return;
        }
        let event = *thread.events.front().expect("a step has an event");
        if thread.retirement.is_some() {
            if thread.wait_for_window(event.insn) {
                return;
            }
        } else if !thread.retire_loads(event.insn, sink) {
            thread.blocked = Some(Blocked::Load);
            return;
        }
        if thread.time_of(event.insn) > now {
            return; // Waiting for a load moved the clock: others come first.
        }
        thread.make_moves(event.insn);
        let access = thread.access(&event);
        match event.op {
            AccessOp::Load => {
                let line = self.directory.line(access.line(), access.cpu);
                let load = self.threads[slot.0].load_of(access, line, event.insn);
                if self.load(slot, load, sink) {
                    self.threads[slot.0].pop_event();
                }
            }
            AccessOp::Store => self.store(slot, event.position(), access),
            AccessOp::LockedRmw | AccessOp::Fence => self.locked(slot, access, sink),
        }
    }

    /// Issues a load; false when it has to wait for a free fill buffer.
    fn load(
        &mut self,
        slot: Slot,
        load: PendingLoad,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) -> bool {
        let PendingLoad { access, line, .. } = load;
        let now = access.time;
        let thread = &mut self.threads[slot.0];
        // A load that waits for nobody is over at once. It stays where an older one may still throw
        // it away.
        let at_once = thread.retirement.is_none() || thread.loads.is_empty();
        if thread.stores.forwards(&access, load.ordinal) {
            thread.push_hit(
                PendingLoad {
                    forwarded: true,
                    ..load
                },
                Grant::own(DataSource::StoreBuffer, now + STORE_FORWARD_LATENCY),
                at_once,
                sink,
            );
        } else if let Some(grant) = fill_under_way(thread, line, now) {
            thread.push_load(PendingLoad {
                grant,
                merged: true,
                ..load
            });
        } else if let Some(grant) = thread.take_fill(line, now) {
            thread.push_load(PendingLoad { grant, ..load });
        } else if let Some((source, latency)) = self.directory.hit(access.cpu, line, false) {
            thread.push_hit(load, Grant::own(source, now + latency), at_once, sink);
        } else if thread.has_no_fill_buffer(now) {
            wait_for_oldest_load(thread, now, sink);
            return false;
        } else {
            let grant = self.request(slot, line, now, false);
            self.threads[slot.0].push_load(PendingLoad { grant, ..load });
        }
        true
    }

    /// Issues a load a second time.
    fn load_again(
        &mut self,
        slot: Slot,
        load: PendingLoad,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let thread = &mut self.threads[slot.0];
        if thread.wait_for_window(load.insn) || !self.load(slot, load, sink) {
            self.threads[slot.0].put_again(load);
            return;
        }
        self.threads[slot.0].run_stores_again(load.ordinal);
    }

    /// The oldest load retires, unless another core has taken its line since it had its data.
    fn retire(&mut self, slot: Slot, now: Cycles, sink: &mut impl FnMut(&Access, &Outcome)) {
        let thread = &mut self.threads[slot.0];
        let Some(load) = thread.loads.oldest() else {
            return;
        };
        let arrives = load.grant.is_some_and(|grant| grant.done == now);
        let keeps = load.forwarded || self.directory.has_line(load.access.cpu, load.line);
        if arrives || keeps {
            thread.retire_in_order(now, sink);
        } else {
            thread.clear(now);
        }
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
            let grant = Grant::own(source, now + self.locked_hit);
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
        let outcome = grant.outcome(wait, wait, self.locked_hit);
        thread.emit(ordinal, &access, &outcome, sink);
    }
}

/// The fill of `line` that this core has under way, for a load or for the store at the head of its
/// store buffer. The inner option is `None` while it is queued.
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

/// The thread continues when its oldest load is there: at a known time, or when its line is served.
fn wait_for_oldest_load(
    thread: &mut Thread,
    now: Cycles,
    sink: &mut impl FnMut(&Access, &Outcome),
) {
    if thread.retirement.is_some() {
        thread.wait_for_retirement(now);
        return;
    }
    let oldest = thread
        .loads
        .oldest()
        .expect("the caller has seen that loads are under way");
    match oldest.grant {
        Some(grant) => thread.retire_oldest_load(grant.done.saturating_sub(now), grant, sink),
        None => thread.blocked = Some(Blocked::Load),
    }
}
