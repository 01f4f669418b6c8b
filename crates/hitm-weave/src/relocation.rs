//! Members that were moved to other places, while a machine runs: from the addresses that the program
//! uses to those that are priced.
//!
//! The facade makes the table from a layout file and hands it to the recorder as text:
//!
//! ```text
//! map                              a structure; its spans follow, by FROM
//! span FROM TO SIZE                bytes that stay together, from and to the structure's start
//! object START SIZE FRESH          an object of the last structure, and where it is priced
//! memory DIRECT_MAP DESCRIPTORS DESCRIPTOR_BYTES CACHE_OFFSET PAGES
//! cache ADDRESS PAGES OBJECTS STRIDE OFFSET SIZE FRESH FRESH_STRIDE
//!                                  a slab cache whose objects hold the last structure ([`SlabCache`])
//! slab PAGE                        first page of a slab of the last cache
//! ```
//! Numbers are hexadecimal. Bytes between spans go along with the span before them, as in a replay.

mod slabs;

use std::fmt::Write as _;

pub use slabs::{PageMemory, SlabCache};
use slabs::{Part, Slabs};
use zerocopy::transmute;

/// Bytes that stay together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedSpan {
    /// The first byte in the compiled structure.
    pub from: u64,
    /// The first byte in the other layout.
    pub to: u64,
    /// Bytes.
    pub size: u64,
}

/// An object whose members are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moved {
    start: u64,
    end: u64,
    fresh: u64,
    map: usize,
}

/// The moves of a machine's objects.
#[derive(Debug, Default)]
pub struct Relocation {
    maps: Vec<Vec<MovedSpan>>,
    /// By address; they do not overlap.
    objects: Vec<Moved>,
    slabs: Slabs,
    /// Map of each slab cache.
    cache_maps: Vec<usize>,
}

const PAGE_BYTES: u64 = 4096;
/// Pages of a machine: 4 TiB.
const PAGES_MAX: u64 = 1 << 30;

impl Relocation {
    /// Slab caches with moved objects: a page's mark is a byte.
    pub const CACHES_MAX: usize = 255;

    /// Adds a structure; its spans come by `from`. The objects that follow are of it.
    pub fn add_map(&mut self, spans: impl IntoIterator<Item = MovedSpan>) {
        self.maps.push(spans.into_iter().collect());
    }

    /// Adds an object of the last structure: `size` bytes at `start`, priced at `fresh`.
    ///
    /// # Panics
    /// Panics when no structure was added.
    pub fn add_object(&mut self, start: u64, size: u64, fresh: u64) {
        let map = self
            .maps
            .len()
            .checked_sub(1)
            .expect("a structure comes first");
        let object = Moved {
            start,
            end: start.saturating_add(size),
            fresh,
            map,
        };
        let at = self.objects.partition_point(|other| other.start < start);
        self.objects.insert(at, object);
    }

    /// States the machine's memory. Slab caches come after it.
    pub fn set_memory(&mut self, memory: PageMemory) {
        self.slabs.set_memory(memory);
    }

    /// Adds a slab cache of the last structure.
    ///
    /// # Panics
    /// Panics when no structure was added.
    pub fn add_cache(&mut self, cache: SlabCache) {
        let map = self.maps.len().checked_sub(1);
        self.cache_maps.push(map.expect("a structure comes first"));
        self.slabs.caches.push(cache);
    }

    /// Adds a slab of the last cache, by its first page.
    ///
    /// # Panics
    /// Panics when no cache was added.
    pub fn add_slab(&mut self, page: u64) {
        let number = self.slabs.caches.len().checked_sub(1);
        let number = number.expect("a cache comes first");
        let pages = self.slabs.caches[number].pages;
        self.slabs.mark(page, pages, Some(number));
    }

    /// Returns true if objects of slabs move.
    pub fn has_slabs(&self) -> bool {
        !self.slabs.caches.is_empty()
    }

    /// Returns true if a store to `addr` may begin or end a slab with moved objects. Quick; false is certain.
    #[inline(always)]
    pub fn is_slab_pointer(&self, addr: u64) -> bool {
        !self.slabs.caches.is_empty() && self.slabs.describes(addr).is_some()
    }

