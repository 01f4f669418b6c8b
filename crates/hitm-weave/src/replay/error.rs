//! Recordings that cannot be run again.

use thiserror::Error;

use super::{COUNT_MAX, FRESH, FRESH_END, THREADS_MAX, WAITING_BYTES_MAX};

/// Reason for which a recording cannot be run again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A record is about a thread that has not started.
    #[error("found a record of thread {thread}, which has not started")]
    UnknownThread {
        /// The thread.
        thread: u32,
    },
    /// A number is larger than any recording makes it.
    #[error("{what} of thread {thread} is {found}, expected at most {COUNT_MAX}")]
    OutOfRange {
        /// The thread.
        thread: u32,
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: u64,
    },
    /// An access where only moved objects may be.
    #[error(
        "an access of thread {thread} is at {addr:#x}, expected an address below {FRESH:#x} or from {FRESH_END:#x} on"
    )]
    Address {
        /// The thread.
        thread: u32,
        /// The address.
        addr: u64,
    },
    /// More threads than are run again.
    #[error("found more than {THREADS_MAX} threads, thread {thread} is the next")]
    TooManyThreads {
        /// The first thread that is too many.
        thread: u32,
    },
    /// Records wait for accesses that do not come, or accesses for records.
    #[error(
        "records of thread {thread} wait for others: expected at most {} MiB of them",
        WAITING_BYTES_MAX >> 20
    )]
    Waiting {
        /// The thread of the last record.
        thread: u32,
    },
    /// Events of threads that are far ahead fit neither memory nor a file.
    #[error("what fast threads did cannot be put aside: {reason}")]
    Temporary {
        /// The system's error.
        reason: String,
    },
    /// A thread runs on a CPU that the machine does not have.
    #[error("thread {thread} runs on CPU {cpu}, but the machine has {count} CPUs")]
    NoSuchCpu {
        /// The thread.
        thread: u32,
        /// The CPU.
        cpu: u16,
        /// Their number.
        count: usize,
    },
}
