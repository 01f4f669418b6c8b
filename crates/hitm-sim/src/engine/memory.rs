//! Places in shared memory, and what may be done to them.

use hitm_coherence::directory::LineId;

/// One member of one object: where it lies for the prices, where its value is kept, and under which
/// name it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(super) line: LineId,
    pub(super) word: u32,
    /// Index into [`crate::engine::Profile::members`].
    pub(super) member: u16,
    /// Byte in the line.
    pub(super) offset: u8,
}

impl Place {
    /// A number that no other word has.
    pub fn number(&self) -> u32 {
        self.word
    }

    /// The line that the place lies in.
    pub fn line(&self) -> LineId {
        self.line
    }

    /// Offset of the first byte in the line.
    pub fn offset(&self) -> u8 {
        self.offset
    }
}

/// A member whose content is not modelled: a pointer, a node of a list or a tree, a weight. Whoever touches it pays
/// for its line and gets no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque(Place);

impl Opaque {
    pub(crate) fn of(place: Place) -> Opaque {
        Opaque(place)
    }
}

/// For accesses that take many places, none of whose values is used.
impl From<Opaque> for Place {
    fn from(member: Opaque) -> Place {
        member.0
    }
}

/// The function that runs, as a number; [`crate::engine::EngineConfig::sites`] has the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(pub u16);

/// A locked read-modify-write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rmw {
    /// Wrapping addition; subtracts with a two's complement.
    Add(u64),
    /// Sets bits.
    Or(u64),
    /// Keeps bits.
    And(u64),
    /// Replaces the bits of `mask`.
    Swap {
        /// The bits that it replaces.
        mask: u64,
        /// Their new value.
        value: u64,
    },
    /// Writes `new` if the value is `expected`.
    CompareSwap {
        /// The value that it must have.
        expected: u64,
        /// The value that it gets then.
        new: u64,
    },
}

impl Rmw {
    /// Replaces the whole value.
    pub const fn exchange(value: u64) -> Rmw {
        Rmw::Swap {
            mask: u64::MAX,
            value,
        }
    }

    /// The new value.
    pub(super) fn apply(self, old: u64) -> u64 {
        match self {
            Rmw::Add(value) => old.wrapping_add(value),
            Rmw::Or(value) => old | value,
            Rmw::And(value) => old & value,
            Rmw::Swap { mask, value } => (old & !mask) | (value & mask),
            Rmw::CompareSwap { expected, new } if old == expected => new,
            Rmw::CompareSwap { .. } => old,
        }
    }
}

/// Operation of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Load,
    Rmw(Rmw),
}

impl Op {
    pub(super) fn is_write(self) -> bool {
        matches!(self, Op::Rmw(_))
    }
}
