//! Errors of a plan, each with its place.

use hitm_base::document::TextPlace;
use thiserror::Error;

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
    /// Text found there.
    pub found: String,
    /// Description of the expected text.
    pub expected: String,
}
