//! Small integer ids, each a type of its own so that they cannot be mixed up.

use std::fmt;

use zerocopy::{Immutable, IntoBytes};

use crate::LINE_SIZE;

/// A logical CPU of the modelled machine, `0..topology.cpu_count()`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, IntoBytes, Immutable,
)]
#[repr(transparent)]
pub struct CpuId(pub u16);

impl CpuId {
    /// The id as an index into a per-CPU table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread of one recording, numbered from 0 in order of first appearance. Never reused, unlike a
/// tid of the operating system.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, IntoBytes, Immutable,
)]
#[repr(transparent)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// The id as an index into a per-thread table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a cache line: a byte address divided by [`LINE_SIZE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LineAddr(pub u64);

impl LineAddr {
    /// The line that holds the byte at `addr`.
    pub const fn of(addr: u64) -> LineAddr {
        LineAddr(addr / LINE_SIZE)
    }

    /// The address of the line's first byte.
    pub const fn first_byte(self) -> u64 {
        self.0 * LINE_SIZE
    }
}

impl fmt::Debug for LineAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {:#x}", self.first_byte())
    }
}

/// The virtual address of an instruction in the recorded program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct CodeAddr(pub u64);

impl fmt::Debug for CodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
