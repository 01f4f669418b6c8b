//! Records of a recording: accesses, and the few events that give them their meaning.
//!
//! Each kind stands once in the table of [`Record`], and each member once in its type, with its meaning,
//! form and limit. Encoder, decoder, the document of the format and the generators of test inputs are made
//! from that. To add a kind, add a row and a type here, and say so in [`ADDED`].

use std::sync::Arc;

use hitm_base::{Access, AddrRange, CodeAddr, CpuId, Cycles, Outcome, ThreadId};

use crate::declare::{records, written};
use crate::end::EndReason;
use crate::form::{
    ADDRESS, Bytes, CODE, CPU, Flag, Form, Many, NUMBER, Number, Optional, RANGE_ADDRESS, Range,
    SizedRange, Stack, Stop, THREAD, TIME, Tag, Text, UnlessZero, Whole,
};
use crate::program::{TURN, Turn, Work};
use crate::shape::{Kind, Member, Shape};
use crate::wire::Cursor;
use crate::{DecodeFault, EncodeError};

/// Additions of each minor version of the format, from 1.1 on.
pub const ADDED: [&str; 8] = [
    "the records work and turn, and keeps the accesses of each thread in the order of its program; \
     before, an access stood where it completed",
    "the seat of a thread",
    "the callers of an access and more about samples",
    "processes",
    "paths",
    "types of heap objects",
    "the part of a stall that others caused",
    "waits",
];

records! {
    /// One entry of a recording.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum Record {
        apart {
            /// An access to a line that more than one thread has touched, and its price. Nearly every
            /// record is one of these.
            Access {
                /// Access of the thread.
                access: Access,
                /// Answer of the modelled memory system.
                outcome: Outcome,
            },
            /// Callers of the function of the next access in the block: return addresses, innermost call first.
            Callers(Arc<[CodeAddr]>),
        }
        /// A thread began; told again with another name when it was renamed.
        1 "thread start" ThreadStart(ThreadStart) => Whole;
        /// A thread moved to another modelled CPU, at the end of its works so far.
        2 "thread placed" ThreadPlaced(ThreadPlaced) => Whole;
        /// Totals of a thread so far; the last record of a thread counts.
        3 "thread exit" ThreadExit(ThreadExit) => Whole;
        /// A file was mapped.
        4 "mapping" Mapping(Mapping) => Whole;
        /// A heap block one of whose lines became shared.
        5 "heap object" HeapObject(HeapObject) => Whole;
        /// Memory that belongs to no file.
        6 "region" Region(Region) => Whole;
        /// Numbers about the recording itself: what was filtered, dropped or not recorded.
        7 "counters" Counters(Vec<Counter>) => Many;
        /// The recording ended cleanly: the last record of a complete file.
        8 "end" End(End) => Whole;
        /// Work of a thread between its stored accesses.
        9 "work" Work(Work) => Whole, since 1;
        /// A change in who runs.
        10 "turn" Turn(Turn) => TURN, since 1;
        /// Structures whose objects were priced with their members in other places, as a
        /// layout file (docs/formats/layout-file.md). Their objects are those of regions 3 and 4 that begin at
        /// 0xffffec0000000000 to 0xffffed0000000000. All others have the members of the kernel's types.
        11 "layout" Layout(String) => Text("layout file"), since 1;
        /// A process began, or another program took it over.
        13 "process start" ProcessStart(ProcessStart) => Whole, since 4;
        /// A process ended, or another program took it over.
        14 "process exit" ProcessExit(ProcessExit) => Whole, since 4;
        /// Time that a thread has waited so far; the last record of each kind, word and instruction counts.
        16 "waits" Waits(Waits) => Whole, since 8;
    }
    beside {
        /// Callers of the function of the next access in the block.
        12 "callers" CALLERS => Shape::Callers, since 3;
        /// Callers of a thread's accesses from here on. Without any, they are not known.
        15 "path" PATH => Shape::Parts(path_members()), since 5;
    }
}

fn path_members() -> Vec<Member> {
    let member = |name, doc, shape| Member {
        name,
        doc,
        since: 0,
        shape,
    };
    let thread = Form::<ThreadId>::shape(&THREAD);
    vec![
        member("thread", "The thread.", thread),
        member("callers", "The callers.", Shape::MaybeCallers),
    ]
}

