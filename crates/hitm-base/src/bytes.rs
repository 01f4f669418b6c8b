//! A reference-counted, read-only buffer: a vector, or a mapping of a file that the caller made.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Owner of a file's bytes: memory, or a mapping.
pub trait Buffer: AsRef<[u8]> + Send + Sync {
    /// Gives back memory whose contents the system finds again. The bytes stay as they are.
    fn release(&self) {}
}

impl Buffer for Vec<u8> {}

/// Bytes of one file. Cloning shares the buffer.
#[derive(Clone)]
pub struct Bytes(Arc<dyn Buffer>);

impl Bytes {
    /// Takes over a buffer. A memory mapping stays a mapping: nothing is copied.
    pub fn new(owner: impl Buffer + 'static) -> Bytes {
        Bytes(Arc::new(owner))
    }

    /// Gives back memory that is not needed soon.
    pub fn release(&self) {
        self.0.release();
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::new(bytes)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// The reason for which a file was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// There is no such file.
    Missing,
    /// There is one, and it was not read, for this reason.
    Refused(String),
}
