//! The state of a run and its one hot routine: what an access does.

use std::sync::Arc;

use hitm_base::{AccessOp, CpuId, Cycles, DataSource, Fnv1a, LineAddr, Machine};
use hitm_coherence::core::STORE_FORWARD_LATENCY;
use hitm_coherence::directory::{Ask, Directory, Grant, LineId};
use hitm_coherence::services::Services;

use super::calendar::Calendar;
use super::config::{EngineConfig, RUN_AHEAD};
use super::cpu::{Cpu, NO_CPU, Request, Wait};
use super::join::Join;
use super::memory::{Op, Place, Site};
use super::profile::{Profile, STORE_HIT_LATENCY, Sample};
use super::store_buffer::{Head, Posted};

/// What became of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is done; the CPU's clock stands at its end.
    Done(u64),
    /// The CPU has to wait first: try again when it is resumed.
    Again,
    /// It is under way: ask for the result when the CPU is resumed.
    Later,
}

/// Whose request a ticket is.
const STREAM: u64 = 0;
const STORE: u64 = 1;
/// The number of a join group comes above it.
pub(super) const JOIN: u64 = 2;

pub(super) fn ticket(cpu: usize, kind: u64, group: usize) -> u64 {
    (cpu as u64) << 32 | (group as u64) << 2 | kind
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) machine: Arc<Machine>,
    pub(super) directory: Directory,
    pub(super) services: Services,
    /// Of all CPUs but the one whose code runs.
    pub(super) calendar: Calendar,
    pub(super) cpus: Vec<Cpu>,
    pub(super) words: Vec<u64>,
    /// First CPU that is parked on each line.
    parked: Vec<u16>,
    /// Of CPUs that have no independent loads under way; the one used last is taken first.
    #[expect(clippy::vec_box, reason = "they move between here and the CPUs")]
    pub(super) free_joins: Vec<Box<Join>>,
    pub(super) profile: Profile,
    /// The CPU whose code runs now.
    pub(super) current: usize,
    /// That CPU may access memory up to this time without asking whether others come first.
    limit: Cycles,
    pub(super) end: Cycles,
    pub(super) events: u64,
    pub(super) accesses: u64,
    pub(super) hash: u64,
}

impl State {
    pub(super) fn new(config: &EngineConfig) -> State {
        let machine = config.machine.clone();
        let cpus: Vec<Cpu> = machine
            .topology
            .cpus()
            .map(|_| Cpu::new(&machine.core))
            .collect();
        State {
            directory: Directory::new(machine.clone(), config.capacity),
            machine: Arc::new(machine),
            services: Services::default(),
            calendar: Calendar::new(cpus.len()),
            cpus,
            words: Vec::new(),
            parked: Vec::new(),
            free_joins: Vec::new(),
            profile: Profile::new(config.sites, &config.machine),
            current: 0,
            limit: Cycles::ZERO,
            end: config.end,
            events: 0,
            accesses: 0,
            hash: Fnv1a::EMPTY.value(),
        }
    }

    /// Makes a line known, with its memory on the node of `cpu`.
    pub(super) fn line(&mut self, addr: LineAddr, cpu: CpuId) -> LineId {
        let line = self.directory.line(addr, cpu);
        if self.parked.len() <= line.index() {
            self.parked.resize(line.index() + 1, NO_CPU);
        }
        line
    }

    /// `cpu` begins to run its code; its time is the earliest of all CPUs.
    pub(super) fn begin(&mut self, (cpu, now): (usize, Cycles)) {
        self.current = cpu;
        self.calendar.remove(cpu);
        self.calendar.advance(now);
        let others = self.calendar.first_time();
        self.limit = self.bounded(Cycles(others.0.saturating_add(RUN_AHEAD.0)));
    }

