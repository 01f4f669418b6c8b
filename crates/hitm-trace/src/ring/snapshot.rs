//! A copy of a ring's memory, to look into when its processes are gone.

use hitm_base::Cycles;

use super::layout::*;
use crate::block::BlockMeta;
use crate::wire::{u32_at, u64_at};

/// Owner of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// To the producer, which has not begun to fill it. What it holds was taken.
    Free,
    /// To the producer, which fills it.
    Filling,
    /// To the consumer.
    Full,
}

/// One slot of a [`RingSnapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotView<'a> {
    /// Its owner.
    pub state: SlotState,
    /// Count and times of the records that were committed to it last.
    pub meta: BlockMeta,
    /// Their bytes; none of a slot that was never filled, or that the copy does not reach.
    pub bytes: &'a [u8],
}

/// A ring as it stood at one moment, in memory of the caller's own. Nothing here touches the ring.
#[derive(Debug)]
pub struct RingSnapshot<'a> {
    memory: &'a [u8],
    config: RingConfig,
}

impl<'a> RingSnapshot<'a> {
    /// Takes `memory` for the copy of a ring, or of its first [`RingConfig::headers_len`] bytes.
    ///
    /// # Errors
    /// Memory that holds no ring of this version, or too little of it.
    pub fn parse(memory: &'a [u8]) -> Result<RingSnapshot<'a>, RingError> {
        let too_small = |needed| RingError::TooSmall {
            needed,
            found: memory.len(),
        };
        if memory.len() < CONTROL_LEN {
            return Err(too_small(CONTROL_LEN));
        }
        let found = u64_at(memory, MAGIC_OFFSET);
        if found != RING_MAGIC {
            return Err(RingError::BadMagic { found });
        }
        let config = RingConfig {
            slot_count: u32_at(memory, SLOT_COUNT_OFFSET),
            slot_len: u32_at(memory, SLOT_LEN_OFFSET),
        };
        config.check()?;
        match memory.len() < config.headers_len() {
            true => Err(too_small(config.headers_len())),
            false => Ok(RingSnapshot { memory, config }),
        }
    }

    /// The shape of the ring.
    pub fn config(&self) -> RingConfig {
        self.config
    }

    /// The slot of block number `block`.
    pub fn slot(&self, block: u64) -> SlotView<'a> {
        let index = (block % u64::from(self.config.slot_count)) as usize;
        let header = &self.memory[CONTROL_LEN + index * SLOT_HEADER_LEN..][..SLOT_HEADER_LEN];
        let (len, record_count) = unpack_commit(u64_at(header, COMMITTED_OFFSET));
        let slot_len = self.config.slot_len as usize;
        let slot = self
            .memory
            .get(self.config.headers_len() + index * slot_len..);
        let slot = slot.unwrap_or_default();
        SlotView {
            state: match u32_at(header, STATE_OFFSET) {
                SLOT_FREE => SlotState::Free,
                SLOT_FILLING => SlotState::Filling,
                _ => SlotState::Full,
            },
            meta: BlockMeta {
                record_count,
                first_time: Cycles(u64_at(header, FIRST_TIME_OFFSET)),
                last_time: Cycles(u64_at(header, LAST_TIME_OFFSET)),
            },
            bytes: &slot[..slot.len().min(slot_len).min(len as usize)],
        }
    }
}
