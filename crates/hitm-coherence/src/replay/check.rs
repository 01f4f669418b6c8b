//! Limits that the accesses of a stream must keep to.

use std::fmt;

use hitm_base::{Access, AccessOp, CpuId, Cycles, LINE_SIZE};

/// The last time at which an access may be: 46 years at 3 GHz, and far from the end of the numbers.
pub(super) const TIME_MAX: Cycles = Cycles(1 << 62);

/// Reason for which a stream cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// An access is earlier than the one before it.
    TimeGoesBack {
        /// Position of the access in the stream.
        index: u64,
        /// Its time.
        found: Cycles,
        /// The time of the access before it.
        before: Cycles,
    },
    /// An access so late that its end might not be a number any more.
    TooLate {
        /// Position of the access in the stream.
        index: u64,
        /// Its time.
        found: Cycles,
    },
    /// An access by a CPU that the machine does not have.
    UnknownCpu {
        /// Position of the access in the stream.
        index: u64,
        /// The CPU that the access names.
        found: CpuId,
        /// CPUs that the machine has.
        cpu_count: usize,
    },
    /// An access to no byte, or to bytes of two lines.
    NotInOneLine {
        /// Position of the access in the stream.
        index: u64,
        /// Its first byte.
        addr: u64,
        /// Its size in bytes.
        size: u8,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::TimeGoesBack {
                index,
                found,
                before,
            } => {
                write!(
                    f,
                    "access {index} is at cycle {found}, expected {before} or later"
                )
            }
            ReplayError::TooLate { index, found } => {
                write!(
                    f,
                    "access {index} is at cycle {found}, expected at most {TIME_MAX}"
                )
            }
            ReplayError::UnknownCpu {
                index,
                found,
                cpu_count,
            } => {
                let cpu = found.0;
                write!(
                    f,
                    "access {index} is by CPU {cpu}, expected one below {cpu_count}"
                )
            }
            ReplayError::NotInOneLine { index, addr, size } => write!(
                f,
                "access {index} has {size} bytes at {addr:#x}, expected 1 to 64 within one line"
            ),
        }
    }
}

impl std::error::Error for ReplayError {}

/// A position in a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    pub(super) index: u64,
    /// The time of the access before it.
    pub(super) before: Cycles,
}

impl Position {
    pub(super) fn after(self, accesses: &[Access]) -> Position {
        Position {
            index: self.index + accesses.len() as u64,
            before: accesses.last().map_or(self.before, |last| last.time),
        }
    }
}

/// Limits that an access of a stream must keep to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) cpu_count: usize,
}

impl Limits {
    /// Checks the accesses from a position on.
    pub(super) fn check(self, accesses: &[Access], start: Position) -> Result<(), ReplayError> {
        let mut before = start.before;
        for (index, access) in (start.index..).zip(accesses) {
            self.check_one(access, Position { index, before })?;
            before = access.time;
        }
        Ok(())
    }

    fn check_one(self, access: &Access, position: Position) -> Result<(), ReplayError> {
        let is_in_time = access.time >= position.before && access.time <= TIME_MAX;
        let is_fence = access.op == AccessOp::Fence;
        let end = u64::from(access.offset()) + u64::from(access.size);
        let is_in_line = is_fence || access.size != 0 && end <= LINE_SIZE;
        if is_in_time && is_in_line && access.cpu.index() < self.cpu_count {
            Ok(())
        } else {
            Err(self.what_is_wrong(access, position))
        }
    }

    /// Sets the sign bit of the result if an access may not be as it should be. The access is no
    /// fence, and follows one at the time `before`. A time beyond [`TIME_MAX`] may show at the
    /// access after it only. Differences need no comparison: every access passes here.
    #[inline]
    pub(super) fn suspicion(self, access: &Access, before: Cycles) -> u64 {
        let size = u64::from(access.size);
        let room = LINE_SIZE - u64::from(access.offset());
        let of_place = room.wrapping_sub(size) | size.wrapping_sub(1);
        of_place | self.suspicion_of_fence(access, before)
    }

    /// The same for a fence, which touches no byte.
    #[inline]
    pub(super) fn suspicion_of_fence(self, access: &Access, before: Cycles) -> u64 {
        let later = access.time.0.wrapping_sub(before.0);
        let cpus_above = (self.cpu_count as u64 - 1).wrapping_sub(u64::from(access.cpu.0));
        later | cpus_above
    }

    #[cold]
    fn what_is_wrong(self, access: &Access, Position { index, before }: Position) -> ReplayError {
        let found = access.time;
        if found < before {
            ReplayError::TimeGoesBack {
                index,
                found,
                before,
            }
        } else if found > TIME_MAX {
            ReplayError::TooLate { index, found }
        } else if access.cpu.index() >= self.cpu_count {
            ReplayError::UnknownCpu {
                index,
                found: access.cpu,
                cpu_count: self.cpu_count,
            }
        } else {
            ReplayError::NotInOneLine {
                index,
                addr: access.addr,
                size: access.size,
            }
        }
    }
}
