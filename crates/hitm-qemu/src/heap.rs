//! The live allocations of the program, told by the heap observer that is preloaded into it.
//!
//! The observer passes every allocation and every free as a system call that no kernel knows:
//! (operation, address, size, pointer to return addresses, how many). The recorder sees it before
//! QEMU refuses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hitm_base::{AddrRange, CodeAddr, Cycles, LINE_SIZE, LineAddr, ThreadId};
use hitm_trace::{HeapObject, Mapping};

use crate::guest_memory;
use crate::locks::{Rank, RankedGuard, RankedMutex};

/// Return addresses that are kept of an allocation's stack.
const STACK_DEPTH_MAX: u64 = 32;

/// The end of the observer's path.
const OBSERVER: &str = "/libhitm_heap.so";

/// The addresses of the observer's own code and data, which are no part of the program.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    start: AtomicU64,
    end: AtomicU64,
}

impl Observer {
    /// A file was mapped into the program.
    pub(crate) fn mapped(&self, mapping: &Mapping) {
        if !mapping.path.ends_with(OBSERVER) {
            return;
        }
        let range = mapping.range;
        if self.end.fetch_max(range.end(), Ordering::Relaxed) == 0 {
            self.start.store(range.start(), Ordering::Relaxed);
        }
        self.start.fetch_min(range.start(), Ordering::Relaxed);
    }

    /// Returns true if the address is the observer's.
    pub(crate) fn contains(&self, addr: u64) -> bool {
        let start = self.start.load(Ordering::Relaxed);
        (start..self.end.load(Ordering::Relaxed)).contains(&addr)
    }
}

/// Message of the heap observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeapNote {
    /// A block was handed out.
    Allocated,
    /// A block was given back.
    Freed,
    /// The observer unwinds the stack: what the thread does is no part of the program.
    UnwindingBegins,
    /// The thread resumes its program.
    UnwindingEnds,
}

