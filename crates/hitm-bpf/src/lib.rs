//! The BPF programs of hitm and their loader.
//!
//! Each program is C of our own below `src/bpf`. Building this crate compiles it with clang and
//! embeds the object, so a finished hitm needs no clang and no file. Without clang the crate builds
//! too, and [`available`] reports that there are no programs.
//!
//! The programs read members of kernel structures by name: the loader inserts the running kernel's
//! offsets from its BTF. Only loading shows whether a kernel accepts a program, so [`available`]
//! loads one.
//!
//! Every table in the kernel has a fixed size. Entries that do not fit are counted, and the counts
//! are part of each result.
//!
//! Loading and attaching needs CAP_BPF and CAP_PERFMON (or root). Reading afterwards needs neither
//! since Linux 5.19: [`drop_capabilities`] drops them.
//!
//! # Licence
//! The loader is MIT OR Apache-2.0. The programs are MIT OR GPL-2.0-only and declare "Dual MIT/GPL"
//! to the kernel, because tracing helpers require a licence compatible with the GPL. They contain
//! no text of the kernel: they declare the members that they read.

mod arrivals;
mod capabilities;
mod error;
mod filter;
mod futex;
mod holders;
mod loader;
mod locks;
mod neighbours;
mod object;
mod peek;
mod symbols;
mod throttle;
mod waits;
mod wakeups;

pub use arrivals::{Arrivals, Awake, Job};
pub use capabilities::drop_capabilities;
pub use error::{Error, Unavailable};
pub use filter::Filter;
pub use futex::FutexWaits;
pub use holders::{HeldTicks, HolderEvent, HolderEvents, Moment, Other};
pub use locks::LockWaits;
pub use neighbours::{NeighbourTable, Neighbours, Taker, Taking};
pub use object::available;
pub use peek::KernelPeek;
pub use throttle::{
    Episode, LockWaiter, QueueTime, ThrottleCounts, ThrottleEvent, Throttling, Work,
};
pub use waits::{LockWait, LockWaitCounts, LockWaitTable};
pub use wakeups::{Latencies, SLOTS, TaskLatencies, WakeupTable, Wakeups, slot_start_ns};

/// CLOCK_MONOTONIC in nanoseconds, the clock of the programs.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec, which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // A monotonic clock starts at zero: neither part is negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Name of a task: at most 15 bytes, without the kernel's padding.
fn comm(words: [u64; 2]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The whole words of an event.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_ne_bytes(*word))
}

/// Lower and upper half of a word with two members.
fn halves(word: u64) -> (u32, u32) {
    let bytes = word.to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_zero() {
        let words = |name: &[u8; 16]| {
            let word = |from| u64::from_ne_bytes(name[from..from + 8].try_into().unwrap());
            [word(0), word(8)]
        };
        assert_eq!(comm(words(b"hog\0rest-of-old\0")), "hog");
        assert_eq!(comm(words(b"exactly-15-long\0")), "exactly-15-long");
    }

    #[test]
    fn two_members_share_a_word() {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[4..].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(halves(u64::from_ne_bytes(bytes)), (7, 9));
    }
}
