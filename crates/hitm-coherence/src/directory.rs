//! The directory: the state of every line, and what a request to it costs.
//!
//! A directory protocol with the states Modified, Exclusive, Shared and Invalid, plus Owned where
//! the machine says MOESI. The sharer set is kept per core, because the threads of a core share
//! their private caches.
//!
//! **Invariant:** a line has one owner and no other valid copy (Modified, Exclusive), or any number
//! of clean copies and at most one dirty one (Shared, Owned).
//!
//! Not modelled, and why: transient states (a request is atomic at the moment it is served; its
//! duration is the line's `free_at`). The snoop filter's own capacity: its evictions are far rarer
//! than the contention priced here.

mod copies;
mod latest;
mod pairs;
mod quote;

use std::sync::Arc;

use hitm_base::machine::Machine;
use hitm_base::{CpuId, Cycles, DataSource, LineAddr, Outcome};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::bits::bits;
use crate::cache::TagArrays;
use crate::parts::LineParts;
use crate::prefetch::{prefetch, prefetch_value};
use crate::price::{Parts, Price, Prices, Quote, Service};
use crate::queue::{LineQueue, Request};
use copies::Level;
use latest::LatestUses;
pub(crate) use latest::Use;

/// A line known to a [`Directory`]: its index in order of first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(u32);

impl LineId {
    /// The first line of a directory.
    pub const FIRST: LineId = LineId::from_index(0);

    /// The line with this index.
    pub(crate) const fn from_index(index: usize) -> LineId {
        LineId(index as u32)
    }

    /// The id as an index into a per-line table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Sizes of private caches and the LLC: real or unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// Real sizes and ways, least recently used goes first.
    Finite,
    /// Nothing is ever evicted: contention alone.
    Infinite,
}

/// The answer to a request that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Source of the data.
    pub source: DataSource,
    /// Time at which the core has it.
    pub done: Cycles,
    /// Queueing delay: the wait behind others at the line's home.
    pub queued: Cycles,
    /// Set if a core of another NUMA node had modified the line and answered.
    pub other_node: bool,
    /// Set if another CPU's use of the line caused the request: it answers, or has taken the line from a
    /// core that would have it still. Of the latter [`Directory::tell_taken`] decides.
    pub taken: bool,
}

impl Grant {
    /// An answer of the core's own caches.
    pub fn own(source: DataSource, done: Cycles) -> Grant {
        Grant {
            source,
            done,
            queued: Cycles::ZERO,
            other_node: false,
            taken: false,
        }
    }

    /// The outcome of an access that had this answer after `latency` and held its thread up for `stall`. On
    /// a line of its own it would have held it up for `alone`.
    #[inline]
    pub fn outcome(&self, latency: Cycles, stall: Cycles, alone: Cycles) -> Outcome {
        let lost = match self.taken {
            true => stall.saturating_sub(alone),
            false => stall.min(self.queued),
        };
        Outcome {
            source: self.source,
            latency,
            queued: self.queued,
            stall,
            lost,
        }
    }
}

/// In order of what the owner's copy allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum State {
    /// No private cache has it.
    Invalid,
    /// Clean copies; if there is an owner, it answers for the others.
    Shared,
    /// One dirty copy, which answers for clean copies beside it.
    Owned,
    /// One clean copy.
    Exclusive,
    /// One dirty copy.
    Modified,
}

/// The part of a line that every request reads: four of these share one cache line of the host.
#[derive(Debug, Clone, Copy)]
#[repr(align(16))]
struct Line {
    /// End of the transfer that was granted last.
    free_at: Cycles,
    /// The CPU that last got the line exclusively; its core holds the copy in the states Owned,
    /// Exclusive and Modified.
    owner: CpuId,
    /// Cores with a valid copy.
    sharer_count: u16,
    /// NUMA node whose memory backs the line: at most as many as last-level caches, 64.
    home: u8,
    state: State,
    has_waiters: bool,
    /// Service of a read that no owner answers and that finds the line taken.
    service: Service,
}

impl Line {
    #[inline]
    fn home(&self) -> u16 {
        self.home.into()
    }

    /// Returns true if its owner's core has the only copy.
    #[inline]
    fn is_alone(&self) -> bool {
        self.state >= State::Exclusive
    }
}

/// The rest of what is known about a line.
#[derive(Debug, Clone)]
struct LineBackground {
    /// The set of an LLC that it belongs in.
    llc_set: u32,
    queue: LineQueue,
    /// Until then the owner keeps the line from its waiters.
    held_until: Cycles,
}

