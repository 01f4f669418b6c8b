//! Members that are moved while the real kernel runs: the objects of a layout file, and the
//! addresses at which their members are priced.
//!
//! A structure that a slab cache is made of, or that each of its objects holds once, moves in all slabs of the cache,
//! also in those that the kernel makes later: every object of such a slab has a place in one area of fresh addresses,
//! by its page. Other objects move one by one, as walks and the table of variables find them at the start.

use hitm_base::{AddrRange, LINE_SIZE};
use hitm_kernel::{
    Cache, DIRECT_MAP, KernelObject, PAGE_BYTES, PAGE_DESCRIPTOR_BYTES, PAGE_DESCRIPTORS, Slab,
    Walker, Walks,
};
use hitm_layout::layout_file::LayoutFile;
use hitm_layout::member_map::MemberMap;
use hitm_layout::only_instance;
use hitm_recording::MOVED;
use hitm_trace::{Record, Region, RegionKind};
use hitm_weave::{MovedSpan, PageMemory, Relocation, SlabCache};

use super::VmError;

/// Moves of a recording.
#[derive(Debug)]
pub(super) struct Plan {
    /// Address map for the recorder.
    pub(super) relocation: Relocation,
    /// Records that name the moved objects.
    pub(super) records: Vec<Record>,
    /// The objects of each structure.
    pub(super) found: Vec<FoundObjects>,
}

/// Numbers of objects of a structure that move, by how they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FoundObjects {
    type_name: String,
    walked: u64,
    /// Places for objects in slabs, and the slabs.
    places: u64,
    slabs: u64,
    variables: u64,
    /// The caches of those slabs.
    caches: Vec<String>,
}

impl std::fmt::Display for FoundObjects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.walked + self.variables + self.places;
        write!(f, "moves {all} {}: {} walked", self.type_name, self.walked)?;
        if self.variables > 0 {
            write!(f, ", {} as variables", self.variables)?;
        }
        if !self.caches.is_empty() {
            let caches = self.caches.join(", ");
            write!(
                f,
                ", {} places in {} slabs of {caches}, and those of its later slabs",
                self.places, self.slabs
            )?;
        }
        Ok(())
    }
}

/// A stopped kernel's memory, as far as objects are looked for in it.
struct Memory {
    walked: Vec<KernelObject>,
    variables: Vec<KernelObject>,
    caches: Vec<Cache>,
    slabs: Vec<Slab>,
    pages: u64,
}

impl Memory {
    fn of(walker: &mut Walker<'_>, walks: &Walks) -> Memory {
        let caches = walker.caches(&walks.slab).unwrap_or_default();
        Memory {
            walked: walker.objects(walks),
            variables: walker.variables(walks),
            caches: caches.into_values().collect(),
            slabs: walker.slabs(&walks.slab),
            pages: walker.page_count(),
        }
    }
}

/// Plans the moves of all objects that are found in a stopped guest.
pub(super) fn plan(
    walker: &mut Walker<'_>,
    walks: &Walks,
    layouts: &[LayoutFile],
) -> Result<Plan, VmError> {
    let memory = Memory::of(walker, walks);
    let mut planner = Planner::new(layouts, memory);
    if let Some(cache_offset) = walker.slab_cache_offset() {
        planner.plan.relocation.set_memory(PageMemory {
            direct_map: DIRECT_MAP,
            descriptors: PAGE_DESCRIPTORS.start,
            descriptor_bytes: PAGE_DESCRIPTOR_BYTES,
            cache_offset,
            pages: planner.memory.pages,
        });
    }
    for wanted in layouts.iter().flat_map(|layout| &layout.structs) {
        planner.add(walker, wanted)?;
    }
    if planner.plan.records.is_empty() {
        let structs = layouts.iter().flat_map(|layout| &layout.structs);
        let structs: Vec<&str> = structs.map(|known| known.name.as_str()).collect();
        return Err(VmError::NothingMoves {
            structs: structs.join(", "),
        });
    }
    Ok(planner.plan)
}

/// A cache whose objects move: in which structure, and where they are priced.
struct MovedCache {
    name: String,
    slabs: SlabCache,
}

