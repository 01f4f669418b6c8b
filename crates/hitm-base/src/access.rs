//! One access to memory, and what the modelled memory system answered.

use zerocopy::{Immutable, IntoBytes};

use crate::{CodeAddr, CpuId, Cycles, LINE_SIZE, LineAddr, ThreadId};

crate::numbered! {
    /// An instruction's operation on memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoBytes, Immutable)]
    #[repr(u8)]
    pub enum AccessOp {
        /// A plain load.
        Load,
        /// A plain store: it retires through the store buffer.
        Store,
        /// A locked read-modify-write, `xchg` with memory, or an LSE atomic: it drains the store
        /// buffer and waits for the line.
        LockedRmw,
        /// A full fence: it drains the store buffer and touches no line.
        Fence,
    }
}

impl AccessOp {
    /// The operation with this number, if there is one.
    pub fn of_number(number: u8) -> Option<AccessOp> {
        AccessOp::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if the access needs the line exclusively.
    pub const fn is_write(self) -> bool {
        matches!(self, AccessOp::Store | AccessOp::LockedRmw)
    }
}

/// One access by one thread. An access that straddles a line boundary is two of these.
///
/// Four words of 64 bits in this order, so that accesses are hashed and compared by words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable)]
#[repr(C)]
pub struct Access {
    /// Issue time of the instruction, on the thread's virtual clock.
    pub time: Cycles,
    /// The first byte touched.
    pub addr: u64,
    /// The instruction.
    pub code: CodeAddr,
    /// The thread that ran the instruction.
    pub thread: ThreadId,
    /// The modelled CPU that the thread ran on.
    pub cpu: CpuId,
    /// Bytes touched, all within one line: 1 to 64; 0 for a fence.
    pub size: u8,
    /// Load, store, locked operation or fence.
    pub op: AccessOp,
}

impl Access {
    /// The line that is touched.
    pub const fn line(&self) -> LineAddr {
        LineAddr::of(self.addr)
    }

    /// Offset of the first byte in its line, 0 to 63.
    pub const fn offset(&self) -> u8 {
        (self.addr % LINE_SIZE) as u8
    }
}

crate::numbered! {
    /// The source of an access's data, in the words of perf's `mem` events.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    pub enum DataSource {
        /// The CPU's own store buffer: a load forwarded from an older store, or a store that joined one.
        StoreBuffer,
        /// A miss that was already under way for the same line (perf: LFB).
        FillBuffer,
        /// The core's first-level cache.
        L1,
        /// The core's second-level cache.
        L2,
        /// The last-level cache next to the CPU, no other core involved.
        Llc,
        /// The data was here, but other copies had to be invalidated before the write, all of them in
        /// the same package.
        LocalUpgrade,
        /// As above, with a copy in another package.
        RemoteUpgrade,
        /// A clean copy in another cache of the same package.
        LocalPeer,
        /// A clean copy in another package (perf: remote cache hit).
        RemotePeer,
        /// A line modified in another core of the same package (perf: local HITM).
        LocalHitm,
        /// A line modified in another package (perf: remote HITM).
        RemoteHitm,
        /// Memory of the CPU's own NUMA node.
        LocalDram,
        /// Memory of another NUMA node.
        RemoteDram,
    }
}

impl DataSource {
    /// The source with this number, if there is one.
    pub fn from_index(index: u8) -> Option<DataSource> {
        DataSource::ALL.get(usize::from(index)).copied()
    }

    /// Returns true if the line was modified in another core's cache.
    pub const fn is_hitm(self) -> bool {
        matches!(self, DataSource::LocalHitm | DataSource::RemoteHitm)
    }

    /// Returns true if the data, or the right to write, came from another CPU: a transfer from a peer or
    /// an invalidation. How much of the wait others caused is [`Outcome::lost`]: the LLC and memory may
    /// answer for a line that another CPU took away.
    pub const fn is_contention(self) -> bool {
        matches!(
            self,
            DataSource::LocalUpgrade
                | DataSource::RemoteUpgrade
                | DataSource::LocalPeer
                | DataSource::RemotePeer
                | DataSource::LocalHitm
                | DataSource::RemoteHitm
        )
    }
}

/// The memory system's answer to one [`Access`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Source of the data.
    pub source: DataSource,
    /// From leaving the core (a store: from leaving the head of the store buffer) to completion,
    /// waiting in the line's queue included.
    pub latency: Cycles,
    /// The part of `latency` spent waiting behind other CPUs' transfers of the same line.
    pub queued: Cycles,
    /// Cycles for which the thread's clock stood still because of this access: what it really cost.
    /// Less than `latency` for overlapped loads, zero for stores hidden by the buffer.
    pub stall: Cycles,
    /// The part of `stall` that would not have been if no other CPU used the line, whoever answered: a
    /// line that was taken away and comes back from the last-level cache counts, and so does a wait
    /// behind others' transfers. What a locked operation costs on a line of its own does not.
    pub lost: Cycles,
}

impl Outcome {
    /// Returns true if the line was handed over: from another CPU, or back from where it had gone because
    /// another CPU used it.
    pub fn is_handed_over(&self) -> bool {
        self.source.is_contention() || self.lost > Cycles::ZERO
    }

    /// An outcome of which no more is known than this: others caused all of the stall where another CPU
    /// answered, and elsewhere the wait behind their transfers.
    pub const fn by_source(
        source: DataSource,
        latency: Cycles,
        queued: Cycles,
        stall: Cycles,
    ) -> Outcome {
        let lost = match source.is_contention() || stall.0 < queued.0 {
            true => stall,
            false => queued,
        };
        Outcome {
            source,
            latency,
            queued,
            stall,
            lost,
        }
    }
}
