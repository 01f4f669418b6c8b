//! The side of a recorded process.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hitm_base::Cycles;
use hitm_trace::Loss;

use super::layout::*;
use super::message::{Message, Request};
use super::{Futex, Mail};

/// Time that a thread waits before it looks for the recorder.
const LOOK_UP: Duration = Duration::from_millis(20);

/// Longest time between two looks: each takes twice as long to come as the one before. Looks of thousands of
/// threads every 20 ms would leave the host no time for anything else.
const LOOK_UP_MAX: Duration = Duration::from_secs(1);

/// Looks for an answer before a thread sleeps, when all others wait as well: some 10 us, in which the recorder
/// has mostly woken up and answered (zstd takes a sixth less time).
const SPINS: u32 = 400;

/// Set by the kernel in the word of a robust mutex whose holder has died: `FUTEX_OWNER_DIED`.
const OWNER_DIED: u32 = 0x4000_0000;

fn longer(time: Duration) -> Duration {
    (2 * time).min(LOOK_UP_MAX)
}

/// A thread's way to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel(u32);

/// Answer to a request.
pub type Answer = [u64; 5];

/// A process's end of the board.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    shared: Shared,
    futex: Futex,
    /// Word of the robust mutex that the recorder holds.
    lifeline: &'static AtomicU32,
}

impl Port {
    /// Finds the board at `base`; none when there is none of this version. `lifeline` is the word of a
    /// robust mutex that the recorder holds while it lives (`<linux/futex.h>`): that shows in every
    /// namespace of processes.
    ///
    /// # Safety
    /// `base` points to [`super::BOARD_LEN`] bytes, aligned to a page, that stay mapped; they may end
    /// early, but not before what the recorder says is backed.
    pub unsafe fn attach(
        base: NonNull<u8>,
        futex: Futex,
        lifeline: &'static AtomicU32,
    ) -> Option<Port> {
        // SAFETY: what is asked of the caller here.
        let shared = unsafe { Shared::attach(base)? };
        Some(Port {
            shared,
            futex,
            lifeline,
        })
    }

    /// Returns true if the recording is over.
    pub fn is_over(&self) -> bool {
        self.shared.control().is_over.load(Ordering::Acquire) != 0
    }

    /// Returns true if programs run unrecorded for a while.
    pub fn is_paused(&self) -> bool {
        self.shared.control().is_paused.load(Ordering::Acquire) != 0
    }

    /// Names the calling process. Its pid is no name: it differs between namespaces, and a program that
    /// takes the process over keeps it.
    pub fn name_process(&self) -> u32 {
        let named = &self.shared.control().named;
        named.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// The mark that the first thread of a process of this name has as its own name while it attaches: by
    /// that the recorder finds it in /proc, whatever pids either sees. 15 characters: no name of a thread
    /// may have more.
    pub fn mark_of(&self, process: u32) -> String {
        self.shared.mark_of(process)
    }

    /// Takes a free channel for the process of this name; none when there is none any more, or the recording is
    /// over. `hint` is a number that differs between threads.
    pub fn claim(&self, process: u32, hint: u32) -> Option<Channel> {
        let control = self.shared.control();
        for _ in 0..250 {
            let backed = control
                .backed
                .load(Ordering::Acquire)
                .clamp(1, CHANNELS as u32);
            for step in 0..backed {
                let index = (hint.wrapping_add(step)) % backed;
                let owner = &self.shared.channel(index as usize).owner;
                let claimed =
                    owner.compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed);
                if claimed.is_ok() {
                    return Some(Channel(index));
                }
            }
            if self.is_lost() {
                return None;
            }
            // The recorder adds channels when few are left.
            (self.futex.wait)(&control.backed, backed, LOOK_UP);
        }
        None
    }

    /// Virtual time up to which everything is priced.
    pub fn now(&self) -> Cycles {
        Cycles(self.shared.control().now.load(Ordering::Acquire))
    }

