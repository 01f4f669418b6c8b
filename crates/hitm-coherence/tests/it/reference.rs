//! The directory again, slow and obvious: a map from core to state for each line, plain lists for
//! queues and caches, every distance taken between two CPUs.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::machine::{Machine, Protocol, Transfer};
use hitm_base::{CpuId, Cycles, DataSource, Distance, LINE_SIZE};
use hitm_coherence::directory::{Capacity, Grant};
use hitm_coherence::price::PASS;
use hitm_coherence::queue::Request;

use crate::engine::{Asked, Engine};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copy {
    Modified,
    Owned,
    Exclusive,
    Shared,
}

#[derive(Debug)]
struct Line {
    copies: BTreeMap<u16, Copy>,
    llcs: BTreeSet<u16>,
    last_owner: CpuId,
    home: u16,
    free_at: Cycles,
    waiters: Vec<Request>,
    visit_began: Cycles,
    visit_served: u16,
    /// Until then the owner keeps the line from its waiters.
    held_until: Cycles,
    /// Set from a hand-over on until a read finds the line free.
    fought_over: bool,
}

/// A cache: its sets, each a list of lines, the most recently used first.
#[derive(Debug, Default)]
struct Cache {
    sets: BTreeMap<u64, Vec<u64>>,
}

impl Cache {
    fn has(&self, line: u64) -> bool {
        self.sets.values().any(|set| set.contains(&line))
    }

    /// Makes the line the most recently used; the line that had to go comes back.
    fn enter(&mut self, line: u64, shape: &hitm_base::machine::CacheShape) -> Option<u64> {
        let set_count = shape.size_bytes / LINE_SIZE / u64::from(shape.ways);
        let set = self.sets.entry(line % set_count).or_default();
        set.retain(|other| *other != line);
        set.insert(0, line);
        if set.len() > shape.ways as usize {
            set.pop()
        } else {
            None
        }
    }
}

pub(crate) struct Reference {
    machine: Machine,
    capacity: Capacity,
    /// Lines that a core has had, where nothing is evicted.
    seen: BTreeSet<(u16, u64)>,
    lines: BTreeMap<u64, Line>,
    l1: BTreeMap<u16, Cache>,
    l2: BTreeMap<u16, Cache>,
    llc: BTreeMap<u16, Cache>,
}

impl Reference {
    pub(crate) fn new(machine: Machine, capacity: Capacity) -> Reference {
        let (l1, l2, llc) = Default::default();
        Reference {
            machine,
            capacity,
            seen: BTreeSet::new(),
            lines: BTreeMap::new(),
            l1,
            l2,
            llc,
        }
    }

    fn core(&self, cpu: CpuId) -> u16 {
        self.machine.topology.core_of(cpu)
    }

    /// Distance of the last-level cache of `cpu` from another one.
    fn llc_distance(&self, cpu: CpuId, llc: u16) -> Distance {
        let topology = &self.machine.topology;
        if topology.llc_of(cpu) == llc {
            return Distance::Llc;
        }
        let there = topology
            .cpus()
            .find(|other| topology.llc_of(*other) == llc)
            .unwrap();
        topology.distance(cpu, there)
    }

    fn transfer(&self, cpu: CpuId, owner: CpuId, home: u16) -> (Transfer, Distance) {
        let topology = &self.machine.topology;
        let distance = topology.distance(cpu, owner);
        let packages = [topology.package_of(cpu), topology.package_of(owner)];
        let is_away = !packages.contains(&topology.package_of_node(home));
        let is_inside_llc = matches!(distance, Distance::Smt | Distance::Cluster | Distance::Llc);
        let table = if is_away && !is_inside_llc {
            &self.machine.transfers_away_from_home
        } else {
            &self.machine.transfers
        };
        (table[distance.index()], distance)
    }

