//! The state of a run: who runs, up to when, and what becomes of a request for a line.

use std::sync::Arc;

use hitm_base::{AccessOp, CpuId, Cycles, LineAddr, Machine};
use hitm_coherence::directory::{Ask, Directory, Grant, LineId};
use hitm_coherence::services::Services;

use super::calendar::Calendar;
use super::config::{EngineConfig, RUN_AHEAD};
use super::cpu::{Cpu, NO_CPU, Request, StackId, Wait};
use super::footprint::Footprints;
use super::hashes::Hashes;
use super::join::Join;
use super::log::{Answered, Log, Sample};
use super::memory::{Op, Place, Site};
use super::profile::Profile;
use super::trace::{TracedAccess, Tracer};

/// Time up to which a CPU may run when the earliest of the others is at `time`.
#[inline]
fn ahead_of(time: Cycles) -> Cycles {
    Cycles(time.0.saturating_add(RUN_AHEAD.0))
}

/// Progress of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is done; the CPU's clock stands at its end.
    Done(u64),
    /// The CPU has to wait first: try again when it is resumed.
    Again,
    /// It is under way: ask for the result when the CPU is resumed.
    Later,
}

/// Kind of ticket: a request of the instruction stream.
pub(super) const STREAM: u64 = 0;
pub(super) const STORE: u64 = 1;
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
    pub(super) parked: Vec<u16>,
    /// Of CPUs that have no independent loads under way; the one used last is taken first.
    #[expect(clippy::vec_box, reason = "they move between here and the CPUs")]
    pub(super) free_joins: Vec<Box<Join>>,
    pub(super) footprints: Footprints,
    /// Accesses that `profile` and `accesses` do not have yet.
    log: Log,
    pub(super) profile: Profile,
    /// Set if the run is traced.
    pub(super) tracer: Option<Box<Tracer>>,
    /// The CPU whose code runs now.
    pub(super) current: usize,
    /// That CPU may access memory up to this time without asking whether others come first.
    limit: Cycles,
    /// Time up to which the others let it run; `limit` may be less for what the CPU itself has to
    /// do first.
    others: Cycles,
    pub(super) end: Cycles,
    pub(super) events: u64,
    pub(super) accesses: u64,
    pub(super) hashes: Hashes,
}

impl State {
    pub(super) fn new(config: &EngineConfig) -> State {
        let machine = config.machine.clone();
        let cpus: Vec<Cpu> = machine
            .topology
            .cpus()
            .map(|_| Cpu::new(&machine.core))
            .collect();
        let footprints = Footprints::new(cpus.len());
        let mut directory = Directory::new(machine.clone(), config.capacity);
        // Only a trace tells what was lost to other CPUs.
        directory.tell_taken(false);
        State {
            directory,
            machine: Arc::new(machine),
            services: Services::default(),
            calendar: Calendar::new(cpus.len()),
            cpus,
            words: Vec::new(),
            parked: Vec::new(),
            free_joins: Vec::new(),
            footprints,
            log: Log::new(),
            profile: Profile::new(config.sites, &config.machine),
            tracer: None,
            current: 0,
            limit: Cycles::ZERO,
            others: Cycles::ZERO,
            end: config.end,
            events: 0,
            accesses: 0,
            hashes: Hashes::new(config.sites),
        }
    }

    /// Registers a line, with its memory on the node of `cpu`.
    pub(super) fn line(&mut self, addr: LineAddr, cpu: CpuId) -> LineId {
        let line = self.directory.line(addr, cpu);
        if self.parked.len() <= line.index() {
            self.parked.resize(line.index() + 1, NO_CPU);
        }
        line
    }

    /// `cpu`, whose time is the earliest of all CPUs, begins to run its code; returns the stack that it
    /// is on.
    #[inline]
    pub(super) fn begin(&mut self, cpu: usize, now: Cycles) -> StackId {
        self.current = cpu;
        self.calendar.take_first(cpu);
        while let Some(near) = self.calendar.advance(now) {
            self.foresee(near);
        }
        self.prefetch_step();
        self.others = ahead_of(self.calendar.first().1);
        let cpu = &mut self.cpus[cpu];
        cpu.clock = now;
        let stack = cpu.current_stack();
        self.limit = self.bounded(self.others);
        stack.expect("a CPU runs only when it has a stack")
    }

    /// The code of `cpu` waits, or its stack has ended.
    #[inline]
    pub(super) fn finish(&mut self, index: usize, has_ended: bool) {
        self.events += 1;
        let cpu = &mut self.cpus[index];
        if has_ended {
            assert!(
                cpu.interrupted.is_none(),
                "the interrupt handler of a CPU never ends"
            );
            cpu.stack = None;
            cpu.wait = Wait::Off;
            cpu.resume_at = Cycles::MAX;
        }
        self.calendar.insert(index, cpu.key());
    }

