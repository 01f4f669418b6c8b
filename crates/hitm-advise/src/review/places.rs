//! Places of a profile's members in both builds.
//!
//! A path of the first build is looked up in the second one by its name there. What a nested structure
//! lacks is looked for among that structure's members.

use std::collections::BTreeMap;

use hitm_layout::structs::{
    MemberDiff, MemberPlace, Names, Part, TypesFile, parts, place_in_types,
};
use hitm_layout::{StructLayout, TypeStore};

use super::coverage::owner;
use super::matching::{Unmatched, automatic, candidates, rows};
use super::renames::{Rename, Renames};
use super::sides::Side;
use super::{Changed, LINE};
use crate::SessionError;
use crate::accesses::Read;
use crate::inputs::Structure;
use crate::locate::{locator, replaced};
use crate::member_path::without_elements;

/// Places of members in a layout: offset and size by path of the profile.
pub(super) type Places = BTreeMap<String, (u64, u64)>;

/// Both layouts of a type, as far as the profile touches it.
#[derive(Debug, Default)]
pub(super) struct Located {
    /// Size of the structure in the first build.
    pub(super) old_size: u64,
    /// Size and alignment of the structure in the second build.
    pub(super) size: u64,
    pub(super) align: u64,
    /// Places in the first and in the second build.
    pub(super) places: [Places; 2],
    /// Renamed members, those of nested structures too.
    pub(super) renames: Renames,
    /// Touched members without a place in the second build.
    pub(super) unmatched: Vec<Unmatched>,
    /// Limits of the figures, one sentence each.
    pub(super) notes: Vec<String>,
}

/// Finds the members of a profile in both builds; `new` is the second one.
pub(super) fn locate(of: &Changed, read: &Read, new: &mut Side) -> Result<Located, SessionError> {
    let mut located = Located {
        old_size: read.subject.size_bytes,
        renames: of.renames.clone(),
        ..Located::default()
    };
    let before = locator(&read.structure, &read.subject);
    for path in read.profile.members() {
        if let Some(place) = before(path) {
            located.places[0].insert(path.to_owned(), place);
        }
    }
    match new {
        Side::Layout(file) => {
            located.align = file.get(&of.name).map_or(1, |of| of.align());
            let renames = of.renames.clone();
            let new_path = |path: &str| renames.new_path(path);
            let (structure, subject) = (&read.structure, &read.subject);
            let (size, after) = replaced(structure, subject, file, &file.name, &new_path)?;
            located.size = size;
            for path in read.profile.members() {
                let found = after(path).ok_or(Lacking::Member);
                located.take(path, found, of, read);
            }
        }
        Side::Types(file) => {
            let layout = file.struct_layout(&of.name)?;
            located.size = layout.size;
            located.align = layout.alignment.unwrap_or(1);
            let mut new = NewTypes {
                file,
                layout: &layout,
            };
            for path in read.profile.members() {
                let found = located.in_types(path, &of.name, &read.structure, &mut new);
                located.take(path, found, of, read);
            }
        }
    }
    Ok(located)
}

/// A structure of the second build, and the file with its types.
struct NewTypes<'n> {
    file: &'n mut TypesFile,
    layout: &'n StructLayout,
}

/// A path that the second build lacks.
enum Lacking {
    /// The first member of the path, or one of a structure whose types are unknown.
    Member,
    /// A member of a nested structure, and that structure's members in both builds.
    Nested {
        member: String,
        place: MemberPlace,
        rows: Vec<MemberDiff>,
    },
}

/// The deepest structure of a path that both builds have.
struct Nested {
    /// Its path in both builds.
    paths: [String; 2],
    /// Itself as a member.
    wholes: [Part; 2],
    /// Its members.
    parts: [Vec<Part>; 2],
}

impl Located {
    /// Keeps the place of a path in the second build, or the touched member that lacks one.
    fn take(&mut self, path: &str, found: Result<(u64, u64), Lacking>, of: &Changed, read: &Read) {
        let lacking = match found {
            Ok(place) => {
                self.places[1].insert(path.to_owned(), place);
                return;
            }
            Err(lacking) => lacking,
        };
        // A member that the first build lacks as well is no one's, and one that is gone costs nothing.
        let Some((offset, size)) = self.places[0].get(path).copied() else {
            return;
        };
        if self.renames.is_gone(path) {
            return;
        }
        let (member, place, rows) = match lacking {
            Lacking::Nested {
                member,
                place,
                rows,
            } => (member, place, rows),
            Lacking::Member => {
                let row = owner(&of.members, path).map(|at| &of.members[at]);
                let known = row.and_then(|row| Some((row.name.clone(), row.before.clone()?)));
                let (member, place) = known.unwrap_or_else(|| {
                    let bits = offset * 8..(offset + size) * 8;
                    let (name, type_name) = (without_elements(path), String::new());
                    let part = Part {
                        name: name.clone(),
                        type_name,
                        bits,
                    };
                    (name, part.place(LINE))
                });
                (member, place, of.members.clone())
            }
        };
        let accesses = read.profile.rows();
        let accesses = accesses.filter(|(key, _)| key.member == path);
        let count = accesses.fold(0u64, |sum, (_, counts)| sum.saturating_add(counts.total()));
        let mut known = self.unmatched.iter_mut();
        if let Some(known) = known.find(|known| known.member == member) {
            known.access_count = known.access_count.saturating_add(count);
            return;
        }
        self.unmatched.push(Unmatched {
            candidates: candidates(&place, &rows),
            member,
            access_count: count,
            place,
        });
    }