    /// Latency, occupancy and source of the data for a core without a copy.
    fn fetch(&self, cpu: CpuId, line: &Line) -> (Cycles, Cycles, DataSource) {
        let holds = |wanted: Copy| line.copies.values().any(|copy| *copy == wanted);
        let (transfer, distance) = self.transfer(cpu, line.last_owner, line.home);
        let local = !distance.is_remote();
        if holds(Copy::Modified) || holds(Copy::Owned) {
            let source = if local {
                DataSource::LocalHitm
            } else {
                DataSource::RemoteHitm
            };
            return (transfer.dirty, transfer.occupancy, source);
        }
        if holds(Copy::Exclusive) {
            let source = if local {
                DataSource::LocalPeer
            } else {
                DataSource::RemotePeer
            };
            return (
                transfer.clean,
                transfer.occupancy.min(transfer.clean),
                source,
            );
        }
        let nearest = line
            .llcs
            .iter()
            .map(|llc| self.llc_distance(cpu, *llc))
            .min();
        let (latency, source) = match nearest {
            Some(Distance::Llc) => (self.machine.caches.llc.latency, DataSource::Llc),
            Some(distance) if !distance.is_remote() => (
                self.machine.transfers[distance.index()].clean,
                DataSource::LocalPeer,
            ),
            Some(distance) if self.machine.protocol != Protocol::Mesi => (
                self.machine.transfers[distance.index()].clean,
                DataSource::RemotePeer,
            ),
            _ => self.memory(cpu, line.home),
        };
        (latency, self.read_occupancy(latency, line), source)
    }

    /// Time for which a read that no owner answers keeps the line taken.
    fn read_occupancy(&self, latency: Cycles, line: &Line) -> Cycles {
        let share = u64::from(self.machine.contention.read_milli);
        let in_turn = Cycles((latency.0 * share + 500) / 1_000);
        let occupancy = if line.fought_over { in_turn } else { PASS };
        occupancy.max(PASS).min(latency)
    }

    fn memory(&self, cpu: CpuId, home: u16) -> (Cycles, DataSource) {
        let (topology, dram) = (&self.machine.topology, &self.machine.dram);
        if topology.node_of(cpu) == home {
            return (dram.local, DataSource::LocalDram);
        }
        let there = topology
            .cpus()
            .find(|other| topology.node_of(*other) == home)
            .unwrap();
        let latency = match topology.distance(cpu, there) {
            Distance::FarRemote => dram.far_remote,
            Distance::Remote => dram.remote,
            _ => dram.package,
        };
        (latency, DataSource::RemoteDram)
    }

    fn quote(&self, cpu: CpuId, addr: u64, exclusive: bool) -> (Cycles, Cycles, DataSource) {
        let line = &self.lines[&addr];
        let core = self.core(cpu);
        let has_copy = line.copies.contains_key(&core);
        let others = line.copies.keys().any(|other| *other != core);
        let fetch = (!has_copy).then(|| self.fetch(cpu, line));
        if !(exclusive && others) {
            let llc = self.machine.caches.llc.latency;
            let upgrade = (
                llc,
                self.read_occupancy(llc, line),
                DataSource::LocalUpgrade,
            );
            return fetch.unwrap_or(upgrade);
        }
        let farthest = line
            .llcs
            .iter()
            .map(|llc| self.llc_distance(cpu, *llc))
            .max()
            .unwrap();
        let transfer = self.machine.transfers[farthest.index()];
        let is_remote = farthest.is_remote();
        let is_alone = line
            .copies
            .values()
            .any(|copy| matches!(copy, Copy::Modified | Copy::Exclusive));
        let milli = match is_remote {
            _ if is_alone => 1_000,
            true => u64::from(self.machine.upgrade.remote_milli),
            false => u64::from(self.machine.upgrade.package_milli),
        };
        let scaled = |cycles: Cycles| Cycles((cycles.0 * milli + 500) / 1_000);
        let occupied = transfer.occupancy.min(transfer.clean);
        let invalidation = (scaled(transfer.clean), scaled(occupied));
        let Some((latency, occupancy, source)) = fetch else {
            let source = if is_remote {
                DataSource::RemoteUpgrade
            } else {
                DataSource::LocalUpgrade
            };
            return (invalidation.0, invalidation.1, source);
        };
        let taken = if is_remote {
            DataSource::RemotePeer
        } else {
            DataSource::LocalPeer
        };
        let source = if source.is_hitm() { source } else { taken };
        if invalidation.0 > latency {
            (invalidation.0, invalidation.1, source)
        } else {
            (latency, occupancy, source)
        }
    }

    /// The time at which the line is free for the waiter that came first.
    fn free_for_next(&self, addr: u64) -> Option<Cycles> {
        let line = self.lines.get(&addr)?;
        let first = line.waiters.iter().map(|request| request.arrived).min()?;
        Some(first.max(line.free_at))
    }

