//! The slab caches of a stopped kernel: pages and the cache of their objects.
//!
//! Each page has a descriptor in one array. That of a slab's first page points to the cache; those
//! of its further pages lead to the first (mm/slab.h and include/linux/page-flags.h: `struct slab`;
//! `compound_head` of Linux 6.12, a pointer; `compound_info` of 7.2, a mask of the descriptor's own
//! address). A pointer counts only when it leads to a cache of the kernel's own list: other pages
//! have other words there.

use std::collections::BTreeMap;
use std::ops::Range;

use super::walk::{KernelObject, Walker, word};

/// The type of a page's descriptor.
pub const PAGE_DESCRIPTOR: &str = "page";
/// Bytes of a page's descriptor in every configuration that distributions use.
pub const PAGE_DESCRIPTOR_BYTES: u64 = 64;

/// Addresses of the descriptors on x86-64 with four page-table levels and without address
/// randomisation (Documentation/arch/x86/x86_64/mm.rst).
pub const PAGE_DESCRIPTORS: Range<u64> = 0xffff_ea00_0000_0000..0xffff_eb00_0000_0000;

/// Start of the direct map of physical memory (same source).
pub const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Descriptors that are read at a time: those of 128 MiB.
const READ_BYTES: u64 = 2 << 20;

/// Offset of the word whose lowest bit marks a further page of a slab; its other bits lead to the
/// first page.
const COMPOUND_HEAD_OFFSET: u64 = 8;

/// Most pages that are read: 1 TiB of memory.
const PAGES_MAX: u64 = 1 << 28;

/// Pages of a slab: larger ones are no slabs.
const SLAB_PAGES_MAX: u64 = 1 << SLAB_ORDER_MAX;
const SLAB_ORDER_MAX: u64 = 10;

/// Bits of a slab's shape below its order: the number of its objects.
const SHAPE_ORDER_SHIFT: u64 = 16;

/// A slab: pages with objects of one cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slab {
    /// Its first byte.
    pub start: u64,
    /// The byte behind it.
    pub end: u64,
    /// Name of its cache.
    pub cache: String,
    /// Type of its objects, as far as the cache's name or the walks tell.
    pub type_name: String,
    /// Bytes from object to object.
    pub stride_bytes: u64,
}

/// A slab cache of a stopped kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Address of its `kmem_cache`.
    pub address: u64,
    /// Its name.
    pub name: String,
    /// Type of its objects, as far as its name or the walks tell.
    pub type_name: String,
    /// Bytes from object to object.
    pub stride_bytes: u64,
    /// Pages of a slab, as the cache prefers them.
    pub slab_pages: u64,
    /// Objects in such a slab.
    pub slab_objects: u64,
}

/// Ends an object where its slab's next one begins: the type of `task_struct` has room for every processor's registers,
/// its objects for this one's. `slabs` is sorted by address.
pub fn end_in_slab(object: &mut KernelObject, slabs: &[Slab]) {
    if let Some(slab) = slab_at(slabs, object.start).filter(|slab| slab.stride_bytes > 0) {
        let inside = (object.start - slab.start) % slab.stride_bytes;
        object.size = object.size.min(slab.stride_bytes - inside);
    }
}

/// The slab that holds the byte at an address. `slabs` is sorted by address.
pub(super) fn slab_at(slabs: &[Slab], address: u64) -> Option<&Slab> {
    let after = slabs.partition_point(|slab| slab.start <= address);
    slabs[..after].last().filter(|slab| address < slab.end)
}

/// Returns the descriptor of the first page, for a page that is not the first. `descriptors` are the addresses of all.
fn head_of(descriptor: u64, compound: u64, descriptors: &Range<u64>) -> Option<u64> {
    let rest = compound & !1;
    (compound & 1 == 1).then(|| match descriptors.contains(&rest) {
        true => rest,
        false => descriptor & rest,
    })
}

/// Start of the direct map and of the descriptors, which address randomisation moves.
#[derive(Debug, Clone, Copy)]
struct Bases {
    direct_map: u64,
    descriptors: u64,
}

/// A page by its descriptor.
pub(super) struct PageDescriptor<'b> {
    /// The page's number in physical memory.
    pub(super) number: u64,
    /// Address of the descriptor.
    pub(super) address: u64,
    bytes: &'b [u8],
}

impl PageDescriptor<'_> {
    /// Word at an offset; 0 beyond the descriptor's end.
    pub(super) fn word(&self, offset: u64) -> u64 {
        let room = self.bytes.get(offset as usize..);
        room.filter(|bytes| bytes.len() >= 8).map_or(0, word)
    }

    /// Returns the descriptor of the first page of the same block, if this is a further page.
    pub(super) fn head(&self) -> Option<u64> {
        head_of(
            self.address,
            self.word(COMPOUND_HEAD_OFFSET),
            &PAGE_DESCRIPTORS,
        )
    }
}

