//! BTF, the type information that a kernel carries in itself.
//!
//! The format is the kernel's: `include/uapi/linux/btf.h` and `Documentation/bpf/btf.rst`. A
//! header, a section of type records, a section of strings. A record has an id by its place (the
//! first one is 1; 0 is `void`) and refers to others by id and to its name by offset. The BTF of a
//! module is *split*: its ids and offsets continue where those of a base, the kernel's, end.
//!
//! One pass over the records notes where each begins; everything else is read on demand. Any bytes
//! may come: each offset, id and count is checked where it is used.

mod blob;
mod file;
mod functions;
mod name;
mod names;
mod read;
mod record;

pub use file::{BtfDefinition, BtfFile, BtfVariable};
pub(crate) use functions::Prototype;