    /// `limit`, but not beyond what the CPU itself has to do first.
    fn bounded(&self, limit: Cycles) -> Cycles {
        let cpu = &self.cpus[self.current];
        let own = cpu.drain_at.min(cpu.irq_time());
        // A line that is given away at its service must not be hit by its old owner afterwards.
        limit
            .min(self.end)
            .min(self.services.next_time())
            .min(own.saturating_sub(Cycles(1)))
    }

    /// Makes `limit` current after something that the running CPU did to itself.
    pub(super) fn rebound(&mut self) {
        self.limit = self.bounded(self.limit);
    }

    /// Notes when a CPU that does not run does something next.
    pub(super) fn rekey(&mut self, cpu: usize) {
        let key = self.cpus[cpu].key();
        self.calendar.set(cpu, key);
        if cpu != self.current {
            self.limit = self.limit.min(Cycles(key.0.saturating_add(RUN_AHEAD.0)));
        }
    }

    /// Whether the running CPU may act at its local time; asks how far the others are when the
    /// known limit does not reach.
    #[inline]
    pub(super) fn may_go_on(&mut self) -> bool {
        let clock = self.cpus[self.current].clock;
        if clock <= self.limit {
            return true;
        }
        let others = self.calendar.first_time();
        self.limit = self.bounded(Cycles(others.0.saturating_add(RUN_AHEAD.0)));
        clock <= self.limit
    }

    /// The running CPU waits until the others have caught up.
    pub(super) fn sync(&mut self) -> Step {
        let cpu = &mut self.cpus[self.current];
        cpu.wait = Wait::Sync;
        cpu.resume_at = cpu.clock;
        Step::Again
    }

    fn block(&mut self, wait: Wait) {
        let cpu = &mut self.cpus[self.current];
        cpu.wait = wait;
        cpu.resume_at = Cycles::MAX;
    }

    /// A load or a locked operation of the running CPU, which waits for its result.
    #[inline(never)]
    pub(super) fn access(&mut self, place: Place, op: Op, site: Site) -> Step {
        if !self.may_go_on() {
            return self.sync();
        }
        let index = self.current;
        let now = self.cpus[index].clock;
        if !self.cpus[index].buffer.is_empty() {
            if op.is_write() {
                self.cpus[index].request = Some(Request {
                    place,
                    op,
                    site,
                    issued: now,
                });
                self.block(Wait::Drain);
                return Step::Again;
            }
            let committed = self.words[place.word as usize];
            if let Some(value) = self.cpus[index].buffer.forward(place, committed) {
                let sample = hit(
                    AccessOp::Load,
                    DataSource::StoreBuffer,
                    STORE_FORWARD_LATENCY,
                );
                return self.finish_inline(place, site, value, sample);
            }
        }
        if let Some((source, latency)) =
            self.directory
                .hit(CpuId(index as u16), place.line, op.is_write())
        {
            return self.access_hit(place, op, site, (source, latency));
        }
        let request = Request {
            place,
            op,
            site,
            issued: now,
        };
        match self.ask(
            index,
            place.line,
            (now, op.is_write()),
            ticket(index, STREAM, 0),
        ) {
            Some(grant) => {
                let value = self.complete(index, request, grant);
                self.cpus[index].clock = grant.done;
                Step::Done(value)
            }
            None => {
                self.cpus[index].request = Some(request);
                self.block(Wait::Queue);
                Step::Later
            }
        }
    }

    #[inline]
    fn access_hit(
        &mut self,
        place: Place,
        op: Op,
        site: Site,
        (source, latency): (DataSource, Cycles),
    ) -> Step {
        let now = self.cpus[self.current].clock;
        let sample = match op {
            Op::Load => {
                // The line may be on its way for an older store.
                let arrival = self.cpus[self.current].buffer.arrival(place);
                let left = arrival.map_or(Cycles::ZERO, |at| at.saturating_sub(now));
                if left > latency {
                    hit(AccessOp::Load, DataSource::FillBuffer, left)
                } else {
                    hit(AccessOp::Load, source, latency)
                }
            }
            Op::Rmw(_) => hit(AccessOp::LockedRmw, source, self.machine.core.locked_hit),
        };
        let old = self.apply(place, op);
        if op.is_write() {
            let done = now + sample.latency;
            self.wake_parked(place.line, done);
        }
        self.finish_inline(place, site, old, sample)
    }

