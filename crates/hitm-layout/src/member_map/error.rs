//! Reasons for which a layout cannot take the place of the compiled one.

use thiserror::Error;

use super::ELEMENTS_MAX;

/// Errors of putting a layout in the place of the compiled one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// A member cannot be where the layout has it.
    #[error("{}", fault.of(type_name, member))]
    Member {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
        /// The reason.
        fault: MemberFault,
    },
    /// The elements of an array of plain values get more than one place, or another size.
    #[error(
        "{name} is an array of values of {expected} bytes: found {found} in the layout, expected one member of that size"
    )]
    NotAValue {
        /// The array.
        name: String,
        /// The members of the layout and their bytes.
        found: String,
        /// Bytes of an element.
        expected: u64,
    },
}

/// Reasons for which a member cannot be where the layout has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberFault {
    /// The layout names a member that the program lacks.
    NoSuchMember,
    /// The program has a member that the layout does not place.
    NotPlaced,
    /// Its size differs.
    Size {
        /// Bytes by the layout.
        found: u64,
        /// Bytes by the debug information.
        expected: u64,
    },
    /// Its move needs other code.
    Split,
    /// It is an array with more elements with places of their own than a replay searches.
    TooMany {
        /// Its elements.
        count: u64,
    },
}

impl MemberFault {
    fn of(self, of: &str, member: &str) -> String {
        match self {
            MemberFault::NoSuchMember => format!(
                "struct {of} of the layout has a member {member}, but the program's has none"
            ),
            MemberFault::NotPlaced => format!(
                "struct {of} of the program has a member {member}, but the layout's has none"
            ),
            MemberFault::Size { found, expected } => format!(
                "{of}.{member}: found {found} bytes in the layout, expected the {expected} of the program's debug information"
            ),
            MemberFault::Split => format!(
                "{of}.{member} is split by CPU or node, or moved behind a pointer: a recording cannot be replayed so, record the changed program"
            ),
            MemberFault::TooMany { count } => format!(
                "{of}.{member}: an array of {count} elements moved apart, expected at most {ELEMENTS_MAX}"
            ),
        }
    }
}

impl MapError {
    pub(super) fn member(type_name: &str, member: &str, fault: MemberFault) -> MapError {
        MapError::Member {
            type_name: type_name.to_owned(),
            member: member.to_owned(),
            fault,
        }
    }
}
