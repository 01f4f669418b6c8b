//! The two builds: their structures by name, whatever file they are from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hitm_layout::layout_file::{FileStruct, LayoutFile, LayoutTable};
use hitm_layout::structs::{Names, Part, Sums, TypesFile, bare, parts};
use hitm_layout::{StructLayout, TypeKind, TypeStore};
use hitm_whatif::layout_files;

use super::{LINE, Memory, ReviewError};
use crate::inputs::is_layout;
use crate::member_path::behind;
use crate::types_files;

/// A build.
#[derive(Debug)]
pub(super) enum Side {
    /// Types of BTF or DWARF.
    Types(Box<TypesFile>),
    /// A layout file: a whole table, or a few structures that lie over those of the other build.
    Layout(LayoutFile),
}

/// Both builds.
#[derive(Debug)]
pub(super) struct Builds {
    pub(super) old: Side,
    pub(super) new: Side,
}

impl Builds {
    /// Returns the members of a structure in both builds, by the same names: a layout file calls
    /// members of opened structures by their paths, and unions by their place.
    pub(super) fn parts(&mut self, name: &str, old: &[Part], new: &[Part]) -> [Vec<Part>; 2] {
        let opened = [
            self.old.opened(name, old, new),
            self.new.opened(name, new, old),
        ];
        let [old, new] = opened;
        [
            without_nameless(&old, &new, &self.old),
            without_nameless(&new, &old, &self.new),
        ]
    }
}

/// Puts the members of `other` in place of those without a name that a layout file has, and adds those
/// that lie over a member that it has: a file names one member of a union at most.
fn without_nameless(parts: &[Part], other: &[Part], side: &Side) -> Vec<Part> {
    if matches!(side, Side::Types(_)) {
        return parts.to_vec();
    }
    let mut named = Vec::new();
    for part in parts {
        let place = part.name.strip_prefix("(anonymous at ");
        let place = place.and_then(|place| place.strip_suffix(')')?.parse::<u64>().ok());
        let inside = place.map_or_else(Vec::new, |from| {
            let bits = from * 8..from.saturating_add(part.size()) * 8;
            let has = |other: &&Part| bits.contains(&other.bits.start) && other.name != part.name;
            let other = other.iter().filter(has);
            let to = part.bits.start;
            other
                .map(|other| Part {
                    bits: other.bits.start - bits.start + to..other.bits.end - bits.start + to,
                    ..other.clone()
                })
                .collect()
        });
        match inside.is_empty() {
            true => named.push(part.clone()),
            false => named.extend(inside),
        }
    }
    let has = |name: &str, named: &[Part]| named.iter().any(|part| part.name == name);
    for part in other {
        let over = other.iter().filter(|over| {
            let is_inside = over.bits.start <= part.bits.start && part.bits.end <= over.bits.end;
            is_inside && !part.bits.is_empty() && over.name != part.name
        });
        let mut over = over.filter_map(|over| {
            let there = named.iter().find(|there| there.name == over.name)?;
            Some((over.bits.start, there.bits.start))
        });
        if let Some((from, to)) = over.next().filter(|_| !has(&part.name, &named)) {
            let bits = part.bits.start - from + to..part.bits.end - from + to;
            named.push(Part {
                bits,
                ..part.clone()
            });
        }
    }
    named
}

/// A structure of a build.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub(super) memory: Memory,
    pub(super) parts: Vec<Part>,
}

/// Names of types.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypeNames {
    /// In both builds, in the first one's order.
    pub(super) both: Vec<String>,
    /// Numbers of types in one build only.
    pub(super) only: [u64; 2],
}

