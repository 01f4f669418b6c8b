//! Faults of a file: errors that leave nothing to work with, and diagnostics that leave less to
//! work with.

use std::fmt;

use thiserror::Error;

/// Reason for which a file cannot be used at all, or a type has no layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no ELF file that hitm reads.
    #[error("{file}: expected {expected}, found {found}")]
    NotSupported {
        /// Name of the file.
        file: String,
        /// The kind of file that is needed.
        expected: &'static str,
        /// The kind that the file is.
        found: String,
    },
    /// A header or table of the ELF file is damaged.
    #[error("{file}: damaged {part}: {cause}")]
    Damaged {
        /// Name of the file.
        file: String,
        /// The damaged part.
        part: &'static str,
        /// Description of the damage.
        cause: String,
    },
    /// No complete definition of a type of this name.
    #[error("{file}: no definition of type {name}")]
    NoSuchType {
        /// Name of the file.
        file: String,
        /// The name that was looked up.
        name: String,
    },
    /// The type is there, but it has no usable layout.
    #[error("{file}: type {name}: {cause}")]
    BadType {
        /// Name of the file.
        file: String,
        /// The type's name.
        name: String,
        /// Fault that keeps it from a layout.
        cause: TypeFault,
    },
    /// The type is there, but one of its members cannot be.
    #[error("{file}: type {name}: member {member}: {cause}")]
    BadMember {
        /// Name of the file.
        file: String,
        /// The type's name.
        name: String,
        /// The member's name, or its type's when it has none.
        member: String,
        /// The reason why it cannot be.
        cause: TypeFault,
    },
}

impl Error {
    /// Bytes of `file` that begin as no file of the expected kind does.
    pub(crate) fn foreign(file: &str, expected: &'static str, bytes: &[u8]) -> Error {
        let start = &bytes[..bytes.len().min(4)];
        let found = format!("{} bytes that begin with {start:02x?}", bytes.len());
        Error::not_supported(file, expected, found)
    }

    /// A file of another kind.
    pub(crate) fn not_supported(file: &str, expected: &'static str, found: String) -> Error {
        let file = file.to_owned();
        Error::NotSupported {
            file,
            expected,
            found,
        }
    }

    /// A file with a damaged part.
    pub(crate) fn damaged(file: &str, part: &'static str, cause: impl fmt::Display) -> Error {
        Error::Damaged {
            file: file.to_owned(),
            part,
            cause: cause.to_string(),
        }
    }
}

/// Fault that keeps a type, or a part of one, from a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
#[non_exhaustive]
pub enum TypeFault {
    /// Only declared: the definition is elsewhere or nowhere.
    #[error("only declared")]
    DeclarationOnly,
    /// `void`, a function: no object has this type.
    #[error("no object has this type")]
    NotAnObject,
    /// A type that contains itself.
    #[error("contains itself")]
    Cyclic,
    /// Nested deeper than [`crate::TypeStore::MAX_DEPTH`].
    #[error("nested too deeply")]
    TooDeep,
    /// An array or structure whose size does not fit in 63 bits.
    #[error("size does not fit in 63 bits")]
    TooLarge,
    /// More types or members than the store holds.
    #[error("too many types or members")]
    TooMany,
    /// The debug information is damaged here.
    #[error("damaged debug information")]
    Damaged,
    /// A member that lies outside of its structure, in part or in whole.
    #[error("outside of the structure")]
    OutOfBounds,
    /// A member that lies over another one, in something that is no union.
    #[error("overlaps the member before it")]
    Overlap,
    /// It refers to a type that is not there.
    #[error("no type has the id that it refers to")]
    NoSuchType,
    /// Not a structure, class or union.
    #[error("not a structure, class or union")]
    NotAggregate,
}

/// Something that made answers poorer, without making them wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, or the mapping, that it is about.
    pub file: String,
    /// The fault, and what follows from it.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

/// Diagnostics of one file, each message once, at most [`Diagnostics::MAX`] of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diagnostics {
    list: Vec<Diagnostic>,
    left_out: usize,
}

impl Diagnostics {
    /// More than this says nothing new.
    pub(crate) const MAX: usize = 64;

    pub(crate) fn push(&mut self, file: &str, message: impl Into<String>) {
        let diagnostic = Diagnostic {
            file: file.to_owned(),
            message: message.into(),
        };
        if self.list.contains(&diagnostic) {
            return;
        }
        if self.list.len() < Diagnostics::MAX {
            self.list.push(diagnostic);
        } else {
            self.left_out += 1;
        }
    }

    /// The diagnostics, and a last one that counts those left out.
    pub(crate) fn to_vec(&self) -> Vec<Diagnostic> {
        let mut list = self.list.clone();
        if self.left_out > 0 {
            list.push(Diagnostic {
                file: String::new(),
                message: format!("{} further diagnostics left out", self.left_out),
            });
        }
        list
    }
}