    /// Follows a store to the pointer of a page's descriptor. Returns true if a slab with moved objects begins.
    pub fn store_slab_pointer(&self, addr: u64, value: u64) -> bool {
        let page = self.slabs.describes(addr);
        page.is_some_and(|page| self.slabs.store(page, value))
    }

    /// Reads the text form. `mask` is applied to addresses.
    pub fn parse(text: &str, mask: u64) -> Result<Relocation, String> {
        let mut relocation = Relocation::default();
        for line in text.lines() {
            let bad =
                || format!("found '{line}', expected map, span, object, memory, cache or slab");
            let mut words = line.split_ascii_whitespace();
            let kind = words.next().ok_or_else(bad)?;
            let numbers: Vec<u64> = words
                .map(|word| u64::from_str_radix(word, 16).map_err(|_| bad()))
                .collect::<Result<_, _>>()?;
            match (kind, numbers.as_slice()) {
                ("map", []) => relocation.maps.push(Vec::new()),
                ("span", &[from, to, size]) => {
                    let span = MovedSpan { from, to, size };
                    relocation.maps.last_mut().ok_or_else(bad)?.push(span);
                }
                ("object", &[start, size, fresh]) if !relocation.maps.is_empty() => {
                    relocation.add_object(start & mask, size, fresh & mask);
                }
                ("memory", numbers) => {
                    let memory = memory_of(numbers, mask).ok_or_else(bad)?;
                    relocation.set_memory(memory);
                }
                ("cache", numbers) if !relocation.maps.is_empty() => {
                    let cache = cache_of(numbers, mask).ok_or_else(bad)?;
                    relocation.add_cache(cache);
                    if relocation.slabs.caches.len() > Relocation::CACHES_MAX {
                        return Err(bad());
                    }
                }
                ("slab", &[page]) if !relocation.slabs.caches.is_empty() => {
                    relocation.add_slab(page);
                }
                _ => return Err(bad()),
            }
        }
        Ok(relocation)
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.slabs.caches.is_empty() {
            let numbers: [u64; 5] = transmute!(self.slabs.memory);
            write_line("memory", &numbers, &mut text);
        }
        for (index, spans) in self.maps.iter().enumerate() {
            write_line("map", &[], &mut text);
            for &MovedSpan { from, to, size } in spans {
                write_line("span", &[from, to, size], &mut text);
            }
            for object in self.objects.iter().filter(|object| object.map == index) {
                let size = object.end - object.start;
                write_line("object", &[object.start, size, object.fresh], &mut text);
            }
            let maps = self.cache_maps.iter().enumerate();
            for (number, _) in maps.filter(|(_, map)| **map == index) {
                let numbers: [u64; 8] = transmute!(self.slabs.caches[number]);
                write_line("cache", &numbers, &mut text);
                for page in self.slabs.slabs_of(number) {
                    write_line("slab", &[page], &mut text);
                }
            }
        }
        text
    }

    /// Returns true if an access at `addr` may touch a moved object. Quick; false is certain.
    #[inline(always)]
    pub fn may_cover(&self, addr: u64) -> bool {
        // An access that ends in a slab's page begins there or in the page before.
        if !self.slabs.caches.is_empty()
            && (self.slabs.may_cover(addr) || self.slabs.may_cover(addr + 63))
        {
            return true;
        }
        match (self.objects.first(), self.objects.last()) {
            // An access that begins before an object may reach into it.
            (Some(first), Some(last)) => addr + 64 > first.start && addr < last.end,
            _ => false,
        }
    }

    /// Calls `piece` with the address and size of each piece in which `size` bytes at `addr` are priced,
    /// in order.
    pub fn pieces(&self, addr: u64, size: u64, mut piece: impl FnMut(u64, u64)) {
        let end = addr.saturating_add(size);
        let mut at = addr;
        // Neighbours that stay neighbours stay one access.
        let mut open: Option<(u64, u64)> = None;
        while at < end {
            let (to, room) = self.place(at);
            let length = room.min(end - at).max(1);
            open = match open {
                Some((start, before)) if start + before == to => Some((start, before + length)),
                Some((start, before)) => {
                    piece(start, before);
                    Some((to, length))
                }
                None => Some((to, length)),
            };
            at += length;
        }
        if let Some((start, length)) = open {
            piece(start, length);
        }
    }

