//! Memory in a recording: files, heap blocks, stacks, and a kernel's objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hitm_base::{AddrRange, CodeAddr, LINE_SIZE, LineAddr};
use hitm_layout::RangeMap;
use hitm_trace::{HeapObject, Mapping, Region, RegionKind};

use super::budget::Budget;

/// A heap block one of whose lines was shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapBlock {
    /// From the address that the allocator returned, the bytes that the program asked for.
    pub range: AddrRange,
    /// The allocation site, innermost call first. Blocks of one site share it.
    pub stack: Arc<[CodeAddr]>,
    /// Address of the description of the type that the allocator was told (Go's `_type`).
    pub told_type: Option<u64>,
}

/// Files, regions, heap blocks and stacks of the recording.
#[derive(Debug, Default)]
pub struct Objects {
    /// Mapped files, by address.
    pub(crate) mappings: Vec<Mapping>,
    /// Regions, by address.
    pub(crate) regions: Vec<Region>,
    /// By first address. Where blocks followed one another at an address, the last is kept.
    heap: BTreeMap<u64, HeapBlock>,
    stacks: BTreeSet<Arc<[CodeAddr]>>,
}

impl Objects {
    /// Adds a mapped file, as far as the budget allows.
    pub(crate) fn add_mapping(&mut self, mapping: Mapping, budget: &mut Budget) {
        let text = mapping.path.len() + mapping.build_id.len();
        if budget.admits("mappings", size_of::<Mapping>() + text) {
            self.mappings.push(mapping);
        }
    }

    /// Adds a region, as far as the budget allows.
    pub(crate) fn add_region(&mut self, region: Region, budget: &mut Budget) {
        let text = match &region.kind {
            RegionKind::Object { name, type_name } => name.len() + type_name.len(),
            RegionKind::Slab {
                cache, type_name, ..
            } => cache.len() + type_name.len(),
            RegionKind::AnonymousMap { stack } => size_of_val(stack.as_slice()),
            _ => 0,
        };
        if budget.admits("regions", size_of::<Region>() + text) {
            self.regions.push(region);
        }
    }

    /// Adds a heap block, as far as the budget allows.
    pub(crate) fn add_heap(&mut self, object: HeapObject, budget: &mut Budget) {
        let range = object.range;
        // Blocks that were here before and overlap the new one are gone.
        let overlapped = self.heap.range(range.start()..range.end());
        let dead: Vec<u64> = overlapped.map(|(addr, _)| *addr).collect();
        for addr in &dead {
            self.heap.remove(addr);
        }
        let is_paid_for = !dead.is_empty();
        if !is_paid_for && !budget.admits("heap blocks", size_of::<HeapBlock>()) {
            return;
        }
        if let Some(stack) = self.intern(object.stack, budget) {
            let block = HeapBlock {
                range,
                stack,
                told_type: object.told_type,
            };
            self.heap.insert(range.start(), block);
        }
    }

    /// The stack as one that all blocks of its site share.
    fn intern(&mut self, stack: Vec<CodeAddr>, budget: &mut Budget) -> Option<Arc<[CodeAddr]>> {
        if let Some(known) = self.stacks.get(stack.as_slice()) {
            return Some(Arc::clone(known));
        }
        if !budget.admits("heap blocks", size_of_val(stack.as_slice())) {
            return None;
        }
        let stack: Arc<[CodeAddr]> = stack.into();
        self.stacks.insert(Arc::clone(&stack));
        Some(stack)
    }

    pub(crate) fn heap_blocks(&self) -> impl Iterator<Item = &HeapBlock> {
        self.heap.values()
    }

    /// The blocks that have bytes on a line.
    pub(super) fn heap_on(&self, line: LineAddr) -> impl Iterator<Item = &HeapBlock> {
        let start = line.first_byte();
        let before_end = self.heap.range(..start.saturating_add(LINE_SIZE)).rev();
        let blocks = before_end.map(|(_, block)| block);
        blocks.take_while(move |block| block.range.end() > start)
    }

    pub(super) fn heap_at(&self, addr: u64) -> Option<&HeapBlock> {
        let (_, block) = self.heap.range(..=addr).next_back()?;
        block.range.contains(addr).then_some(block)
    }
}

/// Returns true if a region is part of a recorded machine rather than of a process.
fn is_of_kernel(region: &Region) -> bool {
    !matches!(
        region.kind,
        RegionKind::Stack { .. } | RegionKind::AnonymousMap { .. } | RegionKind::Brk
    )
}

/// A map of regions by address: of those that hold a byte, the last one counts.
fn by_address<'a>(regions: impl Iterator<Item = &'a Region>) -> RangeMap<&'a Region> {
    let mut map = RangeMap::default();
    for region in regions {
        map.insert(region.range.start()..region.range.end(), region);
    }
    map
}

/// The regions of a process by address: the one that was told last counts.
#[derive(Debug, Default)]
pub(super) struct LatestRegions<'a> {
    parts: RangeMap<&'a Region>,
}

