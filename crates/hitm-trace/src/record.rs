//! What a recording says: accesses, and the few events that give them their meaning.

use std::sync::Arc;

use hitm_base::{Access, AddrRange, CodeAddr, CpuId, Cycles, Outcome, ThreadId};

use crate::program::{Turn, Work};

/// One entry of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An access to a line that more than one thread has touched, and its price. Nearly every
    /// record is one of these.
    Access {
        /// What the thread did.
        access: Access,
        /// What the modelled memory system answered.
        outcome: Outcome,
    },
    /// A thread began; told again with another name when it was renamed.
    ThreadStart(ThreadStart),
    /// A thread moved to another modelled CPU.
    ThreadPlaced(ThreadPlaced),
    /// What a thread has done so far; the last of a thread's counts.
    ThreadExit(ThreadExit),
    /// A file was mapped.
    Mapping(Mapping),
    /// A heap block one of whose lines became shared.
    HeapObject(HeapObject),
    /// Memory that belongs to no file.
    Region(Region),
    /// Numbers about the recording itself: what was filtered, dropped or not recorded.
    Counters(Vec<Counter>),
    /// What a thread did between its stored accesses.
    Work(Work),
    /// A change in who runs.
    Turn(Turn),
    /// Who called the function of the next access in the block: return addresses, innermost call first.
    Callers(Arc<[CodeAddr]>),
    /// Structures whose objects were priced with their members in other places, as a layout file.
    Layout(String),
    /// The recording ended cleanly: the last record of a complete file.
    End(End),
}

impl Record {
    /// When it happened on the virtual clock, for records that say so.
    pub fn time(&self) -> Option<Cycles> {
        match self {
            Record::Access { access, .. } => Some(access.time),
            Record::ThreadStart(start) => Some(start.time),
            Record::ThreadPlaced(placed) => Some(placed.time),
            Record::ThreadExit(exit) => Some(exit.time),
            Record::HeapObject(object) => Some(object.time),
            Record::End(end) => Some(end.time),
            Record::Mapping(_) | Record::Region(_) | Record::Counters(_) => None,
            Record::Work(_) | Record::Turn(_) | Record::Callers(_) | Record::Layout(_) => None,
        }
    }
}

/// A thread began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadStart {
    /// The recording's own number for the thread.
    pub thread: ThreadId,
    /// The operating system's number, which may be used again after the thread's end.
    pub tid: u32,
    /// The modelled CPU that it was placed on.
    pub cpu: CpuId,
    /// When, on the virtual clock.
    pub time: Cycles,
    /// Its name as the operating system knows it.
    pub name: String,
    /// Which of the placement's CPUs it was given, counted from 0 and again from the front. Before
    /// version 1.2 files do not say, and threads got theirs by their numbers.
    pub seat: u32,
}

/// A thread moved to another modelled CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPlaced {
    /// The thread.
    pub thread: ThreadId,
    /// The CPU that it runs on from now on.
    pub cpu: CpuId,
    /// When, on the virtual clock.
    pub time: Cycles,
}

/// What a thread has done so far. Told now and then while it runs, because programs are killed, and
/// at its end: the last one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadExit {
    /// The thread.
    pub thread: ThreadId,
    /// Its virtual clock.
    pub time: Cycles,
    /// Instructions that it ran.
    pub insns: u64,
    /// Memory accesses that it made, those that were counted but not stored included.
    pub accesses: u64,
    /// Cycles for which memory held it up.
    pub stall: Cycles,
    /// The part of `stall` that another CPU's use of the line caused.
    pub contention_stall: Cycles,
}

/// A file was mapped into the program's address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: AddrRange,
    /// The place in the file that the first address shows.
    pub file_offset: u64,
    /// The file.
    pub path: String,
    /// The GNU build id, or empty when the file has none.
    pub build_id: Vec<u8>,
    /// Whether code may run from it.
    pub executable: bool,
}

/// A live heap block, named when one of its lines first becomes shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapObject {
    /// From the address that the allocator returned, the bytes that the program asked for.
    pub range: AddrRange,
    /// When it was allocated, on the virtual clock of `thread`.
    pub time: Cycles,
    /// The thread that allocated it.
    pub thread: ThreadId,
    /// The allocation site, innermost call first.
    pub stack: Vec<CodeAddr>,
}

/// Memory that belongs to no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Its addresses.
    pub range: AddrRange,
    /// What it is.
    pub kind: RegionKind,
}

/// What a [`Region`] is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegionKind {
    /// The stack of a thread.
    Stack {
        /// Whose.
        thread: ThreadId,
    },
    /// An anonymous mapping.
    AnonymousMap {
        /// Where it was mapped, innermost call first.
        stack: Vec<CodeAddr>,
    },
    /// The program break's heap.
    Brk,
    /// An object of a kernel, found by walking over its memory.
    Object {
        /// What it is called: `runqueues[3]`.
        name: String,
        /// Its type in the kernel's BTF: `rq`; empty when it has none.
        type_name: String,
    },
    /// Objects of one slab cache of a kernel, one after the other.
    Slab {
        /// The cache.
        cache: String,
        /// Their type in the kernel's BTF; empty when it is not known.
        type_name: String,
        /// From one object to the next.
        stride_bytes: u64,
    },
    /// A CPU's copy of a kernel's per-CPU variables.
    PerCpu {
        /// Whose.
        cpu: u32,
    },
    /// Memory of the recorded program inside a recorded machine: accesses to it have the machine's
    /// own addresses.
    UserMemory {
        /// The program's address of the region's first byte.
        address: u64,
    },
}

/// What the name of a [`Counter`] begins with that counts calls of a function of a recorded machine; its
/// address follows in hexadecimal.
pub const CALLS_OF: &str = "calls_of_0x";

/// A named number about the recording itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// What is counted, in words joined by underscores.
    pub name: String,
    /// How many.
    pub value: u64,
}

/// The clean end of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The latest virtual clock.
    pub time: Cycles,
    /// Why it ended.
    pub reason: EndReason,
    /// Sums over all threads.
    pub totals: Totals,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The program exited.
    Exited {
        /// Its exit status.
        status: i32,
    },
    /// A signal ended the program.
    Signalled {
        /// Which.
        signal: i32,
    },
    /// The user ended the recording; the program may have run on.
    Stopped,
    /// The program replaced itself by another one, which was not recorded.
    Exec,
    /// A reason that a later version of the format added.
    Other {
        /// Its number.
        code: u8,
        /// What it carries.
        value: i64,
    },
}

/// Sums over all threads of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Threads that were seen.
    pub threads: u64,
    /// Instructions that they ran.
    pub insns: u64,
    /// Memory accesses that they made.
    pub accesses: u64,
    /// The accesses that were stored; the others were private to one thread.
    pub stored_accesses: u64,
    /// Cycles for which memory held threads up.
    pub stall: Cycles,
    /// The part of `stall` that another CPU's use of a line caused.
    pub contention_stall: Cycles,
}
