//! Records of a recording: accesses, and the few events that give them their meaning.

use std::fmt;
use std::sync::Arc;

use hitm_base::{Access, AddrRange, CodeAddr, CpuId, Cycles, Outcome, ThreadId};

use crate::program::{Turn, Work};

/// One entry of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An access to a line that more than one thread has touched, and its price. Nearly every
    /// record is one of these.
    Access {
        /// Access of the thread.
        access: Access,
        /// Answer of the modelled memory system.
        outcome: Outcome,
    },
    /// A thread began; told again with another name when it was renamed.
    ThreadStart(ThreadStart),
    /// A process began, or another program took it over.
    ProcessStart(ProcessStart),
    /// A process ended, or another program took it over.
    ProcessExit(ProcessExit),
    /// A thread moved to another modelled CPU.
    ThreadPlaced(ThreadPlaced),
    /// Totals of a thread so far; the last record of a thread counts.
    ThreadExit(ThreadExit),
    /// Time that a thread has waited so far; the last record of each kind, word and instruction counts.
    Waits(Waits),
    /// A file was mapped.
    Mapping(Mapping),
    /// A heap block one of whose lines became shared.
    HeapObject(HeapObject),
    /// Memory that belongs to no file.
    Region(Region),
    /// Numbers about the recording itself: what was filtered, dropped or not recorded.
    Counters(Vec<Counter>),
    /// Work of a thread between its stored accesses.
    Work(Work),
    /// A change in who runs.
    Turn(Turn),
    /// Callers of the function of the next access in the block: return addresses, innermost call first.
    Callers(Arc<[CodeAddr]>),
    /// Structures whose objects were priced with their members in other places, as a layout file.
    Layout(String),
    /// The recording ended cleanly: the last record of a complete file.
    End(End),
}

impl Record {
    /// Virtual time of the record, if it carries one.
    pub fn time(&self) -> Option<Cycles> {
        match self {
            Record::Access { access, .. } => Some(access.time),
            Record::ThreadStart(start) => Some(start.time),
            Record::ProcessStart(start) => Some(start.time),
            Record::ProcessExit(exit) => Some(exit.time),
            Record::ThreadPlaced(placed) => Some(placed.time),
            Record::ThreadExit(exit) => Some(exit.time),
            Record::HeapObject(object) => Some(object.time),
            Record::End(end) => Some(end.time),
            Record::Mapping(_) | Record::Region(_) | Record::Counters(_) | Record::Waits(_) => None,
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
    /// Virtual time of the start, or of the renaming.
    pub time: Cycles,
    /// Its name as the operating system knows it.
    pub name: String,
    /// Index of its CPU in the placement's order, from 0; past the last CPU, it counts again from
    /// the front. Before version 1.2 files do not say, and threads got theirs by their numbers.
    pub seat: u32,
    /// The process that it belongs to, by its number; 0 before version 1.4.
    pub process: u32,
}

/// A process began, or another program took it over.
///
/// Process 0 needs no record. The addresses of process n stand in a recording with n in their upper 16
/// bits ([`PROCESS_SHIFT`]). Those of memory that processes share have the number of the shared object
/// there, from [`SHARED_FIRST`] on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStart {
    /// The recording's own number for the process and its program, from 0.
    pub process: u32,
    /// The operating system's number, which may be used again after its end.
    pub pid: u32,
    /// The process that it was forked from, or that it was before; the first one's is its own.
    pub parent: u32,
    /// Virtual time of the start, or of the takeover.
    pub time: Cycles,
    /// The program's file.
    pub program: String,
}

/// Lowest bit of the number of the process, or of the shared object, in an address.
pub const PROCESS_SHIFT: u32 = 48;

/// The first number of a shared object; processes have lower ones.
pub const SHARED_FIRST: u32 = 0x2000;

/// The first number that is no shared object's.
pub const SHARED_END: u32 = 0x3fff;

/// A process ended, or another program took it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// The process.
    pub process: u32,
    /// Virtual time of the end, or of the takeover.
    pub time: Cycles,
    /// Cause of its end, with its exit status or signal.
    pub reason: EndReason,
}

/// A thread moved to another modelled CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPlaced {
    /// The thread.
    pub thread: ThreadId,
    /// The CPU that it runs on from now on.
    pub cpu: CpuId,
    /// Virtual time of the move.
    pub time: Cycles,
}

/// Totals of a thread so far. Recorded now and then while it runs, because programs are killed, and
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

