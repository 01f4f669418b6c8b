//! The recording side of the ring.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use hitm_base::Cycles;

use super::layout::*;
use crate::block::BlockMeta;

/// A block that was taken out of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// Count and times of its records. Of a partial block the times are bounds.
    pub meta: BlockMeta,
    /// The encoded records: a copy, so that the slot is free again.
    pub bytes: &'a [u8],
}

/// Progress of the producer: not joined, running or finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProducerState {
    /// None has joined.
    NotAttached,
    /// It has joined and not finished: it runs, or has died.
    Running,
    /// It will push nothing more. What it pushed may still have to be taken.
    Finished,
}

/// The one consumer of a ring.
#[derive(Debug)]
pub struct Consumer {
    shared: Shared,
    block: u64,
    copy: Vec<u8>,
    has_taken_partial: bool,
}

// SAFETY: the pointer leads to shared memory that no thread owns, and all methods that take blocks
// take `&mut self`.
unsafe impl Send for Consumer {}

impl Consumer {
    /// Makes the `len` bytes at `base` an empty ring; `pid` is the caller's process, which the
    /// producer can look after.
    ///
    /// # Safety
    /// The memory is readable, writable, stays mapped until the consumer is dropped, and nobody else
    /// uses it before this returns.
    pub unsafe fn create(
        base: NonNull<u8>,
        len: usize,
        config: RingConfig,
        pid: u32,
    ) -> Result<Consumer, RingError> {
        // SAFETY: what is asked of the caller here.
        let shared = unsafe { Shared::create(base, len, config)? };
        shared.control().consumer.pid.store(pid, Ordering::Relaxed);
        Ok(Consumer {
            shared,
            block: 0,
            copy: Vec::new(),
            has_taken_partial: false,
        })
    }

    /// The next full block, if there is one.
    pub fn try_take(&mut self) -> Option<Block<'_>> {
        if self.has_taken_partial {
            return None;
        }
        // Acquire: pairs with the producer's release in `hand_over`.
        if self.shared.slot(self.block).state.load(Ordering::Acquire) != SLOT_FULL {
            return None;
        }
        Some(self.take())
    }

    /// Returns what a dead producer had committed of the block that it was filling. Call it when
    /// the producer's process is known to be gone and [`try_take`](Self::try_take) has returned
    /// `None`. It is the last block, whatever the producer does.
    pub fn take_partial(&mut self) -> Option<Block<'_>> {
        if self.has_taken_partial {
            return None;
        }
        self.has_taken_partial = true;
        let slot = self.shared.slot(self.block);
        let is_filling = slot.state.load(Ordering::Acquire) == SLOT_FILLING;
        let (len, _) = unpack_commit(slot.committed.load(Ordering::Acquire));
        if !is_filling || len == 0 {
            return None;
        }
        Some(self.take())
    }

    /// Progress of the producer. When it has finished, [`try_take`](Self::try_take) until `None`
    /// empties the ring.
    pub fn producer_state(&self) -> ProducerState {
        match self.shared.control().producer.state.load(Ordering::Acquire) {
            PRODUCER_NONE => ProducerState::NotAttached,
            PRODUCER_FINISHED => ProducerState::Finished,
            _ => ProducerState::Running,
        }
    }

    /// Asks the producer to end the recording.
    pub fn request_stop(&self) {
        let consumer = &self.shared.control().consumer;
        consumer.is_stop_requested.store(1, Ordering::Release);
    }

    /// Copies the current slot's committed bytes and frees it.
    fn take(&mut self) -> Block<'_> {
        let slot = self.shared.slot(self.block);
        // Acquire: pairs with the release in `Producer::commit`.
        let (len, record_count) = unpack_commit(slot.committed.load(Ordering::Acquire));
        // A correct producer never exceeds the slot; a recorded program that writes astray may.
        let len = len.min(self.shared.config().slot_len) as usize;
        let meta = BlockMeta {
            record_count,
            first_time: Cycles(slot.first_time.load(Ordering::Relaxed)),
            last_time: Cycles(slot.last_time.load(Ordering::Relaxed)),
        };
        self.copy.clear();
        self.copy.reserve(len);
        // SAFETY: the slot has `slot_len` bytes, of which `len` is at most all; the copy has room
        // for them; and the two do not overlap. Any bytes are valid.
        unsafe {
            let from = self.shared.slot_bytes(self.block).as_ptr();
            from.copy_to_nonoverlapping(self.copy.as_mut_ptr(), len);
            self.copy.set_len(len);
        }
        // Release: the copying is over before the producer (acquire, in `next_slot`) writes again.
        slot.state.store(SLOT_FREE, Ordering::Release);
        self.block += 1;
        Block {
            meta,
            bytes: &self.copy,
        }
    }
}

impl Drop for Consumer {
    /// Tells the producer not to wait for a ring that nobody drains.
    fn drop(&mut self) {
        let consumer = &self.shared.control().consumer;
        consumer.is_gone.store(1, Ordering::Release);
    }
}
