//! One thread of the recorded program: its clock, what it did and has not been woven in yet, and
//! what its core still has under way.

use std::collections::VecDeque;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, Machine, Outcome, ThreadId};
use hitm_coherence::core::{Head, LoadWindow, PendingLoad, Position, StoreBuffer};
use hitm_coherence::directory::{Grant, LineId};

use crate::Slot;
use crate::clears::Retirement;
use crate::events::Events;
use crate::order::ProgramOrder;
use crate::pages::Pages;

/// One access as the recorder sees it: a position in the thread's program, no time yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadEvent {
    /// Instructions that the thread had run before this one.
    pub insn: u64,
    /// Stores that the thread had made before this one, those to private lines included: they
    /// pass through the store buffer as well.
    pub stores: u64,
    /// The first byte touched. Within one line together with `size`.
    pub addr: u64,
    /// The instruction.
    pub code: CodeAddr,
    /// Bytes touched, 0 for a fence.
    pub size: u8,
    /// Load, store, locked operation or fence.
    pub op: AccessOp,
}

impl ThreadEvent {
    pub(crate) fn position(&self) -> Position {
        Position {
            insn: self.insn,
            stores: self.stores,
        }
    }
}

/// Sums over a thread's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadTotals {
    /// Instructions run.
    pub insns: u64,
    /// Accesses woven in.
    pub accesses: u64,
    /// The thread's virtual clock at its end.
    pub clock: Cycles,
    /// Cycles for which the thread stood still because of an access.
    pub stall: Cycles,
    /// The part of `stall` that other CPUs' use of a line caused.
    pub contention_stall: Cycles,
    /// Memory-ordering clears: times that a load lost its line before it retired.
    pub clears: u64,
}

/// Reason for which a thread cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Its oldest load waits in a line's queue.
    Load,
    /// A locked operation or fence waits for older stores.
    Drain {
        /// End of the time charged so far.
        since: Cycles,
    },
    /// Its locked operation waits in a line's queue.
    Locked,
}

/// The thread's next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Progress of the store buffer.
    Drain(Cycles),
    /// The oldest load has its data and all before it has retired.
    Retire(Cycles),
    /// The next access in program order.
    Step(Cycles),
    /// All that is known has been woven in; the thread may do anything from then on.
    Frontier(Cycles),
    /// Nothing until another line is served, or for ever.
    Nothing,
}

impl Next {
    pub(crate) fn time(self) -> Cycles {
        match self {
            Next::Drain(time) | Next::Retire(time) | Next::Step(time) | Next::Frontier(time) => {
                time
            }
            Next::Nothing => Cycles::MAX,
        }
    }
}

/// A thread that another one has woken, and that comes back when the time of that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingWake {
    pub(crate) slot: Slot,
    /// Instruction of the waker.
    pub(crate) insn: u64,
    /// Cycles from that instruction to the woken thread's return.
    pub(crate) delay: i64,
}

/// Return of a woken thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Return {
    /// At a time that is not known yet: that thread's clock at its wake is still open.
    After(Slot),
    /// At this time, when all that it did before is priced.
    At(Cycles),
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: ThreadId,
    /// The CPU of the next event that is priced.
    pub(crate) cpu: CpuId,
    /// CPUs to which it moves, each at the first event from that instruction on.
    moves: VecDeque<(u64, CpuId)>,
    pub(crate) events: Events,
    /// Position up to which the thread has run; everything before is in `events` or woven in.
    pub(crate) frontier: Position,
    /// Position up to which it has been woven in.
    woven: Position,
    /// True while the thread takes part in the barrier: it may resume from its frontier at any
    /// time.
    pub(crate) present: bool,
    pub(crate) blocked: Option<Blocked>,
    pub(crate) loads: LoadWindow,
    pub(crate) stores: StoreBuffer,
    /// On machines whose loads can lose their line.
    pub(crate) retirement: Option<Retirement>,
    pub(crate) totals: ThreadTotals,
    /// Accesses woven in so far: the number of the next one.
    issued: u64,
    order: ProgramOrder,
    /// Threads that it has woken, in the order of its instructions.
    pub(crate) wakes: VecDeque<PendingWake>,
    /// Its own return, when it was woken and is not back yet.
    pub(crate) returns: Option<Return>,
    /// Cycles that waiting has added to the clock.
    delay: Cycles,
    /// The part of them that it was away.
    pub(crate) away: Cycles,
    cpi_milli: u64,
}

impl Thread {
    pub(crate) fn new(id: ThreadId, cpu: CpuId, machine: &Machine, pages: Pages) -> Thread {
        let core = &machine.core;
        Thread {
            id,
            cpu,
            moves: VecDeque::new(),
            events: Events::new(pages),
            frontier: Position::default(),
            woven: Position::default(),
            present: true,
            blocked: None,
            loads: LoadWindow::new(core.load_window_insns.into(), core.fill_buffers.into()),
            stores: StoreBuffer::new(core.store_buffer_entries.into()),
            retirement: Retirement::of(core),
            totals: ThreadTotals::default(),
            issued: 0,
            order: ProgramOrder::default(),
            wakes: VecDeque::new(),
            returns: None,
            delay: Cycles::ZERO,
            away: Cycles::ZERO,
            cpi_milli: core.cpi_milli.into(),
        }
    }