    /// Sorts the waiters; returns the place of one that the visit serves.
    fn next_waiter(&mut self, addr: u64) -> Option<usize> {
        let topology = &self.machine.topology;
        let line = self.lines.get_mut(&addr).unwrap();
        line.waiters
            .sort_by_key(|request| (request.arrived, request.ticket));
        let visit = self.machine.contention.visit;
        if visit.is_some_and(|visit| line.visit_served >= visit) {
            return None;
        }
        let owner_llc = topology.llc_of(line.last_owner);
        line.waiters.iter().position(|request| {
            topology.llc_of(request.cpu) == owner_llc && request.arrived <= line.visit_began
        })
    }

    /// The owner of a line keeps it for a share of its hand-over, without jitter.
    fn note_hold(&mut self, addr: u64) {
        let index = self.next_waiter(addr).unwrap_or(0);
        let line = &self.lines[&addr];
        let has_owner = line.copies.values().any(|copy| *copy != Copy::Shared);
        let held_until = match line.waiters.get(index) {
            _ if self.machine.contention.hold_milli == 0 => Cycles::ZERO,
            Some(next) if has_owner && self.core(next.cpu) != self.core(line.last_owner) => {
                let (transfer, _) = self.transfer(next.cpu, line.last_owner, line.home);
                let share = u64::from(self.machine.contention.hold_milli);
                // An owner's clean copy is priced as a dirty one here: its snoop is the same.
                let hold = Cycles((transfer.occupancy.0 * share + 500) / 1_000);
                self.free_for_next(addr).unwrap() + hold
            }
            _ => Cycles::ZERO,
        };
        self.lines.get_mut(&addr).unwrap().held_until = held_until;
    }

    fn grant(&mut self, request: Request, addr: u64) -> Grant {
        let Request {
            cpu,
            exclusive,
            issued,
            arrived,
            ..
        } = request;
        let start = arrived.max(self.lines[&addr].free_at);
        let queued = start - arrived;
        if let Some((source, latency)) = self.hit(cpu, addr, exclusive) {
            return Grant {
                queued,
                taken: true,
                ..Grant::own(source, start + latency)
            };
        }
        let (latency, occupancy, source) = self.quote(cpu, addr, exclusive);
        let done = (start + occupancy).max(issued + latency);
        let nodes = [cpu, self.lines[&addr].last_owner];
        let nodes = nodes.map(|cpu| self.machine.topology.node_of(cpu));
        let other_node = source.is_hitm() && nodes[0] != nodes[1];
        let core = self.core(cpu);
        let topology = &self.machine.topology;
        let (llc, moesi) = (
            topology.llc_of(cpu),
            self.machine.protocol == Protocol::Moesi,
        );
        let line = self.lines.get_mut(&addr).unwrap();
        line.free_at = done;
        let is_hand_over = exclusive || line.copies.values().any(|copy| *copy != Copy::Shared);
        line.fought_over = is_hand_over || line.fought_over && queued > Cycles::ZERO;
        if exclusive {
            line.copies = BTreeMap::from([(core, Copy::Modified)]);
            line.llcs = BTreeSet::from([llc]);
            line.last_owner = cpu;
        } else if line.copies.is_empty() && line.llcs.iter().all(|other| *other == llc) {
            line.copies.insert(core, Copy::Exclusive);
            line.last_owner = cpu;
        } else {
            for copy in line.copies.values_mut() {
                let is_dirty = matches!(copy, Copy::Modified | Copy::Owned);
                *copy = if is_dirty && moesi {
                    Copy::Owned
                } else {
                    Copy::Shared
                };
            }
            line.copies.insert(core, Copy::Shared);
        }
        line.llcs.insert(llc);
        let had_it = match self.capacity {
            Capacity::Finite => self.l2.entry(core).or_default().has(addr),
            Capacity::Infinite => !self.seen.insert((core, addr)),
        };
        self.fill(cpu, addr);
        Grant {
            source,
            done,
            queued,
            other_node,
            taken: source.is_contention() || had_it,
        }
    }

    fn fill(&mut self, cpu: CpuId, addr: u64) {
        if self.capacity == Capacity::Infinite {
            return;
        }
        let (core, caches) = (self.core(cpu), self.machine.caches);
        let llc = self.machine.topology.llc_of(cpu);
        self.l1.entry(core).or_default().enter(addr, &caches.l1);
        let Some(victim) = self.l2.entry(core).or_default().enter(addr, &caches.l2) else {
            return;
        };
        let line = self.lines.get_mut(&victim).unwrap();
        if line.copies.remove(&core).is_none() {
            return;
        }
        line.llcs.insert(llc);
        let Some(gone) = self.llc.entry(llc).or_default().enter(victim, &caches.llc) else {
            return;
        };
        let topology = &self.machine.topology;
        let line = self.lines.get_mut(&gone).unwrap();
        if !line
            .copies
            .keys()
            .any(|core| topology.llc_of_core(*core) == llc)
        {
            line.llcs.remove(&llc);
        }
    }
}