    #[inline]
    fn finish_inline(&mut self, place: Place, site: Site, value: u64, sample: Sample) -> Step {
        let index = self.current;
        self.cpus[index].clock += sample.latency;
        self.record(index, place, site, (sample, value));
        Step::Done(value)
    }

    /// A plain store of the running CPU: it retires into the store buffer.
    #[inline(never)]
    pub(super) fn post(&mut self, posted: Posted) -> Step {
        if !self.may_go_on() {
            return self.sync();
        }
        let index = self.current;
        let now = self.cpus[index].clock;
        if self.cpus[index].buffer.is_full() {
            self.cpus[index].request = Some(Request {
                place: posted.place,
                op: Op::Load,
                site: posted.site,
                issued: now,
            });
            self.block(Wait::Full);
            return Step::Again;
        }
        self.cpus[index].clock += Cycles(1);
        let line = posted.place.line;
        if !self.cpus[index].buffer.is_empty() {
            self.cpus[index].buffer.entries.push_back(posted);
        } else if self.cpus[index].commit_free_at > now {
            let cpu = &mut self.cpus[index];
            cpu.buffer.entries.push_back(posted);
            cpu.drain_at = cpu.commit_free_at;
        } else if self
            .directory
            .hit(CpuId(index as u16), line, true)
            .is_some()
        {
            let done = now + Cycles(1);
            self.commit(
                index,
                posted,
                hit(AccessOp::Store, DataSource::L1, STORE_HIT_LATENCY),
                done,
            );
            self.cpus[index].commit_free_at = done;
            self.directory.hold(line, done);
        } else {
            self.cpus[index].buffer.entries.push_back(posted);
            self.issue_head(index, now);
        }
        self.rebound();
        Step::Done(0)
    }

    /// Asks for the line of the oldest store.
    fn issue_head(&mut self, index: usize, now: Cycles) {
        let Some(posted) = self.cpus[index].buffer.entries.front().copied() else {
            return;
        };
        let grant = self.ask(
            index,
            posted.place.line,
            (now, true),
            ticket(index, STORE, 0),
        );
        match grant {
            Some(grant) => self.head_granted(index, now, grant),
            None => {
                let cpu = &mut self.cpus[index];
                cpu.buffer.head = Head::Queued(now);
                cpu.drain_at = Cycles::MAX;
            }
        }
    }

    fn head_granted(&mut self, index: usize, issued: Cycles, grant: Grant) {
        let oldest = self.cpus[index].buffer.entries.front().copied();
        let posted = oldest.expect("a store that was granted its line is in the buffer");
        let sample = Sample {
            op: AccessOp::Store,
            source: grant.source,
            latency: grant.done - issued,
            queued: grant.queued,
        };
        self.commit(index, posted, sample, grant.done);
        let cpu = &mut self.cpus[index];
        cpu.buffer.head = Head::Granted(grant.done);
        cpu.drain_at = grant.done;
    }

    /// Puts the value of a store into memory.
    fn commit(&mut self, index: usize, posted: Posted, sample: Sample, done: Cycles) {
        let word = &mut self.words[posted.place.word as usize];
        *word = (*word & !posted.mask) | (posted.value & posted.mask);
        self.record(index, posted.place, posted.site, (sample, posted.value));
        self.wake_parked(posted.place.line, done);
    }

