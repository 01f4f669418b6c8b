//! Names in a recorded kernel: functions and variables from its list of symbols, objects from walks
//! over its memory, members from its BTF.
//!
//! A recording of a machine carries the objects found at its end. Symbols and BTF are kept once for
//! each kernel, by build id, as perf keeps its own.

mod expression;
mod names;
mod page_tables;
mod pages;
mod slabs;
mod store;
mod symbols;
mod walk;

pub(crate) use names::{KernelNames, MOVED, descriptor_end, page_of};
pub(crate) use slabs::{
    Cache, DIRECT_MAP, PAGE_BYTES, PAGE_DESCRIPTOR, PAGE_DESCRIPTOR_BYTES, PAGE_DESCRIPTORS, Slab,
    end_in_slab,
};
pub(crate) use store::{KERNEL_PATH, KernelFiles, build_id};
pub use symbols::KernelSymbols;
pub(crate) use symbols::SYMBOLS_MAX;
pub(crate) use walk::{GuestMemory, KernelObject, PerCpuArea, Walker, Walks};