    /// Finds a path among the types of the second build.
    fn in_types(
        &mut self,
        path: &str,
        name: &str,
        old: &Structure,
        new: &mut NewTypes<'_>,
    ) -> Result<(u64, u64), Lacking> {
        // Each round finds a renamed member of a deeper structure.
        for _ in 0..=path.matches('.').count() {
            let lacking = || Lacking::Member;
            let new_path = self.renames.new_path(path).ok_or_else(lacking)?;
            let store = new.file.types();
            if let Some(place) = place_in_types(new.layout, store, &new_path) {
                return Ok(place);
            }
            let Structure::Types(old_file, old_layout) = old else {
                return Err(lacking());
            };
            let mut old_file = old_file.borrow_mut();
            let sides = [(old_file.types(), &**old_layout), (store, new.layout)];
            let nested = nested(name, sides, path, &self.renames).ok_or_else(lacking)?;
            match self.step(path, &nested) {
                Step::Renamed(rename) => self.renames.0.push(rename),
                Step::Placed(place) => return Ok(place),
                Step::Lacking(lacking) => return Err(lacking),
            }
        }
        Err(Lacking::Member)
    }

    /// Finds the member that a path goes to from the deepest structure that both builds have.
    fn step(&mut self, path: &str, nested: &Nested) -> Step {
        let [old, new] = &nested.parts;
        let [old_path, new_path] = &nested.paths;
        let rest = path[old_path.len()..].trim_start_matches('.');
        let member = without_elements(rest.split('.').next().unwrap_or(rest));
        let names = |path: &str, member: &str| format!("{}.{member}", without_elements(path));
        let found = automatic(old, new, &Renames::default());
        if let Some(found) = found.into_iter().find(|rename| rename.old == member) {
            return Step::Renamed(Rename {
                old: names(old_path, &found.old),
                new: found.new.map(|new| names(new_path, &new)),
                is_stated: false,
            });
        }
        let [before, after] = &nested.wholes;
        let part = old.iter().find(|part| part.name == member);
        if before.type_name != after.type_name && before.size() == after.size() {
            let note = format!(
                "{} is a {} now, of the same size: its accesses are taken to stay at their bytes",
                without_elements(old_path),
                after.type_name
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
            let place = self.places[0].get(path).copied();
            if let Some((offset, size)) = place.filter(|(offset, _)| *offset >= before.offset()) {
                return Step::Placed((after.offset() + offset - before.offset(), size));
            }
        }
        let Some(part) = part else {
            return Step::Lacking(Lacking::Member);
        };
        let rows = rows(old, new, &Renames::default()).into_iter();
        let rows = rows.map(|mut row| {
            row.name = names(new_path, &row.name);
            row
        });
        Step::Lacking(Lacking::Nested {
            member: names(old_path, &member),
            place: part.place(LINE),
            rows: rows.collect(),
        })
    }
}

/// Result of looking for one member of a nested structure.
enum Step {
    Renamed(Rename),
    Placed((u64, u64)),
    Lacking(Lacking),
}

/// Finds the deepest structure that a path of the first build goes through in both builds. None when the
/// path's first member is in the first build only.
fn nested(
    name: &str,
    [old, new]: [(&TypeStore, &StructLayout); 2],
    path: &str,
    renames: &Renames,
) -> Option<Nested> {
    let mut ends: Vec<usize> = path.match_indices('.').map(|(at, _)| at).collect();
    while let Some(end) = ends.pop() {
        let prefix = &path[..end];
        let Some(new_prefix) = renames.new_path(prefix) else {
            continue;
        };
        let find = |(store, layout): (&TypeStore, &StructLayout), path: &str| {
            let mut names = Names::new(store);
            let (type_id, part) = names.typed_part_at(name, layout, path)?;
            let inner = store.layout(type_id);
            let parts = inner.map_or_else(Vec::new, |inner| parts(store, inner));
            Some((part, parts))
        };
        let found = (find(old, prefix), find(new, &new_prefix));
        if let (Some((before, old_parts)), Some((after, new_parts))) = found {
            return Some(Nested {
                paths: [prefix.to_owned(), new_prefix],
                wholes: [before, after],
                parts: [old_parts, new_parts],
            });
        }
    }
    None
}
