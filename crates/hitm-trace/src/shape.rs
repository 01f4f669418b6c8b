//! The layout of records as data. The document of the format and the generators of test inputs are made
//! from it.

/// A kind of record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its first byte.
    pub number: u8,
    /// Its name in the document.
    pub title: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// The minor version that added it; 0 for the first one.
    pub since: u16,
    /// Its payload.
    pub payload: Shape,
}

/// A part of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// The minor version that added it; 0 for the first one of its record.
    pub since: u16,
    /// Its bytes.
    pub shape: Shape,
}

/// One of the alternatives of a [`Shape::Choice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The number that says so.
    pub number: u64,
    /// Its meaning.
    pub doc: &'static str,
    /// The minor version that added it; 0 for the first one of its record.
    pub since: u16,
    /// Members that follow.
    pub members: Vec<Member>,
}

/// The bytes of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// A varint that is at most `most`.
    Number {
        /// The thing that it numbers or counts.
        quantity: Quantity,
        /// The largest one.
        most: u64,
    },
    /// A varint: zigzag of a signed number.
    Signed,
    /// A varint and that many bytes of UTF-8.
    Text,
    /// A varint and that many bytes.
    Bytes,
    /// A byte whose bit 0 is true or false.
    Flag,
    /// A count of return addresses and the addresses.
    Stack,
    /// Two varints: the first address and the one after the last.
    Range,
    /// Two varints: the first address and the bytes.
    SizedRange,
    /// A number, and what follows by it.
    Choice {
        /// True if the number is a byte, else it is a varint.
        is_byte: bool,
        /// The alternatives.
        choices: Vec<Choice>,
    },
    /// Members, one after the other.
    Parts(Vec<Member>),
    /// A count, and that many times these members.
    Many(Vec<Member>),
    /// A count of steps and the steps.
    Steps,
    /// Callers that enter the kind's dictionary in the block, or a reference to those that did.
    Callers,
    /// As [`Shape::Callers`], or nothing up to the end of the payload.
    MaybeCallers,
}

/// The thing that a number numbers or counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Nothing that other records know.
    Any,
    /// A thread.
    Thread,
    /// A modelled CPU.
    Cpu,
    /// A moment.
    Time,
    /// A number of a process, or another small one.
    Id,
    /// A count of things or cycles.
    Count,
    /// An address of data.
    Address,
    /// An address from which the record's range can be laid out as well.
    RangeAddress,
    /// An address of code.
    Code,
    /// Zigzag of a line minus the line of the item before, 0 before the first. The largest one is a line's.
    LineStep,
    /// Twice a thread, plus 1 for true.
    ThreadAndFlag,
}
