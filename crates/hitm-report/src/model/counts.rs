//! Accesses by operation and source.

use hitm_base::DataSource;
use hitm_coherence::stats::{LineStats, RestOfLines, SourceCounts};
use hitm_fields::fields;

/// Accesses by operation and source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessCounts {
    /// Plain loads.
    pub loads: SourceCounts,
    /// Plain stores.
    pub stores: SourceCounts,
    /// Locked operations.
    pub locked: SourceCounts,
}

impl AccessCounts {
    /// The counts of one line.
    pub fn of(line: &LineStats) -> AccessCounts {
        AccessCounts {
            loads: line.loads,
            stores: line.stores,
            locked: line.rmws,
        }
    }

    /// The counts of the lines that have no rows.
    pub fn of_rest(rest: &RestOfLines) -> AccessCounts {
        AccessCounts {
            loads: rest.loads,
            stores: rest.stores,
            locked: rest.rmws,
        }
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &AccessCounts) {
        self.loads.merge(&other.loads);
        self.stores.merge(&other.stores);
        self.locked.merge(&other.locked);
    }

    /// All accesses.
    pub fn total(&self) -> u64 {
        self.loads.total() + self.stores.total() + self.locked.total()
    }

    /// Those whose data, or whose right to write, came from another CPU.
    pub fn contended_count(&self) -> u64 {
        self.loads.contended() + self.stores.contended() + self.locked.contended()
    }

    /// Loads and locked operations with this source: what perf counts as loads.
    pub fn loads_from(&self, source: DataSource) -> u64 {
        self.loads.get(source) + self.locked.get(source)
    }

    /// Local HITM of loads and locked operations.
    pub fn local_hitm(&self) -> u64 {
        self.loads_from(DataSource::LocalHitm)
    }

    /// Remote HITM of loads and locked operations.
    pub fn remote_hitm(&self) -> u64 {
        self.loads_from(DataSource::RemoteHitm)
    }

    /// Stores and locked operations that their own core could complete, in its store buffer or L1.
    pub fn store_hits(&self) -> u64 {
        store_hits(&self.stores) + store_hits(&self.locked)
    }

    /// Writes whose core had the data, and only had to take the line from other ones.
    pub fn upgrades(&self) -> u64 {
        [&self.loads, &self.stores, &self.locked]
            .map(upgrades_of)
            .iter()
            .sum()
    }

    /// Stores and locked operations that had to leave the L1.
    pub fn store_misses(&self) -> u64 {
        self.stores.total() + self.locked.total() - self.store_hits()
    }
}

/// Accesses of `sources` whose core had the data, but not alone.
pub(crate) fn upgrades_of(sources: &SourceCounts) -> u64 {
    sources.get(DataSource::LocalUpgrade) + sources.get(DataSource::RemoteUpgrade)
}

/// Accesses of `sources` that hit the store buffer or the L1.
pub(crate) fn store_hits(sources: &SourceCounts) -> u64 {
    sources.get(DataSource::StoreBuffer) + sources.get(DataSource::L1)
}

fields! {
    /// Accesses by where the data came from, nearest first.
    pub source for SourceCounts {
        /// Forwarded from, or joined to, an older store of the same CPU.
        store_buffer => count "store buffer", |counts| counts.get(DataSource::StoreBuffer);
        /// A miss of the same line was already under way.
        fill_buffer => count "fill buffer", |counts| counts.get(DataSource::FillBuffer);
        /// Hit in the core's first-level cache.
        l1 => count "L1", |counts| counts.get(DataSource::L1);
        /// Hit in the core's second-level cache.
        l2 => count "L2", |counts| counts.get(DataSource::L2);
        /// Hit in the last-level cache, no other core involved.
        llc => count "LLC", |counts| counts.get(DataSource::Llc);
        /// Data was here, copies in the same package had to be invalidated before the write.
        local_upgrade => count "local upgrade", |counts| counts.get(DataSource::LocalUpgrade);
        /// Data was here, a copy in another package had to be invalidated before the write.
        remote_upgrade => count "remote upgrade", |counts| counts.get(DataSource::RemoteUpgrade);
        /// Clean copy from another cache of the same package.
        local_peer => count "local peer", |counts| counts.get(DataSource::LocalPeer);
        /// Clean copy from another package.
        remote_peer => count "remote peer", |counts| counts.get(DataSource::RemotePeer);
        /// Line modified in another core of the same package.
        local_hitm => count "local HITM", |counts| counts.get(DataSource::LocalHitm);
        /// Line modified in another package.
        remote_hitm => count "remote HITM", |counts| counts.get(DataSource::RemoteHitm);
        /// Memory of the CPU's own NUMA node.
        local_dram => count "local DRAM", |counts| counts.get(DataSource::LocalDram);
        /// Memory of another NUMA node.
        remote_dram => count "remote DRAM", |counts| counts.get(DataSource::RemoteDram);
    }
}

/// Whatever has accesses by operation and source.
pub(crate) trait Counted {
    /// The accesses.
    fn counts(&self) -> &AccessCounts;
}

/// Whatever counts what found its line modified.
pub(crate) trait Hitms {
    /// Remote HITM of loads and locked operations.
    fn remote_hitm(&self) -> u64;
    /// Local HITM of loads and locked operations.
    fn local_hitm(&self) -> u64;
}

impl<T: Counted> Hitms for T {
    fn remote_hitm(&self) -> u64 {
        self.counts().remote_hitm()
    }

    fn local_hitm(&self) -> u64 {
        self.counts().local_hitm()
    }
}

fields! {
    /// Counts of what found its line modified.
    pub(crate) HitmCounts for T: Hitms {
        /// Loads and locked operations that found the line modified in another package.
        remote_hitm_count => count "rmt HITM", |item| item.remote_hitm();
        /// Loads and locked operations that found the line modified in a cache of the same package.
        local_hitm_count => count "lcl HITM", |item| item.local_hitm();
    }
}

fields! {
    /// Counts of whatever has accesses by operation and source.
    pub(crate) Counts for T: Counted {
        /// All accesses.
        access_count => count "accesses", |item| item.counts().total();
        /// Plain loads.
        load_count => count "loads", |item| item.counts().loads.total();
        /// Plain stores.
        store_count => count "stores", |item| item.counts().stores.total();
        /// Locked operations.
        locked_count => count "locked", |item| item.counts().locked.total();
        /// Stores and locked operations completed in their core's store buffer or L1.
        store_hit_count => count "store hits", |item| item.counts().store_hits();
        /// Stores and locked operations that had to leave the L1.
        store_miss_count => count "store misses", |item| item.counts().store_misses();
    }
}