written! {
    /// A thread began.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ThreadStart {
        /// The recording's own number for the thread.
        pub thread: ThreadId => THREAD;
        /// The operating system's number, which may be used again after the thread's end.
        pub tid: u32 => Number::id("tid");
        /// The modelled CPU that it was placed on.
        pub cpu: CpuId => CPU;
        /// Virtual time of the start, or of the renaming.
        pub time: Cycles => TIME;
        /// Its name as the operating system knows it.
        pub name: String => Text("thread name");
        /// Index of its CPU in the placement's order, from 0; past the last CPU, it counts again from
        /// the front. Older files do not say, and threads got theirs by their numbers.
        pub seat: u32 => Number::id("seat"), since 2 or thread.0;
        /// The process that it belongs to, by its number; left out when it is 0.
        pub process: u32 => UnlessZero(Number::id("process")), since 4 or 0;
    }
}

written! {
    /// A process began, or another program took it over.
    ///
    /// Process 0 needs no record. The addresses of process n stand in a recording with n in their upper 16
    /// bits ([`PROCESS_SHIFT`]). Those of memory that processes share have the number of the shared object
    /// there, from [`SHARED_FIRST`] on.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProcessStart {
        /// The recording's own number for the process and its program, from 0.
        pub process: u32 => Number::id("process");
        /// The operating system's number, which may be used again after its end.
        pub pid: u32 => Number::id("pid");
        /// The process that it was forked from, or that it was before; the first one's is its own.
        pub parent: u32 => Number::id("process");
        /// Virtual time of the start, or of the takeover.
        pub time: Cycles => TIME;
        /// The program's file.
        pub program: String => Text("program");
    }
}

/// Lowest bit of the number of the process, or of the shared object, in an address.
pub const PROCESS_SHIFT: u32 = 48;

/// The first number of a shared object; processes have lower ones.
pub const SHARED_FIRST: u32 = 0x2000;

/// The first number that is no shared object's.
pub const SHARED_END: u32 = 0x3fff;

written! {
    /// A process ended, or another program took it over.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ProcessExit {
        /// The process.
        pub process: u32 => Number::id("process");
        /// Virtual time of the end, or of the takeover.
        pub time: Cycles => TIME;
        /// Cause of its end, with its exit status or signal.
        pub reason: EndReason => Whole;
    }
}

written! {
    /// A thread moved to another modelled CPU.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ThreadPlaced {
        /// The thread.
        pub thread: ThreadId => THREAD;
        /// The CPU that it runs on from now on.
        pub cpu: CpuId => CPU;
        /// Virtual time of the move.
        pub time: Cycles => TIME;
    }
}

written! {
    /// Totals of a thread so far. Recorded now and then while it runs, because programs are killed, and
    /// at its end: the last one counts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ThreadExit {
        /// The thread.
        pub thread: ThreadId => THREAD;
        /// Its virtual clock.
        pub time: Cycles => TIME;
        /// Instructions that it ran.
        pub insns: u64 => Number::count("instructions of a thread");
        /// Memory accesses that it made, those that were counted but not stored included.
        pub accesses: u64 => Number::count("accesses of a thread");
        /// Cycles for which memory held it up.
        pub stall: Cycles => Number::count("stall of a thread");
        /// The part of `stall` that another CPU's use of the line caused.
        pub contention_stall: Cycles => Number::count("contention stall of a thread");
    }
}

written! {
    /// Time that a thread has waited so far in one way, for one word, at one instruction: the last one of each
    /// counts. Waits of which there are too many different ones have word and instruction 0.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Waits {
        /// The thread.
        pub thread: ThreadId => THREAD;
        /// Kind of the wait.
        pub kind: WaitKind => Whole;
        /// Address of the word that it waited for: a flag, or a lock's.
        pub word: u64 => ADDRESS;
        /// The instruction that looks at the word, or that was the last before the thread went to sleep.
        pub code: CodeAddr => CODE;
        /// Waits that are over.
        pub count: u64 => Number::count("waits of a thread");
        /// Their cycles. Those that a spinning thread stood still for a line are not among them: they are
        /// its accesses' stall.
        pub cycles: Cycles => Number::count("cycles that a thread waited");
    }
}

written! {
    /// A way to wait.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum WaitKind by Tag::Number; {
        /// The thread looks at the word again and again.
        0 Spinning,
        /// It sleeps until another one wakes it.
        1 Asleep,
    }
}

written! {
    /// A file was mapped into the program's address space.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Mapping {
        /// Its addresses.
        pub range: AddrRange => Range("a mapping");
        /// The place in the file that the first address shows.
        pub file_offset: u64 => NUMBER;
        /// The file.
        pub path: String => Text("path");
        /// The GNU build id, or empty when the file has none.
        pub build_id: Vec<u8> => Bytes;
        /// True if code may run from it.
        pub executable: bool => Flag;
    }
}

