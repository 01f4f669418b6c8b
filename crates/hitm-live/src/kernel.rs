//! The running kernel's memory.

pub use hitm_bpf::{Error as PeekError, KernelPeek};