impl Engine for Reference {
    fn know(&mut self, addr: u64, cpu: CpuId) {
        let home = self.machine.topology.node_of(cpu);
        self.lines.entry(addr).or_insert_with(|| Line {
            copies: BTreeMap::new(),
            llcs: BTreeSet::new(),
            last_owner: cpu,
            home,
            free_at: Cycles::ZERO,
            waiters: Vec::new(),
            visit_began: Cycles::ZERO,
            visit_served: 0,
            held_until: Cycles::ZERO,
            fought_over: false,
        });
    }

    fn hit(&mut self, cpu: CpuId, addr: u64, exclusive: bool) -> Option<(DataSource, Cycles)> {
        let (core, caches) = (self.core(cpu), self.machine.caches);
        let line = self.lines.get_mut(&addr).unwrap();
        let copy = line.copies.get_mut(&core)?;
        if exclusive {
            if !matches!(copy, Copy::Exclusive | Copy::Modified) {
                return None;
            }
            *copy = Copy::Modified;
            line.last_owner = cpu;
        }
        if self.capacity == Capacity::Infinite {
            return Some((DataSource::L1, caches.l1.latency));
        }
        let l1 = self.l1.entry(core).or_default();
        let was_there = l1.has(addr);
        l1.enter(addr, &caches.l1);
        if was_there {
            return Some((DataSource::L1, caches.l1.latency));
        }
        self.l2.entry(core).or_default().enter(addr, &caches.l2);
        Some((DataSource::L2, caches.l2.latency))
    }

    fn request(&mut self, asked: Asked) -> Option<Grant> {
        let Asked {
            now,
            cpu,
            addr,
            exclusive,
            ticket,
        } = asked;
        let (latency, occupancy, _) = self.quote(cpu, addr, exclusive);
        let arrived = now + (latency - occupancy);
        let request = Request {
            cpu,
            exclusive,
            issued: now,
            arrived,
            ticket,
        };
        let line = self.lines.get_mut(&addr).unwrap();
        if line.waiters.is_empty() && line.free_at <= arrived {
            return Some(self.grant(request, addr));
        }
        let is_first = line.waiters.iter().all(|other| arrived < other.arrived);
        line.waiters.push(request);
        if is_first {
            self.note_hold(addr);
        }
        None
    }

    fn next_service(&mut self, addr: u64) -> Option<Cycles> {
        Some(self.free_for_next(addr)?.max(self.lines[&addr].held_until))
    }

    fn serve_next(&mut self, addr: u64) -> (Request, Grant) {
        let now = self.free_for_next(addr).unwrap();
        let held_until = self.lines[&addr].held_until;
        let index = self.next_waiter(addr);
        let line = self.lines.get_mut(&addr).unwrap();
        match index {
            Some(_) => line.visit_served += 1,
            None => (line.visit_began, line.visit_served) = (now, 1),
        }
        let request = line.waiters.remove(index.unwrap_or(0));
        let mut grant = self.grant(request, addr);
        grant.done = grant.done.max(held_until);
        let line = self.lines.get_mut(&addr).unwrap();
        line.free_at = line.free_at.max(held_until);
        self.note_hold(addr);
        (request, grant)
    }

    fn copies(&mut self, addr: u64) -> Vec<u16> {
        self.lines
            .get(&addr)
            .map_or(vec![], |line| line.copies.keys().copied().collect())
    }

    fn dirty_owner(&mut self, addr: u64) -> Option<CpuId> {
        let line = self.lines.get(&addr)?;
        let is_dirty = |copy: &Copy| matches!(copy, Copy::Modified | Copy::Owned);
        let dirty: Vec<&u16> = line
            .copies
            .iter()
            .filter(|(_, copy)| is_dirty(copy))
            .map(|(core, _)| core)
            .collect();
        let sole = |copy: &Copy| matches!(copy, Copy::Modified | Copy::Exclusive);
        assert!(dirty.len() <= 1, "several dirty copies of line {addr}");
        let has_sole = line.copies.values().any(sole);
        assert!(
            !has_sole || line.copies.len() == 1,
            "a writer beside readers of line {addr}"
        );
        dirty.first().map(|_| line.last_owner)
    }
}
