//! Finds the objects of a structure in a recording.
//!
//! Variables are found by the addresses of recorded accesses and the types of the debug
//! information; an array holds as many structures as it has elements. What holds a structure of the layouts
//! moves with it. An array of plain values is found by its own name: its elements become structures with one
//! member. Heap blocks are found by
//! the types that code accesses them as, unless the caller names the function that allocates them.

use std::collections::BTreeMap;
use std::str::FromStr;

use hitm_layout::layout_file::LayoutFile;
use hitm_layout::{DataObject, Symbolizer};

use super::WhatifError;
use super::member_map::{MemberMap, element_of};
use super::moves::{MovedObject, Moves};
use crate::recording::{AddressNames, Recording, TypedBlock};

/// Bytes of all moved objects together.
const MOVED_BYTES_MAX: u64 = 4 << 30;

/// Heap blocks that hold structures: those from one allocation site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeapInstances {
    /// The structure; none when the layouts have only one.
    pub type_name: Option<String>,
    /// Function that allocates the blocks, or part of the site's name in the report.
    pub site: String,
}

impl FromStr for HeapInstances {
    type Err = String;

    fn from_str(text: &str) -> Result<HeapInstances, String> {
        let (type_name, place) = match text.split_once('=') {
            Some((name, place)) => (Some(name.to_owned()), place),
            None => (None, text),
        };
        match place.strip_prefix("heap:") {
            Some(site) if !site.is_empty() => Ok(HeapInstances {
                type_name,
                site: site.to_owned(),
            }),
            _ => Err(format!(
                "found '{text}', expected 'heap:FUNCTION' or 'STRUCT=heap:FUNCTION'"
            )),
        }
    }
}

/// Finds all objects of the layouts' structures.
pub(super) fn find(
    recording: &Recording,
    layouts: &[LayoutFile],
    heap: &[HeapInstances],
) -> Result<Moves, WhatifError> {
    if layouts.is_empty() {
        return Ok(Moves::default());
    }
    let mut finder = Finder {
        layouts,
        symbolizer: recording.symbolizer(),
        maps: Vec::new(),
        objects: BTreeMap::new(),
    };
    finder.kernel_objects(recording)?;
    finder.variables(recording)?;
    match heap {
        [] => finder.typed_blocks(recording)?,
        heap => finder.heap_blocks(recording, heap)?,
    }
    finder.finish(recording)
}

struct Finder<'a> {
    layouts: &'a [LayoutFile],
    symbolizer: Symbolizer<'static>,
    maps: Vec<MemberMap>,
    /// By address.
    objects: BTreeMap<u64, MovedObject>,
}

