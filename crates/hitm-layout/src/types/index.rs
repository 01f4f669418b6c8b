//! Finds type definitions by name.
//!
//! One pass over all entries notes the place of each definition with a 64-bit hash of its name with
//! its namespaces. Where the bare name is another one, it notes that one's hash as well. A hit is
//! checked against the bare name. The same pass over one unit finds the names of what that unit
//! only declares.

use std::cell::RefCell;
use std::collections::BTreeMap;

use gimli::{AttributeValue, DwTag};
use hitm_base::Fnv1a;

use crate::dwarf::{Die, DieRef, View, Walker, value_of};

/// Definitions by the hash of their names.
#[derive(Debug, Default)]
pub(crate) struct TypeIndex {
    /// Sorted, so that the first definition of the file comes first.
    entries: Vec<(u64, DieRef)>,
    /// For units that were asked about: what they declare, by offset, with the hash of its name.
    declared: RefCell<BTreeMap<u32, Vec<(u32, u64)>>>,
    problems: Vec<String>,
}

/// Purpose of the pass over a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Definitions,
    Declarations,
}

impl TypeIndex {
    /// The index of a file, made at the first call.
    pub(crate) fn of<'v>(view: &View<'v>) -> &'v TypeIndex {
        view.file.type_index.get_or_init(|| TypeIndex::read(view))
    }

    fn read(view: &View<'_>) -> TypeIndex {
        let mut index = TypeIndex::default();
        let entries = &mut index.entries;
        for number in view.file.own_units() {
            let read = read_unit(view, number, Wanted::Definitions, |name, die| {
                entries.push((name.qualified, die));
                entries.extend(name.nested.map(|nested| (nested, die)));
            });
            if let Err(error) = read {
                index.problems.push(format!(
                    "types after a damaged entry of unit {number} left out: {error}"
                ));
            }
        }
        index.entries.sort_unstable();
        index.entries.dedup();
        index.entries.shrink_to_fit();
        index
    }

    /// Messages about what was damaged.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    /// All definitions, in the order of the file.
    pub(crate) fn definitions(&self) -> Vec<DieRef> {
        let mut dies: Vec<DieRef> = self.entries.iter().map(|entry| entry.1).collect();
        dies.sort_unstable();
        dies.dedup();
        dies
    }

    /// The definitions of that name (`rq`, `ns::Foo`), first in the file first: those that have it
    /// as their full name; if there is none, those in any namespace or type.
    pub(crate) fn find<'s>(
        &'s self,
        view: &'s View<'_>,
        name: &str,
    ) -> impl Iterator<Item = DieRef> + 's {
        let full = self.with_hash(hash_from(Fnv1a::EMPTY, name));
        let found = match full {
            [] => self.with_hash(hash_from(NESTED, name)),
            full => full,
        };
        let name = name.to_owned();
        let dies = found.iter().map(|entry| entry.1);
        dies.filter(move |die| own_name(view, *die).is_some_and(|own| name.ends_with(&own)))
    }

    /// The definition of what an entry declares. Where units define it differently, the first.
    pub(crate) fn definition(&self, view: &View<'_>, declaration: &Die<'_>) -> Option<DieRef> {
        let at = declaration.at;
        let mut declared = self.declared.borrow_mut();
        let of_unit = declared.entry(at.unit).or_insert_with(|| {
            let mut list = Vec::new();
            // Entries after a damaged one have no definition.
            let _ = read_unit(view, at.unit, Wanted::Declarations, |name, die| {
                list.push((die.offset, name.qualified));
            });
            list
        });
        let place = of_unit.binary_search_by_key(&at.offset, |entry| entry.0);
        let hash = of_unit[place.ok()?].1;
        let mut found = self.with_hash(hash).iter().map(|entry| entry.1);
        let is_it = |(_, die): (_, Die<'_>)| die.tag == declaration.tag;
        found.find(|die| view.fetch(*die).is_some_and(is_it))
    }

    fn with_hash(&self, hash: u64) -> &[(u64, DieRef)] {
        let first = self.entries.partition_point(|entry| entry.0 < hash);
        let after = self.entries.partition_point(|entry| entry.0 <= hash);
        &self.entries[first..after]
    }
}

fn own_name(view: &View<'_>, at: DieRef) -> Option<String> {
    let (unit, die) = view.fetch(at)?;
    view.name(&unit, &die)
}

/// Returns true if an entry gives a name to a type, or is the definition of one.
pub(super) fn names_a_type(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_typedef
    )
}

/// The hashes of a type's names.
#[derive(Debug, Clone, Copy)]
struct NameHashes {
    /// With its namespaces and outer types.
    qualified: u64,
    /// Without them, if it has any.
    nested: Option<u64>,
}

impl NameHashes {
    /// `outer`: the hash of the namespaces and types around it, with `::`.
    fn new(outer: Option<u64>, name: &str) -> NameHashes {
        NameHashes {
            qualified: hash_from(outer.map_or(Fnv1a::EMPTY, Fnv1a::from_seed), name),
            nested: outer.map(|_| hash_from(NESTED, name)),
        }
    }
}

fn read_unit(
    view: &View<'_>,
    number: u32,
    wanted: Wanted,
    mut take: impl FnMut(NameHashes, DieRef),
) -> gimli::Result<()> {
    let unit = view.unit(number)?;
    let mut walker = Walker::new(&unit, None)?;
    let mut attributes = Vec::new();
    // Open namespaces and types: their depth and the hash of their qualified name with `::`.
    let mut open: Vec<(isize, u64)> = Vec::new();
    let mut declared = BTreeMap::new();
    while let Some(step) = walker.next()? {
        while open.pop_if(|scope| scope.0 >= step.depth).is_some() {}
        let is_type = names_a_type(step.tag);
        if !is_type && step.tag != gimli::DW_TAG_namespace {
            continue;
        }
        let is_declaration = walker.has(gimli::DW_AT_declaration);
        walker.read(&mut attributes)?;
        let get = |wanted| value_of(&attributes, wanted);
        let hashes = match get(gimli::DW_AT_specification) {
            // The definition of what a namespace or a type declares stands outside of it.
            Some(AttributeValue::UnitRef(at)) => declared.get(&at.0).copied(),
            _ => get(gimli::DW_AT_name)
                .and_then(|name| view.text(&unit, number, name))
                .or_else(|| {
                    // clang declares what a type unit defines without a name.
                    let signature = get(gimli::DW_AT_signature)?;
                    own_name(view, view.target(number, signature)?)
                })
                .map(|name| NameHashes::new(open.last().map(|scope| scope.1), &name)),
        };
        let Some(hashes) = hashes else { continue };
        open.push((
            step.depth,
            hash_from(Fnv1a::from_seed(hashes.qualified), "::"),
        ));
        if is_type && is_declaration {
            declared.insert(step.offset as usize, hashes);
        }
        if is_type && is_declaration == (wanted == Wanted::Declarations) {
            take(hashes, step.at(number));
        }
    }
    Ok(())
}

/// Seed for hashes of bare names of nested types: any other number.
const NESTED: Fnv1a = Fnv1a::from_seed(0x9e37_79b9_7f4a_7c15);

fn hash_from(start: Fnv1a, text: &str) -> u64 {
    start.with(text.as_bytes()).value()
}
