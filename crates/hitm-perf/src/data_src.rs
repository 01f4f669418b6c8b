//! `PERF_SAMPLE_DATA_SRC`: one word that says what an access was and where its data came from.
//!
//! Source: `union perf_mem_data_src` in include/uapi/linux/perf_event.h, Linux 6.1. The word has
//! the same bits on machines of both byte orders; only its bytes are swapped.
//!
//! ```text
//! bits  0-4  op       bits 24-25 lock     bits 37    remote
//! bits  5-18 lvl      bits 26-32 dtlb     bits 38-39 snoopx
//! bits 19-23 snoop    bits 33-36 lvl_num  bits 40-42 blk, 43-45 hops
//! ```
//!
//! A word of ours says the same thing twice. perf sorts it into its classes by `lvl` and `snoop`.
//! By `lvl_num`, `remote`, `hops` and `snoopx` each of our sources differs from all others, so that
//! an export that is imported again has the same sources.

use hitm_base::{AccessOp, DataSource};

/// A `PERF_SAMPLE_DATA_SRC` word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataSrc(pub u64);

/// Bits of [`DataSrc::op`].
pub mod op {
    /// Not known.
    pub const NA: u64 = 1;
    /// A load.
    pub const LOAD: u64 = 2;
    /// A store.
    pub const STORE: u64 = 4;
    /// A prefetch by an instruction.
    pub const PREFETCH: u64 = 8;
}

/// Bits of [`DataSrc::level`].
pub mod level {
    /// Not known.
    pub const NA: u64 = 1;
    /// The level was hit.
    pub const HIT: u64 = 2;
    /// The level was missed.
    pub const MISS: u64 = 4;
    /// First-level cache.
    pub const L1: u64 = 8;
    /// Line fill buffer, or miss address buffer.
    pub const LFB: u64 = 0x10;
    /// Second-level cache.
    pub const L2: u64 = 0x20;
    /// Last-level cache.
    pub const L3: u64 = 0x40;
    /// Memory of this node.
    pub const LOCAL_RAM: u64 = 0x80;
    /// Memory of another node, one hop away.
    pub const REMOTE_RAM1: u64 = 0x100;
    /// Memory of another node, two hops away.
    pub const REMOTE_RAM2: u64 = 0x200;
    /// Another node's cache, one hop away.
    pub const REMOTE_CACHE1: u64 = 0x400;
    /// Another node's cache, two hops away.
    pub const REMOTE_CACHE2: u64 = 0x800;
    /// A device.
    pub const IO: u64 = 0x1000;
    /// Memory that is not cached.
    pub const UNCACHED: u64 = 0x2000;
}

/// Bits of [`DataSrc::snoop`].
pub mod snoop {
    /// Not known.
    pub const NA: u64 = 1;
    /// No other cache was snooped.
    pub const NONE: u64 = 2;
    /// Another cache had the line, clean.
    pub const HIT: u64 = 4;
    /// No other cache had it.
    pub const MISS: u64 = 8;
    /// Another cache had it, modified.
    pub const HITM: u64 = 0x10;
}

/// Bits of [`DataSrc::snoopx`].
pub mod snoopx {
    /// Forwarded.
    pub const FORWARD: u64 = 1;
    /// Transferred from a peer, in whatever state (Arm).
    pub const PEER: u64 = 2;
}

/// Bits of [`DataSrc::tlb`].
pub mod tlb {
    /// Some TLB had the address.
    pub const HIT: u64 = 2;
    /// None had it: a page table was walked.
    pub const MISS: u64 = 4;
}

/// Bits of [`DataSrc::lock`].
pub mod lock {
    /// Not known.
    pub const NA: u64 = 1;
    /// A locked operation.
    pub const LOCKED: u64 = 2;
}

