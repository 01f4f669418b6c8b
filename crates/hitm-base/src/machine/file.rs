//! The machine file: a model in which every number names its source or says "assumed".
//!
//! [`MachineFile`] is what a TOML file holds, `docs/formats/machine.md` is its description. It is
//! parsed by [`MachineFile::parse`], written by [`MachineFile::to_toml`] and turned into cycles by
//! [`MachineFile::resolve`]. Recordings embed the text, so reading and writing lose nothing.
//!
//! Invariant: a file that parses also resolves; the checks of `resolve` are run by `parse`, with
//! the line of the offending key.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::item::{
    CacheLevel, CachePart, ContentionPart, CorePart, DramPart, Home, Item, Reach, TransferPart,
};
use super::quantity::Quantity;
use super::{
    CacheShape, Caches, Contention, CoreModel, Dram, Machine, MachineCost, MachineCosts, Protocol,
    Transfer, UpgradeRatio,
};
use crate::{Clock, CpuPlace, Cycles, Distance, LINE_SIZE, Topology, TopologyShape};

/// All caches of a machine together, in bytes: what the engine's tag arrays must be able to hold.
const CACHES_BYTES_MAX: u64 = 16 << 30;

/// Provenance of a value: a named source, or an assumption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A measurement or a document, named.
    Source(String),
    /// Nobody has measured it: its range and what a wrong value does.
    Assumed(String),
}

impl Origin {
    /// The words of the origin.
    pub fn text(&self) -> &str {
        match self {
            Origin::Source(text) | Origin::Assumed(text) => text,
        }
    }

    /// Returns true if nobody has measured the value.
    pub fn is_assumed(&self) -> bool {
        matches!(self, Origin::Assumed(_))
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Its source, or the assumption behind it.
    pub origin: Origin,
    /// The least and the largest value that the machine may have, where the file states them.
    pub range: Option<(T, T)>,
}

impl<T> Sourced<T> {
    /// A value with a named source.
    pub fn from_source(value: T, source: impl Into<String>) -> Sourced<T> {
        Sourced {
            value,
            origin: Origin::Source(source.into()),
            range: None,
        }
    }

    /// A value that nobody has measured.
    pub fn assumed(value: T, range_and_effect: impl Into<String>) -> Sourced<T> {
        Sourced {
            value,
            origin: Origin::Assumed(range_and_effect.into()),
            range: None,
        }
    }
}

/// The CPUs of a machine file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologySpec {
    /// A tree whose parts are alike.
    Uniform(TopologyShape),
    /// The place of each CPU, in order of CPU number.
    Places(Vec<CpuPlace>),
}

/// A machine as a file describes it. Fields are free to change; [`MachineFile::resolve`] checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineFile {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The CPUs.
    pub topology: Sourced<TopologySpec>,
    /// Coherence protocol.
    pub protocol: Sourced<Protocol>,
    /// Every number, by key.
    pub items: BTreeMap<Item, Sourced<Quantity>>,
}

/// An error in a machine file, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}{}{}: found {found}, expected {expected}",
    line.map(|line| format!(":{line}")).unwrap_or_default(),
    key.as_ref().map(|key| format!(": {key}")).unwrap_or_default())]
pub struct MachineError {
    /// Name of the file.
    pub origin: String,
    /// Line in the file, from 1, where it is known.
    pub line: Option<usize>,
    /// Full key, such as `caches.l1.size`, where it is known.
    pub key: Option<String>,
    /// The content of that place, as the message shows it.
    pub found: String,
    /// Content that would be right there.
    pub expected: String,
}

/// Places of a file's keys, for errors.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) origin: String,
    pub(super) lines: BTreeMap<String, usize>,
}

