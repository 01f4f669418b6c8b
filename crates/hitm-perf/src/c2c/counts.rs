//! Counts of samples, by perf's classification.

use crate::DataSrc;
use crate::data_src::{level, op, snoop, snoopx};

/// perf's counts of a row, a line or all samples; the names in backticks are those of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All samples (`nr_entries`).
    pub samples: u64,
    /// Locked operations.
    pub locks: u64,
    /// Loads, with or without an address.
    pub loads: u64,
    /// Loads of memory that is not cached.
    pub load_uncached: u64,
    /// Loads from a device.
    pub load_io: u64,
    /// Loads that missed the level that they name.
    pub load_miss: u64,
    /// Loads without an address.
    pub load_no_address: u64,
    /// Loads that waited for a fill that was under way.
    pub fill_buffer: u64,
    /// Loads that hit the L1.
    pub load_l1: u64,
    /// Loads that hit the L2.
    pub load_l2: u64,
    /// Loads that hit the LLC, HITM not included.
    pub load_llc: u64,
    /// Loads of a line modified in another cache of the node.
    pub local_hitm: u64,
    /// Loads of a line modified on another node.
    pub remote_hitm: u64,
    /// Loads from a peer of the node.
    pub local_peer: u64,
    /// Loads from a peer on another node.
    pub remote_peer: u64,
    /// Loads of a clean line from another node's cache.
    pub remote_hit: u64,
    /// Loads from the node's memory.
    pub local_dram: u64,
    /// Loads from another node's memory.
    pub remote_dram: u64,
    /// Loads from memory that no other cache had (`ld_excl`).
    pub load_exclusive: u64,
    /// Loads from memory that another cache had too (`ld_shared`).
    pub load_shared: u64,
    /// Loads blocked by data of an older store.
    pub blocked_data: u64,
    /// Loads blocked by an address conflict.
    pub blocked_address: u64,
    /// Stores, with or without an address.
    pub stores: u64,
    /// Stores to memory that is not cached.
    pub store_uncached: u64,
    /// Stores without an address.
    pub store_no_address: u64,
    /// Stores that hit the L1.
    pub store_l1_hit: u64,
    /// Stores that missed the L1.
    pub store_l1_miss: u64,
    /// Stores that do not say what they hit.
    pub store_unknown: u64,
    /// Samples whose address or instruction no mapping holds (`nomap`).
    pub no_mapping: u64,
    /// Samples that are neither load nor store (`noparse`).
    pub unparsed: u64,
}

impl Counts {
    /// HITM, local and remote.
    pub fn hitm(&self) -> u64 {
        self.local_hitm + self.remote_hitm
    }

    /// Loads from peers, local and remote.
    pub fn peer(&self) -> u64 {
        self.local_peer + self.remote_peer
    }

    /// Loads that missed the last-level cache of the node.
    pub fn llc_misses(&self) -> u64 {
        self.local_dram + self.remote_dram + self.remote_hitm + self.remote_hit
    }

    /// Loads in the table of lines: those whose source is known.
    pub fn classified_loads(&self) -> u64 {
        let hits = self.fill_buffer + self.load_l1 + self.load_l2 + self.load_llc;
        self.llc_misses() + hits + self.local_hitm
    }

    /// Records in the table of lines.
    pub fn records(&self) -> u64 {
        self.classified_loads() + self.store_l1_hit + self.store_l1_miss + self.store_unknown
    }

    /// Counts `count` samples that have one word and one address.
    pub fn add(&mut self, data_src: DataSrc, addr: u64, count: u64) {
        self.samples += count;
        let mut when = |is: bool, field: fn(&mut Counts) -> &mut u64| {
            if is {
                *field(self) += count;
            }
        };
        when(data_src.is_locked(), |counts| &mut counts.locks);
        when(data_src.blocked() & 2 != 0, |counts| {
            &mut counts.blocked_data
        });
        when(data_src.blocked() & 4 != 0, |counts| {
            &mut counts.blocked_address
        });
        // A word with both bits, as of AMD's locked operations, counts as a load.
        if data_src.op() & op::LOAD != 0 {
            when(true, |counts| &mut counts.loads);
            when(addr == 0, |counts| &mut counts.load_no_address);
            if addr != 0 {
                self.add_load(data_src, count);
            }
        } else if data_src.op() & op::STORE != 0 {
            when(true, |counts| &mut counts.stores);
            when(addr == 0, |counts| &mut counts.store_no_address);
            if addr != 0 {
                self.add_store(data_src, count);
            }
        } else {
            when(true, |counts| &mut counts.unparsed);
        }
    }