/// Values of [`DataSrc::level_number`].
pub mod level_number {
    /// First-level cache.
    pub const L1: u64 = 1;
    /// Second-level cache.
    pub const L2: u64 = 2;
    /// Third-level cache.
    pub const L3: u64 = 3;
    /// Fourth-level cache.
    pub const L4: u64 = 4;
    /// The miss-handling buffer of the L2 (since Linux 6.12).
    pub const L2_MHB: u64 = 5;
    /// A memory-side cache (since Linux 6.12).
    pub const MEMORY_SIDE: u64 = 6;
    /// Not cached.
    pub const UNCACHED: u64 = 8;
    /// Memory behind CXL.
    pub const CXL: u64 = 9;
    /// A device.
    pub const IO: u64 = 0xa;
    /// Some cache.
    pub const ANY_CACHE: u64 = 0xb;
    /// Line fill buffer, or miss address buffer.
    pub const LFB: u64 = 0xc;
    /// Memory.
    pub const RAM: u64 = 0xd;
    /// Persistent memory.
    pub const PMEM: u64 = 0xe;
    /// Not known.
    pub const NA: u64 = 0xf;
}

/// `PERF_MEM_HOPS_2`: another socket of the same board.
const HOPS_OTHER_SOCKET: u64 = 3;

/// The fields of a word, to put it together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Fields {
    op: u64,
    level: u64,
    snoop: u64,
    lock: u64,
    level_number: u64,
    remote: bool,
    snoopx: u64,
    hops: u64,
}

impl Fields {
    fn word(self) -> DataSrc {
        DataSrc(
            self.op
                | self.level << 5
                | self.snoop << 19
                | self.lock << 24
                | self.level_number << 33
                | u64::from(self.remote) << 37
                | self.snoopx << 38
                | self.hops << 43,
        )
    }
}

/// Cache or memory that served the access, as far as perf's word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HitLevel {
    /// Line fill buffer.
    FillBuffer,
    /// First-level cache.
    L1,
    /// Second-level cache.
    L2,
    /// Third or fourth level, or a memory-side cache.
    L3,
    /// A cache of another node or package.
    RemoteCache,
    /// Memory of the CPU's own node.
    LocalRam,
    /// Memory of another node.
    RemoteRam,
    /// A device, or memory that is not cached.
    Uncached,
}

impl DataSrc {
    const fn bits(self, first: u32, count: u32) -> u64 {
        self.0 >> first & ((1 << count) - 1)
    }

    /// Kind of access: bits of [`op`].
    pub const fn op(self) -> u64 {
        self.bits(0, 5)
    }

    /// Level of the memory: bits of [`level`].
    pub const fn level(self) -> u64 {
        self.bits(5, 14)
    }

    /// Answer of the snooped caches: bits of [`snoop`].
    pub const fn snoop(self) -> u64 {
        self.bits(19, 5)
    }

    /// Lock of the operation: bits of [`lock`].
    pub const fn lock(self) -> u64 {
        self.bits(24, 2)
    }

    /// TLB hit or miss, and the level: bits `PERF_MEM_TLB_*`.
    pub const fn tlb(self) -> u64 {
        self.bits(26, 7)
    }

    /// Level of the memory as a number: one of [`level_number`], 0 when the sample has none.
    pub const fn level_number(self) -> u64 {
        self.bits(33, 4)
    }

    /// Returns true if the data came from a remote cache or memory; [`DataSrc::hops`] has the
    /// distance.
    pub const fn is_remote(self) -> bool {
        self.bits(37, 1) == 1
    }

    /// Rest of the snoop's answer: bits of [`snoopx`].
    pub const fn snoopx(self) -> u64 {
        self.bits(38, 2)
    }

    /// Reason why the load was blocked, `PERF_MEM_BLK_*`: 1 not known, 2 by data, 4 by an address.
    pub const fn blocked(self) -> u64 {
        self.bits(40, 3)
    }

    /// Distance: 0 not known, 1 another core, 2 another node, 3 another socket, 4 another board.
    pub const fn hops(self) -> u64 {
        self.bits(43, 3)
    }

    /// Returns true if the operation was locked.
    pub const fn is_locked(self) -> bool {
        self.lock() & lock::LOCKED != 0
    }