/// The states of all lines of one machine.
#[derive(Debug, Clone)]
pub struct Directory {
    prices: Arc<Prices>,
    capacity: Capacity,
    l1_latency: Cycles,
    ids: IndexSet<LineAddr, FxBuildHasher>,
    lines: Vec<Line>,
    /// By line, too: the sets of an L1 and of an L2 that it belongs in; empty where nothing is
    /// evicted.
    sets: Vec<[u32; 2]>,
    backgrounds: Vec<LineBackground>,
    /// `copies[line * words ..][..words]`: the last-level caches that have a copy of their own or
    /// above one that had, as bits. Then one bit per core with a valid copy. In the states
    /// Exclusive and Modified there is the owner alone and nothing stands here.
    copies: Vec<u64>,
    words: usize,
    /// Cores that have had each line, one bit per core, where nothing is evicted: `seen[line * (words - 1) ..]`.
    /// Nothing where nobody asks.
    seen: Option<Vec<u64>>,
    /// In a directory that is a part; nothing in one that is whole.
    latest: LatestUses,
    l1: TagArrays,
    l2: TagArrays,
    llc: TagArrays,
}

impl Directory {
    /// An empty directory for `machine`.
    pub fn new(machine: Machine, capacity: Capacity) -> Directory {
        Directory {
            latest: LatestUses::default(),
            ..Directory::part(Arc::new(Prices::new(machine)), capacity, LineParts::WHOLE)
        }
    }

    /// An empty directory for one of the parts of the priced machine's lines. They never meet, so that they may be
    /// served apart.
    pub(crate) fn part(prices: Arc<Prices>, capacity: Capacity, parts: LineParts) -> Directory {
        let (topology, caches) = (&prices.machine().topology, &prices.machine().caches);
        let (cores, llcs, parts) = match capacity {
            Capacity::Finite => (topology.core_count(), topology.llc_count(), parts),
            Capacity::Infinite => (0, 0, LineParts::WHOLE),
        };
        Directory {
            capacity,
            l1_latency: caches.l1.latency,
            ids: IndexSet::default(),
            lines: Vec::new(),
            sets: Vec::new(),
            backgrounds: Vec::new(),
            copies: Vec::new(),
            words: 1 + topology.core_count().div_ceil(64),
            seen: (capacity == Capacity::Infinite).then(Vec::new),
            latest: LatestUses::new(topology),
            l1: TagArrays::new(cores, &caches.l1, parts),
            l2: TagArrays::new(cores, &caches.l2, parts),
            llc: TagArrays::new(llcs, &caches.llc, parts),
            prices,
        }
    }

    /// Says whether [`Grant::taken`] is asked for: where nothing is evicted, it takes memory for each line and core.
    /// It is until this is called, which is before the first request.
    pub fn tell_taken(&mut self, is_told: bool) {
        let is_noted = is_told && self.capacity == Capacity::Infinite;
        self.seen = is_noted.then(|| vec![0; self.lines.len() * (self.words - 1)]);
    }

    /// The machine that is modelled.
    pub fn machine(&self) -> &Machine {
        self.prices.machine()
    }

    /// Returns the id of a line. A new one is registered with its home on the NUMA node of `cpu`:
    /// Linux places a page where it is first touched.
    #[inline]
    pub fn line(&mut self, addr: LineAddr, cpu: CpuId) -> LineId {
        let (index, new) = self.ids.insert_full(addr);
        if new {
            self.lines.push(Line {
                free_at: Cycles::ZERO,
                owner: cpu,
                sharer_count: 0,
                home: self.prices.parts(cpu).node as u8,
                state: State::Invalid,
                has_waiters: false,
                service: Service::Passing,
            });
            if self.capacity == Capacity::Finite {
                let sets = [self.l1.set_of(addr), self.l2.set_of(addr)];
                self.sets.push(sets);
            }
            if let Some(seen) = &mut self.seen {
                seen.resize(seen.len() + self.words - 1, 0);
            }
            self.backgrounds.push(LineBackground {
                llc_set: self.llc.set_of(addr),
                queue: LineQueue::default(),
                held_until: Cycles::ZERO,
            });
            self.copies.resize(self.copies.len() + self.words, 0);
        }
        LineId(index as u32)
    }