    /// `limit`, but not beyond what the CPU itself has to do first.
    fn bounded(&self, limit: Cycles) -> Cycles {
        let cpu = &self.cpus[self.current];
        let own = cpu.drain_at.min(cpu.irq_time);
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
            self.others = self.others.min(ahead_of(key));
            self.limit = self.limit.min(self.others);
        }
    }

    /// Returns true if the running CPU may act at its local time `clock`. While it runs, others may
    /// get an earlier time and never a later one; what it has to do itself first may be gone.
    #[inline]
    pub(super) fn may_act_at(&mut self, clock: Cycles) -> bool {
        if clock <= self.limit {
            return true;
        }
        if clock > self.others {
            return false;
        }
        self.limit = self.bounded(self.others);
        clock <= self.limit
    }

    /// The running CPU waits until the others have caught up.
    pub(super) fn sync(&mut self) -> Step {
        let cpu = &mut self.cpus[self.current];
        cpu.wait = Wait::Sync;
        cpu.resume_at = cpu.clock;
        Step::Again
    }

    pub(super) fn block(&mut self, wait: Wait) {
        let cpu = &mut self.cpus[self.current];
        cpu.wait = wait;
        cpu.resume_at = Cycles::MAX;
    }

    /// The running CPU waits for its store buffer, and then tries again what it does at `site`.
    pub(super) fn wait_for_stores(&mut self, wait: Wait, place: Place, site: Site) -> Step {
        let cpu = &mut self.cpus[self.current];
        cpu.request = Some(Request {
            place,
            op: Op::Load,
            site,
            issued: cpu.clock,
        });
        self.block(wait);
        Step::Again
    }

    /// Spins on a place that was seen with the value `seen`: returns when its line may have been
    /// written.
    pub(super) fn park(&mut self, place: Place, seen: u64, until: Cycles) -> Step {
        if !self.may_act_at(self.cpus[self.current].clock) {
            return self.sync();
        }
        let index = self.current;
        let is_valid = self
            .directory
            .hit(CpuId(index as u16), place.line, false)
            .is_some();
        // If the place was written since the caller looked, the caller looks again.
        let is_over = until <= self.cpus[self.current].clock;
        if is_over || !is_valid || self.words[place.word as usize] != seen {
            return Step::Done(0);
        }
        let head = &mut self.parked[place.line.index()];
        self.cpus[index].parked_next = std::mem::replace(head, index as u16);
        self.block(Wait::Parked(place.line));
        self.cpus[index].resume_at = until;
        Step::Later
    }

    /// The running CPU waits no more for a write, if nothing else has ended the wait.
    pub(super) fn end_park(&mut self) {
        let index = self.current;
        if let Wait::Parked(line) = self.cpus[index].wait {
            self.unpark(index, line);
            self.cpus[index].wait = Wait::Sync;
        }
    }

    /// Wakes the spinners on a line, which was written at `at`.
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
            self.foresee(index);
        }
    }

    /// Takes a CPU out of the list of spinners on a line.
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

    /// Requests a line, and notes when it is served if it has to wait.
    pub(super) fn ask(&mut self, ask: Ask) -> Option<Grant> {
        let grant = self.directory.request(ask);
        if grant.is_none() {
            self.services.note(&self.directory, ask.line);
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
    pub(super) fn complete(&mut self, index: usize, request: Request, grant: Grant) -> u64 {
        let Request {
            place,
            op,
            site,
            issued,
        } = request;
        let old = self.apply(place, op);
        let access = TracedAccess {
            place,
            site,
            op: if op.is_write() {
                AccessOp::LockedRmw
            } else {
                AccessOp::Load
            },
            issued,
        };
        let sample = self.granted(index, access, &grant);
        let answered = Answered {
            cpu: index,
            at: self.cpus[index].clock,
            place,
            site,
            value: old,
        };
        self.record(answered, sample);
        if op.is_write() {
            self.wake_parked(place.line, grant.done);
        }
        old
    }

    /// Tells the tracer of a granted access; returns what is counted of it.
    #[inline]
    pub(super) fn granted(&mut self, index: usize, access: TracedAccess, grant: &Grant) -> Sample {
        if let Some(tracer) = &mut self.tracer {
            tracer.granted(index, access, grant);
        }
        Sample {
            op: access.op,
            source: grant.source,
            latency: grant.done - access.issued,
            queued: grant.queued,
            other_node: grant.other_node,
        }
    }

    /// Does the operation to the value; returns what it was before.
    #[inline]
    pub(super) fn apply(&mut self, place: Place, op: Op) -> u64 {
        let word = &mut self.words[place.word as usize];
        let old = *word;
        if let Op::Rmw(rmw) = op {
            *word = rmw.apply(old);
        }
        old
    }

    /// Notes an access for the statistics, and makes it part of the hashes. Inlined, since its arguments are many
    /// and each is in a register of the caller's.
    #[inline(always)]
    pub(super) fn record(&mut self, access: Answered, sample: Sample) {
        self.note(access, sample.latency);
        let Answered {
            cpu, place, site, ..
        } = access;
        let key = self.profile.key(place.member, site, cpu as u16, &sample);
        let is_full = self.log.push(key, sample);
        if is_full {
            self.settle();
        }
    }

    /// Counts an access as an event, and makes it part of the hashes.
    #[inline(always)]
    pub(super) fn note(&mut self, access: Answered, latency: Cycles) {
        self.events += 1;
        let is_full = self.hashes.add(access, latency);
        if is_full {
            self.settle_hashes();
        }
    }

    /// Counts loads of a member by the running CPU that its L1 answered, one a cycle for `span`.
    pub(super) fn count_loads(&mut self, member: u16, site: Site, span: Cycles) {
        // A member may share its line with the one before.
        if span > Cycles::ZERO {
            self.accesses += span.0;
            let cpu = self.current as u16;
            self.profile.count_loads(member, site, cpu, span.0);
        }
    }

    /// Makes whole what is counted and hashed of the accesses up to now.
    pub(super) fn settle_all(&mut self) {
        self.settle();
        self.settle_hashes();
    }

    /// Counts what happened since the last time.
    #[inline(never)]
    fn settle(&mut self) {
        let (keys, samples) = self.log.accesses();
        self.accesses += keys.len() as u64;
        self.profile.count(keys, samples);
        self.log.clear();
    }

    #[inline(never)]
    fn settle_hashes(&mut self) {
        let addr = |line| self.directory.addr(line);
        self.hashes.settle(addr);
    }
}