    /// The word for an access of ours, or `None` for a fence, which no sample can show.
    pub fn of_access(op: AccessOp, source: DataSource) -> Option<DataSrc> {
        let mut fields = own_fields(source);
        match op {
            AccessOp::Load => fields.op = op::LOAD,
            // As AMD's IBS does: one sample that both loads and stores. perf counts it as a load.
            AccessOp::LockedRmw => {
                fields.op = op::LOAD | op::STORE;
                fields.lock = lock::LOCKED;
            }
            AccessOp::Store => {
                fields.op = op::STORE;
                // perf reads nothing else of a store's level.
                fields.level = match source {
                    DataSource::StoreBuffer | DataSource::L1 => level::L1 | level::HIT,
                    _ => level::L1 | level::MISS,
                };
            }
            AccessOp::Fence => return None,
        }
        Some(fields.word())
    }

    /// Returns the operation and the data source in our terms; `None` when the word says neither
    /// load nor store.
    pub fn access(self) -> Option<(AccessOp, Option<DataSource>)> {
        let is_load = self.op() & op::LOAD != 0;
        let is_store = self.op() & op::STORE != 0;
        let access = match (is_load, is_store, self.is_locked()) {
            (true, _, true) | (true, true, _) => AccessOp::LockedRmw,
            (true, false, false) => AccessOp::Load,
            (false, true, _) => AccessOp::Store,
            (false, false, _) => return None,
        };
        Some((access, self.source(access)))
    }

    fn source(self, access: AccessOp) -> Option<DataSource> {
        if let Some(source) = self.own_source() {
            return Some(source);
        }
        let is_store = access == AccessOp::Store;
        let l1 = |bit: u64| is_store && self.level() & bit != 0 && self.level() & level::L1 != 0;
        if l1(level::HIT) {
            return Some(DataSource::L1);
        }
        let snooped = |bit: u64| !is_store && self.snoop() & bit != 0;
        let hitm = snooped(snoop::HITM);
        let shared = snooped(snoop::HIT) || !is_store && self.snoopx() & snoopx::PEER != 0;
        Some(match self.hit_level() {
            Some(HitLevel::RemoteCache) if hitm => DataSource::RemoteHitm,
            Some(HitLevel::RemoteCache) => DataSource::RemotePeer,
            Some(HitLevel::L2 | HitLevel::L3) if hitm => DataSource::LocalHitm,
            Some(HitLevel::L2 | HitLevel::L3) if shared => DataSource::LocalPeer,
            Some(HitLevel::FillBuffer) => DataSource::FillBuffer,
            Some(HitLevel::L1) => DataSource::L1,
            Some(HitLevel::L2) => DataSource::L2,
            Some(HitLevel::L3) => DataSource::Llc,
            Some(HitLevel::LocalRam) => DataSource::LocalDram,
            Some(HitLevel::RemoteRam) => DataSource::RemoteDram,
            // Intel's PEBS says only that a store missed the L1: the next level is the least that it took.
            Some(HitLevel::Uncached) | None => return l1(level::MISS).then_some(DataSource::L2),
        })
    }

    /// Returns the cache or memory that served the access. The old field `lvl` wins when it says
    /// something, as perf c2c reads it alone. The remote bit without hops means another node.
    pub fn hit_level(self) -> Option<HitLevel> {
        let level = self.level();
        let is_other_node = self.is_remote() && self.hops() == 0;
        if level & (level::REMOTE_CACHE1 | level::REMOTE_CACHE2) != 0 {
            return Some(HitLevel::RemoteCache);
        }
        let asked = snoop::HIT | snoop::HITM;
        if is_other_node && (self.snoop() & asked != 0 || self.snoopx() & snoopx::PEER != 0) {
            return Some(HitLevel::RemoteCache);
        }
        if is_other_node {
            return Some(HitLevel::RemoteRam);
        }
        if level & level::HIT != 0 {
            let by_bit = [
                (level::LFB, HitLevel::FillBuffer),
                (level::L1, HitLevel::L1),
                (level::L2, HitLevel::L2),
                (level::L3, HitLevel::L3),
                (level::LOCAL_RAM, HitLevel::LocalRam),
                (level::REMOTE_RAM1, HitLevel::RemoteRam),
                (level::REMOTE_RAM2, HitLevel::RemoteRam),
                (level::IO, HitLevel::Uncached),
                (level::UNCACHED, HitLevel::Uncached),
            ];
            let found = by_bit.into_iter().find(|(bit, _)| level & bit != 0);
            if let Some((_, hit)) = found {
                return Some(hit);
            }
        }
        self.numbered_level()
    }