impl HeapNote {
    /// The note with this number, as `hitm-heap` sends it.
    pub(crate) fn from_number(number: u64) -> Option<HeapNote> {
        match number {
            1 => Some(HeapNote::Allocated),
            2 => Some(HeapNote::Freed),
            3 => Some(HeapNote::UnwindingBegins),
            4 => Some(HeapNote::UnwindingEnds),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Block {
    range: AddrRange,
    time: Cycles,
    thread: ThreadId,
    /// Index in the table of stacks.
    stack: u32,
    told_type: Option<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By first address.
    blocks: BTreeMap<u64, Block>,
    stacks: Vec<Vec<CodeAddr>>,
    stack_index: BTreeMap<Vec<CodeAddr>, u32>,
}

/// While this lives, the table of blocks does not change.
#[derive(Debug)]
pub(crate) struct HeapGuard(
    #[expect(dead_code, reason = "held, not read")] RankedGuard<'static, Inner>,
);

/// The return addresses of the observer's message, read from the guest.
pub(crate) fn stack_of_note(addr: u64, depth: u64) -> Vec<CodeAddr> {
    let words = guest_memory::read_words(addr, depth.min(STACK_DEPTH_MAX) as usize);
    let words = words.unwrap_or_default().into_iter();
    words.map(CodeAddr).collect()
}

/// All live blocks.
#[derive(Debug)]
pub(crate) struct Heap {
    inner: RankedMutex<Inner>,
}

impl Default for Heap {
    fn default() -> Heap {
        Heap {
            inner: RankedMutex::new(Rank::Heap, Inner::default()),
        }
    }
}

impl Heap {
    /// Notes a new block.
    pub(crate) fn allocated(&self, object: &HeapObject) {
        let mut inner = self.inner.lock();
        let stack = inner.intern(&object.stack);
        inner.remove_arena_of(object.range);
        let block = Block {
            range: object.range,
            time: object.time,
            thread: object.thread,
            stack,
            told_type: object.told_type,
        };
        inner.blocks.insert(object.range.start(), block);
    }

    /// Keeps the table as it is until the guard goes.
    pub(crate) fn hold(&'static self) -> HeapGuard {
        HeapGuard(self.inner.lock())
    }

    /// Forgets a block.
    pub(crate) fn freed(&self, addr: u64) {
        self.inner.lock().blocks.remove(&addr);
    }

    /// The live blocks that have bytes on a line.
    pub(crate) fn objects_on(&self, line: LineAddr) -> Vec<HeapObject> {
        let inner = self.inner.lock();
        let end = line.first_byte().saturating_add(LINE_SIZE);
        let before_end = inner.blocks.range(..end).rev();
        // Blocks do not overlap: the first that ends before the line ends the search.
        let on_line = before_end
            .map(|(_, block)| block)
            .take_while(|block| block.range.end() > line.first_byte());
        on_line
            .map(|block| HeapObject {
                range: block.range,
                time: block.time,
                thread: block.thread,
                stack: inner.stacks[block.stack as usize].clone(),
                told_type: block.told_type,
            })
            .collect()
    }
}

impl Inner {
    /// Forgets the block around a new one: it is a mapping that an allocator hands out in parts.
    fn remove_arena_of(&mut self, range: AddrRange) {
        let before = self.blocks.range(..=range.start()).next_back();
        if let Some((&start, around)) = before
            && around.range.end() >= range.end()
        {
            self.blocks.remove(&start);
        }
    }

    fn intern(&mut self, stack: &[CodeAddr]) -> u32 {
        if let Some(index) = self.stack_index.get(stack) {
            return *index;
        }
        let index = self.stacks.len() as u32;
        self.stacks.push(stack.to_vec());
        self.stack_index.insert(stack.to_vec(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_observer_is_where_its_file_is_mapped() {
        let mapping = |path: &str, start, end| Mapping {
            range: AddrRange::new(start, end).unwrap(),
            file_offset: 0,
            path: path.into(),
            build_id: Vec::new(),
            executable: true,
        };
        let observer = Observer::default();
        observer.mapped(&mapping("/usr/lib/libc.so.6", 0x1000, 0x9000));
        assert!(!observer.contains(0x2000) && !observer.contains(0));
        observer.mapped(&mapping("/opt/hitm/libhitm_heap.so", 0x20000, 0x24000));
        observer.mapped(&mapping("/opt/hitm/libhitm_heap.so", 0x24000, 0x26000));
        observer.mapped(&mapping("/opt/hitm/libhitm_heap.so", 0x22000, 0x23000));
        let inside = [0x1ffff, 0x20000, 0x25fff, 0x26000].map(|addr| observer.contains(addr));
        assert_eq!(inside, [false, true, true, false]);
    }

    fn object(addr: u64, size: u64) -> HeapObject {
        HeapObject {
            range: AddrRange::with_len(addr, size).unwrap(),
            time: Cycles(7),
            thread: ThreadId(0),
            stack: Vec::new(),
            told_type: None,
        }
    }

    #[test]
    fn a_line_names_every_block_on_it() {
        let heap = Heap::default();
        for (addr, size) in [(0x1000, 48), (0x1030, 48), (0x1060, 16)] {
            heap.allocated(&object(addr, size));
        }
        let on = |line: u64| -> Vec<u64> {
            heap.objects_on(LineAddr::of(line))
                .iter()
                .map(|object| object.range.start())
                .collect()
        };
        assert_eq!(on(0x1000), [0x1030, 0x1000]);
        assert_eq!(on(0x1040), [0x1060, 0x1030]);
        heap.freed(0x1030);
        assert_eq!(on(0x1040), [0x1060]);
        assert_eq!(on(0x2000), [0u64; 0]);
    }

    #[test]
    fn what_an_allocator_maps_is_no_block_beside_its_parts() {
        let heap = Heap::default();
        for (addr, size) in [(0x10000, 0x10000), (0x10100, 64), (0x10140, 64)] {
            heap.allocated(&object(addr, size));
        }
        let on_line = heap.objects_on(LineAddr::of(0x10140));
        let sizes: Vec<u64> = on_line.iter().map(|object| object.range.len()).collect();
        assert_eq!(sizes, [64]);
    }
}
