//! A whole set of structures: a base file with variants laid over it, and the place of any member.

use std::collections::BTreeMap;

use super::check::{check_nested, find_cycle};
use super::{FileMember, FileStruct, LayoutFile, LayoutFileError, Storage};

/// Structures by name, in which every named type exists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LayoutTable {
    structs: BTreeMap<String, FileStruct>,
    /// The files that the table was made of, base first.
    origins: Vec<String>,
}

/// Place of a member, from the start of the outer structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'t> {
    /// Bytes from the outer structure's start to the element.
    pub offset_bytes: u64,
    /// Bytes of the element.
    pub size_bytes: u64,
    /// The member: `per`, `storage` and the like.
    pub member: &'t FileMember,
}

impl LayoutTable {
    /// The structures of one file. Fails when a member names a type that the file does not have.
    pub fn new(base: &LayoutFile) -> Result<LayoutTable, LayoutFileError> {
        LayoutTable::default().overlay(base)
    }

    /// The table with the structures of `variant` in place of those of the same names; new names are
    /// added. Fails when the structures do not fit together: a type that exists nowhere, a member
    /// whose size is not that of its new type.
    pub fn overlay(mut self, variant: &LayoutFile) -> Result<LayoutTable, LayoutFileError> {
        for replacing in &variant.structs {
            self.structs
                .insert(replacing.name.clone(), replacing.clone());
        }
        self.origins.push(variant.name.clone());
        self.check()?;
        Ok(self)
    }

    /// The structure of that name.
    pub fn get(&self, name: &str) -> Option<&FileStruct> {
        self.structs.get(name)
    }

    /// All structures, by name.
    pub fn structs(&self) -> impl Iterator<Item = &FileStruct> {
        self.structs.values()
    }

    /// The place of `path` (`cpupri.pri_to_cpu[3].count`) in the structure `name`. A path may end
    /// at a whole array or structure; it does not go behind pointers. A member of an opened structure
    /// has a name with a dot (`cpupri.pri_to_cpu`), which is as good as the path through it.
    pub fn place(&self, name: &str, path: &str) -> Option<Place<'_>> {
        let mut current = self.structs.get(name);
        let mut base = 0;
        let mut rest = path;
        loop {
            let member = member_before(current?, rest)?;
            let behind = &rest[member.name.len()..];
            let (index, behind) = match behind.strip_prefix('[') {
                Some(number) => {
                    let (number, behind) = number.split_once(']')?;
                    (Some(number.parse::<u64>().ok()?), behind)
                }
                None => (None, behind),
            };
            let (at, size) = match (index, member.array) {
                (None, _) => (0, member.size_bytes),
                (Some(index), Some(array)) if index < array.count => {
                    let nested = member.type_name.as_deref().and_then(|name| self.get(name));
                    let size = nested.map_or(array.stride_bytes, |nested| nested.size_bytes);
                    (index * array.stride_bytes, size)
                }
                _ => return None,
            };
            base += member.offset_bytes + at;
            if behind.is_empty() {
                return Some(Place {
                    offset_bytes: base,
                    size_bytes: size,
                    member,
                });
            }
            let enters = matches!(member.storage, Storage::Inline { .. })
                && (index.is_some() || member.array.is_none());
            let nested = member.type_name.as_deref().filter(|_| enters);
            current = nested.and_then(|name| self.structs.get(name));
            rest = behind.strip_prefix('.')?;
        }
    }

    /// The path of the innermost member that holds the byte at `offset` of the structure `name`; none
    /// for a hole. [`LayoutTable::place`] finds the member again.
    pub fn path_at(&self, name: &str, offset: u64) -> Option<String> {
        let holds = |member: &&FileMember| {
            let start = member.offset_bytes;
            (start..start + member.size_bytes).contains(&offset)
        };
        let member = self.structs.get(name)?.members.iter().rev().find(holds)?;
        let mut path = member.name.clone();
        let mut inner = offset - member.offset_bytes;
        let is_inline = member.storage == Storage::INLINE && member.per.is_none();
        if let Some(array) = member.array.filter(|_| is_inline) {
            path += &format!("[{}]", inner / array.stride_bytes);
            inner %= array.stride_bytes;
        }
        let nested = member.type_name.as_deref().filter(|_| is_inline);
        if let Some(rest) = nested.and_then(|nested| self.path_at(nested, inner)) {
            path += &format!(".{rest}");
        }
        Some(path)
    }

    fn check(&self) -> Result<(), LayoutFileError> {
        let by_name = self.structs.iter();
        let by_name: BTreeMap<&str, &FileStruct> =
            by_name.map(|(name, read)| (name.as_str(), read)).collect();
        for read in self.structs.values() {
            for member in &read.members {
                let Some(type_name) = &member.type_name else {
                    continue;
                };
                let key = format!("{}.{}", read.name, member.name);
                let Some(nested) = by_name.get(type_name.as_str()) else {
                    let found = format!("type {type_name:?}, which no file has");
                    let expected = "a structure of this file or of the table below it";
                    return Err(self.error(key, found, expected));
                };
                check_nested(read, member, nested).map_err(|fault| {
                    let key = format!("{key}.{}", fault.key);
                    self.error(key, fault.found, &fault.expected)
                })?;
            }
        }
        match find_cycle(&by_name) {
            None => Ok(()),
            Some((name, way)) => {
                let expected = "a structure that does not contain itself";
                Err(self.error(name.to_owned(), way, expected))
            }
        }
    }

    fn error(&self, key: String, found: String, expected: &str) -> LayoutFileError {
        LayoutFileError {
            origin: self.origins.join(" + "),
            place: None,
            key,
            found,
            expected: expected.to_owned(),
        }
    }
}

/// The member that `path` begins with, the one with the longest name if there are several.
fn member_before<'t>(of: &'t FileStruct, path: &str) -> Option<&'t FileMember> {
    let begins = |member: &&FileMember| {
        let behind = path.strip_prefix(member.name.as_str());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(['.', '[']))
    };
    let members = of.members.iter().filter(begins);
    members.max_by_key(|member| member.name.len())
}