written! {
    /// A live heap block, named when one of its lines first becomes shared.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HeapObject {
        /// From the address that the allocator returned, the bytes that the program asked for.
        pub range: AddrRange => SizedRange("a heap block");
        /// Time of the allocation, on the virtual clock of `thread`.
        pub time: Cycles => TIME;
        /// The thread that allocated it.
        pub thread: ThreadId => THREAD;
        /// The allocation site, innermost call first.
        pub stack: Vec<CodeAddr> => Stack;
        /// Address of the description of the type that the allocator was told (Go's `_type`), if it was.
        pub told_type: Option<u64> => Optional(ADDRESS), since 6 or None;
    }
}

written! {
    /// Memory that belongs to no file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Region checked by region_fits {
        /// Its addresses.
        pub range: AddrRange => Range("a region");
        /// Use of the memory, and its owner, name or type.
        pub kind: RegionKind => Whole;
    }
}

written! {
    /// Use of a [`Region`].
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum RegionKind by Tag::Known("region kind"); {
        /// The stack of a thread.
        0 Stack {
            /// Owner of the stack.
            thread: ThreadId => THREAD;
        },
        /// An anonymous mapping.
        1 AnonymousMap {
            /// Call stack of the mapping, innermost call first.
            stack: Vec<CodeAddr> => Stack;
        },
        /// The program break's heap.
        2 Brk,
        /// An object of a kernel, found by walking over its memory.
        3 Object {
            /// Its name: `runqueues[3]`.
            name: String => Text("object name");
            /// Its type in the kernel's BTF: `rq`; empty when it has none.
            type_name: String => Text("object type");
        } since 1,
        /// Objects of one slab cache of a kernel, one after the other.
        4 Slab {
            /// The cache.
            cache: String => Text("slab cache");
            /// Their type in the kernel's BTF; empty when it is not known.
            type_name: String => Text("slab type");
            /// From one object to the next.
            stride_bytes: u64 => NUMBER;
        } since 1,
        /// A CPU's copy of a kernel's per-CPU variables.
        5 PerCpu {
            /// Number of that CPU.
            cpu: u32 => Number::id("region CPU");
        } since 1,
        /// Memory of the recorded program inside a recorded machine: accesses to it have the machine's
        /// own addresses.
        6 UserMemory {
            /// The program's address of the region's first byte.
            address: u64 => RANGE_ADDRESS;
        } since 1,
    }
}

/// Refuses memory of a program that wraps.
fn region_fits(region: &Region) -> Result<(), DecodeFault> {
    if let RegionKind::UserMemory { address } = region.kind {
        SizedRange("memory of a program").of(address, region.range.len())?;
    }
    Ok(())
}

/// Name of the [`Counter`] of slabs that were made later, in another layout.
pub const LATER_MOVED_SLABS: &str = "moved_slabs_made_later";

/// Name of the [`Counter`] of cycles that threads slept at words at which no other thread sleeps, for a lock or for
/// work.
pub const PARKED_CYCLES: &str = "asleep_at_own_words_cycles";

/// Prefix of the name of a [`Counter`] of calls of a function of a recorded machine.
pub const CALLS_OF: &str = "calls_of_0x";

written! {
    /// A named number about the recording itself.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Counter {
        /// Quantity counted, in words joined by underscores. `calls_of_0x` and a function's address in
        /// hexadecimal counts its calls. `moved_slabs_made_later` counts slabs that a kernel
        /// made while it ran, and whose objects were priced in another layout.
        pub name: String => Text("counter name");
        /// Its count.
        pub value: u64 => NUMBER;
    }
}

impl Counter {
    /// A counter with this name.
    pub fn new(name: impl Into<String>, value: u64) -> Counter {
        let name = name.into();
        Counter { name, value }
    }
}

written! {
    /// The clean end of a recording.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct End {
        /// The latest virtual clock.
        pub time: Cycles => TIME;
        /// Reason for its end.
        pub reason: EndReason => Whole;
        /// Sums over all threads.
        pub totals: Totals => Whole;
    }
}

written! {
    /// Sums over all threads of a recording.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Totals {
        /// Threads that were seen.
        pub threads: u64 => NUMBER;
        /// Instructions that they ran.
        pub insns: u64 => NUMBER;
        /// Memory accesses that they made.
        pub accesses: u64 => NUMBER;
        /// The accesses that were stored; the others were private to one thread.
        pub stored_accesses: u64 => NUMBER;
        /// Cycles for which memory held threads up.
        pub stall: Cycles => NUMBER;
        /// The part of `stall` that another CPU's use of a line caused.
        pub contention_stall: Cycles => NUMBER;
    }
}