/// Time that a thread has waited so far in one way, for one word, at one instruction: the last one of each
/// counts. Waits of which there are too many different ones have word and instruction 0. Since version 1.8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// The thread.
    pub thread: ThreadId,
    /// How it waited.
    pub kind: WaitKind,
    /// Address of the word that it waited for: a flag, or a lock's.
    pub word: u64,
    /// The instruction that looks at the word, or that was the last before the thread went to sleep.
    pub code: CodeAddr,
    /// Waits that are over.
    pub count: u64,
    /// Their cycles. Those that a spinning thread stood still for a line are not among them: they are
    /// its accesses' ([`Outcome::stall`]).
    pub cycles: Cycles,
}

/// A way to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitKind {
    /// The thread looks at the word again and again.
    Spinning,
    /// It sleeps until another one wakes it.
    Asleep,
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
    /// True if code may run from it.
    pub executable: bool,
}

/// A live heap block, named when one of its lines first becomes shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapObject {
    /// From the address that the allocator returned, the bytes that the program asked for.
    pub range: AddrRange,
    /// Time of the allocation, on the virtual clock of `thread`.
    pub time: Cycles,
    /// The thread that allocated it.
    pub thread: ThreadId,
    /// The allocation site, innermost call first.
    pub stack: Vec<CodeAddr>,
    /// Address of the description of the type that the allocator was told (Go's `_type`); since version 1.6.
    pub told_type: Option<u64>,
}

/// Memory that belongs to no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Its addresses.
    pub range: AddrRange,
    /// Use of the memory, and its owner, name or type.
    pub kind: RegionKind,
}

/// Use of a [`Region`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegionKind {
    /// The stack of a thread.
    Stack {
        /// Owner of the stack.
        thread: ThreadId,
    },
    /// An anonymous mapping.
    AnonymousMap {
        /// Call stack of the mapping, innermost call first.
        stack: Vec<CodeAddr>,
    },
    /// The program break's heap.
    Brk,
    /// An object of a kernel, found by walking over its memory.
    Object {
        /// Its name: `runqueues[3]`.
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
        /// Number of that CPU.
        cpu: u32,
    },
    /// Memory of the recorded program inside a recorded machine: accesses to it have the machine's
    /// own addresses.
    UserMemory {
        /// The program's address of the region's first byte.
        address: u64,
    },
}

/// Counter of slabs that the kernel made while it ran, and whose objects were priced in another layout.
pub const LATER_MOVED_SLABS: &str = "moved_slabs_made_later";

/// Prefix of the name of a [`Counter`] of calls of a function of a recorded machine. The function's address
/// follows in hexadecimal.
pub const CALLS_OF: &str = "calls_of_0x";

/// A named number about the recording itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Quantity counted, in words joined by underscores.
    pub name: String,
    /// Its count.
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
        /// Number of the signal.
        signal: i32,
    },
    /// The user ended the recording; the program may have run on.
    Stopped,
    /// The program replaced itself by another one, which was not recorded.
    Exec,
    /// A process was gone without a word: something killed it.
    Killed,
    /// A process runs on, or ran on, unrecorded.
    Lost {
        /// The reason.
        loss: Loss,
    },
    /// A reason that a later version of the format added.
    Other {
        /// Its number.
        code: u8,
        /// Value that it carries.
        value: i64,
    },
}

/// The reason for which the rest of a process is not in its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// More threads run than the recorder has room for.
    Threads,
    /// Its messages could not be read.
    BadMessage,
    /// It stood still for longer than the user wanted to wait.
    Stalled,
    /// A reason that a later version of the format added.
    Other(i64),
}

impl Loss {
    /// Number of the reason in recordings.
    pub fn code(self) -> i64 {
        match self {
            Loss::Threads => 1,
            Loss::BadMessage => 2,
            Loss::Stalled => 3,
            Loss::Other(code) => code,
        }
    }

    /// The reason with this number.
    pub fn of_code(code: i64) -> Loss {
        match code {
            1 => Loss::Threads,
            2 => Loss::BadMessage,
            3 => Loss::Stalled,
            code => Loss::Other(code),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Threads => f.write_str("more threads than the recorder has room for"),
            Loss::BadMessage => f.write_str("its messages could not be read"),
            Loss::Stalled => f.write_str("it stood still"),
            Loss::Other(code) => write!(f, "reason {code} of a later version"),
        }
    }
}

impl EndReason {
    /// Returns true if a part of the process may be missing that no request of the user left out.
    pub fn is_loss(self) -> bool {
        matches!(self, EndReason::Lost { .. })
    }
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
