//! A Linux kernel's objects, found in its memory: by walks from its variables, in its slabs, and by its page tables.
//!
//! Nothing here reads a machine: [`GuestMemory`] does.

mod cache_types;
mod expression;
mod page_tables;
mod pages;
mod slabs;
mod symbols;
mod walk;
mod walks;

pub use page_tables::PAGE_TABLE;
pub use pages::PAGE_CACHE_OF;
pub use slabs::{
    Cache, DIRECT_MAP, PAGE_BYTES, PAGE_DESCRIPTOR, PAGE_DESCRIPTOR_BYTES, PAGE_DESCRIPTORS, Slab,
    end_in_slab,
};
pub use symbols::{KernelSymbols, SYMBOLS_MAX, SymbolList};
pub use walk::{GuestMemory, KernelObject, PerCpuArea, Walker};
pub use walks::{SleepNames, Walks, WalksError};