    /// Moves the thread to `cpu` at its frontier.
    pub(crate) fn move_to(&mut self, cpu: CpuId) {
        self.moves.push_back((self.frontier.insn, cpu));
        if self.is_idle() {
            self.make_moves(self.frontier.insn);
        }
    }

    /// The CPU that it is on at its frontier.
    pub(crate) fn last_cpu(&self) -> CpuId {
        self.moves.back().map_or(self.cpu, |(_, cpu)| *cpu)
    }

    /// Makes the moves before the event of instruction `insn`.
    pub(crate) fn make_moves(&mut self, insn: u64) {
        while let Some((from, cpu)) = self.moves.front()
            && *from <= insn
        {
            self.cpu = *cpu;
            self.moves.pop_front();
        }
    }

    /// The thread's clock when it issues instruction `insn`.
    pub(crate) fn time_of(&self, insn: u64) -> Cycles {
        clock_at(insn, self.cpi_milli) + self.delay
    }

    /// Stores behind access number `ordinal` run again, when the thread's clock says now.
    pub(crate) fn run_stores_again(&mut self, ordinal: u64) {
        let (cpi_milli, delay) = (self.cpi_milli, self.delay);
        self.stores
            .run_again_after(ordinal, |insn| clock_at(insn, cpi_milli) + delay);
    }

    /// The thread's clock at its frontier, waits that are still to come not included.
    pub(crate) fn clock(&self) -> Cycles {
        self.time_of(self.frontier.insn)
    }

    /// Moves the clock on without work.
    pub(crate) fn add_delay(&mut self, span: Cycles) {
        self.delay += span;
    }

    /// Returns true if all that it did is priced.
    pub(crate) fn is_idle(&self) -> bool {
        let again = self.retirement.as_ref().and_then(Retirement::next_again);
        self.events.is_empty() && self.blocked.is_none() && again.is_none()
    }

    /// Takes the first thread that it has woken, if everything before is priced: its waits up to there
    /// are in its clock. What a thread that has left has not told will never be told, and nothing charges it
    /// for loads under way.
    pub(crate) fn take_known_wake(&mut self) -> Option<PendingWake> {
        let insn = self.wakes.front()?.insn;
        let is_told = self.frontier.insn >= insn || !self.present;
        let is_charged = self.loads.blocking_limit(insn).is_none();
        let is_priced = match self.events.front() {
            Some(event) => event.insn > insn && is_charged,
            None => self.blocked.is_none() && (is_charged || !self.present),
        };
        let is_priced = is_priced && !self.may_issue_again_before(insn);
        match is_told && is_priced {
            true => self.wakes.pop_front(),
            false => None,
        }
    }

    /// Returns the number of instructions that fit before the clock reads `until`.
    pub(crate) fn insns_until(&self, until: Cycles) -> u64 {
        until.saturating_sub(self.clock()).0 * 1000 / self.cpi_milli
    }

    pub(crate) fn next(&self) -> Next {
        let step = self.next_step();
        let (drain, retire) = (self.next_drain(), self.next_retirement());
        if drain <= step.time().min(retire) && drain < Cycles::MAX {
            Next::Drain(drain)
        } else if retire <= step.time() && retire < Cycles::MAX {
            Next::Retire(retire)
        } else {
            step
        }
    }

    /// The next action of the instruction stream alone.
    pub(crate) fn next_step(&self) -> Next {
        if self.blocked.is_some() {
            return Next::Nothing;
        }
        // A full store buffer cannot hold them up: its stores wait for them.
        let again = self.retirement.as_ref().and_then(Retirement::next_again);
        if let Some(load) = again {
            return Next::Step(self.time_of(load.insn));
        }
        if self.store_buffer_limit().is_some() {
            return Next::Nothing;
        }
        match self.events.front() {
            Some(event) => Next::Step(self.time_of(event.insn)),
            None if self.present => Next::Frontier(self.clock()),
            None => Next::Nothing,
        }
    }

    fn next_drain(&self) -> Cycles {
        let Some(oldest) = self.stores.oldest() else {
            return Cycles::MAX;
        };
        match self.stores.head {
            Head::Granted(_, grant) => grant.done,
            Head::Queued(_) => Cycles::MAX,
            Head::Idle => match self.older_loads_done(oldest.position.insn, oldest.ordinal) {
                Some(done) => {
                    let ready = oldest.access.time.max(done).max(oldest.older_loads_done);
                    ready.max(self.stores.commit_free_at)
                }
                None => Cycles::MAX,
            },
        }
    }

