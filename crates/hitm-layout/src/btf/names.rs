//! Finds records by name, in an index that is made at the first look-up.

use hitm_base::Fnv1a;

use super::blob::Blob;
use super::record::Kind;

/// Ids by the hash of their names: of records of a BTF and of its base.
#[derive(Debug)]
pub(super) struct NameIndex {
    /// Sorted, so that of one name the first comes first.
    entries: Vec<(u32, u32)>,
}

impl NameIndex {
    /// Indexes the records of the kinds that are wanted.
    pub(super) fn new(blob: &Blob, is_wanted: impl Fn(Kind) -> bool) -> NameIndex {
        let mut entries = Vec::new();
        for id in 1..blob.end_id() {
            let Some(record) = blob.record(id) else {
                continue;
            };
            let name = blob.name_bytes(record.name).unwrap_or_default();
            if is_wanted(record.kind) && !name.is_empty() {
                entries.push((hash(name), id));
            }
        }
        entries.sort_unstable();
        NameIndex { entries }
    }

    /// The ids with this name, which may have `struct`, `union` or `enum` before it. Those of the
    /// module come before those of its base.
    pub(super) fn find<'s>(
        &'s self,
        blob: &'s Blob,
        name: &str,
    ) -> impl DoubleEndedIterator<Item = u32> + 's {
        let words = ["struct ", "union ", "enum "];
        let found = words
            .iter()
            .find_map(|word| Some((*word, name.strip_prefix(word)?)));
        let (keyword, name) = found.unwrap_or(("", name));
        let hash = hash(name.as_bytes());
        let first = self.entries.partition_point(|entry| entry.0 < hash);
        let after = self.entries.partition_point(|entry| entry.0 <= hash);
        let same = &self.entries[first..after];
        let own = same.partition_point(|entry| entry.1 < blob.own_ids().start);
        let name = name.to_owned();
        let ids = same[own..].iter().chain(&same[..own]).map(|entry| entry.1);
        ids.filter(move |id| {
            blob.record(*id).is_some_and(|record| {
                blob.name_bytes(record.name) == Some(name.as_bytes())
                    && (keyword.is_empty() || record.kind.keyword() == keyword)
            })
        })
    }
}

/// The low half is enough: equal ones are compared.
fn hash(name: &[u8]) -> u32 {
    Fnv1a::EMPTY.with(name).value() as u32
}