impl Side {
    pub(super) fn open(path: &Path, btf_base: Option<&Path>) -> Result<Side, ReviewError> {
        if is_layout(path) {
            return Ok(Side::Layout(layout_files::read(path)?.0));
        }
        let file = types_files::open(Some(path), btf_base)?;
        Ok(Side::Types(Box::new(file)))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Side::Types(file) => file.name().to_owned(),
            Side::Layout(file) => file.name.clone(),
        }
    }

    /// Returns true if the structure of a name has a member at `path`.
    pub(super) fn has(&mut self, name: &str, path: &str) -> Result<bool, ReviewError> {
        let file = match self {
            Side::Layout(file) => {
                let members = file.get(bare(name)).map_or(&[][..], |of| &of.members);
                return Ok(members
                    .iter()
                    .any(|member| behind(path, &member.name).is_some()));
            }
            Side::Types(file) => file,
        };
        let layout = file.struct_layout(name)?;
        Ok(is_path(name, &layout, file.types(), path))
    }

    /// Bytes of the member at `path` in the structure of a name, if it has one.
    pub(super) fn size_of(&mut self, name: &str, path: &str) -> Result<Option<u64>, ReviewError> {
        let file = match self {
            Side::Layout(file) => {
                let members = file.get(bare(name)).map_or(&[][..], |of| &of.members);
                let found = members.iter().find(|member| member.name == path);
                return Ok(found.map(|member| member.size_bytes));
            }
            Side::Types(file) => file,
        };
        let layout = file.struct_layout(name)?;
        let found = Names::new(file.types()).typed_part_at(name, &layout, path);
        Ok(found.map(|(_, part)| part.size()))
    }

    /// The members `own` of a structure, with members of those that the other build opens in their place:
    /// `inner.x` and `inner.y` for `inner`.
    fn opened(&mut self, name: &str, own: &[Part], other: &[Part]) -> Vec<Part> {
        let Side::Types(file) = self else {
            return own.to_vec();
        };
        let Ok(layout) = file.struct_layout(name) else {
            return own.to_vec();
        };
        let mut inside_of: BTreeMap<&str, Vec<&Part>> = BTreeMap::new();
        for part in other {
            for (dot, _) in part.name.match_indices('.') {
                inside_of.entry(&part.name[..dot]).or_default().push(part);
            }
        }
        let mut names = Names::new(file.types());
        let mut opened = Vec::new();
        for part in own {
            let inside = inside_of.get(part.name.as_str()).into_iter().flatten();
            let inside = inside.filter_map(|other| names.part_at(name, &layout, &other.name));
            let inside: Vec<Part> = inside.collect();
            match inside.is_empty() {
                true => opened.push(part.clone()),
                false => opened.extend(inside),
            }
        }
        opened.sort_by_key(|part| part.bits.start);
        opened
    }

    /// Returns the structure of a name; none when there is no such type.
    pub(super) fn whole(&mut self, name: &str) -> Result<Option<Whole>, ReviewError> {
        let file = match self {
            Side::Layout(file) => return Ok(file.get(bare(name)).map(whole_of_file)),
            Side::Types(file) => file,
        };
        let layout = match file.struct_layout(name) {
            Ok(layout) => layout,
            Err(hitm_layout::Error::NoSuchType { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let store = file.types();
        let sums = Sums::of(store, &layout, LINE);
        Ok(Some(Whole {
            memory: Memory {
                size_bytes: layout.size,
                line_count: sums.line_count,
                hole_count: sums.hole_count as u64,
                hole_bytes: sums.hole_bytes,
                padding_bytes: sums.padding_bytes,
            },
            parts: parts(store, &layout),
        }))
    }

    /// Names of all structures that the build defines, each once, in its order.
    fn type_names(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        match self {
            Side::Layout(file) => names.extend(file.structs.iter().map(|of| of.name.clone())),
            Side::Types(file) => file.each_definition(|name, _, layout| {
                if layout.is_ok_and(|layout| !layout.members.is_empty()) {
                    names.push(name.to_owned());
                }
            }),
        }
        let mut order: BTreeMap<String, usize> = BTreeMap::new();
        for (at, name) in names.into_iter().enumerate() {
            order.entry(name).or_insert(at);
        }
        let mut names: Vec<(usize, String)> =
            order.into_iter().map(|(name, at)| (at, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns the build `path` if this layout lacks structures that its own members name.
    pub(super) fn needs(&self, path: &Path) -> Option<PathBuf> {
        let Side::Layout(file) = self else {
            return None;
        };
        let is_whole = LayoutTable::new(file).is_ok();
        (!is_whole && is_layout(path)).then(|| path.to_owned())
    }
}

/// Returns true if the structure `outer` has a member at `path`, which may leave out elements of arrays.
fn is_path(outer: &str, layout: &StructLayout, store: &TypeStore, path: &str) -> bool {
    let mut names = Names::new(store);
    let mut full = String::new();
    for step in path.split('.') {
        full += if full.is_empty() { "" } else { "." };
        full += step;
        let Some((mut type_id, _)) = names.typed_part_at(outer, layout, &full) else {
            return false;
        };
        // All elements have the same members.
        while let TypeKind::Array { element, .. } = store.get(store.resolve(type_id)).kind {
            full += "[0]";
            type_id = element;
        }
    }
    true
}

/// Returns a structure of a layout file as parts, like those of compiled types.
fn whole_of_file(of: &FileStruct) -> Whole {
    let members = of.members.iter();
    let parts: Vec<Part> = members
        .map(|member| {
            let (start, end) = member.bit_span();
            Part {
                name: member.name.clone(),
                type_name: String::new(),
                bits: start..end,
            }
        })
        .collect();
    let mut memory = Memory {
        size_bytes: of.size_bytes,
        line_count: of.cachelines(LINE),
        ..Memory::default()
    };
    let mut end = 0;
    for part in &parts {
        let gap = part.offset().saturating_sub(end);
        memory.hole_count += u64::from(gap > 0);
        memory.hole_bytes += gap;
        end = end.max(part.bits.end.div_ceil(8));
    }
    memory.padding_bytes = of.size_bytes.saturating_sub(end);
    Whole { memory, parts }
}

/// Returns the types that both builds have. A layout file says nothing of types that it lacks: they
/// stay as they are.
pub(super) fn shared(old: &mut Side, new: &mut Side) -> Result<TypeNames, ReviewError> {
    let mut both = Vec::new();
    let mut only = [0, 0];
    for name in old.type_names() {
        match new.whole(&name) {
            Ok(Some(_)) => both.push(name),
            // A damaged type is none.
            Ok(None) | Err(ReviewError::Type(_)) => only[0] += 1,
            Err(error) => return Err(error),
        }
    }
    let known: BTreeSet<&String> = both.iter().collect();
    let names = new.type_names();
    only[1] = names.iter().filter(|name| !known.contains(name)).count() as u64;
    for (side, lacking) in [&*new, &*old].into_iter().zip(&mut only) {
        if matches!(side, Side::Layout(_)) {
            *lacking = 0;
        }
    }
    Ok(TypeNames { both, only })
}

/// Returns the types of these names, which both builds must have.
pub(super) fn asked(
    old: &mut Side,
    new: &mut Side,
    types: &[String],
) -> Result<TypeNames, ReviewError> {
    for name in types {
        let has = [old.whole(name)?.is_some(), new.whole(name)?.is_some()];
        let (lacks, has) = match has {
            [true, true] => continue,
            [false, true] => (old.name(), Some(new.name())),
            [true, false] => (new.name(), Some(old.name())),
            [false, false] => (format!("{} and {}", old.name(), new.name()), None),
        };
        return Err(ReviewError::NoSuchType {
            type_name: name.clone(),
            lacks,
            has,
        });
    }
    Ok(TypeNames {
        both: types.iter().map(|name| bare(name).to_owned()).collect(),
        only: [0, 0],
    })
}
