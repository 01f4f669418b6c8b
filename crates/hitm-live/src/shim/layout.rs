//! The region that `hitm-locks` writes inside of programs and `hitm` reads.
//!
//! The region is 64-bit words in the host's byte order: a header, then four tables of fixed size,
//! then a pool from which threads take tables of uses. A counter of taken records may exceed the
//! limit: the rest found no room. Both crates compile this file.

/// Marks a region: "hitmlock" as bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"hitmlock");
/// Version of this layout.
pub(crate) const VERSION: u64 = 1;

/// The environment variable with the path of the region.
pub(crate) const VARIABLE: &str = "HITM_LOCKS";
/// File name of the preloaded library.
pub(crate) const LIBRARY: &str = "libhitm_locks.so";

/// Bytes of a word.
pub(crate) const WORD: usize = 8;

/// Words of the header, by index.
pub(crate) mod header {
    /// [`super::MAGIC`].
    pub(crate) const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub(crate) const VERSION: usize = 1;
    /// Bytes of the region.
    pub(crate) const LENGTH: usize = 2;
    /// 1 when times are CLOCK_MONOTONIC's nanoseconds, 0 when they are the CPU's counter.
    pub(crate) const IS_MONOTONIC: usize = 3;
    /// Ticks of the clock that pass in [`TICKS_NANOS`] nanoseconds, measured by hitm.
    pub(crate) const TICKS: usize = 4;
    /// Nanoseconds of the measurement.
    pub(crate) const TICKS_NANOS: usize = 5;
    /// Records of processes taken.
    pub(crate) const PROCESSES: usize = 6;
    /// Records of modules taken.
    pub(crate) const MODULES: usize = 7;
    /// Records of threads taken.
    pub(crate) const THREADS: usize = 8;
    /// Bytes of the pool taken.
    pub(crate) const POOL: usize = 9;
    /// Acquisitions of locks that found no room in a table.
    pub(crate) const LOST: usize = 10;
    /// Operations of threads and processes that found no room, or of threads that end.
    pub(crate) const UNOBSERVED: usize = 11;
    /// Holds that another thread ended.
    pub(crate) const STALE: usize = 12;
    /// Programs that mapped the region.
    pub(crate) const LOADED: usize = 13;
    /// Words of the header.
    pub(crate) const WORDS: usize = 512;
}

/// A process: from its first lock to its end or exec.
pub(crate) mod process {
    /// Its number, of the PID namespace that it lives in.
    pub(crate) const PID: usize = 0;
    /// Its parent's.
    pub(crate) const PARENT: usize = 1;
    /// Bytes of its name, ended by a zero.
    pub(crate) const COMM: usize = 2;
    /// Time of its first lock.
    pub(crate) const STARTED: usize = 4;
    /// Words of a record.
    pub(crate) const WORDS: usize = 8;
    /// Records of a region.
    pub(crate) const MAX: usize = 1 << 14;
}

/// A program or library in a process, noted when a lock of it is first seen.
pub(crate) mod module {
    /// Number of its process's record, plus 1; 0 while the record is being written.
    pub(crate) const PROCESS: usize = 0;
    /// Address at which address 0 of the file lies.
    pub(crate) const BIAS: usize = 1;
    /// First address of its mapping.
    pub(crate) const START: usize = 2;
    /// Bytes of its path.
    pub(crate) const PATH_LEN: usize = 3;
    /// The path.
    pub(crate) const PATH: usize = 4;
    /// Bytes kept of a path.
    pub(crate) const PATH_MAX: usize = (WORDS - PATH) * super::WORD;
    /// Words of a record.
    pub(crate) const WORDS: usize = 64;
    /// Records of a region.
    pub(crate) const MAX: usize = 1 << 12;
}

/// A lock of a process. Found by its key, so records are taken all over the table.
pub(crate) mod lock {
    /// Hash of address and tag, 0 in free records. The address alone decides it where the tag is the same.
    pub(crate) const KEY: usize = 0;
    /// Kind, above it the number of its process's record; plus 1 each.
    pub(crate) const TAG: usize = 1;
    /// Return address of the first acquirer.
    pub(crate) const SITE: usize = 2;
    /// Number of the module's record that the site lies in, plus 1; 0 for none.
    pub(crate) const MODULE: usize = 3;
    /// Number of the thread's record that acquired it last, plus 1.
    pub(crate) const OWNER: usize = 4;
    /// Its address.
    pub(crate) const ADDRESS: usize = 5;
    /// Words of a record: a cache line.
    pub(crate) const WORDS: usize = 8;
    /// Records of a region.
    pub(crate) const MAX: usize = 1 << 15;
}

/// A thread. Records of ended threads are reused when a process has had many threads.
pub(crate) mod thread {
    /// Its number, of the PID namespace that it lives in.
    pub(crate) const TID: usize = 0;
    /// Number of its process's record.
    pub(crate) const PROCESS: usize = 1;
    /// Time of its first lock.
    pub(crate) const STARTED: usize = 2;
    /// Time of its end; 0 while it runs.
    pub(crate) const ENDED: usize = 3;
    /// Time for which it is known not to have run.
    pub(crate) const PAUSED: usize = 4;
    /// Place of its table of uses: see [`super::pack_table`].
    pub(crate) const TABLE: usize = 5;
    /// Threads that had this record.
    pub(crate) const USERS: usize = 6;
    /// Time of earlier threads with this record, from start to end.
    pub(crate) const EARLIER: usize = 7;
    /// Words of a record: two cache lines.
    pub(crate) const WORDS: usize = 16;
    /// Records of a region.
    pub(crate) const MAX: usize = 1 << 15;
}

