//! Units of quantities, and how their columns are set.

/// The unit of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Words, a flag, a list or a plain number without grouping.
    None,
    /// A count of things.
    Count,
    /// Cycles of the modelled clock.
    Cycles,
    /// A part of a whole: 0 to 1 in JSON, per cent in text.
    Share,
    /// Bytes.
    Bytes,
    /// Bytes from the start of a line, hexadecimal in text.
    Offset,
    /// A virtual address of the recorded program: a string like `"0x4040c0"` in JSON.
    Address,
    /// Kilohertz; gigahertz in text.
    Kilohertz,
    /// Nanoseconds; in text of the unit that fits.
    Nanos,
    /// A plain number with two decimals in text.
    Decimal,
}

impl Unit {
    /// The unit as data of pages has it.
    pub const fn id(self) -> &'static str {
        match self {
            Unit::None => "none",
            Unit::Count => "count",
            Unit::Cycles => "cycles",
            Unit::Share => "share",
            Unit::Bytes => "bytes",
            Unit::Offset => "offset",
            Unit::Address => "address",
            Unit::Kilohertz => "khz",
            Unit::Nanos => "ns",
            Unit::Decimal => "decimal",
        }
    }

    /// The unit in words, for the documentation.
    pub const fn label(self) -> &'static str {
        match self {
            Unit::None | Unit::Decimal => "-",
            Unit::Count => "count",
            Unit::Cycles => "cycles",
            Unit::Share => "share",
            Unit::Bytes | Unit::Offset => "bytes",
            Unit::Address => "address",
            Unit::Kilohertz => "kHz",
            Unit::Nanos => "ns",
        }
    }
}

/// Alignment of a column's cells, and how they are shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// To the left, and when the table is too wide shortened in the middle of its path.
    Name,
    /// To the left, and when the table is too wide shortened in the middle.
    Words,
}

impl Align {
    /// Returns true if cells may be shortened.
    pub const fn is_elastic(self) -> bool {
        matches!(self, Align::Name | Align::Words)
    }
}

/// Unit and alignment that go together: `count`, `share` and so on of [`fields!`](crate::fields).
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub(crate) unit: Unit,
    pub(crate) align: Align,
}

impl Kind {
    /// A kind; [`fields!`](crate::fields) calls it.
    pub const fn new(unit: Unit, align: Align) -> Kind {
        Kind { unit, align }
    }
}
