//! Head of an answer.

/// Head of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The structure.
    pub type_name: String,
    /// Name of the machine.
    pub machine: String,
    /// Name of the profile.
    pub profile: String,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
}
