//! Every number that a machine file holds, by key.
//!
//! Reading, writing, checking and showing a file all run over [`Item::all`], so that a number is
//! declared once.

use super::parameter::MachineCost;
use super::quantity::Dimension;
use crate::Distance;

crate::words! {
    /// A level of cache.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CacheLevel {
        /// First level, data, one per core.
        L1 = "l1",
        /// Second level, one per core.
        L2 = "l2",
        /// Last level, one per group of cores.
        Llc = "llc",
    }
}

/// A property of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CachePart {
    /// Capacity.
    Size,
    /// Lines in a set.
    Ways,
    /// Load-to-use latency of a hit.
    Latency,
}

crate::words! {
    /// A property of a line's transfer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum TransferPart {
        /// Latency of a clean copy.
        Clean = "clean",
        /// Latency of a modified line.
        Dirty = "dirty",
        /// Service time; computed from the occupancy ratio where a file does not state it.
        Occupancy = "occupancy",
    }
}

/// The transfer table that a value belongs to, one of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Home {
    /// One of the two CPUs sits in the package of the line's home node, or the machine does not
    /// care.
    Near,
    /// Neither does.
    Away,
}

/// Reach of a transfer: within a package, or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Both CPUs in one package.
    Package,
    /// Two packages.
    Remote,
}

/// A property of lines that several CPUs wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContentionPart {
    /// Share of a hand-over for which the owner still hits the line.
    OwnerHold,
    /// Share of the hold by which single holds are longer or shorter.
    HoldJitter,
    /// Requests served in one visit to a last-level cache.
    Visit,
    /// Share of the latency of a read for which it keeps a fought-over line taken.
    ReadOccupancy,
}

/// The memory that a load reaches, by its distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DramPart {
    /// The CPU's own node.
    Local,
    /// Another node of the package.
    Package,
    /// Another package.
    Remote,
    /// The other half of the machine.
    FarRemote,
}

/// A property of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CorePart {
    /// Cycles per instruction.
    Cpi,
    /// Entries of the store buffer.
    StoreBuffer,
    /// Instructions of the reorder buffer.
    LoadWindow,
    /// Line misses under way at once.
    FillBuffers,
    /// Locked operation on an owned line.
    LockedHit,
    /// Instructions that retire in a cycle.
    RetireWidth,
    /// Cost of a memory-ordering clear.
    OrderingClear,
}

/// The key of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// Frequency of the cores.
    Clock,
    /// A cache.
    Cache(CacheLevel, CachePart),
    /// The share of a dirty transfer's latency during which the line is taken.
    OccupancyRatio(Reach),
    /// The line's owner and the order of its waiters.
    Contention(ContentionPart),
    /// Latency of taking a shared line over the clean transfer.
    UpgradeRatio(Reach),
    /// Share of the misses that bring the other line of an aligned pair as well.
    AdjacentLine,
    /// A transfer at one distance.
    Transfer(Home, Distance, TransferPart),
    /// A memory latency.
    Dram(DramPart),
    /// A property of the core.
    Core(CorePart),
    /// A cost of the machine beyond its memory.
    Cost(MachineCost),
}

impl Item {
    /// Every item, in file order.
    pub fn all() -> Vec<Item> {
        let mut items = vec![Item::Clock];
        for level in CacheLevel::ALL {
            for part in [CachePart::Size, CachePart::Ways, CachePart::Latency] {
                items.push(Item::Cache(level, part));
            }
        }
        items.push(Item::OccupancyRatio(Reach::Package));
        items.push(Item::OccupancyRatio(Reach::Remote));
        items.push(Item::Contention(ContentionPart::OwnerHold));
        items.push(Item::Contention(ContentionPart::HoldJitter));
        items.push(Item::Contention(ContentionPart::Visit));
        items.push(Item::Contention(ContentionPart::ReadOccupancy));
        items.push(Item::UpgradeRatio(Reach::Package));
        items.push(Item::UpgradeRatio(Reach::Remote));
        items.push(Item::AdjacentLine);
        for home in [Home::Near, Home::Away] {
            for distance in &Distance::ALL[1..] {
                for part in TransferPart::ALL {
                    items.push(Item::Transfer(home, *distance, part));
                }
            }
        }
        for part in [
            DramPart::Local,
            DramPart::Package,
            DramPart::Remote,
            DramPart::FarRemote,
        ] {
            items.push(Item::Dram(part));
        }
        for part in [
            CorePart::Cpi,
            CorePart::StoreBuffer,
            CorePart::LoadWindow,
            CorePart::FillBuffers,
            CorePart::LockedHit,
            CorePart::RetireWidth,
            CorePart::OrderingClear,
        ] {
            items.push(Item::Core(part));
        }
        items.extend(MachineCost::ALL.map(Item::Cost));
        items
    }

