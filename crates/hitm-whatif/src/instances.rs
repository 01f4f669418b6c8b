//! Finds the objects of a structure in a recording.
//!
//! A kernel's objects are those that its report names with the structure, by a walk, a slab cache or a variable.
//! Variables are found by the addresses of recorded accesses and the types of the debug
//! information; an array holds as many structures as it has elements. What holds a structure of the layouts
//! moves with it. An array of plain values is found by its own name: its elements become structures with one
//! member. Heap blocks are found by
//! the types that code accesses them as, unless the caller names the function that allocates them.

use std::str::FromStr;

use hitm_base::grouped;
use hitm_layout::member_map::{MemberMap, Wanted, element_of};
use hitm_layout::{DataObject, Symbolizer};
use hitm_recording::{AddressNames, KnownAs, Recording, TypedBlock};

use super::WhatifError;
use super::moves::{MovedObject, Moves, ObjectKind};

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
    wanted: Wanted<'_>,
    heap: &[HeapInstances],
) -> Result<Moves, WhatifError> {
    if wanted.is_empty() {
        return Ok(Moves::default());
    }
    let mut finder = Finder {
        wanted,
        symbolizer: recording.symbolizer(),
        maps: Vec::new(),
        objects: Vec::new(),
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
    wanted: Wanted<'a>,
    symbolizer: Symbolizer<'static>,
    maps: Vec<MemberMap>,
    /// In the order in which they were found.
    objects: Vec<MovedObject>,
}

/// An object to be moved.
struct Found {
    name: String,
    kind: ObjectKind,
    address: u64,
    size_bytes: u64,
    element_count: u64,
}

impl Finder<'_> {
    /// Adds the kernel's objects of the structures, in a recording of a whole machine.
    fn kernel_objects(&mut self, recording: &Recording) -> Result<(), WhatifError> {
        let names = recording.names();
        let wanted = self.wanted;
        for name in wanted.names() {
            if names.has_moved(name) {
                let type_name = name.to_owned();
                return Err(WhatifError::MovedBefore { type_name });
            }
            let instances = names.kernel_instances(name);
            if instances.is_empty() {
                continue;
            }
            let map = names.with_kernel_type(name, |types, compiled| {
                MemberMap::of_name(types, compiled, name, wanted)
            });
            let Some(map) = map.transpose()?.flatten() else {
                continue;
            };
            for instance in instances {
                let object = Found {
                    name: instance.name,
                    kind: match instance.known_as {
                        KnownAs::Object => ObjectKind::Walked,
                        KnownAs::Variable => ObjectKind::Variable,
                        KnownAs::Typed | KnownAs::Slab => ObjectKind::Slab,
                        // The program's own memory does not move.
                        KnownAs::Program => continue,
                    },
                    address: instance.start,
                    size_bytes: instance.size_bytes,
                    element_count: 1,
                };
                self.add(object, map.clone())?;
            }
        }
        Ok(())
    }

    fn variables(&mut self, recording: &Recording) -> Result<(), WhatifError> {
        // First and last byte of the last object.
        let mut seen = (1, 0);
        for (addr, size) in recording.places() {
            let is_seen = (seen.0..=seen.1).contains(&addr);
            // The kernel's types say where its objects are.
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
        let mut structs = self
            .wanted
            .layouts
            .iter()
            .flat_map(|layout| &layout.structs);
        let map = match (types.layout(element), types.get(element).size) {
            (Some(_), _) => MemberMap::of_type(types, element, self.wanted)?,
            (None, Some(size)) if element != types.resolve(type_id) => structs
                .find(|wanted| wanted.name == object.name)
                .map(|wanted| MemberMap::of_values(size, wanted))
                .transpose()?,
            _ => None,
        };
        let Some(map) = map else {
            return Ok(());
        };
        let found = Found {
            name: object.name.clone(),
            kind: ObjectKind::Variable,
            address: object.start,
            size_bytes: object.size,
            element_count: count,
        };
        self.add(found, map)
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
            let (address, size_bytes) = typed.extent;
            let found = Found {
                name: names.heap_block(block),
                kind: ObjectKind::Heap,
                address,
                size_bytes,
                element_count: typed.element_count,
            };
            self.add(found, map)?;
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
            MemberMap::of_type(types, typed.type_id, self.wanted)
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
                let size_bytes = block.range.len();
                let is_whole = size_bytes > 0 && size_bytes.is_multiple_of(map.sizes.before);
                if is_whole && name.contains(&wanted.site) {
                    let found = Found {
                        name,
                        kind: ObjectKind::Heap,
                        address: block.range.start(),
                        size_bytes,
                        element_count: size_bytes / map.sizes.before,
                    };
                    self.add(found, map.clone())?;
                    count += 1;
                }
            }
            if count == 0 {
                return Err(WhatifError::NoHeapBlock {
                    site: wanted.site.clone(),
                    size: map.sizes.before,
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
        let all = self.wanted.names();
        let name = match (&wanted.type_name, all.as_slice()) {
            (Some(name), all) => all.iter().find(|known| *known == name),
            (None, [one]) => Some(one),
            (None, _) => None,
        };
        let name = *name.ok_or_else(|| WhatifError::WhichStruct {
            site: wanted.site.clone(),
            known: all.join(", "),
        })?;
        for mapping in recording.mappings() {
            self.symbolizer.data(mapping.range.start(), 1);
            let Some(file) = self.symbolizer.file(&mapping.path) else {
                continue;
            };
            if let Ok(compiled) = file.struct_layout(name)
                && let Some(map) = MemberMap::of_name(file.types(), &compiled, name, self.wanted)?
            {
                return Ok(map);
            }
        }
        let name = name.to_owned();
        Err(WhatifError::NoSuchType { name })
    }

    fn add(&mut self, found: Found, map: MemberMap) -> Result<(), WhatifError> {
        let type_name = map.type_name.clone();
        if map.sizes.before == 0 || map.sizes.after == 0 {
            return Err(WhatifError::NoBytes { type_name });
        }
        let index = match self.maps.iter().position(|known| *known == map) {
            Some(index) => index,
            None => {
                self.maps.push(map);
                self.maps.len() - 1
            }
        };
        self.objects.push(MovedObject {
            name: found.name,
            type_name,
            kind: found.kind,
            address: found.address,
            size_bytes: found.size_bytes,
            element_count: found.element_count,
            size_bytes_after: 0,
            access_count: 0,
            fresh: 0,
            map: index,
        });
        Ok(())
    }

    fn finish(self, recording: &Recording) -> Result<Moves, WhatifError> {
        let objects = self.objects;
        if objects.is_empty() {
            return Err(nothing_moves(recording, self.wanted));
        }
        let bytes = objects.iter().try_fold(0u64, |sum, object| {
            let size = self.maps[object.map]
                .sizes
                .after
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

/// Says what there is to move instead.
fn nothing_moves(recording: &Recording, wanted: Wanted<'_>) -> WhatifError {
    let structs = wanted.names().join(", ");
    let names = recording.names();
    if !names.is_machine() {
        let known = known_sites(recording);
        return WhatifError::NothingMoves { structs, known };
    }
    let known = names.accessed_kernel_types().into_iter();
    let known = known.map(|(name, count)| format!("{name} ({})", grouped(count)));
    WhatifError::NoKernelObject {
        structs,
        known: list(known.collect()),
    }
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
    list(sites)
}

/// The first of these words for a message.
fn list(mut words: Vec<String>) -> String {
    /// A longer list would not fit a message.
    const WORDS_MAX: usize = 8;
    let left_out = words.len().saturating_sub(WORDS_MAX);
    words.truncate(WORDS_MAX);
    match (words.is_empty(), left_out) {
        (true, _) => "none".to_owned(),
        (false, 0) => words.join(", "),
        (false, left_out) => format!("{} and {left_out} more", words.join(", ")),
    }
}
