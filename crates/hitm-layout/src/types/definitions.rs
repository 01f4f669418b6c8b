//! Tells the definitions of one name apart.
//!
//! A structure is defined again in each unit that includes its header. Those definitions are one if
//! their entries say the same of size, place in the source and members. Where they do not (the same
//! name in two source files, a header that `#ifdef` changes), each is one of its own.

use std::collections::BTreeMap;

use hitm_base::Fnv1a;

use super::TypeIndex;
use super::dwarf_name::is_alias;
use super::read::for_each_member;
use crate::Decl;
use crate::dwarf::{DieRef, View};

/// Definitions of one name that are compared. A structure of a large kernel has one in each of its
/// few thousand units.
const MAX_COMPARED: usize = 1 << 14;

/// Typedefs and qualifiers between a name and what it stands for.
const MAX_HOPS: usize = 32;

/// Definitions that say the same.
#[derive(Debug, Clone)]
pub(crate) struct DefinitionGroup {
    /// The first of them; for a typedef the typedef.
    pub(crate) die: DieRef,
    /// Number of units that have it.
    pub(crate) units: usize,
    pub(crate) decl: Option<Decl>,
    pub(crate) size: Option<u64>,
}

/// A name as a user gives it: `rq`, `struct rq`, `rq@sched.h:1000`.
struct Query<'q> {
    name: &'q str,
    /// `struct `, `class `, `union ` or `enum `: then no typedef is meant.
    keyword: Option<&'q str>,
    file: Option<&'q str>,
    line: Option<u32>,
}

impl<'q> Query<'q> {
    fn new(text: &'q str) -> Query<'q> {
        let (name, place) = match text.rsplit_once('@') {
            Some((name, place)) => (name, Some(place)),
            None => (text, None),
        };
        let words = ["struct ", "class ", "union ", "enum "];
        let keyword = words.into_iter().find(|word| name.starts_with(word));
        let (file, line) = match place.map(|place| (place, place.rsplit_once(':'))) {
            None => (None, None),
            Some((_, Some((file, line)))) if line.parse::<u32>().is_ok() => {
                (Some(file), line.parse().ok())
            }
            Some((place, _)) => (Some(place), None),
        };
        Query {
            name: name
                .strip_prefix(keyword.unwrap_or_default())
                .unwrap_or(name),
            keyword,
            file,
            line,
        }
    }

    fn accepts_tag(&self, tag: gimli::DwTag) -> bool {
        match self.keyword {
            None => true,
            Some("union ") => tag == gimli::DW_TAG_union_type,
            Some("enum ") => tag == gimli::DW_TAG_enumeration_type,
            Some(_) => tag == gimli::DW_TAG_structure_type || tag == gimli::DW_TAG_class_type,
        }
    }

    fn accepts_place(&self, decl: Option<&Decl>) -> bool {
        let Some(wanted) = self.file else { return true };
        let Some(decl) = decl else { return false };
        let same_file = match decl.file.strip_suffix(wanted) {
            Some(rest) => rest.is_empty() || rest.ends_with('/'),
            None => false,
        };
        same_file && self.line.is_none_or(|line| line == decl.line)
    }
}

/// The definitions that a name has: those of most units first, then those first in the file.
pub(crate) fn definitions(view: &View<'_>, text: &str) -> Vec<DefinitionGroup> {
    let query = Query::new(text);
    let mut groups: BTreeMap<u64, DefinitionGroup> = BTreeMap::new();
    let index = TypeIndex::of(view);
    let mut counted = None;
    for die in index.find(view, query.name).take(MAX_COMPARED) {
        let Some(found) = describe(view, &query, die) else {
            continue;
        };
        // A structure and the typedef of it in one unit are one definition.
        if counted == Some(found.stands_for) {
            continue;
        }
        counted = Some(found.stands_for);
        let group = groups.entry(found.fingerprint);
        let group = group.or_insert_with(|| DefinitionGroup {
            die,
            units: 0,
            decl: found.decl,
            size: found.size,
        });
        group.units += 1;
    }
    let mut groups: Vec<DefinitionGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.units), group.die));
    for group in &mut groups {
        group.decl = group.decl.take().or_else(|| place_of(view, group.die));
    }
    groups
}

struct Description {
    stands_for: DieRef,
    fingerprint: u64,
    size: Option<u64>,
    /// Only read where the query asks for a place.
    decl: Option<Decl>,
}

fn describe(view: &View<'_>, query: &Query<'_>, at: DieRef) -> Option<Description> {
    let (_, die) = view.fetch(at)?;
    if !query.accepts_tag(die.tag) {
        return None;
    }
    let stands_for = behind_aliases(view, at)?;
    let decl = query.file.and_then(|_| place_of(view, stands_for));
    if !query.accepts_place(decl.as_ref()) {
        return None;
    }
    let (size, fingerprint) = fingerprint(view, stands_for)?;
    Some(Description {
        stands_for,
        fingerprint,
        size,
        decl,
    })
}

fn place_of(view: &View<'_>, at: DieRef) -> Option<Decl> {
    let at = behind_aliases(view, at)?;
    let (unit, die) = view.fetch(at)?;
    view.decl(&unit, &die)
}

fn behind_aliases(view: &View<'_>, mut at: DieRef) -> Option<DieRef> {
    for _ in 0..MAX_HOPS {
        let (_, die) = view.fetch(at)?;
        if !is_alias(die.tag) {
            return Some(at);
        }
        at = view.type_of(&die)?;
    }
    None
}

/// The size, and a number from what an entry and its members say, their types aside.
fn fingerprint(view: &View<'_>, at: DieRef) -> Option<(Option<u64>, u64)> {
    let (unit, die) = view.fetch(at)?;
    let size = die.u64(gimli::DW_AT_byte_size);
    let mut text = format!(
        "{:?} {size:?} {:?}",
        die.tag,
        die.u64(gimli::DW_AT_decl_line)
    );
    let mut hash = Fnv1a::EMPTY.with(text.as_bytes());
    let read = for_each_member(view, &unit, at, |entry| {
        text.clear();
        for attribute in &entry.die.attributes {
            let value = attribute.value();
            match attribute.name() {
                gimli::DW_AT_name => {
                    text.push_str(&view.text(&unit, at.unit, value).unwrap_or_default())
                }
                name @ (gimli::DW_AT_data_member_location
                | gimli::DW_AT_bit_size
                | gimli::DW_AT_data_bit_offset
                | gimli::DW_AT_bit_offset) => {
                    text.push_str(&format!("{name:?}{:?}", value.udata_value()));
                }
                _ => {}
            }
        }
        hash = hash.with(text.as_bytes());
        true
    });
    read.ok().map(|()| (size, hash.value()))
}
