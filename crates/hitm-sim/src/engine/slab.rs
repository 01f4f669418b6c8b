//! Addresses for objects, as the kernel's allocators give them.
//!
//! Small objects come from power-of-two size classes and share pages with their like on the same
//! NUMA node. So it is with the kernel's `kmalloc` (mm/slab_common.c, v6.12; also 96 and 192
//! bytes). That is why the bitmaps of a small machine share lines and those of a large one do not.
//! Larger objects start on a page.

use std::collections::BTreeMap;

const PAGE_BYTES: u64 = 4096;
/// Start of simulated memory; only its being a page boundary matters.
const BASE: u64 = 0x1000_0000;

#[derive(Debug, Clone, Copy)]
struct Slab {
    next: u64,
    end: u64,
}

/// The pages that are in use.
#[derive(Debug)]
pub(super) struct Slabs {
    next_page: u64,
    /// By (size class, node).
    slabs: BTreeMap<(u64, u16), Slab>,
}

impl Slabs {
    /// No page.
    pub(super) fn new() -> Slabs {
        Slabs {
            next_page: BASE,
            slabs: BTreeMap::new(),
        }
    }

    /// The address of so many new bytes on a NUMA node.
    pub(super) fn allocate(&mut self, size: u64, align: u64, node: u16) -> u64 {
        let class = size_class(size.max(align).max(8));
        if class > PAGE_BYTES / 2 {
            return self.pages(class);
        }
        let slab = self.slabs.get(&(class, node)).copied();
        let mut slab = match slab {
            Some(slab) if slab.next + class <= slab.end => slab,
            _ => {
                let next = self.pages(PAGE_BYTES);
                Slab {
                    next,
                    end: next + PAGE_BYTES,
                }
            }
        };
        let addr = slab.next.next_multiple_of(align.max(1));
        slab.next = addr + class;
        self.slabs.insert((class, node), slab);
        addr
    }

    fn pages(&mut self, bytes: u64) -> u64 {
        let addr = self.next_page;
        self.next_page += bytes.next_multiple_of(PAGE_BYTES);
        addr
    }
}

/// Bytes that an object of this size takes.
pub(super) fn size_class(size: u64) -> u64 {
    match size {
        65..=96 => 96,
        129..=192 => 192,
        _ => size.next_power_of_two(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_class_share_pages_on_their_node() {
        let mut slabs = Slabs::new();
        let first = slabs.allocate(40, 8, 0);
        assert_eq!(slabs.allocate(64, 8, 0), first + 64);
        assert_eq!(slabs.allocate(40, 8, 1), first + PAGE_BYTES);
        assert_eq!(slabs.allocate(40, 8, 0), first + 128);
        // Of more than half a page, each begins on a page of its own.
        assert_eq!(slabs.allocate(3000, 64, 0) % PAGE_BYTES, 0);
        assert_eq!(slabs.allocate(3000, 64, 0), first + 3 * PAGE_BYTES);
    }

    #[test]
    fn classes_are_powers_of_two_and_96_and_192() {
        let classes = [8, 33, 65, 96, 97, 130, 193].map(size_class);
        assert_eq!(classes, [8, 64, 96, 96, 128, 192, 256]);
    }
}