    fn numbered_level(self) -> Option<HitLevel> {
        let far = self.is_remote() && self.hops() >= 2;
        Some(match self.level_number() {
            level_number::L1 => HitLevel::L1,
            level_number::L2 | level_number::L2_MHB if !far => HitLevel::L2,
            level_number::L3 | level_number::L4 | level_number::MEMORY_SIDE if !far => HitLevel::L3,
            level_number::ANY_CACHE if !far => HitLevel::L3,
            level_number::L2
            | level_number::L2_MHB
            | level_number::L3
            | level_number::L4
            | level_number::MEMORY_SIDE
            | level_number::ANY_CACHE => HitLevel::RemoteCache,
            level_number::LFB => HitLevel::FillBuffer,
            level_number::RAM | level_number::PMEM | level_number::CXL if far => {
                HitLevel::RemoteRam
            }
            level_number::RAM | level_number::PMEM | level_number::CXL => HitLevel::LocalRam,
            level_number::IO | level_number::UNCACHED => HitLevel::Uncached,
            _ => return None,
        })
    }

    /// Returns the source when the word is one that [`DataSrc::of_access`] makes.
    fn own_source(self) -> Option<DataSource> {
        let says = |source: &DataSource| {
            let fields = own_fields(*source);
            fields.level_number == self.level_number()
                && fields.remote == self.is_remote()
                && fields.hops == self.hops()
                && fields.snoop == self.snoop()
                && fields.snoopx == self.snoopx()
        };
        let is_load = self.op() & op::LOAD != 0;
        let level_fits =
            |source: &DataSource| !is_load || own_fields(*source).level == self.level();
        DataSource::ALL
            .into_iter()
            .find(|source| says(source) && level_fits(source))
    }
}

