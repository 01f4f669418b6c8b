//! The name of a run: a hash of everything that decides it.
//!
//! Two runs of one name have one result, on any host and for any plan. The hash is the first half
//! of SHA-256: of 10^6 runs two share a name with a chance below 10^-26.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Bytes of a name.
const BYTES: usize = 16;

/// The name of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName([u8; BYTES]);

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hash of everything that decides a run, added part by part.
#[derive(Debug, Clone)]
pub struct Naming(Sha256);

impl Naming {
    /// Starts with the version of the results alone: a new version gives every run a new name.
    pub fn new(result_version: u32) -> Naming {
        Naming(Sha256::new()).with("result version", &result_version.to_string())
    }

    /// Adds a part. Its label and its length keep it apart from its neighbours.
    #[must_use]
    pub fn with(mut self, label: &str, part: &str) -> Naming {
        for text in [label, part] {
            self.0.update((text.len() as u64).to_le_bytes());
            self.0.update(text.as_bytes());
        }
        self
    }

    /// Adds a piece of a long part, such as a file; pieces of any lengths make the same part.
    #[must_use]
    pub fn with_bytes(mut self, piece: &[u8]) -> Naming {
        self.0.update(piece);
        self
    }

    /// The name of all parts.
    pub fn name(self) -> RunName {
        let digest = self.0.finalize();
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&digest[..BYTES]);
        RunName(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_apart() {
        let name = |parts: &[(&str, &str)]| {
            let naming = parts.iter().fold(Naming::new(1), |naming, (label, part)| {
                naming.with(label, part)
            });
            naming.name().to_string()
        };
        assert_ne!(name(&[("a", "bc")]), name(&[("ab", "c")]));
        assert_ne!(name(&[("a", "b"), ("", "")]), name(&[("a", "b")]));
        assert_eq!(name(&[("a", "b")]), name(&[("a", "b")]));
        assert_eq!(name(&[]).len(), 32);
        assert_ne!(Naming::new(1).name(), Naming::new(2).name());
    }
}
