//! The mappings of a process by address.

use std::collections::BTreeMap;

use crate::RangeMap;

/// A mapping of the recorded process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// Offset in the file at which it begins.
    pub file_offset: u64,
    /// The file; empty for anonymous memory; `[heap]`, `[stack]`, `[vdso]` as the kernel says.
    pub path: String,
    /// The build id of the file at the time of the recording, if it was recorded.
    pub build_id: Option<Vec<u8>>,
}

impl Mapping {
    pub(super) fn is_file(&self) -> bool {
        !self.path.is_empty() && !self.path.starts_with('[') && !self.path.starts_with("//anon")
    }

    /// Name of the memory: the file's last part, or `[anon]`.
    pub(super) fn label(&self) -> &str {
        match self.path.as_str() {
            "" => "[anon]",
            path => path.rsplit('/').next().unwrap_or(path),
        }
    }
}

/// Mappings with answers for each address and each of them, none of which walks over the others.
#[derive(Debug)]
pub(super) struct Mappings {
    /// By first address.
    pub(super) sorted: Vec<Mapping>,
    /// Indexes into `sorted`.
    by_address: RangeMap<usize>,
    /// Of each mapping, the last one up to it that is a file's.
    last_files: Vec<Option<usize>>,
    /// Of each mapping, the last one up to it of the same path that begins at the head of the file.
    heads: Vec<Option<usize>>,
}

impl Mappings {
    pub(super) fn new(mut mappings: Vec<Mapping>) -> Mappings {
        mappings.sort_by_key(|mapping| (mapping.start, mapping.end));
        let mut by_address = RangeMap::default();
        let mut last_files = Vec::with_capacity(mappings.len());
        let mut heads = Vec::with_capacity(mappings.len());
        let mut last_file = None;
        let mut head_of_path: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, mapping) in mappings.iter().enumerate() {
            by_address.insert(mapping.start..mapping.end, index);
            if mapping.is_file() {
                last_file = Some(index);
            }
            last_files.push(last_file);
            if mapping.file_offset == 0 {
                head_of_path.insert(&mapping.path, index);
            }
            heads.push(head_of_path.get(mapping.path.as_str()).copied());
        }
        Mappings {
            sorted: mappings,
            by_address,
            last_files,
            heads,
        }
    }

    /// The mapping at an address: of several the one that begins last.
    pub(super) fn at(&self, address: u64) -> Option<usize> {
        self.by_address.at(address)
    }

    /// The last mapping of a file before the one with this index.
    pub(super) fn last_file_before(&self, index: usize) -> Option<usize> {
        self.last_files[index.checked_sub(1)?]
    }

    /// The mapping that tells where a file is loaded: the one of its head. A page in the middle may
    /// belong to two segments, and be mapped once for each.
    pub(super) fn anchor(&self, index: usize) -> &Mapping {
        &self.sorted[self.heads[index].unwrap_or(index)]
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn mapping(bytes: Range<u64>, path: &str, file_offset: u64) -> Mapping {
        Mapping {
            start: bytes.start,
            end: bytes.end,
            file_offset,
            path: path.to_owned(),
            build_id: None,
        }
    }

    /// Each answer is that of a walk over all mappings.
    #[test]
    fn answers_are_those_of_a_walk() {
        let mappings = Mappings::new(vec![
            mapping(60..80, "/b", 0),
            mapping(10..50, "/a", 0),
            mapping(20..30, "/a", 8),
            mapping(20..25, "", 0),
            mapping(25..25, "/empty", 0),
            mapping(40..45, "[heap]", 0),
            mapping(70..90, "/a", 0),
            mapping(85..95, "/a", 16),
            mapping(95..99, "/c", 16),
        ]);
        let sorted = &mappings.sorted;
        for address in 0..110 {
            let mut walked = sorted.iter();
            let holds = |one: &Mapping| (one.start..one.end).contains(&address);
            assert_eq!(mappings.at(address), walked.rposition(holds), "{address}");
        }
        for index in 0..=sorted.len() {
            let file = sorted[..index].iter().rposition(Mapping::is_file);
            assert_eq!(mappings.last_file_before(index), file, "{index}");
        }
        for (index, one) in sorted.iter().enumerate() {
            let mut walked = sorted[..=index].iter().rev();
            let head = walked.find(|other| other.path == one.path && other.file_offset == 0);
            assert_eq!(mappings.anchor(index), head.unwrap_or(one), "{index}");
        }
    }
}
