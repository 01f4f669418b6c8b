//! Loads and locked operations of the running CPU: the hot routines of a run.

use hitm_base::{AccessOp, CpuId, Cycles, DataSource};
use hitm_coherence::core::STORE_FORWARD_LATENCY;
use hitm_coherence::directory::Ask;

use super::cpu::{Request, Wait};
use super::log::{Answered, Sample, hit};
use super::memory::{Op, Place, Rmw, Site};
use super::state::{STREAM, State, Step, ticket};

impl State {
    /// A load, which waits for its value.
    #[inline]
    pub(super) fn load(&mut self, place: Place, site: Site) -> Step {
        let index = self.current;
        let now = self.cpus[index].clock;
        if !self.may_act_at(now) {
            return self.sync();
        }
        let mut arrival = None;
        let buffer = &self.cpus[index].buffer;
        if !buffer.is_empty() {
            if let Some(value) = buffer.forward(place, self.words[place.word as usize]) {
                let source = DataSource::StoreBuffer;
                let sample = hit(AccessOp::Load, source, STORE_FORWARD_LATENCY);
                return self.done(place, site, sample, value);
            }
            arrival = buffer.arrival(place);
        }
        let Some((source, latency)) = self.directory.hit(CpuId(index as u16), place.line, false)
        else {
            return self.fetch(place, Op::Load, site);
        };
        // The line may be on its way for an older store.
        let left = arrival.map_or(Cycles::ZERO, |at| at.saturating_sub(now));
        let sample = if left > latency {
            hit(AccessOp::Load, DataSource::FillBuffer, left)
        } else {
            hit(AccessOp::Load, source, latency)
        };
        let value = self.words[place.word as usize];
        self.done(place, site, sample, value)
    }

    /// A locked operation, which waits for older stores and for its result.
    #[inline]
    pub(super) fn exchange(&mut self, place: Place, rmw: Rmw, site: Site) -> Step {
        let index = self.current;
        let now = self.cpus[index].clock;
        if !self.may_act_at(now) {
            return self.sync();
        }
        if !self.cpus[index].buffer.is_empty() {
            return self.wait_for_stores(Wait::Drain, place, site);
        }
        let op = Op::Rmw(rmw);
        let Some((source, _)) = self.directory.hit(CpuId(index as u16), place.line, true) else {
            return self.fetch(place, op, site);
        };
        let sample = hit(AccessOp::LockedRmw, source, self.machine.core.locked_hit);
        let old = self.apply(place, op);
        self.wake_parked(place.line, now + sample.latency);
        self.done(place, site, sample, old)
    }

    /// An access of the running CPU that the core's own caches answered.
    #[inline]
    fn done(&mut self, place: Place, site: Site, sample: Sample, value: u64) -> Step {
        let index = self.current;
        let cpu = &mut self.cpus[index];
        cpu.clock += sample.latency;
        let answered = Answered {
            cpu: index,
            at: cpu.clock,
            place,
            site,
            value,
        };
        self.record(answered, sample);
        Step::Done(value)
    }

    /// An access of the running CPU to a line that its core does not have as it needs it.
    fn fetch(&mut self, place: Place, op: Op, site: Site) -> Step {
        let index = self.current;
        let now = self.cpus[index].clock;
        let request = Request {
            place,
            op,
            site,
            issued: now,
        };
        let ask = Ask {
            now,
            cpu: CpuId(index as u16),
            line: place.line,
            exclusive: op.is_write(),
            ticket: ticket(index, STREAM, 0),
        };
        match self.ask(ask) {
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
}
