//! Layout of the shared memory.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The last character counts changes of the layout, which both sides must agree on exactly: they are
/// built from one source.
const BOARD_MAGIC: u64 = u64::from_le_bytes(*b"hitmbrd5");

/// Threads that can be recorded at one time, those of all processes together.
pub(super) const CHANNELS: usize = 8192;
/// Bytes that a thread can say at a time: some 800 accesses.
pub const BUFFER_LEN: usize = 32 << 10;
/// Processes that get lines back at one time; lines of others stay shared.
pub(super) const MAILBOXES: usize = 256;
/// Letters that a mailbox holds.
pub(super) const LETTERS: usize = 128;

/// Processes that may be lost between two looks of the recorder.
const LOSSES: usize = 64;
pub(super) const LOSS_SHIFT: u32 = 8;

const MAILBOXES_AT: usize = 4096;
const MAILBOX_LEN: usize = 64 + LETTERS * 32;
const CHANNELS_AT: usize = MAILBOXES_AT + MAILBOXES * MAILBOX_LEN;
const CHANNEL_LEN: usize = 192;
const BUFFERS_AT: usize = (CHANNELS_AT + CHANNELS * CHANNEL_LEN).next_multiple_of(4096);

/// Bytes of address space that a board takes.
pub const BOARD_LEN: usize = board_len(CHANNELS);

/// Bytes that a board with room for `channels` threads takes.
pub const fn board_len(channels: usize) -> usize {
    let channels = if channels < CHANNELS {
        channels
    } else {
        CHANNELS
    };
    BUFFERS_AT + channels * BUFFER_LEN
}

/// The channel is free for a request, or holds the answer to the last one.
pub(super) const IDLE: u32 = 0;
/// A request is there.
pub(super) const REQUESTED: u32 = 1;
/// The recorder has taken the request, and will answer later.
pub(super) const TAKEN: u32 = 2;
/// Beside one of the above: the thread sleeps until the word changes.
pub(super) const SLEEPER: u32 = 0x80;

#[repr(C, align(64))]
pub(super) struct Control {
    magic: AtomicU64,
    /// Number of the recording, which differs from those of others on this host.
    pub(super) recording: AtomicU32,
    /// Processes that have a name.
    pub(super) named: AtomicU32,
    /// The recording is over.
    pub(super) is_over: AtomicU32,
    /// Programs run unrecorded for a while.
    pub(super) is_paused: AtomicU32,
    /// The CPU on which threads stay, plus 1; 0 if they roam.
    pub(super) home: AtomicU32,
    /// Channels whose buffers have memory behind them.
    pub(super) backed: AtomicU32,
    /// Virtual time up to which everything is priced, in cycles.
    pub(super) now: AtomicU64,
    /// The latest virtual time that a program has read, in cycles: none reads an earlier one afterwards.
    pub(super) seen: AtomicU64,
    /// The host's time since when programs run unrecorded, in nanoseconds; 0 while they are recorded.
    pub(super) paused_at: AtomicU64,
    /// Nanoseconds for which they did before.
    pub(super) skipped: AtomicU64,
    /// Changed to wake the recorder.
    pub(super) doorbell: AtomicU32,
    pub(super) recorder_sleeps: AtomicU32,
    /// Threads that run, as the recorder knew before it fell asleep, less those that wait since then: only
    /// the last one wakes it.
    pub(super) running: AtomicU32,
    pub(super) tickets: AtomicU64,
    /// Channels with a request that the recorder has not seen.
    pub(super) pending: [AtomicU64; CHANNELS / 64],
    /// Processes that run on unrecorded, each once: its name, shifted by [`LOSS_SHIFT`], and why. 0 is a free place.
    pub(super) losses: [AtomicU64; LOSSES],
}

#[repr(C, align(64))]
pub(super) struct ChannelWords {
    pub(super) word: AtomicU32,
    /// Name of the process that has it; 0: free.
    pub(super) owner: AtomicU32,
    pub(super) ticket: AtomicU64,
    pub(super) kind: AtomicU32,
    pub(super) len: AtomicU32,
    pub(super) args: [AtomicU64; 8],
    pub(super) answer: [AtomicU64; 5],
    /// 1 once the time-out of the thread's system call is over.
    pub(super) alarm: AtomicU32,
}

