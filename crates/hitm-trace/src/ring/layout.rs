//! Layout of the shared memory, and the atomics that guard it.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use thiserror::Error;

use crate::block::BLOCK_LEN_MAX;

/// First word of a ring. The last character counts changes of the layout, which both sides must
/// agree on exactly: they are built from one source.
pub(super) const RING_MAGIC: u64 = u64::from_le_bytes(*b"hitmrng2");

pub(super) const CONTROL_LEN: usize = 4096;
pub(super) const SLOT_HEADER_LEN: usize = 64;

/// Shape of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingConfig {
    /// Slots, at least 2: one fills while the other is drained.
    pub slot_count: u32,
    /// Bytes in a slot: a multiple of 64, at least 4096, at most [`BLOCK_LEN_MAX`].
    pub slot_len: u32,
}

impl RingConfig {
    /// The shape that the recorder uses: 16 slots of 256 KiB. A block of 256 KiB holds about 30,000
    /// accesses, enough for the dictionaries to pay and for zstd to find what repeats. Sixteen give
    /// the consumer some ten milliseconds of a producer at full speed.
    pub const DEFAULT: RingConfig = RingConfig {
        slot_count: 16,
        slot_len: 256 << 10,
    };

    /// Bytes of shared memory that the ring needs.
    pub const fn memory_len(self) -> usize {
        self.headers_len() + self.slot_count as usize * self.slot_len as usize
    }

    /// Bytes before the first slot.
    pub const fn headers_len(self) -> usize {
        CONTROL_LEN + self.slot_count as usize * SLOT_HEADER_LEN
    }

    pub(super) fn check(self) -> Result<(), RingError> {
        let slot_len = self.slot_len as usize;
        let is_good = (2..=1 << 16).contains(&self.slot_count)
            && (4096..=BLOCK_LEN_MAX).contains(&slot_len)
            && slot_len.is_multiple_of(64);
        if is_good {
            Ok(())
        } else {
            Err(RingError::BadConfig(self))
        }
    }
}

/// Reason for which memory is no ring, or cannot become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RingError {
    /// The pointer is not aligned to 64 bytes.
    #[error("the memory of a ring must be aligned to 64 bytes")]
    Misaligned,
    /// There is less memory than the ring needs.
    #[error("a ring of {needed} bytes does not fit into {found}")]
    TooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        found: usize,
    },
    /// A shape that a ring cannot have.
    #[error("{} slots of {} bytes: a ring has 2 to 65536 slots of 4096 bytes to 4 MiB, in steps of 64", .0.slot_count, .0.slot_len)]
    BadConfig(RingConfig),
    /// The memory holds no ring, or one of another version.
    #[error("no ring of this version: found {found:#018x}, expected {RING_MAGIC:#018x}")]
    BadMagic {
        /// The word found.
        found: u64,
    },
    /// Another producer has joined already: this one is perhaps a forked child of it.
    #[error("the ring has a producer already, process {pid}")]
    Taken {
        /// The process that has it.
        pid: u32,
    },
}

/// Slot states. A slot begins FREE, as zeroed memory is.
pub(super) const SLOT_FREE: u32 = 0;
pub(super) const SLOT_FILLING: u32 = 1;
pub(super) const SLOT_FULL: u32 = 2;

/// Producer states.
pub(super) const PRODUCER_NONE: u32 = 0;
pub(super) const PRODUCER_RUNNING: u32 = 1;
pub(super) const PRODUCER_FINISHED: u32 = 2;

/// Magic number and dimensions of the ring. Written once, before it is handed out.
#[repr(C, align(64))]
pub(super) struct Identity {
    magic: AtomicU64,
    slot_count: AtomicU32,
    slot_len: AtomicU32,
}

/// Words that the producer writes; a line of their own, as befits this project.
#[repr(C, align(64))]
pub(super) struct ProducerWords {
    pub(super) state: AtomicU32,
    pub(super) pid: AtomicU32,
}

/// Words that the consumer writes.
#[repr(C, align(64))]
pub(super) struct ConsumerWords {
    pub(super) pid: AtomicU32,
    pub(super) is_gone: AtomicU32,
    pub(super) is_stop_requested: AtomicU32,
}

#[repr(C)]
pub(super) struct Control {
    identity: Identity,
    pub(super) producer: ProducerWords,
    pub(super) consumer: ConsumerWords,
}

/// State of one slot, and size and times of the block in it.
#[repr(C, align(64))]
pub(super) struct SlotHeader {
    pub(super) state: AtomicU32,
    /// Committed bytes in the low half, records in the high half: one word, so that both are of the
    /// same commit whenever the producer dies.
    pub(super) committed: AtomicU64,
    pub(super) first_time: AtomicU64,
    pub(super) last_time: AtomicU64,
}

