//! Plain stores: how they retire into the store buffer, and how it drains.

use hitm_base::{AccessOp, CpuId, Cycles, DataSource};
use hitm_coherence::directory::{Ask, Grant, LineId};

use super::cpu::Wait;
use super::log::{Answered, Sample, hit};
use super::memory::{Place, Site};
use super::profile::STORE_HIT_LATENCY;
use super::state::{STORE, State, Step, ticket};
use super::store_buffer::{Head, Posted};
use super::trace::TracedAccess;

/// A store whose line is there.
const STORE_HIT: Sample = hit(AccessOp::Store, DataSource::L1, STORE_HIT_LATENCY);

impl State {
    /// Returns true if a store hits the line at `time`: it is here, and the visit is not over.
    #[inline]
    fn has_for_writing(&mut self, index: usize, line: LineId, time: Cycles) -> bool {
        let found = self.directory.hit(CpuId(index as u16), line, true);
        found.is_some() && time < self.directory.visit_end(line)
    }

    /// A plain store of the running CPU: it retires into the store buffer.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted) -> Step {
        if !self.may_act_at(self.cpus[self.current].clock) {
            return self.sync();
        }
        let index = self.current;
        let now = self.cpus[index].clock;
        if self.cpus[index].buffer.is_full() {
            return self.wait_for_stores(Wait::Full, posted.place, posted.site);
        }
        self.cpus[index].clock += Cycles(1);
        let line = posted.place.line;
        if !self.cpus[index].buffer.is_empty() {
            self.cpus[index].buffer.entries.push_back(posted);
        } else if self.cpus[index].commit_free_at > now {
            let cpu = &mut self.cpus[index];
            cpu.buffer.entries.push_back(posted);
            cpu.drain_at = cpu.commit_free_at;
        } else if self.has_for_writing(index, line, now) {
            let done = now + Cycles(1);
            self.commit(index, posted, STORE_HIT, done);
            self.cpus[index].commit_free_at = done;
            self.directory.hold(line, done);
        } else {
            self.cpus[index].buffer.entries.push_back(posted);
            self.issue_head(index, now);
        }
        self.rebound();
        Step::Done(0)
    }

    /// Requests the line of the oldest store.
    fn issue_head(&mut self, index: usize, now: Cycles) {
        let Some(posted) = self.cpus[index].buffer.entries.front().copied() else {
            return;
        };
        let grant = self.ask(Ask {
            now,
            cpu: CpuId(index as u16),
            line: posted.place.line,
            exclusive: true,
            ticket: ticket(index, STORE, 0),
        });
        match grant {
            Some(grant) => self.head_granted(index, now, grant),
            None => {
                let cpu = &mut self.cpus[index];
                cpu.buffer.head = Head::Queued(now);
                cpu.drain_at = Cycles::MAX;
            }
        }
    }

    pub(super) fn head_granted(&mut self, index: usize, issued: Cycles, grant: Grant) {
        let oldest = self.cpus[index].buffer.entries.front().copied();
        let posted = oldest.expect("a store that was granted its line is in the buffer");
        let access = TracedAccess {
            place: posted.place,
            site: posted.site,
            op: AccessOp::Store,
            issued,
        };
        let sample = self.granted(index, access, &grant);
        self.commit(index, posted, sample, grant.done);
        let cpu = &mut self.cpus[index];
        cpu.buffer.head = Head::Granted(grant.done);
        cpu.drain_at = grant.done;
    }

    /// Puts the value of a store into memory.
    fn commit(&mut self, index: usize, posted: Posted, sample: Sample, done: Cycles) {
        let word = &mut self.words[posted.place.word as usize];
        *word = (*word & !posted.mask) | (posted.value & posted.mask);
        let answered = Answered {
            cpu: index,
            at: self.cpus[index].clock,
            place: posted.place,
            site: posted.site,
            value: posted.value,
        };
        self.record(answered, sample);
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
                if self.has_for_writing(index, line, now) {
                    self.commit(index, posted, STORE_HIT, now);
                    self.commit_run(index, now, line);
                } else {
                    self.issue_head(index, now);
                }
            }
            Head::Queued(_) => unreachable!("a queued store has no time of its own"),
        }
        self.rekey(index);
    }

    /// The oldest store is committed; those behind it whose lines are here follow, one a cycle, as long
    /// as the visit lasts.
    fn commit_run(&mut self, index: usize, now: Cycles, line: LineId) {
        self.cpus[index].buffer.pop();
        let mut free_at = now + Cycles(1);
        while let Some(posted) = self.cpus[index].buffer.entries.front().copied() {
            if !self.has_for_writing(index, posted.place.line, free_at) {
                break;
            }
            self.commit(index, posted, STORE_HIT, free_at);
            self.cpus[index].buffer.pop();
            free_at += Cycles(1);
        }
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
        if let Some(tracer) = &mut self.tracer {
            tracer.waited_for_stores(index, request.issued..at);
        }
    }

    /// A fence of the running CPU.
    pub(super) fn fence(&mut self, place: Place, site: Site) -> Step {
        if !self.may_act_at(self.cpus[self.current].clock) {
            return self.sync();
        }
        if !self.cpus[self.current].buffer.is_empty() {
            return self.wait_for_stores(Wait::Drain, place, site);
        }
        let cost = self.machine.core.locked_hit;
        self.cpus[self.current].clock += cost;
        self.profile.add_work(site, cost);
        Step::Done(0)
    }
}