impl Walker<'_> {
    /// Pages of the machine.
    pub fn page_count(&mut self) -> u64 {
        self.variable_word("max_pfn").unwrap_or(0).min(PAGES_MAX)
    }

    /// Offset of the pointer to a slab's cache in the descriptor of its first page.
    pub fn slab_cache_offset(&mut self) -> Option<u64> {
        self.member_offset("slab", "slab_cache")
            .filter(|offset| *offset > 0)
    }

    /// Visits the descriptors of all pages, by address.
    pub(super) fn page_descriptors(&mut self, mut visit: impl FnMut(&PageDescriptor<'_>)) {
        let pages = self.page_count();
        for first in (0..pages * PAGE_DESCRIPTOR_BYTES).step_by(READ_BYTES as usize) {
            let size = READ_BYTES.min(pages * PAGE_DESCRIPTOR_BYTES - first);
            // Addresses without memory have no descriptors.
            let Ok(bytes) = self.memory.read(PAGE_DESCRIPTORS.start + first, size) else {
                continue;
            };
            let descriptors = bytes.chunks_exact(PAGE_DESCRIPTOR_BYTES as usize);
            for (index, bytes) in descriptors.enumerate() {
                let number = first / PAGE_DESCRIPTOR_BYTES + index as u64;
                visit(&PageDescriptor {
                    number,
                    address: PAGE_DESCRIPTORS.start + number * PAGE_DESCRIPTOR_BYTES,
                    bytes,
                });
            }
        }
    }

    /// Slabs by address; none when this kernel's structures are not understood. `types` has the
    /// types of caches that are not named after one.
    pub fn slabs(&mut self, types: &BTreeMap<String, String>) -> Vec<Slab> {
        let caches = self.caches(types).unwrap_or_default();
        let mut slabs: Vec<Slab> = Vec::new();
        let offset = self.slab_cache_offset().filter(|_| !caches.is_empty());
        let Some(offset) = offset else {
            return slabs;
        };
        // Descriptor of the slab that the last page belongs to.
        let mut open = 0;
        self.page_descriptors(|page| {
            if let Some(head) = page.head() {
                let slab = slabs.last_mut().filter(|_| head == open);
                if let Some(slab) =
                    slab.filter(|slab| slab.end - slab.start < SLAB_PAGES_MAX * PAGE_BYTES)
                {
                    slab.end += PAGE_BYTES;
                }
                return;
            }
            // The first page of another block ends the open slab.
            open = 0;
            if let Some(cache) = caches.get(&page.word(offset)) {
                open = page.address;
                let start = DIRECT_MAP + page.number * PAGE_BYTES;
                slabs.push(Slab {
                    start,
                    end: start + PAGE_BYTES,
                    cache: cache.name.clone(),
                    type_name: cache.type_name.clone(),
                    stride_bytes: cache.stride_bytes,
                });
            }
        });
        slabs
    }

    /// Caches by the address of their descriptor.
    pub fn caches(&mut self, types: &BTreeMap<String, String>) -> Option<BTreeMap<u64, Cache>> {
        let head = self.symbols.address("slab_caches")?;
        let link = self.member_offset("kmem_cache", "list")?;
        let mut caches = BTreeMap::new();
        let mut at = self.pointer(head)?;
        while at != head && caches.len() < super::walk::LIST_MAX {
            let address = at.wrapping_sub(link);
            caches.insert(address, self.cache(address, types)?);
            at = self.pointer(at)?;
        }
        Some(caches)
    }

    /// The cache whose descriptor is at an address.
    fn cache(&mut self, address: u64, types: &BTreeMap<String, String>) -> Option<Cache> {
        let name = self.cache_name(address)?;
        let size_at = self.member_offset("kmem_cache", "size")?;
        // An order and a number of objects in one word (mm/slub.c: `OO_SHIFT`).
        let shape_at = self.member_offset("kmem_cache", "oo")?;
        let size = self.memory.read(address + size_at, 4).ok()?;
        let shape = word(&self.memory.read(address + shape_at, 4).ok()?);
        let stride_bytes = word(&size);
        let type_name = self.type_of_cache(&name, stride_bytes, types);
        Some(Cache {
            address,
            name,
            type_name: type_name.unwrap_or_default(),
            stride_bytes,
            slab_pages: 1 << (shape >> SHAPE_ORDER_SHIFT).min(SLAB_ORDER_MAX),
            slab_objects: shape & ((1 << SHAPE_ORDER_SHIFT) - 1),
        })
    }

    fn cache_name(&mut self, address: u64) -> Option<String> {
        let name_at = self.member_offset("kmem_cache", "name")?;
        let name = self.pointer(address.wrapping_add(name_at))?;
        self.text(name)
    }

    /// The slab that holds the byte at an address, by its page's descriptor alone; none for other memory. The kernel
    /// may run, so that a slab may be another one's a moment later.
    pub fn slab_of(&mut self, address: u64, types: &BTreeMap<String, String>) -> Option<Slab> {
        let bases = self.bases()?;
        let (start, cache) = self.cache_of(address, bases)?;
        // Descriptors of caches lie in a slab, too: other pages have other words in the place of theirs.
        let (_, of_caches) = self.cache_of(cache, bases)?;
        if self.cache_name(of_caches)? != "kmem_cache" {
            return None;
        }
        let is_merged = self.is_merged(cache);
        let mut cache = self.cache(cache, types)?;
        if is_merged {
            cache.type_name.clear();
            cache.name.push_str(" and caches merged with it");
        }
        // A slab is smaller than its cache prefers when memory is short; it has the byte all the same.
        let end = start + cache.slab_pages * PAGE_BYTES;
        Some(Slab {
            start,
            end: end.max((address | (PAGE_BYTES - 1)).saturating_add(1)),
            cache: cache.name,
            type_name: cache.type_name,
            stride_bytes: cache.stride_bytes,
        })
    }

    /// Returns true if caches of the same size share the slabs of this one, so that its name says nothing of an object
    /// (mm/slab_common.c: `find_mergeable`, which counts them in `refcount`).
    fn is_merged(&mut self, cache: u64) -> bool {
        let count_at = self.member_offset("kmem_cache", "refcount");
        let count = count_at.and_then(|at| self.memory.read(cache + at, 4).ok());
        count.is_some_and(|count| word(&count) > 1)
    }

    /// Start of the block of pages that holds a byte of the direct map, and the word at which a slab has its cache.
    fn cache_of(&mut self, address: u64, bases: Bases) -> Option<(u64, u64)> {
        let offset = self.slab_cache_offset()?;
        let page = address.checked_sub(bases.direct_map)? / PAGE_BYTES;
        let all = bases.descriptors..bases.descriptors + PAGES_MAX * PAGE_DESCRIPTOR_BYTES;
        let own = bases.descriptors + page.checked_mul(PAGE_DESCRIPTOR_BYTES)?;
        if page >= PAGES_MAX {
            return None;
        }
        let compound = self.pointer(own + COMPOUND_HEAD_OFFSET)?;
        let first = head_of(own, compound, &all).filter(|first| all.contains(first));
        let first = first.unwrap_or(own);
        let start = (first - bases.descriptors) / PAGE_DESCRIPTOR_BYTES * PAGE_BYTES;
        Some((bases.direct_map + start, self.pointer(first + offset)?))
    }

    /// Places of this kernel's memory: by its variables, or as it is without address randomisation. None when it is
    /// randomised, and its variables are not listed.
    fn bases(&mut self) -> Option<Bases> {
        const TEXT: u64 = 0xffff_ffff_8100_0000;
        let direct_map = self.variable_word("page_offset_base");
        let descriptors = self.variable_word("vmemmap_base");
        match direct_map.zip(descriptors) {
            Some((direct_map, descriptors)) => Some(Bases {
                direct_map,
                descriptors,
            }),
            None => (self.symbols.address("_text")? == TEXT).then_some(Bases {
                direct_map: DIRECT_MAP,
                descriptors: PAGE_DESCRIPTORS.start,
            }),
        }
    }

    /// Reads a short text that ends with a zero byte.
    pub(super) fn text(&mut self, address: u64) -> Option<String> {
        const TEXT_BYTES: u64 = 64;
        // The text may lie at the end of mapped memory.
        let room = PAGE_BYTES - address % PAGE_BYTES;
        let bytes = self.memory.read(address, TEXT_BYTES.min(room)).ok()?;
        let text = bytes.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_ends_before_the_next_one_of_its_slab() {
        let slabs = [Slab {
            start: 0x1000,
            end: 0x3000,
            cache: "task_struct".to_owned(),
            type_name: String::new(),
            stride_bytes: 0x300,
        }];
        let size = |start, size| {
            let mut object = KernelObject {
                start,
                size,
                name: "task_struct".to_owned(),
                type_name: String::new(),
            };
            end_in_slab(&mut object, &slabs);
            object.size
        };
        assert_eq!(size(0x1300, 0x400), 0x300);
        assert_eq!(size(0x1310, 0x400), 0x2f0);
        assert_eq!(size(0x1300, 0x200), 0x200);
        assert_eq!(size(0x3000, 0x400), 0x400);
        assert_eq!(size(0x800, 0x400), 0x400);
    }

    #[test]
    fn further_pages_lead_to_the_first_by_pointer_or_mask() {
        let head = PAGE_DESCRIPTORS.start + 8 * PAGE_DESCRIPTOR_BYTES;
        let third = head + 2 * PAGE_DESCRIPTOR_BYTES;
        assert_eq!(head_of(third, head | 1, &PAGE_DESCRIPTORS), Some(head));
        // Four pages: the mask keeps all but the address bits within four descriptors.
        assert_eq!(head_of(third, !0xff | 1, &PAGE_DESCRIPTORS), Some(head));
        // A pointer to a cache: the first page itself.
        assert_eq!(
            head_of(head, 0xffff_8880_0100_0040, &PAGE_DESCRIPTORS),
            None
        );
    }
}
