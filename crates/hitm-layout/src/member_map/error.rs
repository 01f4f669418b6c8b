//! Reasons for which a layout cannot take the place of the compiled one.

use thiserror::Error;

use super::ELEMENTS_MAX;

/// Errors of putting a layout in the place of the compiled one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// The layout names a member that the program lacks.
    #[error("struct {type_name} of the layout has a member {member}, but the program's has none")]
    NoSuchMember {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
    },
    /// The program has a member that the layout does not place.
    #[error("struct {type_name} of the program has a member {member}, but the layout's has none")]
    NotPlaced {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
    },
    /// A member's size differs.
    #[error(
        "{type_name}.{member}: found {found} bytes in the layout, expected the {expected} of the program's debug information"
    )]
    Size {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
        /// Bytes by the layout.
        found: u64,
        /// Bytes by the debug information.
        expected: u64,
    },
    /// A member whose move needs other code.
    #[error(
        "{type_name}.{member} is split by CPU or node, or moved behind a pointer: a recording cannot be replayed so, record the changed program"
    )]
    Split {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
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
    /// An array with more elements with places of their own than a replay searches.
    #[error(
        "{type_name}.{member}: an array of {count} elements moved apart, expected at most {ELEMENTS_MAX}"
    )]
    TooMany {
        /// The structure.
        type_name: String,
        /// The member.
        member: String,
        /// Its elements.
        count: u64,
    },
}
