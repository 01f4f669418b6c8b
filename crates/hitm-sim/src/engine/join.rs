//! Independent loads of a CPU, or whole lines that it overwrites: they overlap as far as its fill
//! buffers allow.

use hitm_base::{AccessOp, CpuId, Cycles};
use hitm_coherence::directory::{Ask, Grant};
use hitm_coherence::prefetch::prefetch;

use super::cpu::Wait;
use super::log::{Answered, Sample};
use super::memory::{Place, Site};
use super::state::{JOIN, State, Step, ticket};
use super::store_buffer::line_bit;
use super::trace::TracedAccess;

/// Loads of one line among independent ones.
#[derive(Debug, Clone, Copy)]
struct JoinGroup {
    first: Place,
    site: Site,
    /// Range of the results that the line holds.
    from: u32,
    to: u32,
    issued: Cycles,
}

/// Options of independent accesses; by default loads of all places.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JoinKind {
    /// Whole lines are overwritten, not loaded.
    pub(super) overwrites: bool,
    /// The place of this number is left out.
    pub(super) skipped: Option<usize>,
}

/// State of loads that are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Join {
    kind: JoinKind,
    words: Vec<u32>,
    pub(super) results: Vec<u64>,
    next: usize,
    /// Lines that the caches did not have.
    groups: Vec<JoinGroup>,
    /// Groups whose request waits in a line's queue.
    queued_count: usize,
    /// Completion times of those that are under way.
    known: Vec<Cycles>,
}

impl Join {
    fn start(&mut self, places: &[Place], kind: JoinKind) {
        self.kind = kind;
        self.words.clear();
        self.words.extend(places.iter().map(|place| place.word));
        self.results.clear();
        self.results.resize(places.len(), 0);
        self.next = 0;
        self.groups.clear();
        self.queued_count = 0;
        self.known.clear();
    }

    /// Frees the fill buffers of loads that have completed by `now`. A branch on which have would
    /// be mispredicted, so there is none.
    fn forget_until(&mut self, now: Cycles) {
        let mut kept = 0;
        for index in 0..self.known.len() {
            let done = self.known[index];
            self.known[kept] = done;
            kept += usize::from(done > now);
        }
        self.known.truncate(kept);
    }
}

impl State {
    /// Independent loads of the running CPU, or lines that it overwrites; `start` says which in the
    /// first call for them. The results are in the CPU's `join` when it is done, until
    /// [`State::end_join`].
    pub(super) fn join(&mut self, places: &[Place], site: Site, start: Option<JoinKind>) -> Step {
        if !self.may_act_at(self.cpus[self.current].clock) && start.is_some() {
            return self.sync();
        }
        let index = self.current;
        let mut join = self.take_join(index);
        if let Some(kind) = start {
            let lines = places.iter().map(|place| place.line);
            self.directory.prefetch_all(CpuId(index as u16), lines);
            for place in places {
                prefetch(&self.words, place.word as usize);
            }
            join.start(places, kind);
        }
        let step = self.join_on(&mut join, places, site);
        self.cpus[index].join = Some(join);
        step
    }

    /// The results have been used.
    pub(super) fn end_join(&mut self) {
        let join = self.cpus[self.current].join.take();
        self.free_joins.extend(join);
    }

    /// The request for a line among independent ones has been served.
    pub(super) fn join_served(&mut self, index: usize, number: usize, grant: Grant) {
        let mut join = self.take_join(index);
        join.queued_count -= 1;
        let group = join.groups[number];
        self.join_done(index, &mut join, group, grant);
        let cpu = &mut self.cpus[index];
        let all_known = join.queued_count == 0;
        if cpu.wait == Wait::Joined && (all_known || join.next < join.words.len()) {
            cpu.resume_at = cpu.resume_at.min(grant.done).max(cpu.clock);
        }
        cpu.join = Some(join);
    }

    fn take_join(&mut self, index: usize) -> Box<Join> {
        let join = self.cpus[index].join.take();
        join.or_else(|| self.free_joins.pop()).unwrap_or_default()
    }

    fn join_on(&mut self, join: &mut Join, places: &[Place], site: Site) -> Step {
        let index = self.current;
        let skipped = join.kind.skipped.unwrap_or(usize::MAX);
        while join.next < places.len() {
            if join.next == skipped {
                join.next += 1;
                continue;
            }
            let end = if join.next < skipped {
                skipped.min(places.len())
            } else {
                places.len()
            };
            self.join_hits(join, &places[join.next..end], site);
            let from = join.next;
            if from == end {
                continue;
            }
            let line = places[from].line;
            let mut to = from + 1;
            while to < end && places[to].line == line {
                to += 1;
            }
            let group = JoinGroup {
                first: places[from],
                site,
                from: from as u32,
                to: to as u32,
                issued: self.cpus[index].clock,
            };
            if !self.join_line(index, join, group) {
                return self.join_wait(index, join);
            }
            join.next = to;
            self.cpus[index].clock += Cycles(1);
        }
        if join.queued_count > 0 {
            return self.join_wait(index, join);
        }
        let last = join.known.iter().copied().max().unwrap_or(Cycles::ZERO);
        let cpu = &mut self.cpus[index];
        cpu.clock = last.max(cpu.clock + self.machine.caches.l1.latency);
        Step::Done(0)
    }

