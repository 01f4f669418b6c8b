//! Names in a recorded kernel: functions and variables from its list of symbols, objects from walks
//! over its memory, members from its BTF.
//!
//! A recording of a machine carries the objects found at its end. Symbols and BTF are kept once for
//! each kernel, by build id, as perf keeps its own.

mod names;
mod store;

pub(crate) use names::{KernelNames, MOVED, descriptor_end, page_of};
pub(crate) use store::{KERNEL_PATH, KernelFiles, build_id};