    /// The later of `time` and the latest time that anybody has read: clocks do not go back from one thread to
    /// the next.
    pub fn note_seen(&self, time: Cycles) -> Cycles {
        let seen = &self.shared.control().seen;
        time.max(Cycles(seen.fetch_max(time.0, Ordering::AcqRel)))
    }

    /// Nanoseconds for which programs have run unrecorded, until the host's time `now`.
    pub fn skipped_nanos(&self, now: u64) -> u64 {
        let control = self.shared.control();
        let skipped = control.skipped.load(Ordering::Acquire);
        match control.paused_at.load(Ordering::Acquire) {
            0 => skipped,
            since => skipped + now.saturating_sub(since),
        }
    }

    /// The word that becomes 1 when the thread's time-out is over, which has not begun.
    pub fn alarm(&self, channel: Channel) -> &AtomicU32 {
        &self.shared.channel(channel.0 as usize).alarm
    }

    /// Tells that the process of this name runs on unrecorded. Needs no channel. More processes at a time than there
    /// is room for wait until the recorder has looked, unless it is gone.
    pub fn lose(&self, name: u32, loss: Loss) {
        let control = self.shared.control();
        let told = u64::from(name) << LOSS_SHIFT | loss.code() as u64 & 0xff;
        while !self.is_lost() {
            let order = Ordering::AcqRel;
            let mut places = control.losses.iter();
            if places.any(|place| {
                place
                    .compare_exchange(0, told, order, Ordering::Relaxed)
                    .is_ok()
            }) {
                return;
            }
            let backed = control.backed.load(Ordering::Acquire);
            (self.futex.wait)(&control.backed, backed, LOOK_UP);
        }
    }

    /// Makes a request. The answer, if one is wanted, comes by [`Port::answer`].
    pub fn send(&self, channel: Channel, message: Message<'_>) {
        if self.wait_until_idle(channel) {
            let words = self.fill(channel, message);
            words.word.store(REQUESTED, Ordering::SeqCst);
            self.mark(channel);
            // Nothing can be done before all threads wait.
            let running = &self.shared.control().running;
            let is_last = message.request != Request::Wait
                || running.fetch_sub(1, Ordering::SeqCst) as i32 <= 1;
            if is_last {
                self.ring();
            }
        }
    }

    /// Makes a request and waits for its answer; none when the recording is over.
    pub fn ask(&self, channel: Channel, message: Message<'_>) -> Option<Answer> {
        self.send(channel, message);
        self.answer(channel)
    }

    /// Waits for the answer to the last request; none when the recording is over.
    pub fn answer(&self, channel: Channel) -> Option<Answer> {
        if !self.wait_until_idle(channel) {
            return None;
        }
        let answer = &self.shared.channel(channel.0 as usize).answer;
        Some([0, 1, 2, 3, 4].map(|index| answer[index].load(Ordering::Relaxed)))
    }