/// A thread's use of one lock. Times are ticks of the clock.
///
/// A cycle of a thread goes from the end of one release of the lock to its next. It runs when it neither
/// waits for a lock or condition nor sleeps.
pub(crate) mod usage {
    /// The lock's address; 0 in free records.
    pub(crate) const ADDRESS: usize = 0;
    /// Number of the lock's record, above it its kind.
    pub(crate) const LOCK: usize = 1;
    /// Time of the acquisition under way; 0 when the thread does not hold the lock.
    pub(crate) const ACQUIRED: usize = 2;
    /// The thread's paused time then.
    pub(crate) const PAUSED_AT_ACQUIRE: usize = 3;
    /// Time at which the last release was done; 0 for none.
    pub(crate) const RELEASED: usize = 4;
    /// The thread's paused time then.
    pub(crate) const PAUSED_AT_RELEASE: usize = 5;
    /// Acquisitions.
    pub(crate) const ACQUISITIONS: usize = 6;
    /// Time held, run or not.
    pub(crate) const HELD: usize = 7;
    /// Acquisitions of the hold under way that are not yet released.
    pub(crate) const DEPTH: usize = 8;
    /// Time waited for the acquisition under way.
    pub(crate) const WAIT: usize = 9;
    /// Acquisitions that had to wait.
    pub(crate) const CONTENDED: usize = 10;
    /// Time waited.
    pub(crate) const WAITED: usize = 11;
    /// The longest wait.
    pub(crate) const WAIT_MAX: usize = 12;
    /// Return address of the acquirer that waited longest.
    pub(crate) const WAIT_SITE: usize = 13;
    /// Number of the module's record of that site, plus 1; 0 for none.
    pub(crate) const WAIT_MODULE: usize = 14;
    /// Time held after a wait, run or not.
    pub(crate) const HELD_CONTENDED: usize = 15;
    /// Running time of holds in windows with a wait. A window is [`WINDOW`] acquisitions.
    pub(crate) const RAN_HELD_CONTENDED: usize = 16;
    /// Running time of the cycles of those windows.
    pub(crate) const RAN_CYCLE_CONTENDED: usize = 17;
    /// Running time of all holds whose cycle is known.
    pub(crate) const RAN_HELD: usize = 18;
    /// Running time of all cycles.
    pub(crate) const RAN_CYCLE: usize = 19;
    /// Acquisitions after another thread's.
    pub(crate) const HANDOVERS: usize = 20;
    /// Attempts that were refused; of a condition, signals.
    pub(crate) const REFUSED: usize = 21;
    /// Threads with this record that acquired the lock.
    pub(crate) const USERS: usize = 22;
    /// The longest hold.
    pub(crate) const HELD_MAX: usize = 23;
    /// [`RAN_HELD`] at the start of the window.
    pub(crate) const WINDOW_HELD: usize = 24;
    /// [`RAN_CYCLE`] at the start of the window.
    pub(crate) const WINDOW_CYCLE: usize = 25;
    /// [`CONTENDED`] at the start of the window.
    pub(crate) const WINDOW_CONTENDED: usize = 26;
    /// Words of a record: four cache lines.
    pub(crate) const WORDS: usize = 32;
    /// Acquisitions of a window; a power of two. Single cycles are biased: a waiter's cycle is
    /// shorter outside of the lock than others, or longer where a preemption caused the wait.
    pub(crate) const WINDOW: u64 = 64;
}

/// First byte of the processes' records.
pub(crate) const PROCESSES_AT: usize = header::WORDS * WORD;
/// First byte of the modules' records.
pub(crate) const MODULES_AT: usize = PROCESSES_AT + process::MAX * process::WORDS * WORD;
/// First byte of the locks' records.
pub(crate) const LOCKS_AT: usize = MODULES_AT + module::MAX * module::WORDS * WORD;
/// First byte of the threads' records.
pub(crate) const THREADS_AT: usize = LOCKS_AT + lock::MAX * lock::WORDS * WORD;
/// First byte of the pool.
pub(crate) const POOL_AT: usize = THREADS_AT + thread::MAX * thread::WORDS * WORD;
/// Bytes of a region. Only used pages take memory.
pub(crate) const LENGTH: usize = 128 << 20;

/// Alignment of a table of uses.
pub(crate) const TABLE_ALIGN: usize = 64;

/// Packs a table's place into one word: its offset in the region, and the logarithm of its number
/// of records.
pub(crate) const fn pack_table(at: usize, records_log2: u32) -> u64 {
    ((at / TABLE_ALIGN) as u64) << 8 | records_log2 as u64
}

/// Unpacks the offset and the logarithm of a table.
pub(crate) const fn unpack_table(word: u64) -> (usize, u32) {
    ((word >> 8) as usize * TABLE_ALIGN, (word & 0xff) as u32)
}

/// Kinds of locks as numbers.
pub(crate) mod kind {
    /// `pthread_mutex_t`.
    pub(crate) const MUTEX: u64 = 0;
    /// `pthread_rwlock_t`, by its readers.
    pub(crate) const READ: u64 = 1;
    /// `pthread_rwlock_t`, by its writers.
    pub(crate) const WRITE: u64 = 2;
    /// `pthread_spinlock_t`.
    pub(crate) const SPIN: u64 = 3;
    /// `pthread_cond_t`.
    pub(crate) const CONDITION: u64 = 4;
    /// Kinds.
    pub(crate) const COUNT: u64 = 5;
}