impl<'a> LatestRegions<'a> {
    pub(super) fn new(regions: &'a [Region]) -> LatestRegions<'a> {
        let of_process = regions.iter().filter(|region| !is_of_kernel(region));
        LatestRegions {
            parts: by_address(of_process),
        }
    }

    /// The region that was told last of those that hold the byte at `addr`.
    pub(super) fn at(&self, addr: u64) -> Option<&'a Region> {
        self.parts.at(addr)
    }
}

/// The regions of a recorded kernel by address. Objects may lie in one another: the innermost counts.
#[derive(Debug, Default)]
pub(super) struct KernelRegions<'a> {
    /// By first address, of two with one the larger first.
    regions: Vec<&'a Region>,
    parts: RangeMap<&'a Region>,
}

impl<'a> KernelRegions<'a> {
    pub(super) fn new(regions: &'a [Region]) -> KernelRegions<'a> {
        let of_kernel = |region: &&Region| is_of_kernel(region);
        let mut regions: Vec<&Region> = regions.iter().filter(of_kernel).collect();
        regions.sort_by_key(|region| (region.range.start(), std::cmp::Reverse(region.range.end())));
        let parts = by_address(regions.iter().copied());
        KernelRegions { regions, parts }
    }

    /// All of them, by address.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Region> + '_ {
        self.regions.iter().copied()
    }

    /// The innermost region that holds the byte at `addr`.
    pub(super) fn at(&self, addr: u64) -> Option<&'a Region> {
        self.parts.at(addr)
    }

    /// The object of a slab cache without a type that holds the byte at `addr`.
    pub(super) fn untyped_at(&self, addr: u64) -> Option<AddrRange> {
        let region = self.at(addr)?;
        match &region.kind {
            RegionKind::Slab {
                type_name,
                stride_bytes,
                ..
            } if type_name.is_empty() => {
                let stride = (*stride_bytes).max(1);
                AddrRange::with_len(addr - (addr - region.range.start()) % stride, stride)
            }
            _ => None,
        }
    }

    /// Such objects at a line's ends.
    pub(super) fn untyped_on(&self, line: LineAddr) -> impl Iterator<Item = AddrRange> {
        let first = line.first_byte();
        let ends = [first, first.saturating_add(LINE_SIZE - 1)];
        ends.into_iter().filter_map(|addr| self.untyped_at(addr))
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{Cycles, ThreadId};

    use super::*;

    fn object(start: u64, end: u64) -> Region {
        Region {
            range: AddrRange::new(start, end).unwrap(),
            kind: RegionKind::PerCpu { cpu: 0 },
        }
    }

    fn stack(start: u64, len: u64, thread: u32) -> Region {
        let thread = ThreadId(thread);
        Region {
            range: AddrRange::with_len(start, len).unwrap(),
            kind: RegionKind::Stack { thread },
        }
    }

    #[test]
    fn the_innermost_object_counts() {
        let regions = [
            object(0x100, 0x900),
            object(0x200, 0x300),
            object(0x210, 0x220),
            object(0x400, 0x410),
            object(0xa00, 0xa10),
        ];
        let index = KernelRegions::new(&regions);
        let start = |addr| index.at(addr).map(|region| region.range.start());
        assert_eq!(start(0x218), Some(0x210));
        assert_eq!(start(0x220), Some(0x200));
        assert_eq!(start(0x300), Some(0x100));
        assert_eq!(start(0x410), Some(0x100));
        assert_eq!(start(0x900), None);
        assert_eq!(start(0xff), None);
    }

    /// The answer of a search from the last region to the first.
    fn latest(regions: &[Region], addr: u64) -> Option<&Region> {
        let mut backwards = regions.iter().rev();
        backwards.find(|region| region.range.contains(addr))
    }

    proptest::proptest! {
        #[test]
        fn the_latest_region_counts(ranges in proptest::collection::vec((0u64..40, 0u64..20), 0..12)) {
            let numbered = ranges.into_iter().zip(0..);
            let stacks = numbered.map(|((start, len), number)| stack(start, len, number));
            let regions: Vec<Region> = stacks.collect();
            let index = LatestRegions::new(&regions);
            for addr in 0..64 {
                proptest::prop_assert_eq!(index.at(addr), latest(&regions, addr), "at {}", addr);
            }
        }
    }

    fn block(addr: u64, size: u64, site: u64) -> HeapObject {
        HeapObject {
            range: AddrRange::with_len(addr, size).unwrap(),
            time: Cycles(0),
            thread: ThreadId(0),
            stack: vec![CodeAddr(site)],
            told_type: None,
        }
    }

    #[test]
    fn a_new_block_takes_the_place_of_what_it_overlaps() {
        let (mut objects, mut budget) = (Objects::default(), Budget::default());
        for (addr, size, site) in [(0x100, 32, 1), (0x120, 32, 1), (0x110, 32, 2)] {
            objects.add_heap(block(addr, size, site), &mut budget);
        }
        let site = |addr| objects.heap_at(addr).map(|block| block.stack[0].0);
        assert_eq!(
            (site(0x10f), site(0x118), site(0x130)),
            (Some(1), Some(2), None)
        );
        let sites: Vec<_> = objects
            .heap_blocks()
            .map(|block| block.stack[0].0)
            .collect();
        assert_eq!(sites, [1, 2]);
    }
}
