//! Numbers of the perf.data format.
//!
//! Sources: include/uapi/linux/perf_event.h and tools/perf/Documentation/perf.data-file-format.txt,
//! Linux 6.1 (compression: tools/perf/util/event.h; `COMPRESSED2`: Linux 6.16).

/// The first bytes of a file of either layout, as the machine that wrote it stores the number.
pub const MAGIC: [u8; 8] = *b"PERFILE2";
/// [`MAGIC`] of a machine with the other byte order.
pub const MAGIC_SWAPPED: [u8; 8] = *b"2ELIFREP";

/// Length of the header of a seekable file.
pub const FILE_HEADER_LEN: usize = 104;
/// Length of the header of a stream: "pipe mode".
pub const PIPE_HEADER_LEN: usize = 16;
/// Length of `struct perf_event_header`.
pub const RECORD_HEADER_LEN: usize = 8;

/// Types of records.
pub mod record {
    /// A file was mapped.
    pub const MMAP: u32 = 1;
    /// Events were lost.
    pub const LOST: u32 = 2;
    /// A thread got a name.
    pub const COMM: u32 = 3;
    /// A thread ended.
    pub const EXIT: u32 = 4;
    /// Sampling was slowed down.
    pub const THROTTLE: u32 = 5;
    /// Sampling resumed.
    pub const UNTHROTTLE: u32 = 6;
    /// A thread or process began.
    pub const FORK: u32 = 7;
    /// A counter's value.
    pub const READ: u32 = 8;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A file was mapped, with its identity.
    pub const MMAP2: u32 = 10;
    /// Samples were lost.
    pub const LOST_SAMPLES: u32 = 13;
    /// Namespaces of a process.
    pub const NAMESPACES: u32 = 16;
    /// An event's attributes, in a stream.
    pub const HEADER_ATTR: u32 = 64;
    /// A tracing format, whose data follows the record.
    pub const HEADER_TRACING_DATA: u32 = 66;
    /// A build id.
    pub const HEADER_BUILD_ID: u32 = 67;
    /// All events before those of the last round are there.
    pub const FINISHED_ROUND: u32 = 68;
    /// A piece of a hardware trace, whose data follows the record.
    pub const AUXTRACE: u32 = 71;
    /// A feature section, in a stream.
    pub const HEADER_FEATURE: u32 = 80;
    /// Records, compressed.
    pub const COMPRESSED: u32 = 81;
    /// Records, compressed, with their length.
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of a record's `misc`.
pub mod misc {
    /// User mode.
    pub const USER: u16 = 2;
    /// MMAP of data instead of code.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// COMM because of an exec.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// MMAP2 with a build id instead of device and inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// `HEADER_BUILD_ID` that says how long the build id is.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// Bits of `sample_type`, which say what a sample holds.
pub mod sample {
    #![expect(missing_docs, reason = "the names are the kernel's")]
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Feature sections, by their bit in the header.
pub mod feature {
    #![expect(missing_docs, reason = "the names are perf's")]
    pub const BUILD_ID: u8 = 2;
    pub const HOSTNAME: u8 = 3;
    pub const OSRELEASE: u8 = 4;
    pub const VERSION: u8 = 5;
    pub const ARCH: u8 = 6;
    pub const NRCPUS: u8 = 7;
    pub const CPUDESC: u8 = 8;
    pub const CPUID: u8 = 9;
    pub const CMDLINE: u8 = 11;
    pub const EVENT_DESC: u8 = 12;
    pub const CPU_TOPOLOGY: u8 = 13;
    pub const NUMA_TOPOLOGY: u8 = 14;
    pub const SAMPLE_TIME: u8 = 21;
    pub const MEM_TOPOLOGY: u8 = 22;
    pub const COMPRESSED: u8 = 27;
    /// The last bit, which perf has no section for: facts of hitm's own.
    pub const OWN: u8 = 255;
}

/// Marks in a call chain: the calls behind one are of this context.
pub mod context {
    /// The kernel's.
    pub const KERNEL: u64 = -128i64 as u64;
    /// The program's.
    pub const USER: u64 = -512i64 as u64;
    /// The program's, in a later record: a number follows by which the two belong together (Linux 6.19).
    pub const USER_DEFERRED: u64 = -640i64 as u64;
    /// A guest's.
    pub const GUEST: u64 = -2048i64 as u64;
    /// The kernel's of a guest.
    pub const GUEST_KERNEL: u64 = -2176i64 as u64;
    /// The program's of a guest.
    pub const GUEST_USER: u64 = -2560i64 as u64;
    /// The lowest mark: no value above it is an address.
    pub const LOWEST: u64 = -4095i64 as u64;
}
