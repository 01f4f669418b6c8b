//! Changes of a structure between two files.

use std::collections::BTreeMap;

use serde::Serialize;

use super::parts::{Part, parts};
use super::{StructsError, Sums, TypesFile, bare};

/// Change of a member's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// None.
    Same,
    /// Another offset on the same cache lines.
    Moved,
    /// Other cache lines.
    MovedLine,
    /// Only in the second file.
    Added,
    /// Only in the first file.
    Removed,
}

/// Place of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberPlace {
    /// The first byte that it touches.
    pub offset_bytes: u64,
    /// Bytes that it touches.
    pub size_bytes: u64,
    /// Bits from the start of the structure.
    pub bit_offset: u64,
    /// Bits.
    pub bit_size: u64,
    /// The cache line that it begins in.
    pub first_line: u64,
    /// The cache line that it ends in.
    pub last_line: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: String,
}

/// One member in both files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberDiff {
    /// Its name.
    pub name: String,
    /// Change of its place.
    pub change: Change,
    /// Its size or type differs.
    pub is_resized: bool,
    /// Place in the first file.
    pub before: Option<MemberPlace>,
    /// Place in the second file.
    pub after: Option<MemberPlace>,
}

/// A structure as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WholePlace {
    /// Name of the file.
    pub file: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Cache lines.
    pub line_count: u64,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Bytes after the last member.
    pub padding_bytes: u64,
}

/// Changes of a structure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayoutDiff {
    /// Version of this form.
    pub schema: u32,
    /// The structure's name.
    #[serde(rename = "type")]
    pub name: String,
    /// Bytes of a cache line.
    pub line_size_bytes: u64,
    /// The first file.
    pub before: WholePlace,
    /// The second file.
    pub after: WholePlace,
    /// Members by their offset in the second file; removed ones by their old offset.
    pub members: Vec<MemberDiff>,
}

/// Compares a structure of two files.
pub fn diff(
    before: &mut TypesFile,
    after: &mut TypesFile,
    name: &str,
    line_size: u64,
) -> Result<LayoutDiff, StructsError> {
    let (old, old_parts) = read(before, name, line_size)?;
    let (new, new_parts) = read(after, name, line_size)?;
    Ok(LayoutDiff {
        schema: 1,
        name: bare(name).to_owned(),
        line_size_bytes: line_size,
        before: old,
        after: new,
        members: Pairing {
            old: &old_parts,
            new: &new_parts,
            line_size,
        }
        .by(&|part| Some(&part.name)),
    })
}

fn read(
    file: &mut TypesFile,
    name: &str,
    line_size: u64,
) -> Result<(WholePlace, Vec<Part>), StructsError> {
    let layout = file.struct_layout(name)?;
    let file_name = file.name().to_owned();
    let store = file.types();
    let sums = Sums::of(store, &layout, line_size);
    let whole = WholePlace {
        file: file_name,
        size_bytes: layout.size,
        line_count: sums.line_count,
        hole_bytes: sums.hole_bytes,
        padding_bytes: sums.padding_bytes,
    };
    Ok((whole, parts(store, &layout)))
}

/// The members of two structures, to be paired.
#[derive(Debug, Clone, Copy)]
pub struct Pairing<'p> {
    /// Those of the first structure.
    pub old: &'p [Part],
    /// Those of the second one.
    pub new: &'p [Part],
    /// Bytes of a cache line.
    pub line_size: u64,
}

impl<'p> Pairing<'p> {
    /// Pairs members by the names that those of the second structure have in the first one, none for those that it
    /// lacks; several with one name in their order. Pairs are called as in the first structure.
    pub fn by(self, old_name: &dyn Fn(&'p Part) -> Option<&'p str>) -> Vec<MemberDiff> {
        let Pairing {
            old,
            new,
            line_size,
        } = self;
        let mut by_name: BTreeMap<&str, Vec<&Part>> = BTreeMap::new();
        for part in old.iter().rev() {
            by_name.entry(&part.name).or_default().push(part);
        }
        let mut rows: Vec<(u64, MemberDiff)> = Vec::new();
        for part in new {
            let known = old_name(part).and_then(|name| by_name.get_mut(name));
            let before = known.and_then(Vec::pop);
            let name = &before.unwrap_or(part).name;
            let row = compare(name, before, Some(part), line_size);
            rows.push((part.bits.start, row));
        }
        for part in by_name.values().flatten() {
            let row = compare(&part.name, Some(part), None, line_size);
            rows.push((part.bits.start, row));
        }
        // Stable: removed members come behind those that are there now.
        rows.sort_by_key(|(offset, _)| *offset);
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

fn compare(name: &str, old: Option<&Part>, new: Option<&Part>, line_size: u64) -> MemberDiff {
    let change = match (old, new) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        (Some(old), Some(new)) if old.lines(line_size) != new.lines(line_size) => Change::MovedLine,
        (Some(old), Some(new)) if old.bits.start != new.bits.start => Change::Moved,
        _ => Change::Same,
    };
    let is_resized = old.zip(new).is_some_and(|(old, new)| {
        let sizes = (old.bits.end - old.bits.start, new.bits.end - new.bits.start);
        // Layout files name no types.
        let has_types = !old.type_name.is_empty() && !new.type_name.is_empty();
        sizes.0 != sizes.1 || (has_types && old.type_name != new.type_name)
    });
    let place = |part: &Part| part.place(line_size);
    MemberDiff {
        name: name.to_owned(),
        change,
        is_resized,
        before: old.map(place),
        after: new.map(place),
    }
}

impl LayoutDiff {
    /// Returns true if nothing changed.
    pub fn is_empty(&self) -> bool {
        let same = |row: &MemberDiff| row.change == Change::Same && !row.is_resized;
        self.members.iter().all(same) && self.before.size_bytes == self.after.size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, offset: u64, size: u64) -> Part {
        Part {
            name: name.to_owned(),
            type_name: format!("{size} bytes"),
            bits: offset * 8..(offset + size) * 8,
        }
    }

    #[test]
    fn members_that_move_leave_and_come() {
        let old = [
            part("a", 0, 4),
            part("b", 4, 4),
            part("gone", 8, 8),
            part("c", 64, 4),
        ];
        let new = [
            part("a", 0, 8),
            part("c", 8, 4),
            part("b", 12, 4),
            part("new", 128, 4),
        ];
        let pairing = Pairing {
            old: &old,
            new: &new,
            line_size: 64,
        };
        let rows = pairing.by(&|part| Some(&part.name));
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.change, row.is_resized))
            .collect();
        assert_eq!(
            found,
            [
                ("a", Change::Same, true),
                ("c", Change::MovedLine, false),
                ("gone", Change::Removed, false),
                ("b", Change::Moved, false),
                ("new", Change::Added, false),
            ]
        );
    }
}
