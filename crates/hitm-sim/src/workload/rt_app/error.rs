//! What is wrong with an rt-app file, and where.

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
    /// Where in the document: `tasks.worker.phases.start.run`; empty for the whole.
    pub key: String,
    /// What is wrong.
    pub fault: Fault,
}

/// Kinds of mistakes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Something else was expected.
    Unexpected {
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// rt-app can do it, the simulator cannot.
    NotModelled {
        /// What is not modelled.
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
