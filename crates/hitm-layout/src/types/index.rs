//! Finds type definitions by name.
//!
//! One pass over all entries notes a 64-bit hash of each definition's name, plain and with its
//! namespaces, and where it is. A hit is checked against the plain name.

use crate::dwarf::{DieRef, View, Walker};

/// Definitions by the hash of their names.
#[derive(Debug, Default)]
pub(crate) struct TypeIndex {
    /// Sorted, so that the first definition of the file comes first.
    entries: Vec<(u64, DieRef)>,
}

impl TypeIndex {
    /// Notes the definitions of all units. `problems` gets a line per damaged unit.
    pub(crate) fn read(view: &View<'_>, problems: &mut Vec<String>) -> TypeIndex {
        let mut entries = Vec::new();
        for number in view.file.own_units() {
            if let Err(error) = read_unit(view, number, &mut entries) {
                problems.push(format!(
                    "types after a damaged entry of unit {number} left out: {error}"
                ));
            }
        }
        entries.sort_unstable();
        entries.dedup();
        entries.shrink_to_fit();
        TypeIndex { entries }
    }

    /// The definitions of that name (`rq`, `struct rq`, `ns::Foo`), first in the file first.
    /// Structures come before the typedefs that name them in turn, as far as the file has them so.
    pub(crate) fn find<'s>(
        &'s self,
        view: &'s View<'_>,
        name: &str,
    ) -> impl Iterator<Item = DieRef> + 's {
        let words = ["struct ", "class ", "union ", "enum "];
        let name = words
            .iter()
            .find_map(|word| name.strip_prefix(word))
            .unwrap_or(name);
        let hash = hash_from(SEED, name);
        let first = self.entries.partition_point(|entry| entry.0 < hash);
        let same = self.entries[first..]
            .iter()
            .take_while(move |entry| entry.0 == hash);
        let name = name.to_owned();
        same.map(|entry| entry.1)
            .filter(move |die| own_name(view, *die).is_some_and(|own| name.ends_with(&own)))
    }
}

fn own_name(view: &View<'_>, at: DieRef) -> Option<String> {
    let (unit, die) = view.fetch(at)?;
    view.text(&unit, at.unit, die.get(gimli::DW_AT_name)?)
}

fn read_unit(view: &View<'_>, number: u32, entries: &mut Vec<(u64, DieRef)>) -> gimli::Result<()> {
    let unit = view.unit(number)?;
    let mut walker = Walker::new(&unit, None)?;
    let mut attributes = Vec::new();
    // Open namespaces and types: their depth and the hash of their qualified name with `::`.
    let mut open: Vec<(isize, u64)> = Vec::new();
    while let Some(step) = walker.next()? {
        while open.last().is_some_and(|scope| scope.0 >= step.depth) {
            open.pop();
        }
        let is_type = matches!(
            step.tag,
            gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_typedef
        );
        if !is_type && step.tag != gimli::DW_TAG_namespace {
            continue;
        }
        let is_declaration = walker.has(gimli::DW_AT_declaration);
        walker.read(&mut attributes)?;
        let mut found = attributes.iter();
        let name = found.find(|attribute| attribute.name() == gimli::DW_AT_name);
        let name = name.and_then(|attribute| view.text(&unit, number, attribute.value()));
        let Some(name) = name else { continue };
        let outer = open.last().map_or(SEED, |scope| scope.1);
        let qualified = hash_from(outer, &name);
        open.push((step.depth, hash_from(qualified, "::")));
        if is_type && !is_declaration {
            let die = DieRef {
                unit: number,
                offset: step.offset,
            };
            entries.push((hash_from(SEED, &name), die));
            if outer != SEED {
                entries.push((qualified, die));
            }
        }
    }
    Ok(())
}

pub(super) const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn hash_from(seed: u64, text: &str) -> u64 {
    hash_bytes(seed, text.as_bytes())
}

/// FNV-1a: small, and the same on every machine.
pub(super) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
