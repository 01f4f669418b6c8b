//! The two builds: their structures by name, whatever file they are from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hitm_layout::layout_file::{FileStruct, LayoutFile, LayoutTable};

use super::{LINE, Memory, ReviewError};
use crate::advise::inputs::is_layout;
use crate::layout::{LayoutError, LayoutFile as TypesFile, Part, Sums, bare, parts};
use crate::layout_files;

/// A build.
#[derive(Debug)]
pub(super) enum Side {
    /// Types of BTF or DWARF.
    Types(Box<TypesFile>),
    /// A layout file: a whole table, or a few structures that lie over those of the other build.
    Layout(LayoutFile),
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
        let file = TypesFile::open(Some(path), btf_base)?;
        Ok(Side::Types(Box::new(file)))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Side::Types(file) => file.name().to_owned(),
            Side::Layout(file) => file.name.clone(),
        }
    }

    /// Returns the structure of a name; none when there is no such type.
    pub(super) fn whole(&mut self, name: &str) -> Result<Option<Whole>, ReviewError> {
        let file = match self {
            Side::Layout(file) => return Ok(file.get(bare(name)).map(whole_of_file)),
            Side::Types(file) => file,
        };
        let layout = match file.struct_layout(name) {
            Ok(layout) => layout,
            Err(LayoutError::Type(hitm_layout::Error::NoSuchType { .. })) => return Ok(None),
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
            Ok(None) | Err(ReviewError::Types(LayoutError::Type(_))) => only[0] += 1,
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
