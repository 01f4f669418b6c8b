//! The records of one block: how they become bytes, and bytes become records.
//!
//! A block is a run of records that decodes on its own: all state that an encoding refers back to
//! (the last time, the dictionaries) begins empty in every block. The byte layout is written down
//! in docs/formats/trace.md; the constants here are its names.
//!
//! ```text
//!  access:  head | outcome | [size] | time | [actor] | code | place | [line] | [base] | [queued] | [stall] | [lost]
//!  others:  kind | length | payload
//! ```
//! An access usually takes six to ten bytes: what repeats (who, which instruction, which line, what
//! a hit in this cache costs) is a reference of one byte or a bit.

mod chains;
mod decode;
mod dictionary;
mod encode;
mod paths;

pub use decode::{BlockDecoder, BlockSummary, DecodeError, DecodeFault, Visitor, decode_block};
pub use encode::{BlockEncoder, EncodeError};

use hitm_base::{AccessOp, Cycles, Outcome};

/// The most bytes that a block may have before compression.
pub const BLOCK_LEN_MAX: usize = 4 << 20;

/// Count and times of a block's records, kept beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockMeta {
    /// Records in the block.
    pub record_count: u32,
    /// The earliest time that a record of the block carries; zero when none carries one.
    pub first_time: Cycles,
    /// The latest time that a record of the block carries; zero when none carries one.
    pub last_time: Cycles,
}

/// Head byte, bit 7: the record is an access; else the low bits are the kind of record.
const HEAD_ACCESS: u8 = 0x80;
/// Head byte, bit 6: same thread on the same CPU as the access before.
const HEAD_SAME_ACTOR: u8 = 0x40;
/// Head byte, bits 2 to 4: the binary logarithm of the size, or [`SIZE_EXPLICIT`].
const HEAD_SIZE_SHIFT: u32 = 2;
/// The size is no power of two, and a byte of its own.
const SIZE_EXPLICIT: u8 = 7;
/// Head byte, bits 0 and 1: the operation.
const HEAD_OP_MASK: u8 = 0x03;
/// Head byte, bit 5: the part of the stall that others caused is a varint; else it is as [`Losses`] expects.
const HEAD_LOST: u8 = 0x20;

/// Outcome byte, bits 0 to 3: the source of the data.
const OUTCOME_SOURCE_MASK: u8 = 0x0f;
/// Outcome byte, bits 4 and 5: how the stall is given.
const OUTCOME_STALL_SHIFT: u32 = 4;
/// The stall is zero.
const STALL_ZERO: u8 = 0;
/// The stall equals the latency.
const STALL_LATENCY: u8 = 1;
/// The stall is a varint of its own.
const STALL_EXPLICIT: u8 = 2;
/// Outcome byte, bit 6: the access queued, and the cycles are a varint.
const OUTCOME_QUEUED: u8 = 0x40;
/// Outcome byte, bit 7: the latency without queueing is a varint; else it is that of the last
/// access with the same source.
const OUTCOME_BASE: u8 = 0x80;

/// Place byte, bits 0 to 5: offset in the line.
const PLACE_OFFSET_MASK: u8 = 0x3f;
/// Place byte, bits 6 and 7: how the line is given.
const PLACE_LINE_SHIFT: u32 = 6;
/// The line that this instruction touched last.
const LINE_SAME: u8 = 0;
/// A line of the block's dictionary, by index.
const LINE_KNOWN: u8 = 1;
/// A line that enters the dictionary, as the difference to the one that entered before it.
const LINE_NEW: u8 = 2;
/// The line after the one that this instruction touched last.
const LINE_NEXT: u8 = 3;

/// The highest line number. The line after it, the last of all, belongs to nobody, so that the end of
/// an access is an address.
pub(crate) const LINE_MAX: u64 = u64::MAX / hitm_base::LINE_SIZE - 1;

/// The part of a stall that others caused, as it is expected: all of it where another CPU answered, less what
/// a locked operation costs without others; the wait behind others elsewhere.
#[derive(Debug, Clone, Copy, Default)]
struct Losses {
    /// Cost without others of the last locked operation whose loss was given.
    alone: Cycles,
}

impl Losses {
    #[inline(always)]
    fn expected(self, op: AccessOp, outcome: &Outcome) -> Cycles {
        let known = Outcome::by_source(
            outcome.source,
            outcome.latency,
            outcome.queued,
            outcome.stall,
        );
        match Losses::is_priced_alone(op, outcome) {
            true => known.lost.saturating_sub(self.alone),
            false => known.lost,
        }
    }

    /// Returns true for a locked operation that another CPU answered.
    #[inline(always)]
    fn is_priced_alone(op: AccessOp, outcome: &Outcome) -> bool {
        op == AccessOp::LockedRmw && outcome.source.is_contention()
    }

    /// A loss was given.
    fn learn(&mut self, op: AccessOp, outcome: &Outcome) {
        if Losses::is_priced_alone(op, outcome) {
            self.alone = outcome.stall.saturating_sub(outcome.lost);
        }
    }
}

/// Returns true if an access can exist: within one line, and of no size exactly when it is a fence.
const fn is_valid(op: AccessOp, offset: u8, size: u8) -> bool {
    if matches!(op, AccessOp::Fence) {
        size == 0
    } else {
        size >= 1 && offset as u64 + size as u64 <= hitm_base::LINE_SIZE
    }
}

#[cfg(test)]
mod tests;
