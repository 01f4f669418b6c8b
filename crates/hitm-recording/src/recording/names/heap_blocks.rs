//! Names of heap blocks: by their type, or by who allocated them.

use std::rc::Rc;
use std::sync::Arc;

use hitm_base::CodeAddr;

use super::code_owners::{C_FILES, is_one_of};
use super::{AddressNames, UNNAMED};
use crate::generated::told::JAVA_HEAP;
use crate::recording::elements::element_size;
use crate::recording::labels::{CodeLabel, DataLabel};
use crate::recording::objects::HeapBlock;
use crate::recording::shared::is_shared;

/// Name and element size that all bytes of a heap block share.
#[derive(Clone)]
pub(in crate::recording) struct HeapName {
    pub(super) object: String,
    element_size: Option<u64>,
}

impl AddressNames<'_> {
    pub(super) fn heap_label(&self, block: &HeapBlock, addr: u64, size: u8) -> DataLabel {
        if let Some(label) = self.typed_label(addr, size, || self.heap_name(block).object) {
            return label;
        }
        let start = block.range.start();
        let offset = addr - start;
        let name = self.heap_name(block);
        let (member, element) = match name.element_size {
            Some(size) => {
                let index = offset / size;
                let member = format!("[{index}]+{:#x}", offset % size);
                (member, Some((start + index * size, size)))
            }
            None => (format!("+{offset:#x}"), None),
        };
        DataLabel {
            object: name.object,
            object_addr: start,
            object_size: block.range.len(),
            member,
            element,
            ..DataLabel::default()
        }
    }

    pub(in crate::recording) fn heap_name(&self, block: &HeapBlock) -> HeapName {
        let start = block.range.start();
        if let Some(known) = self.heap.borrow().get(&start) {
            return known.clone();
        }
        let name = HeapName {
            object: self.heap_block(block),
            element_size: element_size(block.range, self.statistics),
        };
        self.heap.borrow_mut().insert(start, name.clone());
        name
    }

    /// Returns the label of a heap block: its size and the place that allocated it, or what a virtual machine keeps
    /// there.
    pub fn heap_block(&self, block: &HeapBlock) -> String {
        let site = self.site_of(block);
        let size = block_size(block.range.len());
        match memory_of_hotspot(&site) {
            Some(memory) => memory.to_owned(),
            None if is_shared(block.range.start()) => {
                format!("shared memory of {size} from {site}")
            }
            None => format!("heap block of {size} from {site}"),
        }
    }

    /// The place that allocated a heap block; many blocks have one.
    pub(super) fn site_of(&self, block: &HeapBlock) -> Rc<str> {
        let mut sites = self.sites.borrow_mut();
        let site = sites.entry(Arc::clone(&block.stack));
        let site = site.or_insert_with(|| self.allocation_site(&block.stack).into());
        Rc::clone(site)
    }

    /// The place that allocated a heap block: the innermost caller with a source line outside of the C library,
    /// because allocators and their wrappers rarely have one, or else the innermost that is no known wrapper. A
    /// caller in a stripped program is named by its place in the file.
    pub fn allocation_site(&self, stack: &[CodeAddr]) -> String {
        // Return addresses: the call is the instruction before.
        let calls = stack
            .iter()
            .map(|frame| CodeAddr(frame.0.saturating_sub(1)));
        let mut labels = calls.map(|call| (call, self.code(call)));
        let (mut first, mut caller) = (None, None);
        let found = labels.find(|(call, label)| {
            first.get_or_insert_with(|| label.function.clone());
            let is_own = !is_allocator(label) && !is_one_of(self.file_of(*call), C_FILES);
            if is_own {
                caller.get_or_insert_with(|| label.function.clone());
            }
            (is_own && label.line > 0) || is_stripped(label)
        });
        if let Some((call, _)) = found.as_ref().filter(|(_, label)| is_stripped(label)) {
            return self.symbolizer.borrow_mut().code(call.0).place;
        }
        let in_source = found.map(|(_, label)| label);
        match (in_source, caller.or(first)) {
            (Some(label), _) => {
                let file = label.file.rsplit('/').next().unwrap_or_default();
                format!("{} ({file}:{})", label.function, label.line)
            }
            (None, Some(function)) => function,
            (None, None) => "an unknown place".into(),
        }
    }
}

/// Libraries that allocate for others.
const ALLOCATORS: &[&str] = &[
    "libc.so",
    "libstdc++",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libsnmalloc",
];

/// Returns true for code of a file without symbols that is no allocator.
fn is_stripped(label: &CodeLabel) -> bool {
    let is_allocator = ALLOCATORS
        .iter()
        .any(|module| label.function.starts_with(module));
    let unnamed = label.function.split_once('!');
    !is_allocator && unnamed.is_some_and(|(_, function)| function.starts_with(UNNAMED))
}

/// Functions that give out memory in HotSpot, the Java virtual machine, by beginnings of the names of functions.
const HOTSPOT: &[&str] = &["os::", "VirtualSpace::", "G1PageBasedVirtualSpace::"];

/// Memory of HotSpot, by beginnings of the names of functions that give it out.
const HOTSPOT_MEMORY: &[(&str, &str)] = &[
    ("G1Regions", JAVA_HEAP),
    ("MutableSpace::", JAVA_HEAP),
    ("PSVirtualSpace::", JAVA_HEAP),
    ("DefNewGeneration::", JAVA_HEAP),
    ("TenuredGeneration::", JAVA_HEAP),
    ("metaspace::", "metaspace (classes and profiles of methods)"),
    ("CodeHeap::", "compiled code of Java"),
];

/// Use that HotSpot makes of the memory that an allocation site gave out.
pub(super) fn memory_of_hotspot(site: &str) -> Option<&'static str> {
    let mut memory = HOTSPOT_MEMORY.iter();
    let found = memory.find(|(begin, _)| site.starts_with(begin));
    found.map(|(_, name)| *name)
}

/// Source that belongs to an allocator's plumbing: the caller of it is who allocates. Go programs without debug
/// information name functions and no files.
fn is_allocator(label: &CodeLabel) -> bool {
    let may_be_go = label.file.is_empty() || label.file.ends_with(".go");
    label.is_of_language()
        || label.function.starts_with("operator new")
        || label.function.starts_with("__rust_alloc")
        || HOTSPOT
            .iter()
            .any(|begin| label.function.starts_with(begin))
        || (may_be_go && label.function.starts_with("runtime."))
}

/// A size, in MiB where that is exact: mappings of a runtime's heap would have a dozen digits.
fn block_size(bytes: u64) -> String {
    match bytes >> 20 {
        mib if mib > 0 && bytes.is_multiple_of(1 << 20) => format!("{mib} MiB"),
        _ => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_exact() {
        let sizes = [64, 1 << 20, (1 << 20) + 16, 398_458_880];
        assert_eq!(
            sizes.map(block_size),
            ["64 B", "1 MiB", "1048592 B", "380 MiB"]
        );
    }
}
