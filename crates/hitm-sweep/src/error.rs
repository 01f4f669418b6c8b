//! Errors of a plan, each with its place.

use thiserror::Error;

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
}

/// A mistake in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}:{}:{}: {key}: found {found}, expected {expected}", place.line, place.column)]
pub struct PlanError {
    /// Name of the file.
    pub origin: String,
    /// Place in the file.
    pub place: TextPlace,
    /// The key, with its tables: `vary[0].steps`.
    pub key: String,
    /// The text that stands there.
    pub found: String,
    /// The text that should stand there.
    pub expected: String,
}