    /// Loads as many of these places, the next ones, as the L1 has one after the other and no older
    /// store is on its way to. That is most of them, so they are counted together.
    fn join_hits(&mut self, join: &mut Join, places: &[Place], site: Site) {
        let index = self.current;
        if join.kind.overwrites {
            return;
        }
        let stored = self.cpus[index].buffer.lines();
        let lines = places.iter().map(|place| place.line);
        let lines = lines.take_while(|line| stored & line_bit(*line) == 0);
        let count = self.directory.readable(CpuId(index as u16), lines);
        let mut results = join.results[join.next..].iter_mut();
        let latency = self.machine.caches.l1.latency;
        let start = self.cpus[index].clock;
        let (mut now, mut line) = (start, None);
        for of_member in places[..count].chunk_by(|a, b| a.member == b.member) {
            let before = now;
            for (place, result) in of_member.iter().zip(&mut results) {
                let value = self.words[place.word as usize];
                *result = value;
                // One access a line.
                if line.replace(place.line) != Some(place.line) {
                    let answered = Answered {
                        cpu: index,
                        at: now,
                        place: *place,
                        site,
                        value,
                    };
                    self.note(answered, latency);
                    now += Cycles(1);
                }
            }
            self.count_loads(of_member[0].member, site, now - before);
        }
        self.cpus[index].clock = now;
        // A load gives its fill buffer back when it completes, the others by the next one.
        let left = (now - start).0.min(latency.0.saturating_sub(1));
        let last = (1..=left).rev().map(|ago| now - Cycles(ago) + latency);
        join.known.extend(last);
        join.next += count;
    }

    /// Issues the load of a line; false when no fill buffer is free.
    #[inline]
    fn join_line(&mut self, index: usize, join: &mut Join, group: JoinGroup) -> bool {
        let (now, line) = (group.issued, group.first.line);
        let exclusive = join.kind.overwrites;
        if let Some((source, latency)) = self.directory.hit(CpuId(index as u16), line, exclusive) {
            // The line may be on its way for an older store.
            let arrival = self.cpus[index].buffer.arrival(group.first);
            let done = arrival.unwrap_or(Cycles::ZERO).max(now + latency);
            let grant = Grant::own(source, done);
            self.join_done(index, join, group, grant);
            return true;
        }
        join.forget_until(now);
        if join.known.len() + join.queued_count >= usize::from(self.machine.core.fill_buffers) {
            return false;
        }
        let grant = self.ask(Ask {
            now,
            cpu: CpuId(index as u16),
            line,
            exclusive,
            ticket: ticket(index, JOIN, join.groups.len()),
        });
        join.groups.push(group);
        match grant {
            Some(grant) => self.join_done(index, join, group, grant),
            None => join.queued_count += 1,
        }
        true
    }

    /// Takes the values of a line that independent loads requested.
    #[inline]
    fn join_done(&mut self, index: usize, join: &mut Join, group: JoinGroup, grant: Grant) {
        let buffer = &self.cpus[index].buffer;
        let range = group.from as usize..group.to as usize;
        for (result, word) in join.results[range.clone()]
            .iter_mut()
            .zip(&join.words[range])
        {
            let place = Place {
                word: *word,
                ..group.first
            };
            *result = buffer.value(place, self.words[*word as usize]);
        }
        let (op, traced) = match join.kind.overwrites {
            // The copy waits for its lines, unlike a store.
            true => (AccessOp::Store, AccessOp::LockedRmw),
            false => (AccessOp::Load, AccessOp::Load),
        };
        let access = TracedAccess {
            place: group.first,
            site: group.site,
            op: traced,
            issued: group.issued,
        };
        let sample = Sample {
            op,
            ..self.granted(index, access, &grant)
        };
        let answered = Answered {
            cpu: index,
            at: self.cpus[index].clock,
            place: group.first,
            site: group.site,
            value: join.results[group.from as usize],
        };
        self.record(answered, sample);
        join.known.push(grant.done);
    }

    fn join_wait(&mut self, index: usize, join: &Join) -> Step {
        let cpu = &mut self.cpus[index];
        cpu.wait = Wait::Joined;
        let earliest = join.known.iter().copied().min();
        let all_issued = join.next == join.words.len();
        cpu.resume_at = match earliest {
            Some(done) if !all_issued => done.max(cpu.clock),
            _ => Cycles::MAX,
        };
        Step::Later
    }
}