    /// Waits for the answer to the last request for at most `patience`. Then, if that request was
    /// taken and not answered, makes another one and waits for its answer.
    pub fn answer_or(
        &self,
        channel: Channel,
        patience: Duration,
        other: Message<'_>,
    ) -> Option<Answer> {
        let word = &self.shared.channel(channel.0 as usize).word;
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen & !SLEEPER == IDLE {
                break;
            }
            if !self.sleep(channel, seen, patience) {
                continue;
            }
            if self.is_lost() {
                return None;
            }
            let seen = word.load(Ordering::Acquire);
            if seen & !SLEEPER == TAKEN {
                self.fill(channel, other);
                let order = Ordering::SeqCst;
                if word.compare_exchange(seen, REQUESTED, order, order).is_ok() {
                    self.mark(channel);
                    self.ring();
                    return self.answer(channel);
                }
            }
        }
        self.answer(channel)
    }

    /// Lines that `mailbox` has got back since the last call. One thread at a time.
    pub fn mail(&self, mailbox: u32, mut take: impl FnMut(Mail)) {
        if mailbox as usize >= MAILBOXES {
            return;
        }
        let mailbox = self.shared.mailbox(mailbox as usize);
        let written = mailbox.written.load(Ordering::Acquire);
        let mut read = mailbox.read.load(Ordering::Relaxed);
        if written.wrapping_sub(read) > LETTERS as u64 {
            return;
        }
        while read != written {
            let letter = &mailbox.letters[read as usize % LETTERS];
            take(Mail {
                addr: letter.addr.load(Ordering::Relaxed),
                thread: letter.thread.load(Ordering::Relaxed) as u32,
                time: letter.time.load(Ordering::Relaxed),
                is_written: letter.is_written.load(Ordering::Relaxed) != 0,
            });
            read += 1;
        }
        mailbox.read.store(read, Ordering::Release);
    }

    /// The CPU on which threads stay that often wait for one another; none if they roam.
    pub fn home(&self) -> Option<u32> {
        self.shared
            .control()
            .home
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }

    fn is_lost(&self) -> bool {
        self.is_over() || self.lifeline.load(Ordering::Relaxed) & OWNER_DIED != 0
    }

    fn fill(&self, channel: Channel, message: Message<'_>) -> &ChannelWords {
        let words = self.shared.channel(channel.0 as usize);
        for (word, arg) in words.args.iter().zip(message.args) {
            word.store(arg, Ordering::Relaxed);
        }
        let len = message.bytes.len().min(BUFFER_LEN);
        // SAFETY: the buffer is backed and has BUFFER_LEN bytes; it is this thread's while no request is
        // there.
        unsafe {
            let to = self.shared.buffer(channel.0 as usize).as_ptr();
            to.copy_from_nonoverlapping(message.bytes.as_ptr(), len);
        }
        words.len.store(len as u32, Ordering::Relaxed);
        words.kind.store(message.request as u32, Ordering::Relaxed);
        let ticket = self.shared.control().tickets.fetch_add(1, Ordering::SeqCst);
        words.ticket.store(ticket, Ordering::Relaxed);
        words
    }

    /// Notes that the channel has a request.
    fn mark(&self, channel: Channel) {
        let bit = 1 << (channel.0 % 64);
        let pending = &self.shared.control().pending[channel.0 as usize / 64];
        pending.fetch_or(bit, Ordering::SeqCst);
    }

    /// Wakes the recorder if it sleeps.
    fn ring(&self) {
        let control = self.shared.control();
        if control.recorder_sleeps.load(Ordering::SeqCst) != 0 {
            control.doorbell.fetch_add(1, Ordering::SeqCst);
            (self.futex.wake)(&control.doorbell);
        }
    }

    /// False when the recording ends first.
    fn wait_until_idle(&self, channel: Channel) -> bool {
        let word = &self.shared.channel(channel.0 as usize).word;
        let mut time = LOOK_UP;
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen & !SLEEPER == IDLE {
                return true;
            }
            if self.sleep(channel, seen, time) {
                if self.is_lost() {
                    return false;
                }
                time = longer(time);
            }
        }
    }

    /// Sleeps while the channel's word is what it was; true when that took the whole time.
    fn sleep(&self, channel: Channel, seen: u32, time: Duration) -> bool {
        let word = &self.shared.channel(channel.0 as usize).word;
        if self.changes_soon(word, seen) {
            return false;
        }
        let asleep = seen | SLEEPER;
        let order = Ordering::AcqRel;
        let marked = word.compare_exchange(seen, asleep, order, Ordering::Acquire);
        marked.is_ok() && (self.futex.wait)(word, asleep, time)
    }

    /// Spins while a word is what it was, if nobody else runs and the recorder has a CPU of its own; true when it
    /// has changed.
    fn changes_soon(&self, word: &AtomicU32, seen: u32) -> bool {
        let running = self.shared.control().running.load(Ordering::Relaxed);
        let has_changed = || {
            std::hint::spin_loop();
            word.load(Ordering::Acquire) != seen
        };
        running as i32 <= 0 && self.home().is_none() && (0..SPINS).any(|_| has_changed())
    }
}
