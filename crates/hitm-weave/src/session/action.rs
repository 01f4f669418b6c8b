//! What a session asks of its driver.

use hitm_base::Cycles;

use crate::Slot;
use crate::board::{Answer, Mail};

/// Something that the driver does for the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Answer a request.
    Answer {
        /// The channel that it came by.
        channel: u32,
        /// Words of the answer.
        answer: Answer,
    },
    /// Take a request that is answered by a later `Release` or `Dismiss`.
    Take {
        /// The channel that it came by.
        channel: u32,
    },
    /// Let a thread continue that waits. One that asks for something else by now has missed it
    /// ([`super::Session::misses`]).
    Release {
        /// The thread.
        slot: Slot,
        /// Its channel.
        channel: u32,
        /// Words of the answer.
        answer: Answer,
    },
    /// Tell a thread, if it waits, that nobody records it any more.
    Dismiss {
        /// Its channel.
        channel: u32,
    },
    /// Tell a thread in a system call that its time-out is over.
    Ring {
        /// Its channel.
        channel: u32,
    },
    /// Make a channel free for others.
    Free {
        /// The channel.
        channel: u32,
    },
    /// Make all channels of a process free for others.
    FreeAll {
        /// Its name on the board.
        process: u32,
    },
    /// Empty a mailbox for another process.
    EmptyMailbox {
        /// Its number.
        mailbox: u32,
    },
    /// Give a process a line back, if its mailbox has room ([`super::Session::has_given_back`]).
    Post {
        /// Number of the mailbox.
        mailbox: u32,
        /// The line.
        mail: Mail,
    },
    /// Tell programs the virtual time up to which everything is priced.
    TellTime {
        /// That time.
        now: Cycles,
    },
    /// Send the recording's memory to a process, and answer its request by 1 if that succeeds.
    SendMemory {
        /// The channel of the request.
        channel: u32,
        /// The process.
        pid: u32,
        /// Descriptor of its socket.
        socket: i32,
    },
    /// Processes have begun or ended.
    Running {
        /// Pids of those that run, and of children that are about to.
        pids: Vec<u32>,
    },
}