    /// The store buffer of a CPU has something to do.
    pub(super) fn drain(&mut self, index: usize, now: Cycles) {
        let cpu = &self.cpus[index];
        let oldest = cpu.buffer.entries.front().copied();
        let posted = oldest.expect("only a store buffer with stores drains");
        match cpu.buffer.head {
            Head::Granted(_) => self.commit_run(index, now, posted.place.line),
            Head::Idle => {
                let line = posted.place.line;
                if self
                    .directory
                    .hit(CpuId(index as u16), line, true)
                    .is_some()
                {
                    let sample = hit(AccessOp::Store, DataSource::L1, STORE_HIT_LATENCY);
                    self.commit(index, posted, sample, now);
                    self.commit_run(index, now, line);
                } else {
                    self.issue_head(index, now);
                }
            }
            Head::Queued(_) => unreachable!("a queued store has no time of its own"),
        }
        self.rekey(index);
    }

    /// The oldest store is committed; those behind it whose lines are here follow, one a cycle,
    /// during which the line is not given away.
    fn commit_run(&mut self, index: usize, now: Cycles, line: LineId) {
        self.cpus[index].buffer.pop();
        let mut committed = 1;
        while let Some(posted) = self.cpus[index].buffer.entries.front().copied() {
            let hits = self
                .directory
                .hit(CpuId(index as u16), posted.place.line, true);
            if hits.is_none() {
                break;
            }
            let done = now + Cycles(committed);
            self.commit(
                index,
                posted,
                hit(AccessOp::Store, DataSource::L1, STORE_HIT_LATENCY),
                done,
            );
            self.cpus[index].buffer.pop();
            committed += 1;
        }
        let free_at = now + Cycles(committed);
        self.directory.hold(line, free_at);
        let cpu = &mut self.cpus[index];
        cpu.buffer.head = Head::Idle;
        cpu.commit_free_at = free_at;
        cpu.drain_at = if cpu.buffer.is_empty() {
            Cycles::MAX
        } else {
            free_at
        };
        match cpu.wait {
            Wait::Drain if cpu.buffer.is_empty() => self.unblock(index, free_at),
            Wait::Full => self.unblock(index, now),
            _ => {}
        }
    }

    /// A CPU that waited for its store buffer tries its access again.
    fn unblock(&mut self, index: usize, at: Cycles) {
        let cpu = &mut self.cpus[index];
        let request = cpu.request.take();
        let request = request.expect("a CPU that waits for its store buffer has an access to do");
        let at = at.max(cpu.clock);
        self.profile
            .add_work(request.site, at.saturating_sub(request.issued));
        cpu.clock = at;
        cpu.resume_at = at;
        cpu.wait = Wait::Sync;
    }

    /// A fence of the running CPU.
    pub(super) fn fence(&mut self, place: Place, site: Site) -> Step {
        if !self.may_go_on() {
            return self.sync();
        }
        if !self.cpus[self.current].buffer.is_empty() {
            let issued = self.cpus[self.current].clock;
            self.cpus[self.current].request = Some(Request {
                place,
                op: Op::Load,
                site,
                issued,
            });
            self.block(Wait::Drain);
            return Step::Again;
        }
        let cost = self.machine.core.locked_hit;
        self.cpus[self.current].clock += cost;
        self.profile.add_work(site, cost);
        Step::Done(0)
    }

    /// Spins on a place that was seen with the value `seen`: returns when its line may have been
    /// written.
    pub(super) fn park(&mut self, place: Place, seen: u64) -> Step {
        if !self.may_go_on() {
            return self.sync();
        }
        let index = self.current;
        let is_valid = self
            .directory
            .hit(CpuId(index as u16), place.line, false)
            .is_some();
        if !is_valid || self.words[place.word as usize] != seen {
            return Step::Done(0);
        }
        let head = &mut self.parked[place.line.index()];
        self.cpus[index].parked_next = std::mem::replace(head, index as u16);
        self.block(Wait::Parked(place.line));
        Step::Later
    }

    /// Those who spin on a line look again: it was written at `at`.
    #[inline]
    pub(super) fn wake_parked(&mut self, line: LineId, at: Cycles) {
        if self.parked[line.index()] == NO_CPU {
            return;
        }
        let mut next = std::mem::replace(&mut self.parked[line.index()], NO_CPU);
        while next != NO_CPU {
            let index = usize::from(next);
            let cpu = &mut self.cpus[index];
            next = std::mem::replace(&mut cpu.parked_next, NO_CPU);
            cpu.clock = cpu.clock.max(at);
            cpu.resume_at = cpu.clock;
            cpu.wait = Wait::Sync;
            self.rekey(index);
        }
    }