impl Places {
    pub(super) fn error(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> MachineError {
        MachineError {
            origin: self.origin.clone(),
            line: self.lines.get(key).copied(),
            key: Some(key.to_owned()),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

impl MachineFile {
    /// The number of `item`, when the file states it.
    pub fn get(&self, item: Item) -> Option<Quantity> {
        self.items.get(&item).map(|sourced| sourced.value)
    }

    /// The model in cycles. Fails when a needed number is missing or numbers contradict each other.
    pub fn resolve(&self) -> Result<Machine, MachineError> {
        self.resolve_at(&Places {
            origin: self.name.clone(),
            lines: BTreeMap::new(),
        })
    }

    pub(super) fn resolve_at(&self, places: &Places) -> Result<Machine, MachineError> {
        for (item, sourced) in &self.items {
            if !item.dimension().admits(sourced.value) {
                let expected = item.dimension().expected();
                return Err(places.error(&item.path(), sourced.value.to_string(), expected));
            }
        }
        let topology = self.build_topology(places)?;
        self.require(&topology, places)?;
        self.check_order(places)?;
        let clock = self.clock();
        let caches = self.caches(clock, &topology, places)?;
        let fallback = caches.l1.latency;
        let transfers = self.transfers(Home::Near, fallback, places)?;
        Ok(Machine {
            name: self.name.clone(),
            description: self.description.clone(),
            clock,
            protocol: self.protocol.value,
            caches,
            transfers,
            transfers_away_from_home: self.transfers_away(transfers, places)?,
            contention: self.contention(),
            upgrade: self.upgrade(),
            adjacent_line_milli: self.get(Item::AdjacentLine).map_or(0, Quantity::raw) as u32,
            dram: self.dram(clock),
            core: self.core(clock),
            costs: self.costs(clock),
            topology,
        })
    }

    /// Puts other values in place of stated ones. Assumed latencies that would be shorter than nearer
    /// ones become as long as those, and assumed clean transfers at most as long as dirty ones.
    pub fn replace_numbers(&mut self, numbers: &[(Item, Quantity)]) {
        for (item, value) in numbers {
            if let Some(sourced) = self.items.get_mut(item) {
                (sourced.value, sourced.range) = (*value, None);
            }
        }
        for distance in Distance::ALL {
            let item = |part| Item::Transfer(Home::Near, distance, part);
            if let Some(dirty) = self.get(item(TransferPart::Dirty)) {
                self.bound(
                    item(TransferPart::Clean),
                    |clean, clock| clean.picos(clock) > dirty.picos(clock),
                    dirty,
                );
            }
        }
        for chain in rising_chains() {
            let mut nearer = None;
            for item in chain {
                if let Some(least) = nearer {
                    self.bound(
                        item,
                        |value, clock| value.picos(clock) < Quantity::picos(least, clock),
                        least,
                    );
                }
                nearer = self.get(item).or(nearer);
            }
        }
    }

    /// Puts `bound` in place of an assumed value for which `is_beyond` holds.
    fn bound(&mut self, item: Item, is_beyond: impl Fn(Quantity, Clock) -> bool, bound: Quantity) {
        let clock = self.clock();
        if let Some(sourced) = self.items.get_mut(&item)
            && sourced.origin.is_assumed()
            && is_beyond(sourced.value, clock)
        {
            sourced.value = bound;
        }
    }

    /// The clock; 1 GHz while the file states none.
    pub fn clock(&self) -> Clock {
        Clock::from_khz(
            self.get(Item::Clock)
                .map_or(1_000_000, Quantity::raw)
                .max(1),
        )
    }

    fn build_topology(&self, places: &Places) -> Result<Topology, MachineError> {
        let built = match &self.topology.value {
            TopologySpec::Places(list) => Topology::from_places(list.clone()),
            TopologySpec::Uniform(shape) => {
                let counts = shape_counts(shape);
                if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
                    return Err(places.error(&format!("topology.{name}"), "0", "at least 1"));
                }
                let cpus: u64 = counts.iter().map(|(_, count)| u64::from(*count)).product();
                if cpus > Topology::CPUS_MAX as u64 {
                    let expected = format!("at most {} CPUs", Topology::CPUS_MAX);
                    return Err(places.error("topology", format!("{cpus} CPUs"), expected));
                }
                Topology::from_shape(*shape)
            }
        };
        built.map_err(|error| {
            places.error(
                "topology",
                error.to_string(),
                "a tree of CPUs that can be modelled",
            )
        })
    }

    fn require(&self, topology: &Topology, places: &Places) -> Result<(), MachineError> {
        let mut needed: Vec<Item> = Item::all();
        let present = present_distances(topology);
        needed.retain(|item| is_needed(*item, &present));
        for home in [Home::Near, Home::Away] {
            // Half a pair of latencies is a mistake wherever it stands.
            for distance in &Distance::ALL[1..] {
                let parts = TransferPart::ALL.map(|part| Item::Transfer(home, *distance, part));
                if parts.iter().any(|item| self.items.contains_key(item)) {
                    needed.extend(&parts[..2]);
                }
            }
        }
        match needed
            .into_iter()
            .find(|item| !self.items.contains_key(item))
        {
            None => Ok(()),
            Some(item) => {
                let expected = item.dimension().expected();
                Err(places.error(&item.path(), "no such key", expected))
            }
        }
    }

    /// Latencies do not fall with distance, unless a source says that they do.
    fn check_order(&self, places: &Places) -> Result<(), MachineError> {
        for chain in rising_chains() {
            self.check_rising(&chain, places)?;
        }
        Ok(())
    }

    fn check_rising(&self, items: &[Item], places: &Places) -> Result<(), MachineError> {
        let clock = self.clock();
        let mut nearer: Option<(Item, u64)> = None;
        for item in items {
            let Some(sourced) = self.items.get(item) else {
                continue;
            };
            let picos = sourced.value.picos(clock);
            if let Some((near, least)) = nearer
                && picos < least
                && sourced.origin.is_assumed()
            {
                let expected = format!("no less than {}, or a source for it", near.path());
                return Err(places.error(&item.path(), sourced.value.to_string(), expected));
            }
            nearer = Some((*item, picos));
        }
        Ok(())
    }

    fn cycles(&self, item: Item, clock: Clock) -> Cycles {
        Cycles(
            self.get(item)
                .map_or(0, |quantity| quantity.cycles(clock).0)
                .max(1),
        )
    }

    fn count(&self, item: Item) -> u64 {
        self.get(item).map_or(1, Quantity::raw)
    }

    fn caches(
        &self,
        clock: Clock,
        topology: &Topology,
        places: &Places,
    ) -> Result<Caches, MachineError> {
        let mut shapes = [CacheShape {
            size_bytes: 0,
            ways: 0,
            latency: Cycles::ZERO,
        }; 3];
        let mut total = 0;
        for (level, shape) in CacheLevel::ALL.into_iter().zip(&mut shapes) {
            let size = Item::Cache(level, CachePart::Size);
            let size_bytes = self.count(size);
            let ways = self.count(Item::Cache(level, CachePart::Ways));
            if !size_bytes.is_multiple_of(ways * LINE_SIZE) {
                let expected = format!("a multiple of {ways} ways of {LINE_SIZE}-byte lines");
                let found = Quantity::Bytes(size_bytes).to_string();
                return Err(places.error(&size.path(), found, expected));
            }
            let latency = self.cycles(Item::Cache(level, CachePart::Latency), clock);
            *shape = CacheShape {
                size_bytes,
                ways: ways as u32,
                latency,
            };
            let caches = if level == CacheLevel::Llc {
                topology.llc_count()
            } else {
                topology.core_count()
            };
            total += size_bytes * caches as u64; // At most 3 x 4 GiB x 8192.
        }
        if total > CACHES_BYTES_MAX {
            let found = format!("{} MiB in all caches together", total >> 20);
            let expected = format!("at most {} MiB", CACHES_BYTES_MAX >> 20);
            return Err(places.error("caches", found, expected));
        }
        let [l1, l2, llc] = shapes;
        Ok(Caches { l1, l2, llc })
    }

    /// One transfer as stated, with its service time; `None` where the file states nothing.
    fn transfer(
        &self,
        home: Home,
        distance: Distance,
        places: &Places,
    ) -> Result<Option<Transfer>, MachineError> {
        let clock = self.clock();
        let item = |part| Item::Transfer(home, distance, part);
        if !self.items.contains_key(&item(TransferPart::Dirty)) {
            return Ok(None);
        }
        let clean = self.cycles(item(TransferPart::Clean), clock);
        let dirty = self.cycles(item(TransferPart::Dirty), clock);
        let reach = if distance.is_remote() {
            Reach::Remote
        } else {
            Reach::Package
        };
        let ratio_milli = self
            .get(Item::OccupancyRatio(reach))
            .map_or(1_000, Quantity::raw);
        let stated = item(TransferPart::Occupancy);
        let occupancy = match self.items.get(&stated) {
            Some(sourced) => sourced.value.cycles(clock),
            None => Cycles((dirty.0 * ratio_milli + 500) / 1_000),
        };
        if occupancy > dirty {
            let found = format!("{occupancy} cycles");
            let expected = format!("at most the {dirty} cycles of the dirty transfer");
            return Err(places.error(&stated.path(), found, expected));
        }
        Ok(Some(Transfer {
            clean,
            dirty,
            occupancy: occupancy.max(Cycles(1)),
        }))
    }

    /// The table of transfers. Distances that the machine does not have take the nearer neighbour's
    /// values, so that no entry is ever zero by accident.
    fn transfers(
        &self,
        home: Home,
        fallback: Cycles,
        places: &Places,
    ) -> Result<[Transfer; Distance::COUNT], MachineError> {
        let zero = Transfer {
            clean: Cycles::ZERO,
            dirty: Cycles::ZERO,
            occupancy: Cycles::ZERO,
        };
        let mut table = [zero; Distance::COUNT];
        let mut nearer = None;
        let mut first_missing = Vec::new();
        for distance in &Distance::ALL[1..] {
            match (self.transfer(home, *distance, places)?, nearer) {
                (Some(stated), _) => {
                    nearer = Some(stated);
                    table[distance.index()] = stated;
                }
                (None, Some(nearer)) => table[distance.index()] = nearer,
                (None, None) => first_missing.push(distance.index()),
            }
        }
        let first = Distance::ALL[1..]
            .iter()
            .map(|distance| table[distance.index()])
            .find(|transfer| *transfer != zero)
            .unwrap_or(Transfer {
                clean: fallback,
                dirty: fallback,
                occupancy: fallback,
            });
        for index in first_missing {
            table[index] = first;
        }
        Ok(table)
    }

    fn transfers_away(
        &self,
        mut table: [Transfer; Distance::COUNT],
        places: &Places,
    ) -> Result<[Transfer; Distance::COUNT], MachineError> {
        for distance in &Distance::ALL[1..] {
            if let Some(stated) = self.transfer(Home::Away, *distance, places)? {
                table[distance.index()] = stated;
            }
        }
        Ok(table)
    }

    /// A file that says nothing gets the model of the format's first files.
    fn contention(&self) -> Contention {
        let part = |part| self.get(Item::Contention(part)).map(Quantity::raw);
        // The ceilings of the dimensions keep every number within its type.
        Contention {
            hold_milli: part(ContentionPart::OwnerHold).unwrap_or(0) as u32,
            jitter_milli: part(ContentionPart::HoldJitter).unwrap_or(0) as u32,
            visit: part(ContentionPart::Visit).map(|count| count as u16),
            read_milli: part(ContentionPart::ReadOccupancy).unwrap_or(0) as u32,
        }
    }

    fn upgrade(&self) -> UpgradeRatio {
        let ratio = |reach| {
            self.get(Item::UpgradeRatio(reach))
                .map_or(1_000, Quantity::raw) as u32
        };
        UpgradeRatio {
            package_milli: ratio(Reach::Package),
            remote_milli: ratio(Reach::Remote),
        }
    }

    fn dram(&self, clock: Clock) -> Dram {
        let mut nearer = self.cycles(Item::Dram(DramPart::Local), clock);
        let mut next = |part| {
            if self.items.contains_key(&Item::Dram(part)) {
                nearer = self.cycles(Item::Dram(part), clock);
            }
            nearer
        };
        Dram {
            local: next(DramPart::Local),
            package: next(DramPart::Package),
            remote: next(DramPart::Remote),
            far_remote: next(DramPart::FarRemote),
        }
    }

    fn costs(&self, clock: Clock) -> MachineCosts {
        let mut costs = MachineCosts::defaults(clock);
        for cost in MachineCost::ALL {
            if let Some(stated) = self.get(Item::Cost(cost)) {
                costs.set(cost, stated.cycles(clock));
            }
        }
        costs
    }

    fn core(&self, clock: Clock) -> CoreModel {
        let count = |part| self.count(Item::Core(part));
        // The ceilings of the dimensions keep every count within its type.
        CoreModel {
            cpi_milli: count(CorePart::Cpi) as u32,
            store_buffer_entries: count(CorePart::StoreBuffer) as u16,
            load_window_insns: count(CorePart::LoadWindow) as u16,
            fill_buffers: count(CorePart::FillBuffers) as u16,
            locked_hit: self.cycles(Item::Core(CorePart::LockedHit), clock),
            retire_width: self
                .get(Item::Core(CorePart::RetireWidth))
                .map_or(CoreModel::RETIRE_WIDTH, |width| width.raw() as u16)
                .max(1),
            ordering_clear: self
                .get(Item::Core(CorePart::OrderingClear))
                .map(|cost| cost.cycles(clock)),
        }
    }
}

/// The distances that two CPUs of `topology` can have, nearest first, without `Same`.
pub fn present_distances(topology: &Topology) -> BTreeSet<Distance> {
    let mut cpus: Vec<_> = topology.cpus().collect();
    cpus.sort_by_key(|cpu| topology.place(*cpu));
    // The distance of two CPUs is the largest distance of neighbours between them in this order, so
    // the neighbours show every distance there is.
    cpus.windows(2)
        .map(|pair| topology.distance(pair[0], pair[1]))
        .collect()
}

/// Latencies that do not fall with distance, nearest first.
fn rising_chains() -> [Vec<Item>; 4] {
    let caches = CacheLevel::ALL.map(|level| Item::Cache(level, CachePart::Latency));
    let dram = [
        DramPart::Local,
        DramPart::Package,
        DramPart::Remote,
        DramPart::FarRemote,
    ];
    let transfers = |part| Distance::ALL.map(|distance| Item::Transfer(Home::Near, distance, part));
    [
        caches.to_vec(),
        dram.map(Item::Dram).to_vec(),
        transfers(TransferPart::Clean).to_vec(),
        transfers(TransferPart::Dirty).to_vec(),
    ]
}

/// Returns true if a machine with the distances `present` cannot do without `item`.
fn is_needed(item: Item, present: &BTreeSet<Distance>) -> bool {
    match item {
        Item::Transfer(Home::Near, distance, part) => {
            present.contains(&distance) && part != TransferPart::Occupancy
        }
        Item::Transfer(Home::Away, ..)
        | Item::Dram(DramPart::Package)
        | Item::Contention(_)
        | Item::UpgradeRatio(_)
        | Item::AdjacentLine
        | Item::Core(CorePart::RetireWidth | CorePart::OrderingClear)
        | Item::Cost(_) => false,
        Item::OccupancyRatio(Reach::Package) => present.iter().any(|d| !d.is_remote()),
        Item::OccupancyRatio(Reach::Remote) => present.iter().any(|d| d.is_remote()),
        Item::Dram(DramPart::Remote) => present.contains(&Distance::Remote),
        Item::Dram(DramPart::FarRemote) => present.contains(&Distance::FarRemote),
        _ => true,
    }
}

/// The counts of a uniform tree with their keys, outermost first.
pub(super) fn shape_counts(shape: &TopologyShape) -> [(&'static str, u8); 8] {
    [
        ("halves", shape.halves),
        ("packages", shape.packages),
        ("dies", shape.dies),
        ("nodes", shape.nodes),
        ("llcs", shape.llcs),
        ("clusters", shape.clusters),
        ("cores", shape.cores),
        ("threads", shape.threads),
    ]
}
