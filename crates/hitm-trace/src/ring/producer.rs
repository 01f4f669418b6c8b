//! The recorded side of the ring.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hitm_base::{Access, CodeAddr, Outcome};
use thiserror::Error;

use super::layout::*;
use crate::Record;
use crate::block::{BlockEncoder, EncodeError};

/// Reason for which a record is not in the ring. It was not taken, in part or in whole: push it again, or count
/// it as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PushError {
    /// Every slot is full: the consumer has to catch up.
    #[error("the ring is full")]
    RingFull,
    /// The record can never be pushed: too large for a slot, or impossible.
    #[error(transparent)]
    Unrecordable(EncodeError),
}

/// The bytes of the slot that is being filled, or none.
#[derive(Debug)]
struct SlotBuffer {
    base: NonNull<u8>,
    len: usize,
}

impl SlotBuffer {
    const NONE: SlotBuffer = SlotBuffer {
        base: NonNull::dangling(),
        len: 0,
    };
}

impl AsRef<[u8]> for SlotBuffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as for `as_mut`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for SlotBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: dangling and of length zero, or a FILLING slot of this producer's: mapped (the
        // promise of `attach`), initialised (memory is), and not touched by the consumer. That one
        // reads only FULL slots, and FILLING ones only when the producer is dead.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

/// The one producer of a ring. In a forked child it must not be used: the ring is the parent's.
/// Dropping it does nothing to the ring, so that a child may.
#[derive(Debug)]
pub struct Producer {
    shared: Shared,
    encoder: BlockEncoder<SlotBuffer>,
    /// The block that is being filled, or is to be filled next: blocks are numbered from 0, and
    /// block n goes into slot n modulo the slot count.
    block: u64,
    has_slot: bool,
    committed_len: usize,
}

// SAFETY: the pointers lead to shared memory that no thread owns, and all methods that write take
// `&mut self`.
unsafe impl Send for Producer {}

impl Producer {
    /// Joins the ring in the `len` bytes at `base`; `pid` is the caller's process, for messages.
    ///
    /// # Safety
    /// The memory is readable, writable, and stays mapped until the producer is dropped.
    pub unsafe fn attach(base: NonNull<u8>, len: usize, pid: u32) -> Result<Producer, RingError> {
        // SAFETY: what is asked of the caller here.
        let shared = unsafe { Shared::attach(base, len)? };
        let words = &shared.control().producer;
        let taken = words.state.compare_exchange(
            PRODUCER_NONE,
            PRODUCER_RUNNING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if taken.is_err() {
            let pid = words.pid.load(Ordering::Relaxed);
            return Err(RingError::Taken { pid });
        }
        words.pid.store(pid, Ordering::Relaxed);
        Ok(Producer {
            shared,
            encoder: BlockEncoder::new(SlotBuffer::NONE),
            block: 0,
            has_slot: false,
            committed_len: 0,
        })
    }

    /// Adds a record. It can be lost with the process until [`commit`](Self::commit).
    pub fn push(&mut self, record: &Record) -> Result<(), PushError> {
        self.push_by(|encoder| encoder.push(record))
    }

    /// Adds an access: [`push`](Self::push) without building a [`Record`].
    #[inline]
    pub fn push_access(&mut self, access: &Access, outcome: &Outcome) -> Result<(), PushError> {
        self.push_by(|encoder| encoder.push_access(access, outcome))
    }

    /// Adds an access of a function that was called on the path `path`:
    /// [`BlockEncoder::push_access_on`].
    pub fn push_access_on(
        &mut self,
        path: Option<u32>,
        callers: impl Fn(&mut Vec<CodeAddr>),
        access: &Access,
        outcome: &Outcome,
    ) -> Result<(), PushError> {
        self.push_by(|encoder| encoder.push_access_on(path, &callers, access, outcome))
    }

    /// Adds something to this slot, or to the next one when this one is full.
    #[inline]
    fn push_by(
        &mut self,
        push: impl Fn(&mut BlockEncoder<SlotBuffer>) -> Result<(), EncodeError>,
    ) -> Result<(), PushError> {
        let mut result = push(&mut self.encoder);
        if result == Err(EncodeError::Full) {
            self.next_slot()?;
            result = push(&mut self.encoder);
        }
        result.map_err(PushError::Unrecordable)
    }

    /// Publishes what was pushed: from here on it survives this process. Two stores; meant to be
    /// called once for each batch of records.
    pub fn commit(&mut self) {
        if !self.has_slot || self.encoder.len() == self.committed_len {
            return;
        }
        self.committed_len = self.encoder.len();
        let meta = self.encoder.meta();
        let slot = self.shared.slot(self.block);
        // The times first: a consumer that sees the commit sees times that include it. Should the
        // producer die in between, they include records that are not there, and remain bounds.
        slot.first_time.store(meta.first_time.0, Ordering::Relaxed);
        slot.last_time.store(meta.last_time.0, Ordering::Relaxed);
        let word = pack_commit(self.committed_len as u32, meta.record_count);
        // Release: the encoded bytes and the times are visible to who reads this word (acquire, in
        // `Consumer::copy`).
        slot.committed.store(word, Ordering::Release);
    }

    /// Commits, hands over the last slot, and tells the consumer that nothing more will come.
    pub fn finish(mut self) {
        self.hand_over();
        let state = &self.shared.control().producer.state;
        // Release: a consumer that sees this (acquire, in `producer_state`) sees the last slot.
        state.store(PRODUCER_FINISHED, Ordering::Release);
    }

    /// Returns true if the consumer wants the recording to end.
    pub fn stop_requested(&self) -> bool {
        let consumer = &self.shared.control().consumer;
        consumer.is_stop_requested.load(Ordering::Acquire) != 0
    }

    /// Returns true if the consumer has left the ring: nobody reads what is pushed from here on.
    pub fn is_consumer_gone(&self) -> bool {
        let consumer = &self.shared.control().consumer;
        consumer.is_gone.load(Ordering::Acquire) != 0
    }

    /// The consumer's process.
    pub fn consumer_pid(&self) -> u32 {
        self.shared.control().consumer.pid.load(Ordering::Relaxed)
    }

    /// The slots' size: no record can be larger.
    pub fn config(&self) -> RingConfig {
        self.shared.config()
    }

    /// Hands over the current slot, if any, and begins the next one, if it is free.
    #[cold]
    fn next_slot(&mut self) -> Result<(), PushError> {
        self.hand_over();
        let slot = self.shared.slot(self.block);
        // Acquire: pairs with the consumer's release in `free`, so that its copying is over before
        // this side writes.
        if slot.state.load(Ordering::Acquire) != SLOT_FREE {
            return Err(PushError::RingFull);
        }
        slot.committed.store(0, Ordering::Relaxed);
        // Release: a consumer that finds the slot FILLING finds nothing committed from its last use.
        slot.state.store(SLOT_FILLING, Ordering::Release);
        self.has_slot = true;
        self.committed_len = 0;
        self.encoder.replace_buffer(SlotBuffer {
            base: self.shared.slot_bytes(self.block),
            len: self.shared.config().slot_len as usize,
        });
        Ok(())
    }

    fn hand_over(&mut self) {
        if !self.has_slot {
            return;
        }
        self.commit();
        self.encoder.replace_buffer(SlotBuffer::NONE);
        self.has_slot = false;
        let slot = self.shared.slot(self.block);
        // Release: everything in the slot is visible to who finds it FULL.
        slot.state.store(SLOT_FULL, Ordering::Release);
        self.block += 1;
    }
}
