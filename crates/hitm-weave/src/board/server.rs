//! The side of the recorder.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hitm_base::Cycles;
use hitm_trace::Loss;

use super::Futex;
use super::layout::*;
use super::message::{Message, Request};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Channel that it came by.
    pub channel: u32,
    /// Name of the process that has the channel.
    pub process: u32,
    request: Option<Request>,
    args: [u64; 8],
    bytes: Vec<u8>,
}

impl Incoming {
    /// A message of the process of this name.
    #[cfg(test)]
    pub(crate) fn of(channel: u32, process: u32, message: Message<'_>) -> Incoming {
        Incoming {
            channel,
            process,
            request: Some(message.request),
            args: message.args,
            bytes: message.bytes.to_vec(),
        }
    }

    /// The request; none when it is none of this version.
    pub fn message(&self) -> Option<Message<'_>> {
        Some(Message {
            request: self.request?,
            args: self.args,
            bytes: &self.bytes,
        })
    }
}

/// A line that one of a process's threads has back for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mail {
    /// The line's first byte, as the process knows it.
    pub addr: u64,
    /// Number of the thread.
    pub thread: u32,
    /// Time of its last access.
    pub time: u64,
    /// True if it has written to the line.
    pub is_written: bool,
}

/// The recorder's end of the board.
#[derive(Debug)]
pub struct Board {
    shared: Shared,
    futex: Futex,
    /// Channels with a request whose ticket was drawn too late for the last look.
    later: Vec<u32>,
}

/// Turns the recording off and on while the programs run.
#[derive(Debug)]
pub struct Switch {
    shared: Shared,
}

impl Switch {
    /// Lets programs run unrecorded, or records them again, at the host's time `now` in nanoseconds. Each thread
    /// sees it within a window.
    pub fn set_paused(&self, is_paused: bool, now: u64) {
        self.shared.skip_time(is_paused, now);
        let word = &self.shared.control().is_paused;
        word.store(is_paused.into(), Ordering::Release);
    }
}

impl Board {
    /// Makes zeroed memory a board with buffers for `backed` threads. `recording` is a number that differs
    /// from those of other recordings on this host.
    ///
    /// # Safety
    /// `base` points to [`super::BOARD_LEN`] bytes, aligned to a page, that stay mapped; those beyond
    /// [`super::board_len`] of `backed` may have no memory behind them.
    pub unsafe fn create(base: NonNull<u8>, recording: u32, backed: usize, futex: Futex) -> Board {
        Board {
            // SAFETY: what is asked of the caller here.
            shared: unsafe { Shared::create(base, recording, backed) },
            futex,
            later: Vec::new(),
        }
    }

    /// The switch of this board, for as long as its memory is mapped.
    pub fn switch(&self) -> Switch {
        Switch {
            shared: self.shared,
        }
    }