    fn add_load(&mut self, data_src: DataSrc, count: u64) {
        let has = |bits: u64| data_src.level() & bits != 0;
        let snooped = |bit: u64| data_src.snoop() & bit != 0;
        let is_peer = data_src.snoopx() & snoopx::PEER != 0;
        // With hops set, the remote cache may belong to this node.
        let is_other_node = data_src.is_remote() && data_src.hops() == 0;
        let mut when = |is: bool, field: fn(&mut Counts) -> &mut u64| {
            if is {
                *field(self) += count;
            }
        };
        if has(level::HIT) {
            when(has(level::UNCACHED), |counts| &mut counts.load_uncached);
            when(has(level::IO), |counts| &mut counts.load_io);
            when(has(level::LFB), |counts| &mut counts.fill_buffer);
            when(has(level::L1), |counts| &mut counts.load_l1);
            when(has(level::L2), |counts| &mut counts.load_l2);
            when(has(level::L2) && is_peer, |counts| &mut counts.local_peer);
            let is_hitm = snooped(snoop::HITM);
            when(has(level::L3) && is_hitm, |counts| &mut counts.local_hitm);
            when(has(level::L3) && !is_hitm, |counts| &mut counts.load_llc);
            when(has(level::L3) && is_peer, |counts| &mut counts.local_peer);
            let from_remote_ram = has(level::REMOTE_RAM1 | level::REMOTE_RAM2) || is_other_node;
            when(has(level::LOCAL_RAM), |counts| &mut counts.local_dram);
            when(from_remote_ram, |counts| &mut counts.remote_dram);
            for from_ram in [has(level::LOCAL_RAM), from_remote_ram] {
                let is_shared = snooped(snoop::HIT);
                when(from_ram && is_shared, |counts| &mut counts.load_shared);
                when(from_ram && !is_shared, |counts| &mut counts.load_exclusive);
            }
        }
        if has(level::REMOTE_CACHE1 | level::REMOTE_CACHE2) || is_other_node {
            if snooped(snoop::HIT) {
                when(true, |counts| &mut counts.remote_hit);
            } else if snooped(snoop::HITM) {
                when(true, |counts| &mut counts.remote_hitm);
            } else if is_peer {
                when(true, |counts| &mut counts.remote_hit);
                when(true, |counts| &mut counts.remote_peer);
            }
        }
        when(has(level::MISS), |counts| &mut counts.load_miss);
    }

    fn add_store(&mut self, data_src: DataSrc, count: u64) {
        let has = |bits: u64| data_src.level() & bits != 0;
        let mut when = |is: bool, field: fn(&mut Counts) -> &mut u64| {
            if is {
                *field(self) += count;
            }
        };
        let hit = has(level::HIT);
        when(hit && has(level::UNCACHED), |counts| {
            &mut counts.store_uncached
        });
        when(hit && has(level::L1), |counts| &mut counts.store_l1_hit);
        when(has(level::MISS) && has(level::L1), |counts| {
            &mut counts.store_l1_miss
        });
        when(has(level::NA), |counts| &mut counts.store_unknown);
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Counts) {
        for field in FIELDS {
            let add = *field(&mut other.clone());
            *field(self) += add;
        }
    }
}

/// Every count, for what is done to all of them.
const FIELDS: [fn(&mut Counts) -> &mut u64; 30] = [
    |counts| &mut counts.samples,
    |counts| &mut counts.locks,
    |counts| &mut counts.loads,
    |counts| &mut counts.load_uncached,
    |counts| &mut counts.load_io,
    |counts| &mut counts.load_miss,
    |counts| &mut counts.load_no_address,
    |counts| &mut counts.fill_buffer,
    |counts| &mut counts.load_l1,
    |counts| &mut counts.load_l2,
    |counts| &mut counts.load_llc,
    |counts| &mut counts.local_hitm,
    |counts| &mut counts.remote_hitm,
    |counts| &mut counts.local_peer,
    |counts| &mut counts.remote_peer,
    |counts| &mut counts.remote_hit,
    |counts| &mut counts.local_dram,
    |counts| &mut counts.remote_dram,
    |counts| &mut counts.load_exclusive,
    |counts| &mut counts.load_shared,
    |counts| &mut counts.blocked_data,
    |counts| &mut counts.blocked_address,
    |counts| &mut counts.stores,
    |counts| &mut counts.store_uncached,
    |counts| &mut counts.store_no_address,
    |counts| &mut counts.store_l1_hit,
    |counts| &mut counts.store_l1_miss,
    |counts| &mut counts.store_unknown,
    |counts| &mut counts.no_mapping,
    |counts| &mut counts.unparsed,
];

/// Class whose mean latency a sample's weight goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    RemoteHitm,
    LocalHitm,
    RemotePeer,
    LocalPeer,
    Load,
    Other,
}

impl Class {
    pub(super) fn of(data_src: DataSrc, addr: u64) -> Class {
        let mut counts = Counts::default();
        counts.add(data_src, addr, 1);
        if counts.remote_hitm > 0 {
            Class::RemoteHitm
        } else if counts.local_hitm > 0 {
            Class::LocalHitm
        } else if counts.remote_peer > 0 {
            Class::RemotePeer
        } else if counts.local_peer > 0 {
            Class::LocalPeer
        } else if counts.loads > 0 {
            Class::Load
        } else {
            Class::Other
        }
    }
}