    /// Returns the address at which the byte at `addr` is priced, and how many bytes from it on
    /// stay together.
    fn place(&self, addr: u64) -> (u64, u64) {
        match self.slabs.part(addr) {
            Some(Part::Object(found)) => {
                let object = Moved {
                    start: found.start,
                    end: found.start + found.size,
                    fresh: found.fresh,
                    map: self.cache_maps[found.cache],
                };
                return self.place_in(&object, addr);
            }
            Some(Part::Between(room)) => return (addr, room),
            None => {}
        }
        let after = self.objects.partition_point(|object| object.start <= addr);
        let object = after.checked_sub(1).map(|index| &self.objects[index]);
        let Some(object) = object.filter(|object| addr < object.end) else {
            let next = self.objects.get(after);
            let room = next.map_or(u64::MAX, |object| object.start - addr);
            // The next page may be a slab's.
            let page_bytes = match self.slabs.caches.is_empty() {
                true => u64::MAX,
                false => PAGE_BYTES - addr % PAGE_BYTES,
            };
            return (addr, room.min(page_bytes));
        };
        self.place_in(object, addr)
    }

    /// The same for a byte of this object.
    fn place_in(&self, object: &Moved, addr: u64) -> (u64, u64) {
        let offset = addr - object.start;
        let spans = &self.maps[object.map];
        let after = spans.partition_point(|span| span.from <= offset);
        let next = spans
            .get(after)
            .map_or(object.end - object.start, |span| span.from);
        let room = next.saturating_sub(offset).max(1);
        let Some(span) = after.checked_sub(1).map(|index| spans[index]) else {
            return (object.fresh + offset, room);
        };
        let into = offset - span.from;
        let inside = if into < span.size {
            span.size - into
        } else {
            room
        };
        (object.fresh + span.to + into, inside.min(room))
    }
}

fn write_line(kind: &str, numbers: &[u64], text: &mut String) {
    text.push_str(kind);
    for number in numbers {
        let _ = write!(text, " {number:x}");
    }
    text.push('\n');
}

fn memory_of(numbers: &[u64], mask: u64) -> Option<PageMemory> {
    let numbers: [u64; 5] = numbers.try_into().ok()?;
    let mut memory: PageMemory = transmute!(numbers);
    memory.direct_map &= mask;
    memory.descriptors &= mask;
    (memory.descriptor_bytes > 0 && memory.pages <= PAGES_MAX).then_some(memory)
}