impl ChannelWords {
    pub(super) fn set_answer(&self, answer: &[u64]) {
        let values = answer.iter().copied().chain(std::iter::repeat(0));
        for (word, value) in self.answer.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// A line that a process gets back.
#[repr(C)]
pub(super) struct Letter {
    pub(super) addr: AtomicU64,
    pub(super) thread: AtomicU64,
    pub(super) time: AtomicU64,
    pub(super) is_written: AtomicU64,
}

#[repr(C, align(64))]
pub(super) struct Mailbox {
    pub(super) written: AtomicU64,
    pub(super) read: AtomicU64,
    unused: [AtomicU64; 6],
    pub(super) letters: [Letter; LETTERS],
}

const _: () = assert!(size_of::<Control>() <= MAILBOXES_AT);
const _: () = assert!(size_of::<Mailbox>() == MAILBOX_LEN);
const _: () = assert!(size_of::<ChannelWords>() <= CHANNEL_LEN);
const _: () = assert!(CHANNELS_AT.is_multiple_of(64));

/// A board in memory that stays mapped while this is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    base: NonNull<u8>,
}

// SAFETY: the memory is shared by design, and only atomics and buffers are reached through it; a
// buffer belongs to one side at a time, as the channel's word says.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes zeroed memory a board.
    ///
    /// # Safety
    /// `base` points to [`BOARD_LEN`] bytes that stay mapped, aligned to a page; the buffers of
    /// channels beyond `backed` may have no memory behind them.
    pub(super) unsafe fn create(base: NonNull<u8>, recording: u32, backed: usize) -> Shared {
        let shared = Shared { base };
        let control = shared.control();
        control.recording.store(recording, Ordering::Relaxed);
        control.backed.store(backed as u32, Ordering::Relaxed);
        control.magic.store(BOARD_MAGIC, Ordering::Release);
        shared
    }

    /// Finds the board at `base`; none when there is none of this version.
    ///
    /// # Safety
    /// As for [`Shared::create`].
    pub(super) unsafe fn attach(base: NonNull<u8>) -> Option<Shared> {
        let shared = Shared { base };
        let magic = shared.control().magic.load(Ordering::Acquire);
        (magic == BOARD_MAGIC).then_some(shared)
    }

    /// The text that a process shows while it attaches ([`super::Port::mark_of`]).
    pub(super) fn mark_of(&self, process: u32) -> String {
        let recording = self.control().recording.load(Ordering::Relaxed);
        format!(
            "hm{:06x}{:07x}",
            recording & 0xff_ffff,
            process & 0xfff_ffff
        )
    }

    pub(super) fn control(&self) -> &Control {
        // SAFETY: within the memory, and atomics only.
        unsafe { self.base.cast::<Control>().as_ref() }
    }

    pub(super) fn channel(&self, index: usize) -> &ChannelWords {
        assert!(index < CHANNELS, "channels are counted");
        let at = CHANNELS_AT + index * CHANNEL_LEN;
        // SAFETY: within the memory, aligned, and atomics only.
        unsafe { self.base.add(at).cast::<ChannelWords>().as_ref() }
    }

    pub(super) fn mailbox(&self, index: usize) -> &Mailbox {
        assert!(index < MAILBOXES, "mailboxes are counted");
        let at = MAILBOXES_AT + index * MAILBOX_LEN;
        // SAFETY: within the memory, aligned, and atomics only.
        unsafe { self.base.add(at).cast::<Mailbox>().as_ref() }
    }

    /// Virtual time stands still, or passes again, from the host's time `now` on.
    pub(super) fn skip_time(&self, is_skipped: bool, now: u64) {
        let control = self.control();
        let since = control.paused_at.load(Ordering::Acquire);
        match (since, is_skipped) {
            (0, true) => control.paused_at.store(now.max(1), Ordering::Release),
            (1.., false) => {
                let span = now.saturating_sub(since);
                control.skipped.fetch_add(span, Ordering::AcqRel);
                control.paused_at.store(0, Ordering::Release);
            }
            _ => {}
        }
    }

    /// The buffer of a channel that is backed.
    pub(super) fn buffer(&self, index: usize) -> NonNull<u8> {
        assert!(index < CHANNELS, "channels are counted");
        // SAFETY: within the memory.
        unsafe { self.base.add(BUFFERS_AT + index * BUFFER_LEN) }
    }
}
