//! Counts of samples, by perf's classification.

use crate::DataSrc;
use crate::data_src::{level, op, snoop, snoopx};

/// Declares the counts, and their sum with others.
macro_rules! counts {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// perf's counts of a row, a line or all samples; the names in backticks are those of its source.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counts {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Counts {
            /// Adds other counts.
            pub fn merge(&mut self, other: &Counts) {
                $(self.$name += other.$name;)+
            }
        }
    };
}

counts! {
    /// All samples (`nr_entries`).
    samples,
    /// Locked operations.
    locks,
    /// Loads, with or without an address.
    loads,
    /// Loads of memory that is not cached.
    load_uncached,
    /// Loads from a device.
    load_io,
    /// Loads that missed the level that they name.
    load_miss,
    /// Loads without an address.
    load_no_address,
    /// Loads that waited for a fill that was under way.
    fill_buffer,
    /// Loads that hit the L1.
    load_l1,
    /// Loads that hit the L2.
    load_l2,
    /// Loads that hit the LLC, HITM not included.
    load_llc,
    /// Loads of a line modified in another cache of the node.
    local_hitm,
    /// Loads of a line modified on another node.
    remote_hitm,
    /// Loads from a peer of the node.
    local_peer,
    /// Loads from a peer on another node.
    remote_peer,
    /// Loads of a clean line from another node's cache.
    remote_hit,
    /// Loads from the node's memory.
    local_dram,
    /// Loads from another node's memory.
    remote_dram,
    /// Loads from memory that no other cache had (`ld_excl`).
    load_exclusive,
    /// Loads from memory that another cache had too (`ld_shared`).
    load_shared,
    /// Loads blocked by data of an older store.
    blocked_data,
    /// Loads blocked by an address conflict.
    blocked_address,
    /// Stores, with or without an address.
    stores,
    /// Stores to memory that is not cached.
    store_uncached,
    /// Stores without an address.
    store_no_address,
    /// Stores that hit the L1.
    store_l1_hit,
    /// Stores that missed the L1.
    store_l1_miss,
    /// Stores that do not say what they hit.
    store_unknown,
    /// Samples whose address or instruction no mapping holds (`nomap`).
    no_mapping,
    /// Samples that are neither load nor store (`noparse`).
    unparsed,
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
        let when = |is: bool| u64::from(is) * count;
        self.samples += count;
        self.locks += when(data_src.is_locked());
        self.blocked_data += when(data_src.blocked() & 2 != 0);
        self.blocked_address += when(data_src.blocked() & 4 != 0);
        // A word with both bits, as of AMD's locked operations, counts as a load.
        let has_address = addr != 0;
        if data_src.op() & op::LOAD != 0 {
            self.loads += count;
            self.load_no_address += when(!has_address);
            self.add_load(data_src, when(has_address));
        } else if data_src.op() & op::STORE != 0 {
            self.stores += count;
            self.store_no_address += when(!has_address);
            self.add_store(data_src, when(has_address));
        } else {
            self.unparsed += count;
        }
    }

    fn add_load(&mut self, data_src: DataSrc, count: u64) {
        let when = |is: bool| u64::from(is) * count;
        let has = |bits: u64| data_src.level() & bits != 0;
        let hit = |bits: u64| has(level::HIT) && has(bits);
        let snooped = |bit: u64| data_src.snoop() & bit != 0;
        let is_peer = data_src.snoopx() & snoopx::PEER != 0;
        // With hops set, the remote cache may belong to this node.
        let is_other_node = data_src.is_remote() && data_src.hops() == 0;
        let is_hitm = snooped(snoop::HITM);
        let is_shared = snooped(snoop::HIT);
        self.load_uncached += when(hit(level::UNCACHED));
        self.load_io += when(hit(level::IO));
        self.fill_buffer += when(hit(level::LFB));
        self.load_l1 += when(hit(level::L1));
        self.load_l2 += when(hit(level::L2));
        self.local_peer += when(hit(level::L2) && is_peer) + when(hit(level::L3) && is_peer);
        self.local_hitm += when(hit(level::L3) && is_hitm);
        self.load_llc += when(hit(level::L3) && !is_hitm);
        let is_remote_ram = has(level::REMOTE_RAM1 | level::REMOTE_RAM2) || is_other_node;
        let local = when(hit(level::LOCAL_RAM));
        let remote = when(has(level::HIT) && is_remote_ram);
        self.local_dram += local;
        self.remote_dram += remote;
        match is_shared {
            true => self.load_shared += local + remote,
            false => self.load_exclusive += local + remote,
        }
        if has(level::REMOTE_CACHE1 | level::REMOTE_CACHE2) || is_other_node {
            let is_only_peer = is_peer && !is_shared && !is_hitm;
            self.remote_hit += when(is_shared || is_only_peer);
            self.remote_hitm += when(is_hitm && !is_shared);
            self.remote_peer += when(is_only_peer);
        }
        self.load_miss += when(has(level::MISS));
    }

    fn add_store(&mut self, data_src: DataSrc, count: u64) {
        let when = |is: bool| u64::from(is) * count;
        let has = |bits: u64| data_src.level() & bits != 0;
        self.store_uncached += when(has(level::HIT) && has(level::UNCACHED));
        self.store_l1_hit += when(has(level::HIT) && has(level::L1));
        self.store_l1_miss += when(has(level::MISS) && has(level::L1));
        self.store_unknown += when(has(level::NA));
    }
}

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