/// A cache's own address is a value that the kernel stores, and keeps all bits.
fn cache_of(numbers: &[u64], mask: u64) -> Option<SlabCache> {
    let numbers: [u64; 8] = numbers.try_into().ok()?;
    let mut cache: SlabCache = transmute!(numbers);
    cache.fresh &= mask;
    let fits = cache.pages.is_power_of_two() && cache.offset < cache.stride;
    fits.then_some(cache)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Relocation {
        let mut relocation = Relocation::default();
        let span = |from, to, size| MovedSpan { from, to, size };
        relocation.add_map([span(0, 0, 4), span(4, 64, 4), span(8, 68, 8)]);
        relocation.add_object(0x1000, 16, 0x9000);
        relocation.add_object(0x400, 16, 0x8000);
        relocation
    }

    fn pieces(addr: u64, size: u64) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        example().pieces(addr, size, |to, size| found.push((to, size)));
        found
    }

    #[test]
    fn members_go_to_their_places() {
        assert_eq!(pieces(0x1000, 4), [(0x9000, 4)]);
        assert_eq!(pieces(0x404, 4), [(0x8040, 4)]);
        // Two members that moved apart, and two that stay neighbours.
        assert_eq!(pieces(0x1000, 8), [(0x9000, 4), (0x9040, 4)]);
        assert_eq!(pieces(0x1004, 12), [(0x9040, 12)]);
        // What is no object stays, also beside one.
        assert_eq!(pieces(0x2000, 8), [(0x2000, 8)]);
        assert_eq!(pieces(0xffc, 8), [(0xffc, 4), (0x9000, 4)]);
    }

    #[test]
    fn the_quick_test_misses_nothing() {
        let relocation = example();
        assert!(relocation.may_cover(0x3fc) && relocation.may_cover(0x100f));
        assert!(!relocation.may_cover(0x1010) && !relocation.may_cover(0x100));
        assert!(!Relocation::default().may_cover(0));
    }

    #[test]
    fn text_there_and_back() {
        let text = with_slabs().to_text();
        let parsed = Relocation::parse(&text, u64::MAX).unwrap();
        assert_eq!(parsed.to_text(), text);
        assert!(text.contains("object 400 10 8000") && text.contains("slab 4"));
        let error = |text: &str| Relocation::parse(text, u64::MAX).unwrap_err();
        assert!(error("object 1 2 3").contains("object 1 2 3"));
        assert!(error("map\nspan 1 2").contains("span 1 2"));
        assert!(error("map\nspan 1 2 xyz").contains("xyz"));
        assert!(error("map\ncache 1 3 1 1 0 1 1 1").contains("cache 1 3"));
        assert!(error("memory 0 0 0 0 0").contains("memory"));
        assert!(error("slab 1").contains("slab 1"));
    }

    const DIRECT_MAP: u64 = 0x10_0000;
    const CACHE: u64 = 0xffff_8880_0000_4000;

    /// Memory of 16 pages; slabs of two pages with three objects of 2000 bytes, each with the structure of the
    /// example at its byte 8. Pages 4 and 5 are such a slab.
    fn with_slabs() -> Relocation {
        let mut relocation = example();
        relocation.set_memory(PageMemory {
            direct_map: DIRECT_MAP,
            descriptors: 0x40_0000,
            descriptor_bytes: 64,
            cache_offset: 24,
            pages: 16,
        });
        relocation.add_cache(SlabCache {
            address: CACHE,
            pages: 2,
            objects: 3,
            stride: 2000,
            offset: 8,
            size: 16,
            fresh: 0x10_0000_0000,
            fresh_stride: 128,
        });
        relocation.add_slab(4);
        relocation
    }

    fn first_piece(relocation: &Relocation, addr: u64) -> u64 {
        let mut first = None;
        relocation.pieces(addr, 4, |to, _| {
            first.get_or_insert(to);
        });
        first.unwrap()
    }

    #[test]
    fn objects_of_slabs_move() {
        let relocation = with_slabs();
        let slab = DIRECT_MAP + 4 * PAGE_BYTES;
        let fresh = |slab: u64, object: u64| 0x10_0000_0000 + (slab * 3 + object) * 128;
        assert_eq!(first_piece(&relocation, slab + 8), fresh(2, 0));
        // The third object, in the second page; its second member has moved by 60 bytes.
        assert_eq!(first_piece(&relocation, slab + 4012), fresh(2, 2) + 64);
        assert!(relocation.may_cover(slab + 4012));
        // Before the structure, behind it, behind the last object, and in another page.
        for into in [0, 24, 7000, 2 * PAGE_BYTES + 8] {
            assert_eq!(first_piece(&relocation, slab + into), slab + into);
        }
        assert!(!relocation.may_cover(slab + 2 * PAGE_BYTES + 8));
        // The structure of the example that is no slab's still moves.
        assert_eq!(first_piece(&relocation, 0x1000), 0x9000);
    }

    #[test]
    fn slabs_begin_and_end_by_the_kernels_stores() {
        let relocation = with_slabs();
        let pointer = |page: u64| 0x40_0000 + page * 64 + 24;
        let object = DIRECT_MAP + 6 * PAGE_BYTES + 8;
        assert!(relocation.is_slab_pointer(pointer(6)));
        assert!(!relocation.is_slab_pointer(pointer(6) + 8));
        assert!(!relocation.is_slab_pointer(pointer(16)));
        // A cache with other objects, then one of these.
        assert!(!relocation.store_slab_pointer(pointer(6), CACHE + 64));
        assert_eq!(first_piece(&relocation, object), object);
        assert!(relocation.store_slab_pointer(pointer(6), CACHE));
        assert_ne!(first_piece(&relocation, object), object);
        // A slab that is there already does not begin again.
        assert!(!relocation.store_slab_pointer(pointer(6), CACHE));
        // The descriptor of its second page says nothing about the slab, that of its first ends it.
        assert!(!relocation.store_slab_pointer(pointer(7), 0));
        assert_ne!(first_piece(&relocation, object), object);
        assert!(!relocation.store_slab_pointer(pointer(6), 0));
        assert_eq!(first_piece(&relocation, object), object);
    }
}