    /// Takes a CPU out of the list of those that spin on a line.
    pub(super) fn unpark(&mut self, index: usize, line: LineId) {
        let after = std::mem::replace(&mut self.cpus[index].parked_next, NO_CPU);
        let mut link = self.parked[line.index()];
        if usize::from(link) == index {
            self.parked[line.index()] = after;
            return;
        }
        while usize::from(self.cpus[usize::from(link)].parked_next) != index {
            link = self.cpus[usize::from(link)].parked_next;
        }
        self.cpus[usize::from(link)].parked_next = after;
    }

    pub(super) fn ask(
        &mut self,
        index: usize,
        line: LineId,
        (now, exclusive): (Cycles, bool),
        ticket: u64,
    ) -> Option<Grant> {
        let grant = self.directory.request(Ask {
            now,
            cpu: CpuId(index as u16),
            line,
            exclusive,
            ticket,
        });
        if grant.is_none() {
            self.services.note(&self.directory, line);
        }
        grant
    }

    /// Serves the next waiter of a line.
    pub(super) fn serve(&mut self, line: LineId) {
        let (asked, grant) = self.directory.serve_next(line);
        self.services.note(&self.directory, line);
        let index = (asked.ticket >> 32) as usize;
        match asked.ticket & 3 {
            STORE => self.head_granted(index, asked.issued, grant),
            JOIN => {
                let number = (asked.ticket as u32 >> 2) as usize;
                self.join_served(index, number, grant);
            }
            _ => {
                let request = self.cpus[index].request.take();
                let request = request.expect("a CPU in a line's queue has an access to do");
                let value = self.complete(index, request, grant);
                let cpu = &mut self.cpus[index];
                cpu.result = value;
                cpu.clock = grant.done;
                cpu.resume_at = grant.done;
                cpu.wait = Wait::Served;
            }
        }
        self.rekey(index);
    }

    /// The access has its line: does it to the value.
    fn complete(&mut self, index: usize, request: Request, grant: Grant) -> u64 {
        let Request {
            place,
            op,
            site,
            issued,
        } = request;
        let old = self.apply(place, op);
        let sample = Sample {
            op: if op.is_write() {
                AccessOp::LockedRmw
            } else {
                AccessOp::Load
            },
            source: grant.source,
            latency: grant.done - issued,
            queued: grant.queued,
        };
        self.record(index, place, site, (sample, old));
        if op.is_write() {
            self.wake_parked(place.line, grant.done);
        }
        old
    }

    /// Does the operation to the value; returns what it was before.
    #[inline]
    fn apply(&mut self, place: Place, op: Op) -> u64 {
        let word = &mut self.words[place.word as usize];
        let old = *word;
        if let Op::Rmw(rmw) = op {
            *word = rmw.apply(old);
        }
        old
    }

    /// Counts an access, and makes it part of the hash of the event stream.
    #[inline]
    pub(super) fn record(
        &mut self,
        index: usize,
        place: Place,
        site: Site,
        (sample, value): (Sample, u64),
    ) {
        self.events += 1;
        self.accesses += 1;
        let what = u64::from(place.word) << 32 | u64::from(site.0) << 16 | index as u64;
        let when = self.cpus[index].clock.0 ^ sample.latency.0.rotate_left(32);
        let mixed = (self.hash ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = (mixed.rotate_left(29) ^ when ^ value.rotate_left(17))
            .wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.profile.add((place.member, site), index, sample);
    }
}

/// An access that nobody else is part of.
pub(super) fn hit(op: AccessOp, source: DataSource, latency: Cycles) -> Sample {
    Sample {
        op,
        source,
        latency,
        queued: Cycles::ZERO,
    }
}