/// Fields that encode a load from each source. `level` and `snoop` choose perf's class; the rest
/// tells sources apart that perf counts alike.
fn own_fields(source: DataSource) -> Fields {
    let (level, level_number, snoop) = match source {
        DataSource::StoreBuffer | DataSource::L1 => (level::L1, level_number::L1, snoop::NONE),
        DataSource::FillBuffer => (level::LFB, level_number::LFB, snoop::NONE),
        DataSource::L2 => (level::L2, level_number::L2, snoop::NONE),
        DataSource::Llc => (level::L3, level_number::L3, snoop::NONE),
        // The data was in the core's own caches; others had copies.
        DataSource::LocalUpgrade | DataSource::RemoteUpgrade => {
            (level::L2, level_number::L2, snoop::HIT)
        }
        DataSource::LocalPeer => (level::L3, level_number::L3, snoop::HIT),
        DataSource::LocalHitm => (level::L3, level_number::L3, snoop::HITM),
        DataSource::RemotePeer => (level::REMOTE_CACHE1, level_number::ANY_CACHE, snoop::HIT),
        DataSource::RemoteHitm => (level::REMOTE_CACHE1, level_number::ANY_CACHE, snoop::HITM),
        DataSource::LocalDram => (level::LOCAL_RAM, level_number::RAM, snoop::NONE),
        DataSource::RemoteDram => (level::REMOTE_RAM1, level_number::RAM, snoop::NONE),
    };
    let remote = matches!(
        source,
        DataSource::RemoteUpgrade
            | DataSource::RemotePeer
            | DataSource::RemoteHitm
            | DataSource::RemoteDram
    );
    let forwarded = source == DataSource::StoreBuffer;
    Fields {
        level: level | level::HIT,
        snoop,
        level_number,
        remote,
        hops: if remote { HOPS_OTHER_SOCKET } else { 0 },
        snoopx: if forwarded { snoopx::FORWARD } else { 0 },
        lock: lock::NA,
        ..Fields::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: [AccessOp; 3] = [AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw];

    #[test]
    fn every_access_of_ours_survives() {
        for op in OPS {
            for source in DataSource::ALL {
                let word = DataSrc::of_access(op, source).unwrap();
                assert_eq!(word.access(), Some((op, Some(source))), "{word:?}");
            }
        }
        assert_eq!(DataSrc::of_access(AccessOp::Fence, DataSource::L1), None);
    }

    fn check(word: u64, expected: Option<(AccessOp, Option<DataSource>)>) {
        assert_eq!(DataSrc(word).access(), expected, "{word:#x}");
    }

    /// Words as the kernel's drivers build them, each with its parts beside it.
    #[test]
    fn words_of_real_machines() {
        use AccessOp::{Load, LockedRmw, Store};
        let word = |op, level, snoop, lock| op | level << 5 | snoop << 19 | lock << 24;
        // Intel, load latency: `pebs_data_source`, arch/x86/events/intel/ds.c.
        let load = |level, snoop| word(op::LOAD, level | level::HIT, snoop, lock::NA);
        check(
            load(level::L1, snoop::NONE),
            Some((Load, Some(DataSource::L1))),
        );
        check(
            load(level::LFB, snoop::NONE),
            Some((Load, Some(DataSource::FillBuffer))),
        );
        check(
            load(level::L3, snoop::MISS),
            Some((Load, Some(DataSource::Llc))),
        );
        check(
            load(level::L3, snoop::HIT),
            Some((Load, Some(DataSource::LocalPeer))),
        );
        check(
            load(level::L3, snoop::HITM),
            Some((Load, Some(DataSource::LocalHitm))),
        );
        check(
            load(level::REMOTE_CACHE1, snoop::HIT),
            Some((Load, Some(DataSource::RemotePeer))),
        );
        check(
            load(level::REMOTE_CACHE1, snoop::HITM),
            Some((Load, Some(DataSource::RemoteHitm))),
        );
        check(
            load(level::LOCAL_RAM, snoop::HIT),
            Some((Load, Some(DataSource::LocalDram))),
        );
        check(
            load(level::REMOTE_RAM1, snoop::NONE),
            Some((Load, Some(DataSource::RemoteDram))),
        );
        check(load(level::UNCACHED, snoop::NONE), Some((Load, None)));
        // Skylake: the level is not known, but the line was modified on another node.
        let skylake = word(op::LOAD, level::NA, snoop::HITM, lock::NA) | 1 << 37;
        check(skylake, Some((Load, Some(DataSource::RemoteHitm))));
        let locked = word(op::LOAD, level::L3 | level::HIT, snoop::HITM, lock::LOCKED);
        check(locked, Some((LockedRmw, Some(DataSource::LocalHitm))));
        // Intel, precise stores.
        let store = |level| word(op::STORE, level, snoop::NA, lock::NA);
        check(
            store(level::L1 | level::HIT),
            Some((Store, Some(DataSource::L1))),
        );
        check(
            store(level::L1 | level::MISS),
            Some((Store, Some(DataSource::L2))),
        );
        check(store(level::NA), Some((Store, None)));
        // AMD: a locked operation both loads and stores.
        let both = op::LOAD | op::STORE;
        let amd = word(both, level::L1 | level::HIT, snoop::NA, lock::LOCKED);
        check(amd, Some((LockedRmw, Some(DataSource::L1))));
        // Arm: a peer core's cache in the same cluster, and one behind the interconnect.
        let peer = word(op::LOAD, level::L2 | level::HIT, 0, 0) | 2 << 33 | snoopx::PEER << 38;
        check(peer, Some((Load, Some(DataSource::LocalPeer))));
        let remote = word(op::LOAD, level::REMOTE_CACHE1, 0, 0)
            | level_number::ANY_CACHE << 33
            | 1 << 37
            | snoopx::PEER << 38;
        check(remote, Some((Load, Some(DataSource::RemotePeer))));
        check(word(op::PREFETCH, level::L1, 0, 0), None);
        check(0, None);
    }
}
