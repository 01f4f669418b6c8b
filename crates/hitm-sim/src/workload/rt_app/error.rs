//! Mistakes in an rt-app file, with their places.

use std::fmt;

/// A mistake in an rt-app file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RtAppError {
    /// The file's name.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path in the document: `tasks.worker.phases.start.run`; empty for the whole.
    pub key: String,
    /// Kind of the mistake.
    pub fault: Fault,
}

/// Kinds of mistakes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Something else was expected.
    Unexpected {
        /// Content of that place.
        found: String,
        /// Content that is allowed there.
        expected: String,
    },
    /// rt-app can do it, the simulator cannot.
    NotModelled {
        /// Name of what is missing.
        what: &'static str,
    },
}

impl fmt::Display for RtAppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.origin, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        match &self.fault {
            Fault::Unexpected { found, expected } => {
                write!(f, "found {found}, expected {expected}")
            }
            Fault::NotModelled { what } => write!(f, "{what} is not modelled"),
        }
    }
}
