//! The memory through which recorded processes and their recorder talk.
//!
//! Each thread of a recorded process has a channel: words for one request and its answer, and a buffer.
//! The recorder takes requests in the order in which they were made, as far as one can have caused
//! another. A thread draws a ticket before it publishes its request, and the recorder takes only
//! tickets that were drawn before it looked. A process that is killed at any moment blocks nobody: it
//! holds no lock.
//!
//! Nothing here maps memory or waits: the caller gives both.

mod calls;
mod layout;
mod message;
mod port;
mod server;

pub use calls::{pack_calls, pack_paths, unpack_calls, unpack_paths};
pub use layout::{BOARD_LEN, BUFFER_LEN, board_len};
pub use message::{
    BadMessage, INTERVAL_TIMER, Message, PackedDoings, Request, pack_doings, pack_records,
    unpack_doings, unpack_records,
};
pub use port::{Answer, Channel, Port};
pub use server::{Board, Incoming, Mail, Switch};

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Wait and wake on a word that another process changes.
#[derive(Debug, Clone, Copy)]
pub struct Futex {
    /// Waits while the word has this value, for at most this long; true at the end of the time.
    pub wait: fn(&AtomicU32, u32, Duration) -> bool,
    /// Wakes all that wait at the word.
    pub wake: fn(&AtomicU32),
}

#[cfg(test)]
mod tests;