    /// The address of a line.
    #[inline]
    pub fn addr(&self, line: LineId) -> LineAddr {
        self.ids[line.index()]
    }

    /// The addresses of all lines, in order of their ids.
    pub fn addrs(&self) -> impl Iterator<Item = LineAddr> + '_ {
        self.ids.iter().copied()
    }

    /// Prefetches into the host's cache what a request of `cpu` to the line will read.
    #[inline]
    pub fn prefetch(&self, cpu: CpuId, line: LineId) {
        if let Some([l1_set, l2_set]) = self.sets.get(line.index()).copied() {
            let core = self.core(cpu);
            self.l1.prefetch(core, l1_set);
            self.l2.prefetch(core, l2_set);
        }
        self.prefetch_line(line);
    }

    #[inline]
    fn prefetch_line(&self, line: LineId) {
        prefetch(&self.lines, line.index());
        prefetch(&self.copies, line.index() * self.words);
    }

    /// Prefetches into the host's cache the records of `count` lines, one after the other.
    pub fn prefetch_run(&self, first: LineId, count: usize) {
        prefetch_value(&self.lines[first.index()..][..count]);
        prefetch_value(&self.copies[first.index() * self.words..][..count * self.words]);
    }

    /// The id that the next new line gets.
    pub fn next_line(&self) -> LineId {
        LineId::from_index(self.lines.len())
    }

    /// Prefetches into the host's cache what requests of `cpu` to these lines will read, with what
    /// they will displace from finite caches. For a caller that knows them beforehand: each step
    /// prefetches what the next one reads, for all lines together.
    pub fn prefetch_all(&self, cpu: CpuId, lines: impl Iterator<Item = LineId> + Clone) {
        lines.clone().for_each(|line| self.prefetch_line(line));
        if self.capacity == Capacity::Infinite {
            return;
        }
        let Parts { core, llc, .. } = self.prices.parts(cpu);
        for line in lines.clone() {
            self.prefetch(cpu, line);
        }
        let displaced = lines.filter_map(|line| {
            let [_, l2_set] = self.sets[line.index()];
            self.l2.least_recent(core.into(), l2_set).map(LineId)
        });
        for line in displaced.clone() {
            self.prefetch_line(line);
            prefetch(&self.backgrounds, line.index());
        }
        let llc_set = |line: LineId| self.backgrounds[line.index()].llc_set;
        for line in displaced.clone() {
            self.llc.prefetch(llc.into(), llc_set(line));
        }
        let dropped = displaced.filter_map(|line| self.llc.least_recent(llc.into(), llc_set(line)));
        dropped.for_each(|line| self.prefetch_line(LineId(line)));
    }

    /// Answers from the core's own caches if they hold a copy that suffices.
    #[inline]
    pub fn hit(
        &mut self,
        cpu: CpuId,
        line: LineId,
        exclusive: bool,
    ) -> Option<(DataSource, Cycles)> {
        let core = self.core(cpu);
        let entry = &mut self.lines[line.0 as usize];
        if entry.is_alone() {
            if entry.owner != cpu && core != usize::from(self.prices.parts(entry.owner).core) {
                return None;
            }
            if exclusive {
                // No request: nobody else has a copy that must be invalidated.
                entry.state = State::Modified;
                if entry.owner != cpu {
                    self.latest.forget(entry.owner, line);
                    entry.owner = cpu;
                }
            }
        } else if exclusive || !self.has_copy(line, core) {
            return None;
        }
        match self.capacity {
            Capacity::Infinite => Some((DataSource::L1, self.l1_latency)),
            Capacity::Finite => Some(self.private_level(cpu, line)),
        }
    }

    /// Returns true if `cpu` repeats what it did last, and changes neither the line's state nor the
    /// order of its cache set: a hit in the L1. Only what the caller has
    /// [remembered](Directory::remember) is known here.
    #[inline]
    pub(crate) fn goes_on(&self, cpu: CpuId, with: Use) -> bool {
        self.latest.cover(cpu, with)
    }

    /// Remembers that the line is what `cpu` used last, if it has it alone: it has just been hit or
    /// granted.
    #[inline]
    pub(crate) fn remember(&mut self, cpu: CpuId, line: LineId) {
        let entry = &self.lines[line.index()];
        if entry.is_alone() && entry.owner == cpu {
            let is_modified = entry.state == State::Modified;
            self.latest.note(cpu, Use::new(cpu, line, is_modified));
        }
    }

    /// Returns how many of these lines, from the first on, may be read from the core's L1 at its
    /// usual latency. Zero with finite caches, where a hit changes which line is evicted next.
    #[inline]
    pub fn readable(&self, cpu: CpuId, lines: impl Iterator<Item = LineId>) -> usize {
        if self.capacity == Capacity::Finite {
            return 0;
        }
        let core = self.core(cpu);
        lines.take_while(|line| self.is_sharer(*line, core)).count()
    }

    /// Makes a request that the core's own caches cannot answer. It is served at once when the line
    /// is free when it reaches its home. Otherwise it waits, `None` comes back, and the caller asks
    /// [`Directory::next_service`].
    #[inline]
    pub fn request(&mut self, request: Ask) -> Option<Grant> {
        let Ask {
            now,
            cpu,
            line,
            exclusive,
            ticket,
        } = request;
        let quote = self.quote(cpu, line, exclusive);
        let Price { latency, occupancy } = quote.price;
        let entry = &mut self.lines[line.0 as usize];
        let request = Request {
            cpu,
            exclusive,
            issued: now,
            // The way to the line's home overlaps with other transfers; only the rest occupies the
            // line.
            arrived: now + (latency - occupancy),
            ticket,
        };
        if !entry.has_waiters && entry.free_at <= request.arrived {
            return Some(self.transfer(&request, line, quote));
        }
        entry.has_waiters = true;
        let llc = self.prices.parts(cpu).llc;
        let queue = &mut self.backgrounds[line.0 as usize].queue;
        let is_first = queue.push(request, llc);
        if is_first {
            self.note_hold(line);
        }
        None
    }

    /// Notes until when the owner keeps the line from the next waiter. A shared line goes at once.
    fn note_hold(&mut self, line: LineId) {
        let contention = self.prices.machine().contention;
        if contention.hold_milli == 0 {
            return;
        }
        let entry = self.lines[line.index()];
        let background = &mut self.backgrounds[line.index()];
        let near = self.prices.parts(entry.owner).llc;
        let next = background.queue.next_cpu(near, contention.visit);
        background.held_until = match (next, background.queue.next_service(entry.free_at)) {
            (Some(cpu), Some(free)) if entry.state >= State::Owned => {
                free + self.prices.hold(cpu, entry.owner, entry.home(), free)
            }
            _ => Cycles::ZERO,
        };
    }

    /// Returns the time at which the line's next waiter can be served, if there is one.
    pub fn next_service(&self, line: LineId) -> Option<Cycles> {
        let free_at = self.lines[line.index()].free_at;
        let background = &self.backgrounds[line.0 as usize];
        let free = background.queue.next_service(free_at)?;
        Some(free.max(background.held_until))
    }

    /// Returns the time from which stores of the line's owner wait for its next visit: others wait for the
    /// line, and the owner's hold is over. `Cycles::MAX` on machines without a hold.
    #[inline]
    pub fn visit_end(&self, line: LineId) -> Cycles {
        let has_hold = self.prices.machine().contention.hold_milli > 0;
        if !(has_hold && self.lines[line.index()].has_waiters) {
            return Cycles::MAX;
        }
        self.next_service(line).unwrap_or(Cycles::MAX)
    }

    /// Serves the line's next waiter, at the time that [`Directory::next_service`] named. Panics
    /// when nobody waits.
    pub fn serve_next(&mut self, line: LineId) -> (Request, Grant) {
        let entry = &mut self.lines[line.0 as usize];
        let LineBackground {
            queue, held_until, ..
        } = &mut self.backgrounds[line.0 as usize];
        let now = queue
            .next_service(entry.free_at)
            .expect("only a line with waiters is served");
        let near = self.prices.parts(entry.owner).llc;
        let visit = self.prices.machine().contention.visit;
        let request = queue.take_next(now, near, visit);
        let held_until = std::mem::take(held_until);
        entry.has_waiters = !queue.is_empty();
        let has_waiters = entry.has_waiters;
        let mut grant = self.grant(request, line);
        // The owner kept the line for that long, whatever became of its copy meanwhile.
        grant.done = grant.done.max(held_until);
        let entry = &mut self.lines[line.index()];
        entry.free_at = entry.free_at.max(held_until);
        if has_waiters {
            self.note_hold(line);
        }
        (request, grant)
    }

    /// Keeps the line with its new owner until `until`, for stores that were already waiting for
    /// it in that core. It delays the next hand-over only if the owner would not have kept the line
    /// for so long anyway.
    pub fn hold(&mut self, line: LineId, until: Cycles) {
        let entry = &mut self.lines[line.index()];
        if !entry.has_waiters || self.backgrounds[line.index()].held_until < until {
            entry.free_at = entry.free_at.max(until);
        }
    }

    /// Registers a line's state from before anybody counted: `cpu` alone has it, modified or not.
    pub fn adopt(&mut self, addr: LineAddr, cpu: CpuId, dirty: bool) {
        let line = self.line(addr, cpu);
        self.make_owner(cpu, line);
        if !dirty {
            self.lines[line.index()].state = State::Exclusive;
        }
        self.fill(cpu, line, Level::L1);
    }

    /// The CPU that wrote the line last, if its copy is still dirty.
    pub fn dirty_owner(&self, line: LineId) -> Option<CpuId> {
        let entry = &self.lines[line.0 as usize];
        matches!(entry.state, State::Modified | State::Owned).then_some(entry.owner)
    }

    /// The cores with a valid copy, ascending.
    pub fn sharers(&self, line: LineId) -> impl Iterator<Item = u16> + '_ {
        let entry = &self.lines[line.index()];
        let only = entry.is_alone().then(|| self.core(entry.owner) as u16);
        let words = if entry.is_alone() {
            &[]
        } else {
            &self.copies[line.index() * self.words..][1..self.words]
        };
        let words = words.iter().enumerate();
        let shared =
            words.flat_map(|(index, word)| bits(*word).map(move |bit| (index * 64) as u16 + bit));
        only.into_iter().chain(shared)
    }

    fn grant(&mut self, request: Request, line: LineId) -> Grant {
        let Request {
            cpu,
            exclusive,
            arrived,
            ..
        } = request;
        if let Some((source, latency)) = self.hit(cpu, line, exclusive) {
            // Another request of the core, a store's or the other thread's, fetched the line meanwhile. Both
            // waited because others had it.
            let start = arrived.max(self.lines[line.index()].free_at);
            return Grant {
                queued: start - arrived,
                taken: true,
                ..Grant::own(source, start + latency)
            };
        }
        let quote = self.quote(cpu, line, exclusive);
        self.transfer(&request, line, quote)
    }

    /// Hands the line over at the quoted price, to a core that cannot answer from its own caches. The other line of
    /// the pair may come with it.
    #[inline]
    fn transfer(&mut self, request: &Request, line: LineId, quote: Quote) -> Grant {
        let grant = self.hand_over(request, line, quote, Level::L1);
        if self.prices.machine().adjacent_line_milli > 0 {
            let start = request.arrived + grant.queued;
            self.pull_pair(request.cpu, line, grant.source, start);
        }
        grant
    }

    /// Hands one line over, to caches from `level` on.
    #[inline]
    fn hand_over(&mut self, request: &Request, line: LineId, quote: Quote, level: Level) -> Grant {
        let Request {
            cpu,
            exclusive,
            issued,
            arrived,
            ..
        } = *request;
        let Quote { price, source } = quote;
        let entry = &mut self.lines[line.index()];
        let start = arrived.max(entry.free_at);
        // The line may have moved farther away while the request was under way.
        let done = (start + price.occupancy).max(issued + price.latency);
        entry.free_at = done;
        let is_hand_over = exclusive || entry.state >= State::Owned;
        if is_hand_over {
            entry.service = Service::InTurn;
        } else if start == arrived {
            entry.service = Service::Passing;
        }
        let node = |cpu| self.prices.parts(cpu).node;
        let other_node = source.is_hitm() && node(entry.owner) != node(cpu);
        if exclusive {
            self.make_owner(cpu, line);
        } else {
            self.add_reader(cpu, line);
        }
        let had_it = self.fill(cpu, line, level);
        Grant {
            source,
            done,
            queued: start - arrived,
            other_node,
            taken: source.is_contention() || had_it,
        }
    }

    #[inline]
    fn core(&self, cpu: CpuId) -> usize {
        usize::from(self.prices.parts(cpu).core)
    }
}

/// A request to [`Directory::request`].
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Time at which the request leaves the core.
    pub now: Cycles,
    /// The requester.
    pub cpu: CpuId,
    /// The line that it wants.
    pub line: LineId,
    /// True for a write.
    pub exclusive: bool,
    /// The caller's mark, handed back by [`Directory::serve_next`].
    pub ticket: u64,
}