    /// Takes the requests that are there, in the order in which they were made.
    pub fn collect(&mut self) -> Vec<Incoming> {
        let control = self.shared.control();
        let limit = control.tickets.load(Ordering::SeqCst);
        let mut found = std::mem::take(&mut self.later);
        for (group, pending) in control.pending.iter().enumerate() {
            if pending.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut bits = pending.swap(0, Ordering::SeqCst);
            while bits != 0 {
                found.push(group as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        found.sort_unstable();
        found.dedup();
        let mut ordered = Vec::with_capacity(found.len());
        for index in found {
            let words = self.shared.channel(index as usize);
            if words.word.load(Ordering::SeqCst) & !SLEEPER != REQUESTED {
                continue;
            }
            let ticket = words.ticket.load(Ordering::Relaxed);
            match ticket < limit {
                true => ordered.push((ticket, index)),
                false => self.later.push(index),
            }
        }
        ordered.sort_unstable();
        let channels = ordered.into_iter().map(|(_, index)| index);
        channels.map(|index| self.read(index)).collect()
    }

    fn read(&self, index: u32) -> Incoming {
        let words = self.shared.channel(index as usize);
        let len = (words.len.load(Ordering::Relaxed) as usize).min(BUFFER_LEN);
        let mut bytes = vec![0; len];
        // SAFETY: a buffer with a request is backed and has BUFFER_LEN bytes; any bytes are valid.
        unsafe {
            let from = self.shared.buffer(index as usize).as_ptr();
            from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len);
        }
        Incoming {
            channel: index,
            process: words.owner.load(Ordering::Relaxed),
            request: Request::from_number(words.kind.load(Ordering::Relaxed)),
            args: [0, 1, 2, 3, 4, 5, 6, 7].map(|at| words.args[at].load(Ordering::Relaxed)),
            bytes,
        }
    }

    /// Sleeps until there is a request, for at most `time`. `running` threads run: the last of them that
    /// waits wakes the recorder, and any other request does.
    pub fn wait(&self, running: usize, time: Duration) {
        let control = self.shared.control();
        let rung = control.doorbell.load(Ordering::SeqCst);
        control.running.store(running as u32, Ordering::SeqCst);
        control.recorder_sleeps.store(1, Ordering::SeqCst);
        if !self.has_requests() {
            (self.futex.wait)(&control.doorbell, rung, time);
        }
        control.recorder_sleeps.store(0, Ordering::SeqCst);
    }

    /// Returns true if there are requests that were not collected.
    pub fn has_requests(&self) -> bool {
        let mut pending = self.shared.control().pending.iter();
        !self.later.is_empty() || pending.any(|word| word.load(Ordering::SeqCst) != 0)
    }

    /// Answers a request: its thread continues. Words of the answer that are not given are 0.
    pub fn answer(&self, channel: u32, answer: &[u64]) {
        let words = self.shared.channel(channel as usize);
        words.set_answer(answer);
        if words.word.swap(IDLE, Ordering::SeqCst) & SLEEPER != 0 {
            (self.futex.wake)(&words.word);
        }
    }

    /// Takes a request that is answered later, by [`Board::release`].
    pub fn take(&self, channel: u32) {
        self.change(channel, REQUESTED, TAKEN);
    }

    /// Answers a request that was taken, unless its thread has asked for something else by now.
    pub fn release(&self, channel: u32, answer: &[u64]) -> bool {
        let words = self.shared.channel(channel as usize);
        words.set_answer(answer);
        match self.change(channel, TAKEN, IDLE) {
            Some(before) if before & SLEEPER != 0 => {
                (self.futex.wake)(&words.word);
                true
            }
            before => before.is_some(),
        }
    }

    /// Changes the state of a channel's word; the word before. A sleeper stays marked unless the channel
    /// becomes idle.
    fn change(&self, channel: u32, from: u32, to: u32) -> Option<u32> {
        let word = &self.shared.channel(channel as usize).word;
        let order = Ordering::SeqCst;
        let changed = word.fetch_update(order, order, |seen| {
            let sleeper = if to == IDLE { 0 } else { seen & SLEEPER };
            (seen & !SLEEPER == from).then_some(to | sleeper)
        });
        changed.ok()
    }

    /// Makes a channel free again, whatever its thread was doing: the thread is gone.
    pub fn free(&mut self, channel: u32) {
        self.later.retain(|later| *later != channel);
        let words = self.shared.channel(channel as usize);
        words.word.store(IDLE, Ordering::SeqCst);
        words.owner.store(0, Ordering::SeqCst);
    }

    /// The mark that tells the process of this name from others ([`super::Port::mark_of`]).
    pub fn mark_of(&self, process: u32) -> String {
        self.shared.mark_of(process)
    }

    /// Frees the channels of a process that is gone.
    pub fn free_all(&mut self, process: u32) {
        let backed = self.backed();
        let channels = (0..backed).filter(|index| {
            let owner = &self.shared.channel(*index).owner;
            owner.load(Ordering::Relaxed) == process
        });
        for index in channels.collect::<Vec<_>>() {
            self.free(index as u32);
        }
    }

    /// Channels with memory behind them.
    pub fn backed(&self) -> usize {
        let backed = self.shared.control().backed.load(Ordering::Relaxed);
        (backed as usize).min(CHANNELS)
    }

    /// Channels that no thread has.
    pub fn free_count(&self) -> usize {
        let owners = (0..self.backed()).map(|index| &self.shared.channel(index).owner);
        owners
            .filter(|owner| owner.load(Ordering::Relaxed) == 0)
            .count()
    }

    /// More channels have memory behind them now.
    pub fn back(&self, count: usize) {
        let backed = &self.shared.control().backed;
        backed.store(count.min(CHANNELS) as u32, Ordering::Release);
        (self.futex.wake)(backed);
    }

    /// Lets threads stay on a CPU, or roam.
    pub fn set_home(&self, cpu: Option<u32>) {
        let home = cpu.map_or(0, |cpu| cpu + 1);
        self.shared.control().home.store(home, Ordering::Relaxed);
    }

    /// Returns true if programs run unrecorded for a while.
    pub fn is_paused(&self) -> bool {
        self.shared.control().is_paused.load(Ordering::Acquire) != 0
    }

    /// Tells programs the virtual time up to which everything is priced.
    pub fn tell_time(&self, now: Cycles) {
        self.shared.control().now.store(now.0, Ordering::Release);
    }

    /// The time-out of a thread's system call is over.
    pub fn ring(&self, channel: u32) {
        let alarm = &self.shared.channel(channel as usize).alarm;
        alarm.store(1, Ordering::SeqCst);
        (self.futex.wake)(alarm);
    }

    /// Names of processes that have told that they run on unrecorded, and why, since the last call.
    pub fn take_losses(&self) -> Vec<(u32, Loss)> {
        let places = self.shared.control().losses.iter();
        let told = places.map(|place| place.swap(0, Ordering::AcqRel));
        let told = told.filter(|told| *told != 0);
        told.map(|told| {
            (
                (told >> LOSS_SHIFT) as u32,
                Loss::of_code(told as u8 as i64),
            )
        })
        .collect()
    }

    /// Gives a process a line back; false when its mailbox is full.
    pub fn post(&self, mailbox: u32, mail: Mail) -> bool {
        if mailbox as usize >= MAILBOXES {
            return false;
        }
        let mailbox = self.shared.mailbox(mailbox as usize);
        let written = mailbox.written.load(Ordering::Relaxed);
        if written.wrapping_sub(mailbox.read.load(Ordering::Acquire)) >= LETTERS as u64 {
            return false;
        }
        let letter = &mailbox.letters[written as usize % LETTERS];
        letter.addr.store(mail.addr, Ordering::Relaxed);
        letter.thread.store(mail.thread.into(), Ordering::Relaxed);
        letter.time.store(mail.time, Ordering::Relaxed);
        letter
            .is_written
            .store(mail.is_written.into(), Ordering::Relaxed);
        mailbox.written.store(written + 1, Ordering::Release);
        true
    }

    /// Empties a mailbox for another process, if there is one of that number.
    pub fn empty_mailbox(&self, number: u32) {
        if (number as usize) < MAILBOXES {
            let mailbox = self.shared.mailbox(number as usize);
            let written = mailbox.written.load(Ordering::Relaxed);
            mailbox.read.store(written, Ordering::Release);
        }
    }

    /// The programs' time passes as the host's, from its time `now` on.
    pub fn end_time(&self, now: u64) {
        self.shared.skip_time(true, now);
    }

    /// Ends the recording for all processes.
    pub fn end(&self) {
        let control = self.shared.control();
        control.is_over.store(1, Ordering::SeqCst);
        for index in 0..self.backed() {
            let words = self.shared.channel(index);
            if words.owner.load(Ordering::Relaxed) != 0 {
                self.answer(index as u32, &[u64::MAX]);
            }
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.end();
    }
}
