//! Objects in the slabs of a running kernel, found by page.
//!
//! The kernel stores a cache's address into the descriptor of a new slab's first page, and something else there when
//! it gives the slab back. So the recorder sees slabs begin and end by their stores, and needs no call hooked.
//!
//! Assumed: a slab has as many pages as its cache prefers, and begins at a multiple of them, as the buddy allocator
//! gives them out. A kernel short of memory may take fewer.

use std::sync::atomic::{AtomicU8, Ordering};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::PAGE_BYTES;

/// The memory of a machine, and where its pages are described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct PageMemory {
    /// Address of page 0 in the direct map.
    pub direct_map: u64,
    /// Address of page 0's descriptor.
    pub descriptors: u64,
    /// Bytes of a descriptor.
    pub descriptor_bytes: u64,
    /// Offset of the pointer to the slab's cache in a descriptor.
    pub cache_offset: u64,
    /// The machine's pages.
    pub pages: u64,
}

/// A slab cache whose objects, or one structure in each of them, have moved members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct SlabCache {
    /// Address of the kernel's `kmem_cache`.
    pub address: u64,
    /// Pages of a slab: a power of two.
    pub pages: u64,
    /// Objects in a slab.
    pub objects: u64,
    /// Bytes from one object to the next.
    pub stride: u64,
    /// Offset of the structure in the object.
    pub offset: u64,
    /// Bytes of the structure.
    pub size: u64,
    /// Priced place of the first object of a slab at page 0.
    pub fresh: u64,
    /// Bytes from one priced structure to the next.
    pub fresh_stride: u64,
}

impl SlabCache {
    /// Bytes in which the structures of all slabs are priced, in a machine of so many pages; none if there is no such
    /// number.
    pub fn fresh_bytes(&self, pages: u64) -> Option<u64> {
        let slabs = pages.div_ceil(self.pages.max(1));
        slabs
            .checked_mul(self.objects)?
            .checked_mul(self.fresh_stride)
    }

    /// Returns where the structure in the object that begins at `into` bytes of the slab at `page` is priced.
    pub fn fresh_at(&self, page: u64, into: u64) -> u64 {
        let first = page / self.pages * self.objects;
        self.fresh + (first + into / self.stride) * self.fresh_stride
    }
}

/// A moved structure in a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlabObject {
    /// Number of its cache.
    pub(super) cache: usize,
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) fresh: u64,
}

/// A part of a page's memory: inside a moved structure, or up to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Object(SlabObject),
    /// Bytes up to the next structure or to the page's end.
    Between(u64),
}

/// The caches with moved objects, and the pages of their slabs.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    pub(super) memory: PageMemory,
    pub(super) caches: Vec<SlabCache>,
    /// By page: 0, or the number of the cache plus 1.
    marks: Vec<AtomicU8>,
}

impl Slabs {
    pub(super) fn set_memory(&mut self, memory: PageMemory) {
        self.memory = memory;
        self.marks = (0..memory.pages).map(|_| AtomicU8::new(0)).collect();
    }

    /// Number of the cache that a page's slab is of.
    #[inline(always)]
    fn cache_of(&self, page: u64) -> Option<usize> {
        let mark = self.marks.get(page as usize)?.load(Ordering::Relaxed);
        usize::from(mark).checked_sub(1)
    }

    #[inline(always)]
    fn page_of(&self, addr: u64) -> Option<u64> {
        Some(addr.checked_sub(self.memory.direct_map)? / PAGE_BYTES)
    }

    /// Returns true if the page at `addr` is of a slab with moved objects.
    #[inline(always)]
    pub(super) fn may_cover(&self, addr: u64) -> bool {
        let page = self.page_of(addr);
        page.is_some_and(|page| self.cache_of(page).is_some())
    }

    /// The object that holds the byte at `addr`; none outside of the slabs.
    pub(super) fn part(&self, addr: u64) -> Option<Part> {
        let page = self.page_of(addr)?;
        let number = self.cache_of(page)?;
        let cache = &self.caches[number];
        let first = page / cache.pages * cache.pages;
        let into = addr - self.memory.direct_map - first * PAGE_BYTES;
        let (index, inside) = (into / cache.stride, into % cache.stride);
        if index >= cache.objects {
            return Some(Part::Between(cache.pages * PAGE_BYTES - into));
        }
        Some(match inside.checked_sub(cache.offset) {
            None => Part::Between(cache.offset - inside),
            Some(offset) if offset < cache.size => Part::Object(SlabObject {
                cache: number,
                start: addr - offset,
                size: cache.size,
                fresh: cache.fresh_at(first, into),
            }),
            Some(_) => Part::Between(cache.stride - inside),
        })
    }

    /// Marks the slab that begins at a page as one of a cache, or of none.
    pub(super) fn mark(&self, first: u64, pages: u64, cache: Option<usize>) {
        let mark = cache.map_or(0, |number| number as u8 + 1);
        let marks = self.marks.iter().skip(first as usize).take(pages as usize);
        for page in marks {
            page.store(mark, Ordering::Relaxed);
        }
    }

    /// First pages of the slabs of a cache.
    pub(super) fn slabs_of(&self, number: usize) -> impl Iterator<Item = u64> + '_ {
        let pages = self.caches[number].pages;
        let firsts = (0..self.memory.pages).step_by(pages as usize);
        firsts.filter(move |first| self.cache_of(*first) == Some(number))
    }

    /// Page whose descriptor's pointer to a cache is at `addr`.
    #[inline(always)]
    pub(super) fn describes(&self, addr: u64) -> Option<u64> {
        let memory = &self.memory;
        let into = addr.checked_sub(memory.descriptors)?;
        let page = into.checked_div(memory.descriptor_bytes)?;
        let is_pointer = into - page * memory.descriptor_bytes == memory.cache_offset;
        (is_pointer && page < memory.pages).then_some(page)
    }

    /// Follows a store of `value` to the pointer of a page's descriptor; returns true if a slab begins there.
    pub(super) fn store(&self, page: u64, value: u64) -> bool {
        let known = self.caches.iter();
        let begins = known
            .enumerate()
            .find(|(_, cache)| cache.address == value && page.is_multiple_of(cache.pages));
        match (begins, self.cache_of(page)) {
            (Some((number, cache)), before) => {
                self.mark(page, cache.pages, Some(number));
                before != Some(number)
            }
            (None, Some(number)) if page.is_multiple_of(self.caches[number].pages) => {
                self.mark(page, self.caches[number].pages, None);
                false
            }
            _ => false,
        }
    }
}