struct Planner<'l> {
    layouts: &'l [LayoutFile],
    memory: Memory,
    plan: Plan,
    /// Caches whose objects move already: the layout that comes first takes them.
    caches: Vec<MovedCache>,
    /// End of the fresh addresses that are taken.
    end: u64,
}

impl Planner<'_> {
    fn new(layouts: &[LayoutFile], memory: Memory) -> Planner<'_> {
        Planner {
            layouts,
            memory,
            plan: Plan {
                relocation: Relocation::default(),
                records: Vec::new(),
                found: Vec::new(),
            },
            caches: Vec::new(),
            end: MOVED.start,
        }
    }

    /// Adds the objects of one structure.
    fn add(
        &mut self,
        walker: &mut Walker<'_>,
        wanted: &hitm_layout::layout_file::FileStruct,
    ) -> Result<(), VmError> {
        if self
            .plan
            .found
            .iter()
            .any(|found| found.type_name == wanted.name)
        {
            return Ok(());
        }
        let mut found = FoundObjects {
            type_name: wanted.name.clone(),
            ..FoundObjects::default()
        };
        let caches = self.caches_of(walker, &wanted.name);
        let is_wanted = |object: &&KernelObject| object.type_name == wanted.name;
        let walked: Vec<KernelObject> = self
            .memory
            .walked
            .iter()
            .filter(is_wanted)
            .cloned()
            .collect();
        let is_new = |object: &&KernelObject| walked.iter().all(|one| one.start != object.start);
        let variables = self
            .memory
            .variables
            .iter()
            .filter(is_wanted)
            .filter(is_new);
        let variables: Vec<KernelObject> = variables.cloned().collect();
        if caches.is_empty() && walked.is_empty() && variables.is_empty() {
            return Ok(());
        }
        let map = map(walker, wanted, self.layouts)?;
        let spans = map.pieces_and_tail().map(|piece| MovedSpan {
            from: piece.from,
            to: piece.to,
            size: piece.size,
        });
        self.plan.relocation.add_map(spans);
        for (cache, offset) in caches {
            self.add_cache(&cache, offset, &map, &mut found)?;
        }
        found.walked = walked.len() as u64;
        found.variables = variables.len() as u64;
        for object in walked.iter().chain(&variables) {
            let is_in_slab = self.add_object(object, &map)?;
            found.places = found.places.saturating_sub(is_in_slab.into());
        }
        self.plan.found.push(found);
        Ok(())
    }

    /// Caches whose objects are of a type or hold one of it, with its offset in them.
    fn caches_of(&self, walker: &mut Walker<'_>, wanted: &str) -> Vec<(Cache, u64)> {
        let is_free = |cache: &&Cache| {
            let has_shape = cache.slab_objects > 0 && cache.stride_bytes > 0;
            has_shape && self.caches.iter().all(|moved| moved.name != cache.name)
        };
        let mut found = Vec::new();
        for cache in self.memory.caches.iter().filter(is_free) {
            let of = match cache.type_name.is_empty() {
                true => None,
                false => walker.btf.type_by_name(&cache.type_name),
            };
            let offset = of.and_then(|of| only_instance(walker.btf.types(), of, wanted));
            // A guest's memory may hold any size.
            let offset = offset.filter(|offset| *offset < cache.stride_bytes);
            found.extend(offset.map(|offset| (cache.clone(), offset)));
        }
        found.truncate(Relocation::CACHES_MAX - self.caches.len());
        found
    }

    /// Takes fresh addresses for all slabs of a cache that there may be, and moves those that are there.
    fn add_cache(
        &mut self,
        cache: &Cache,
        offset: u64,
        map: &MemberMap,
        found: &mut FoundObjects,
    ) -> Result<(), VmError> {
        let align = map.align.max(LINE_SIZE);
        // An array of any length at the structure's end follows it in the object.
        let room = cache.stride_bytes - offset;
        let (size, size_after) = match cache.type_name == map.type_name {
            true => (room, map.tail() + room.saturating_sub(map.sizes.before)),
            false => (map.sizes.before.min(room), map.sizes.after),
        };
        let fresh_stride = size_after.next_multiple_of(align);
        let slabs = SlabCache {
            address: cache.address,
            pages: cache.slab_pages,
            objects: cache.slab_objects,
            stride: cache.stride_bytes,
            offset,
            size,
            fresh: self.end.next_multiple_of(align),
            fresh_stride,
        };
        let area = slabs
            .fresh_bytes(self.memory.pages)
            .and_then(|bytes| self.take(bytes, align))
            .ok_or_else(|| too_large(&cache.name))?;
        self.plan.relocation.add_cache(slabs);
        let of_cache = self
            .memory
            .slabs
            .iter()
            .filter(|slab| slab.cache == cache.name);
        // A kernel short of memory takes fewer pages than a cache prefers.
        let whole = of_cache.filter(|slab| slab.end - slab.start == slabs.pages * PAGE_BYTES);
        for slab in whole {
            let page = (slab.start - DIRECT_MAP) / PAGE_BYTES;
            self.plan.relocation.add_slab(page);
            found.slabs += 1;
            found.places += slabs.objects;
        }
        found.caches.push(cache.name.clone());
        self.plan.records.push(Record::Region(Region {
            range: area,
            kind: RegionKind::Slab {
                cache: cache.name.clone(),
                type_name: map.type_name.to_owned(),
                stride_bytes: fresh_stride,
            },
        }));
        self.caches.push(MovedCache {
            name: cache.name.clone(),
            slabs,
        });
        Ok(())
    }

    /// Adds an object by its address; returns true if it lies in a slab that moves, where it only gets its name.
    fn add_object(&mut self, object: &KernelObject, map: &MemberMap) -> Result<bool, VmError> {
        let in_slab = self.fresh_in_slab(object.start);
        let range = match in_slab {
            Some(fresh) => AddrRange::with_len(fresh, map.sizes.after),
            None => self.take(map.sizes.after, map.align.max(LINE_SIZE)),
        };
        let range = range.ok_or_else(|| too_large(&object.name))?;
        if in_slab.is_none() {
            let relocation = &mut self.plan.relocation;
            relocation.add_object(object.start, map.sizes.before, range.start());
        }
        self.plan.records.push(Record::Region(Region {
            range,
            kind: RegionKind::Object {
                name: object.name.clone(),
                type_name: object.type_name.clone(),
            },
        }));
        Ok(in_slab.is_some())
    }

    /// Priced place of a structure that begins at `start`, if it is one of a slab that moves.
    fn fresh_in_slab(&self, start: u64) -> Option<u64> {
        let slabs = &self.memory.slabs;
        let after = slabs.partition_point(|slab| slab.start <= start);
        let slab = slabs[..after].last().filter(|slab| start < slab.end)?;
        let moved = self.caches.iter().find(|moved| moved.name == slab.cache)?;
        let into = start - slab.start;
        let is_whole = slab.end - slab.start == moved.slabs.pages * PAGE_BYTES;
        let is_at_structure = into % moved.slabs.stride == moved.slabs.offset;
        let page = (slab.start - DIRECT_MAP) / PAGE_BYTES;
        (is_whole && is_at_structure).then(|| moved.slabs.fresh_at(page, into))
    }

    /// Takes fresh addresses; none when there are not so many.
    fn take(&mut self, bytes: u64, align: u64) -> Option<AddrRange> {
        let range = AddrRange::with_len(self.end.next_multiple_of(align), bytes)?;
        (range.end() <= MOVED.end).then(|| {
            self.end = range.end();
            range
        })
    }
}

fn too_large(name: &str) -> VmError {
    VmError::Layout {
        what: format!(
            "the objects of {name} take more than the {} GiB of addresses that are free for moved ones: use less --memory",
            (MOVED.end - MOVED.start) >> 30
        ),
    }
}

fn map(
    walker: &mut Walker<'_>,
    wanted: &hitm_layout::layout_file::FileStruct,
    layouts: &[LayoutFile],
) -> Result<MemberMap, VmError> {
    let failed = |what: String| VmError::Layout { what };
    let compiled = walker.btf.struct_layout(&wanted.name);
    let compiled = compiled.map_err(|error| failed(error.to_string()))?;
    let map = MemberMap::new(walker.btf.types(), &compiled, wanted, layouts);
    map.map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests;