/// Offset in a copy of the memory.
pub(super) const MAGIC_OFFSET: usize = offset_of!(Identity, magic);
pub(super) const SLOT_COUNT_OFFSET: usize = offset_of!(Identity, slot_count);
pub(super) const SLOT_LEN_OFFSET: usize = offset_of!(Identity, slot_len);
pub(super) const STATE_OFFSET: usize = offset_of!(SlotHeader, state);
pub(super) const COMMITTED_OFFSET: usize = offset_of!(SlotHeader, committed);
pub(super) const FIRST_TIME_OFFSET: usize = offset_of!(SlotHeader, first_time);
pub(super) const LAST_TIME_OFFSET: usize = offset_of!(SlotHeader, last_time);

const _: () = assert!(size_of::<Control>() <= CONTROL_LEN);
const _: () = assert!(offset_of!(Control, identity) == 0);
const _: () = assert!(size_of::<SlotHeader>() == SLOT_HEADER_LEN);

/// A ring somewhere in memory that stays mapped and shared while this exists; whoever makes one
/// promises that. Both sides hold one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    base: NonNull<u8>,
    config: RingConfig,
}

impl Shared {
    /// Makes the memory an empty ring.
    ///
    /// # Safety
    /// `base` points to `len` bytes, readable and writable, that stay mapped while the result (or a
    /// copy) is in use, and that no other process touches before this returns.
    pub(super) unsafe fn create(
        base: NonNull<u8>,
        len: usize,
        config: RingConfig,
    ) -> Result<Shared, RingError> {
        config.check()?;
        check_memory(base, len, config.memory_len())?;
        // SAFETY: the range is within the `len` bytes that the caller vouches for.
        unsafe {
            let headers_len = config.slot_count as usize * SLOT_HEADER_LEN;
            base.as_ptr().write_bytes(0, CONTROL_LEN + headers_len);
        }
        let shared = Shared { base, config };
        let identity = &shared.control().identity;
        identity
            .slot_count
            .store(config.slot_count, Ordering::Relaxed);
        identity.slot_len.store(config.slot_len, Ordering::Relaxed);
        // Release: who reads the magic number (acquire, in `attach`) sees all of the above.
        identity.magic.store(RING_MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Finds the ring that [`Shared::create`] made.
    ///
    /// # Safety
    /// `base` points to `len` bytes, readable and writable, that stay mapped while the result (or a
    /// copy) is in use.
    pub(super) unsafe fn attach(base: NonNull<u8>, len: usize) -> Result<Shared, RingError> {
        check_memory(base, len, CONTROL_LEN)?;
        // SAFETY: aligned and long enough (just checked); a `Control` is atomics only, so any bytes
        // are one, and other processes may write it.
        let identity = unsafe { &base.cast::<Control>().as_ref().identity };
        let found = identity.magic.load(Ordering::Acquire);
        if found != RING_MAGIC {
            return Err(RingError::BadMagic { found });
        }
        let config = RingConfig {
            slot_count: identity.slot_count.load(Ordering::Relaxed),
            slot_len: identity.slot_len.load(Ordering::Relaxed),
        };
        config.check()?;
        check_memory(base, len, config.memory_len())?;
        Ok(Shared { base, config })
    }

    pub(super) fn config(&self) -> RingConfig {
        self.config
    }

    pub(super) fn control(&self) -> &Control {
        // SAFETY: `create` and `attach` checked alignment and length; `Control` is atomics only.
        unsafe { self.base.cast::<Control>().as_ref() }
    }

    /// The slot that block number `block` goes into.
    pub(super) fn slot(&self, block: u64) -> &SlotHeader {
        let at = CONTROL_LEN + self.slot_index(block) * SLOT_HEADER_LEN;
        // SAFETY: the index is below the slot count, so the header lies within the memory whose
        // length was checked. It is aligned because all lengths are multiples of 64, and it is
        // atomics only.
        unsafe { self.base.add(at).cast::<SlotHeader>().as_ref() }
    }

    /// The first byte of the slot that block number `block` goes into; `slot_len` bytes follow.
    pub(super) fn slot_bytes(&self, block: u64) -> NonNull<u8> {
        let slots = CONTROL_LEN + self.config.slot_count as usize * SLOT_HEADER_LEN;
        let at = slots + self.slot_index(block) * self.config.slot_len as usize;
        // SAFETY: within the memory whose length was checked, as above.
        unsafe { self.base.add(at) }
    }

    fn slot_index(&self, block: u64) -> usize {
        (block % u64::from(self.config.slot_count)) as usize
    }
}

fn check_memory(base: NonNull<u8>, found: usize, needed: usize) -> Result<(), RingError> {
    if base.align_offset(align_of::<Control>()) != 0 {
        Err(RingError::Misaligned)
    } else if found < needed {
        Err(RingError::TooSmall { needed, found })
    } else {
        Ok(())
    }
}

/// The word that publishes how far a slot is filled.
pub(super) const fn pack_commit(len: u32, record_count: u32) -> u64 {
    len as u64 | (record_count as u64) << 32
}

/// The inverse of [`pack_commit`]: length and record count.
pub(super) const fn unpack_commit(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