    /// Returns the instruction at which the store buffer is full and the thread has to stop, if
    /// that is before the next thing to weave in. Stores to private lines wait in the buffer too,
    /// behind the oldest store that waits for a shared line. They are counted, not kept, so the
    /// instruction is interpolated.
    fn store_buffer_limit(&self) -> Option<u64> {
        let oldest = self.stores.oldest()?;
        let (next, is_store) = match self.events.front() {
            Some(event) => (event.position(), event.op == AccessOp::Store),
            None => (self.frontier, false),
        };
        let full_at = oldest.position.stores + self.stores.capacity();
        if next.stores + u64::from(is_store) <= full_at {
            return None;
        }
        if full_at >= next.stores {
            return Some(next.insn);
        }
        let insns = next.insn - self.woven.insn;
        let stores = next.stores - self.woven.stores;
        Some(self.woven.insn + insns * full_at.saturating_sub(self.woven.stores) / stores)
    }

    /// The next event has been woven in.
    pub(crate) fn pop_event(&mut self) -> Option<ThreadEvent> {
        let event = self.events.pop()?;
        let is_store = u64::from(event.op == AccessOp::Store);
        self.woven = Position {
            insn: event.insn,
            stores: event.stores + is_store,
        };
        self.issued += u64::from(event.op != AccessOp::Fence);
        Some(event)
    }

    /// The number of the next event among the thread's accesses.
    pub(crate) fn next_ordinal(&self) -> u64 {
        self.issued
    }

    /// Retires loads, oldest first, so that the instruction at `insn` can issue; waits that this
    /// takes go into the clock. False when the oldest load must retire but is still queued.
    pub(crate) fn retire_loads(
        &mut self,
        insn: u64,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) -> bool {
        while let Some(oldest) = self.loads.oldest().copied() {
            let limit = self.loads.blocking_limit(insn);
            let Some(grant) = oldest.grant else {
                return limit.is_none();
            };
            let needed_at = self.time_of(limit.unwrap_or(insn));
            let wait = grant.done.saturating_sub(needed_at);
            if wait > Cycles::ZERO && limit.is_none() {
                return true;
            }
            self.retire_oldest_load(wait, grant, sink);
        }
        true
    }

    /// Retires the oldest load after waiting `wait` for it.
    pub(crate) fn retire_oldest_load(
        &mut self,
        wait: Cycles,
        grant: Grant,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        let load = self
            .loads
            .pop()
            .expect("the caller has seen the oldest load");
        self.delay += wait;
        self.stores.note_retired_load(load.insn, grant.done);
        let latency = grant.done.saturating_sub(load.access.time);
        let mut outcome = grant.outcome(latency, wait, Cycles::ZERO);
        outcome.stall += load.lost;
        outcome.lost += load.lost;
        self.emit(load.ordinal, &load.access, &outcome, sink);
    }

    /// The next event's load, before it has asked for its line.
    pub(crate) fn load_of(&self, access: Access, line: LineId, insn: u64) -> PendingLoad {
        PendingLoad {
            access,
            line,
            insn,
            ordinal: self.issued,
            grant: None,
            merged: false,
            forwarded: false,
            lost: Cycles::ZERO,
        }
    }

    /// Adds a load that waits for a line.
    pub(crate) fn push_load(&mut self, load: PendingLoad) {
        if self.loads.is_empty() {
            self.note_first_load(load.insn, load.access.time);
        }
        self.loads.push(load);
    }

    /// Adds a finished access to the sums and hands it to the sink when those before it in the
    /// program have been.
    pub(crate) fn emit(
        &mut self,
        ordinal: u64,
        access: &Access,
        outcome: &Outcome,
        sink: &mut impl FnMut(&Access, &Outcome),
    ) {
        self.totals.accesses += 1;
        self.totals.stall += outcome.stall;
        self.totals.contention_stall += outcome.lost;
        self.order.finished(ordinal, access, outcome, sink);
    }

    /// Returns true if every access that was woven in has been handed to the sink.
    pub(crate) fn is_all_out(&self) -> bool {
        self.order.next() == self.issued
    }

    /// Charges the time up to `now` to the store at the head of the buffer, if the thread waits for
    /// it. A thread waits when the buffer is full, or when a locked operation waits for it to
    /// drain.
    pub(crate) fn charge_oldest_store(&mut self, now: Cycles) {
        let since = match &mut self.blocked {
            Some(Blocked::Drain { since }) => std::mem::replace(since, (*since).max(now)),
            _ => match self.store_buffer_limit() {
                Some(insn) => self.time_of(insn),
                None => return,
            },
        };
        if !self.charge_before_retirement(since, now) {
            return;
        }
        let wait = now.saturating_sub(since);
        self.delay += wait;
        if let Some(oldest) = self.stores.oldest_mut() {
            oldest.stall += wait;
        }
    }

    /// The access of an event, at the thread's present time.
    pub(crate) fn access(&self, event: &ThreadEvent) -> Access {
        Access {
            thread: self.id,
            cpu: self.cpu,
            time: self.time_of(event.insn),
            addr: event.addr,
            size: event.size,
            op: event.op,
            code: event.code,
        }
    }
}

/// The clock of a thread that never waits, when it issues instruction `insn`.
fn clock_at(insn: u64, cpi_milli: u64) -> Cycles {
    Cycles(insn * cpi_milli / 1000)
}
