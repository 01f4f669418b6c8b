//! The largest numbers that a recording may hold, so that nobody who adds them up can overflow.
//!
//! Encoder and decoder hold the same limits: what one takes, the other returns. They are part of the
//! format (docs/formats/trace.md, "Limits").

use hitm_base::LineAddr;

use crate::EncodeError;
use crate::block::LINE_MAX;

/// The latest time, in cycles, and the most that a record counts of anything: nine years of a clock
/// of 4 GHz. Two of them add up without overflow; sums over threads saturate.
pub const COUNT_MAX: u64 = (1 << 60) - 1;

/// The longest latency, wait or stall of one access, in cycles: one second of a clock of 4 GHz. Sums
/// over 2^32 accesses fit 64 bits.
pub const LATENCY_MAX: u64 = u32::MAX as u64;

/// The most callers of one access or allocation: what a sample of perf.data, whose length has
/// 16 bits, can hold beside its other fields.
pub const CALLERS_MAX: usize = 8000;

/// The most callers that a recorder tells of one access: what perf records by default
/// (`kernel.perf_event_max_stack`), and what an export to perf.data holds.
pub const PATH_CALLERS_MAX: usize = 127;

/// One of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The things that it limits.
    pub what: &'static str,
    /// The largest number of them, or the largest one.
    pub most: u64,
}

/// The limits, for the document.
pub const LIMITS: [Limit; 4] = [
    Limit {
        what: "a time, a span, and what a thread exit and waits count",
        most: COUNT_MAX,
    },
    Limit {
        what: "latency, queued cycles and stall of an access",
        most: LATENCY_MAX,
    },
    Limit {
        what: "a line, of an access or an adoption",
        most: LINE_MAX,
    },
    Limit {
        what: "callers of an access, return addresses of an allocation",
        most: CALLERS_MAX as u64,
    },
];

/// Refuses a time or a count beyond [`COUNT_MAX`].
#[inline(always)]
pub(crate) fn check_count(field: &'static str, found: u64) -> Result<(), EncodeError> {
    match found <= COUNT_MAX {
        true => Ok(()),
        false => Err(EncodeError::OutOfRange { field, found }),
    }
}

/// Refuses the last line of all addresses, and what is no line.
#[inline(always)]
pub(crate) fn check_line(line: LineAddr) -> Result<(), EncodeError> {
    match line.0 <= LINE_MAX {
        true => Ok(()),
        false => Err(EncodeError::OutOfRange {
            field: "line",
            found: line.0,
        }),
    }
}

/// Refuses call chains beyond [`CALLERS_MAX`].
pub(crate) fn check_callers(count: usize) -> Result<(), EncodeError> {
    match count <= CALLERS_MAX {
        true => Ok(()),
        false => Err(EncodeError::OutOfRange {
            field: "number of callers",
            found: count as u64,
        }),
    }
}