impl Finder<'_> {
    /// Adds the kernel's objects of the structures, in a recording of a whole machine.
    fn kernel_objects(&mut self, recording: &Recording) -> Result<(), WhatifError> {
        let names = recording.names();
        let layouts = self.layouts;
        for wanted in layouts.iter().flat_map(|layout| &layout.structs) {
            let mut map = None;
            for (name, start, size) in names.objects_of_type(&wanted.name) {
                if map.is_none() {
                    map = names.with_kernel_type(&wanted.name, |types, compiled| {
                        MemberMap::new(types, compiled, wanted, layouts)
                    });
                }
                if let Some(map) = map.clone() {
                    self.add(name, (start, size), 1, map?)?;
                }
            }
        }
        Ok(())
    }

    fn variables(&mut self, recording: &Recording) -> Result<(), WhatifError> {
        // First and last byte of the last object.
        let mut seen = (1, 0);
        for (addr, size) in recording.places() {
            let is_seen = (seen.0..=seen.1).contains(&addr);
            // Walks find the kernel's objects.
            if is_seen || addr >> 63 == 1 || recording.heap_block_at(addr).is_some() {
                continue;
            }
            let name = self.symbolizer.data(addr, size.into());
            let (Some(path), Some(location)) = (name.path, name.location) else {
                continue;
            };
            seen = (
                location.object.start,
                location.object.end().saturating_sub(1),
            );
            self.variable(&path, &location.object)?;
        }
        Ok(())
    }

    /// Adds a variable that is one of the structures or an array of one, or an array of plain
    /// values with the name of a structure of the layouts.
    fn variable(&mut self, path: &str, object: &DataObject) -> Result<(), WhatifError> {
        let Some(type_id) = object.type_id else {
            return Ok(());
        };
        let Some(file) = self.symbolizer.file(path) else {
            return Ok(());
        };
        let types = file.types();
        let (element, count) = element_of(types, type_id);
        let mut structs = self.layouts.iter().flat_map(|layout| &layout.structs);
        let map = match (types.layout(element), types.get(element).size) {
            (Some(_), _) => MemberMap::of_type(types, element, self.layouts)?,
            (None, Some(size)) if element != types.resolve(type_id) => structs
                .find(|wanted| wanted.name == object.name)
                .map(|wanted| MemberMap::of_values(size, wanted))
                .transpose()?,
            _ => None,
        };
        let Some(map) = map else {
            return Ok(());
        };
        self.add(object.name.clone(), (object.start, object.size), count, map)
    }

    /// Adds the heap blocks whose accesses show one of the structures, or an array of one.
    fn typed_blocks(&mut self, recording: &Recording) -> Result<(), WhatifError> {
        let names = recording.names();
        for block in recording.heap_blocks() {
            let Some(typed) = names.block_type(block) else {
                continue;
            };
            let Some(map) = self.map_of(&names, &typed)? else {
                continue;
            };
            self.add(
                names.heap_block(block),
                typed.extent,
                typed.element_count,
                map,
            )?;
        }
        Ok(())
    }

    /// Returns the map for a block's type, if the layouts have it.
    fn map_of(
        &self,
        names: &AddressNames<'_>,
        typed: &TypedBlock,
    ) -> Result<Option<MemberMap>, WhatifError> {
        let found = names.with_file_types(&typed.path, |types| {
            MemberMap::of_type(types, typed.type_id, self.layouts)
        });
        Ok(found.transpose()?.flatten())
    }

    fn heap_blocks(
        &mut self,
        recording: &Recording,
        heap: &[HeapInstances],
    ) -> Result<(), WhatifError> {
        let names = recording.names();
        for wanted in heap {
            let map = self.heap_map(recording, wanted)?;
            let mut count = 0;
            for block in recording.heap_blocks() {
                // Reports print this name, and a caller may pass it back whole.
                let name = names.heap_block(block);
                let (start, size) = (block.range.start(), block.range.len());
                let is_whole = size > 0 && size.is_multiple_of(map.sizes.0);
                if is_whole && name.contains(&wanted.site) {
                    let elements = size / map.sizes.0;
                    self.add(name, (start, size), elements, map.clone())?;
                    count += 1;
                }
            }
            if count == 0 {
                return Err(WhatifError::NoHeapBlock {
                    site: wanted.site.clone(),
                    size: map.sizes.0,
                    known: known_sites(recording),
                });
            }
        }
        Ok(())
    }

    /// Returns the map of the structure in the blocks, from the first of the program's files that
    /// has its type.
    fn heap_map(
        &mut self,
        recording: &Recording,
        wanted: &HeapInstances,
    ) -> Result<MemberMap, WhatifError> {
        let mut structs = self.layouts.iter().flat_map(|layout| &layout.structs);
        let layout = match &wanted.type_name {
            Some(name) => structs.find(|known| known.name == *name),
            None => structs.next().filter(|_| structs.next().is_none()),
        };
        let layout = layout.ok_or_else(|| WhatifError::WhichStruct {
            site: wanted.site.clone(),
            known: struct_names(self.layouts),
        })?;
        for mapping in recording.mappings() {
            self.symbolizer.data(mapping.range.start(), 1);
            let Some(file) = self.symbolizer.file(&mapping.path) else {
                continue;
            };
            if let Ok(compiled) = file.struct_layout(&layout.name) {
                return Ok(MemberMap::new(
                    file.types(),
                    &compiled,
                    layout,
                    self.layouts,
                )?);
            }
        }
        let name = layout.name.clone();
        Err(WhatifError::NoSuchType { name })
    }

    fn add(
        &mut self,
        name: String,
        (address, size_bytes): (u64, u64),
        element_count: u64,
        map: MemberMap,
    ) -> Result<(), WhatifError> {
        let type_name = map.type_name.clone();
        if map.sizes.0 == 0 || map.sizes.1 == 0 {
            return Err(WhatifError::NoBytes { type_name });
        }
        let index = match self.maps.iter().position(|known| *known == map) {
            Some(index) => index,
            None => {
                self.maps.push(map);
                self.maps.len() - 1
            }
        };
        let object = MovedObject {
            name,
            type_name,
            address,
            size_bytes,
            element_count,
            size_bytes_after: 0,
            fresh: 0,
            map: index,
        };
        self.objects.insert(address, object);
        Ok(())
    }

    fn finish(self, recording: &Recording) -> Result<Moves, WhatifError> {
        let objects: Vec<MovedObject> = self.objects.into_values().collect();
        if objects.is_empty() {
            return Err(WhatifError::NothingMoves {
                structs: struct_names(self.layouts),
                known: known_sites(recording),
            });
        }
        let bytes = objects.iter().try_fold(0u64, |sum, object| {
            let size = self.maps[object.map]
                .sizes
                .1
                .checked_mul(object.element_count)?;
            sum.checked_add(size)
        });
        if bytes.is_none_or(|bytes| bytes > MOVED_BYTES_MAX) {
            return Err(WhatifError::TooLarge {
                max: MOVED_BYTES_MAX,
            });
        }
        Ok(Moves::new(self.maps, objects))
    }
}

fn struct_names(layouts: &[LayoutFile]) -> String {
    let structs = layouts.iter().flat_map(|layout| &layout.structs);
    let names: Vec<&str> = structs.map(|known| known.name.as_str()).collect();
    names.join(", ")
}

/// Sites of shared heap blocks, for messages.
fn known_sites(recording: &Recording) -> String {
    let names = recording.names();
    let mut sites: Vec<String> = recording
        .heap_blocks()
        .map(|block| {
            let site = names.allocation_site(&block.stack);
            format!("{site} ({} B)", block.range.len())
        })
        .collect();
    sites.sort();
    sites.dedup();
    /// A longer list would not fit a message.
    const SITES_MAX: usize = 8;
    let left_out = sites.len().saturating_sub(SITES_MAX);
    sites.truncate(SITES_MAX);
    match (sites.is_empty(), left_out) {
        (true, _) => "none".to_owned(),
        (false, 0) => sites.join(", "),
        (false, left_out) => format!("{} and {left_out} more", sites.join(", ")),
    }
}
