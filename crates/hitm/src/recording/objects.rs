//! What a recording says about memory: files, heap blocks, stacks, and a kernel's objects.

use std::collections::BTreeMap;

use hitm_trace::{HeapObject, Mapping, Region, RegionKind};

/// What the recording says about memory.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) mappings: Vec<Mapping>,
    pub(super) regions: Vec<Region>,
    /// By first address. Where blocks followed one another at an address, the last is kept.
    heap: BTreeMap<u64, HeapObject>,
}

impl Objects {
    pub(super) fn add_heap(&mut self, object: HeapObject) {
        // Blocks that were here before and overlap the new one are gone.
        let end = object.addr.saturating_add(object.size);
        let dead: Vec<u64> = self
            .heap
            .range(object.addr..end)
            .map(|(addr, _)| *addr)
            .collect();
        dead.iter().for_each(|addr| drop(self.heap.remove(addr)));
        self.heap.insert(object.addr, object);
    }

    pub(super) fn heap_blocks(&self) -> impl Iterator<Item = &HeapObject> {
        self.heap.values()
    }

    pub(super) fn heap_at(&self, addr: u64) -> Option<&HeapObject> {
        let (_, object) = self.heap.range(..=addr).next_back()?;
        (addr - object.addr < object.size).then_some(object)
    }

    pub(super) fn region_at(&self, addr: u64) -> Option<&Region> {
        self.regions
            .iter()
            .rev()
            .find(|region| (region.start..region.end).contains(&addr))
    }
}

/// The regions of a recorded kernel by address. Objects may lie in one another: the innermost counts.
#[derive(Debug, Default)]
pub(super) struct KernelRegions<'a> {
    /// By first address, of two with one the larger first.
    regions: Vec<&'a Region>,
    /// For each region the nearest one before it that reaches as far as its start.
    around: Vec<Option<usize>>,
}

impl<'a> KernelRegions<'a> {
    pub(super) fn new(regions: &'a [Region]) -> KernelRegions<'a> {
        let of_kernel = |region: &&Region| {
            !matches!(
                region.kind,
                RegionKind::Stack { .. } | RegionKind::AnonymousMap { .. } | RegionKind::Brk
            )
        };
        let mut regions: Vec<&Region> = regions.iter().filter(of_kernel).collect();
        regions.sort_by_key(|region| (region.start, std::cmp::Reverse(region.end)));
        let mut around = Vec::with_capacity(regions.len());
        let mut open: Vec<usize> = Vec::new();
        for (index, region) in regions.iter().enumerate() {
            while open
                .last()
                .is_some_and(|&outer| regions[outer].end <= region.start)
            {
                open.pop();
            }
            around.push(open.last().copied());
            open.push(index);
        }
        KernelRegions { regions, around }
    }

    /// All of them, by address.
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Region> + '_ {
        self.regions.iter().copied()
    }

    /// The innermost region that holds the byte at `addr`.
    pub(super) fn at(&self, addr: u64) -> Option<&'a Region> {
        let after = self.regions.partition_point(|region| region.start <= addr);
        let mut at = after.checked_sub(1);
        while let Some(index) = at {
            if addr < self.regions[index].end {
                return Some(self.regions[index]);
            }
            at = self.around[index];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_object_counts() {
        let region = |start, end| Region {
            start,
            end,
            kind: RegionKind::PerCpu { cpu: 0 },
        };
        let regions = [
            region(0x100, 0x900),
            region(0x200, 0x300),
            region(0x210, 0x220),
            region(0x400, 0x410),
            region(0xa00, 0xa10),
        ];
        let index = KernelRegions::new(&regions);
        let start = |addr| index.at(addr).map(|region| region.start);
        assert_eq!(start(0x218), Some(0x210));
        assert_eq!(start(0x220), Some(0x200));
        assert_eq!(start(0x300), Some(0x100));
        assert_eq!(start(0x410), Some(0x100));
        assert_eq!(start(0x900), None);
        assert_eq!(start(0xff), None);
    }
}