    /// The table that holds the key; empty for the file's top level.
    pub fn table(self) -> String {
        match self {
            Item::Clock => String::new(),
            Item::Cache(level, _) => format!("caches.{}", level.id()),
            Item::OccupancyRatio(_) => "occupancy_ratio".into(),
            Item::Contention(_) => "contention".into(),
            Item::UpgradeRatio(_) => "upgrade_ratio".into(),
            Item::AdjacentLine => "prefetch".into(),
            Item::Transfer(Home::Near, distance, _) => {
                format!("transfers.{}", distance_key(distance))
            }
            Item::Transfer(Home::Away, distance, _) => {
                format!("transfers_away_from_home.{}", distance_key(distance))
            }
            Item::Dram(_) => "dram".into(),
            Item::Core(_) => "core".into(),
            Item::Cost(_) => "costs".into(),
        }
    }

    /// The key within its table.
    pub fn key(self) -> &'static str {
        match self {
            Item::Clock => "clock",
            Item::Cache(_, CachePart::Size) => "size",
            Item::Cache(_, CachePart::Ways) => "ways",
            Item::Cache(_, CachePart::Latency) => "latency",
            Item::OccupancyRatio(Reach::Package)
            | Item::UpgradeRatio(Reach::Package)
            | Item::Dram(DramPart::Package) => "package",
            Item::OccupancyRatio(Reach::Remote)
            | Item::UpgradeRatio(Reach::Remote)
            | Item::Dram(DramPart::Remote) => "remote",
            Item::Contention(ContentionPart::OwnerHold) => "owner_hold",
            Item::Contention(ContentionPart::HoldJitter) => "hold_jitter",
            Item::Contention(ContentionPart::Visit) => "visit",
            Item::Contention(ContentionPart::ReadOccupancy) => "read_occupancy",
            Item::AdjacentLine => "adjacent_line",
            Item::Transfer(_, _, part) => part.id(),
            Item::Dram(DramPart::Local) => "local",
            Item::Dram(DramPart::FarRemote) => "far_remote",
            Item::Core(CorePart::Cpi) => "cpi",
            Item::Core(CorePart::StoreBuffer) => "store_buffer",
            Item::Core(CorePart::LoadWindow) => "load_window",
            Item::Core(CorePart::FillBuffers) => "fill_buffers",
            Item::Core(CorePart::LockedHit) => "locked_hit",
            Item::Core(CorePart::RetireWidth) => "retire_width",
            Item::Core(CorePart::OrderingClear) => "ordering_clear",
            Item::Cost(cost) => cost.parameter().name,
        }
    }

    /// The full key, as error messages and tables name it: `caches.l1.size`.
    pub fn path(self) -> String {
        let table = self.table();
        if table.is_empty() {
            self.key().into()
        } else {
            format!("{table}.{}", self.key())
        }
    }

    /// Returns the kind of number that the item is.
    pub fn dimension(self) -> Dimension {
        match self {
            Item::Clock => Dimension::Frequency,
            Item::Cache(_, CachePart::Size) => Dimension::Size,
            Item::Cache(_, CachePart::Ways) => Dimension::Count("", 1024),
            Item::OccupancyRatio(_)
            | Item::AdjacentLine
            | Item::Contention(
                ContentionPart::OwnerHold
                | ContentionPart::HoldJitter
                | ContentionPart::ReadOccupancy,
            ) => Dimension::Share,
            Item::Contention(ContentionPart::Visit) => Dimension::Count("requests", 8192),
            Item::UpgradeRatio(_) => Dimension::Factor,
            Item::Core(CorePart::Cpi) => Dimension::Cpi,
            Item::Core(CorePart::StoreBuffer) => Dimension::Count("entries", 4096),
            Item::Core(CorePart::LoadWindow) => Dimension::Count("instructions", 16384),
            Item::Core(CorePart::FillBuffers) => Dimension::Count("lines", 1024),
            Item::Core(CorePart::RetireWidth) => Dimension::Count("instructions", 64),
            Item::Cost(cost) => cost.parameter().dimension,
            Item::Cache(_, CachePart::Latency)
            | Item::Transfer(..)
            | Item::Dram(_)
            | Item::Core(CorePart::LockedHit | CorePart::OrderingClear) => Dimension::Time,
        }
    }
}

/// The word for a distance in files and tables.
pub const fn distance_key(distance: Distance) -> &'static str {
    match distance {
        Distance::Same => "same",
        Distance::Smt => "smt",
        Distance::Cluster => "cluster",
        Distance::Llc => "llc",
        Distance::Die => "die",
        Distance::Package => "package",
        Distance::Remote => "remote",
        Distance::FarRemote => "far_remote",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_item_has_a_path_of_its_own() {
        let items = Item::all();
        let paths: BTreeSet<String> = items.iter().map(|item| item.path()).collect();
        assert_eq!(paths.len(), items.len());
        assert!(paths.contains("caches.llc.ways"));
        assert!(paths.contains("transfers_away_from_home.die.dirty"));
    }
}
