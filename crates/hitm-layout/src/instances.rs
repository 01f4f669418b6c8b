//! Instances of a type inside typed memory.

use crate::structs::bare;
use crate::{AggregateKind, StructLayout, TypeId, TypeKind, TypeStore};

/// Nesting of arrays and structures that is followed: deeper than any real type.
const DEPTH_MAX: usize = 64;

/// Returns the offset, in an object of type `of`, of the instance of `wanted` that holds the byte
/// at `offset`: the outermost one where instances nest.
pub fn instance_at(store: &TypeStore, of: TypeId, wanted: &str, offset: u64) -> Option<u64> {
    let (mut of, mut base) = (store.resolve(of), 0);
    for _ in 0..DEPTH_MAX {
        let inner = offset - base;
        match &store.get(of).kind {
            TypeKind::Aggregate(layout) if is_named(layout, wanted) => return Some(base),
            TypeKind::Aggregate(layout) => {
                let holds = |member: &&crate::Member| {
                    (member.byte_offset()..member.byte_end()).contains(&inner)
                };
                let member = layout.members.iter().find(holds)?;
                base += member.byte_offset();
                of = store.resolve(member.type_id);
            }
            TypeKind::Array { element, .. } => {
                let size = store.get(*element).size.filter(|size| *size > 0)?;
                base += inner / size * size;
                of = store.resolve(*element);
            }
            _ => return None,
        }
    }
    None
}

/// Returns the structure that is an element of an array in an object of type `of`, and holds the byte at `offset`: of
/// arrays in arrays' elements that of the innermost whose elements are structures. None where all are plain values.
pub fn element_at(store: &TypeStore, of: TypeId, offset: u64) -> Option<TypeId> {
    let (mut of, mut base) = (store.resolve(of), 0);
    let mut found = None;
    for _ in 0..DEPTH_MAX {
        let inner = offset - base;
        match &store.get(of).kind {
            TypeKind::Aggregate(layout) => {
                let holds = |member: &&crate::Member| {
                    (member.byte_offset()..member.byte_end()).contains(&inner)
                };
                let Some(member) = layout.members.iter().find(holds) else {
                    break;
                };
                base += member.byte_offset();
                of = store.resolve(member.type_id);
            }
            TypeKind::Array { element, .. } => {
                let size = store.get(*element).size.filter(|size| *size > 0)?;
                base += inner / size * size;
                of = store.resolve(*element);
                if matches!(store.get(of).kind, TypeKind::Aggregate(_)) {
                    found = Some(*element);
                }
            }
            _ => break,
        }
    }
    found
}

/// Returns the offset of the one instance of `wanted` in an object of type `of`; none when there are several. Members of
/// unions are not searched: which of them the bytes are is not known.
pub fn only_instance(store: &TypeStore, of: TypeId, wanted: &str) -> Option<u64> {
    let mut search = Search {
        store,
        wanted,
        found: Vec::new(),
    };
    search.collect(of, 0, DEPTH_MAX);
    match search.found[..] {
        [offset] => Some(offset),
        _ => None,
    }
}

/// A search for the instances of a type in an object.
struct Search<'s> {
    store: &'s TypeStore,
    wanted: &'s str,
    /// Offsets of the outermost instances; of an array's elements two stand for all.
    found: Vec<u64>,
}

impl Search<'_> {
    /// Collects the instances in a part of type `of` that begins at `base`.
    fn collect(&mut self, of: TypeId, base: u64, depth: usize) {
        const SEVERAL: usize = 2;
        if depth == 0 || self.found.len() >= SEVERAL {
            return;
        }
        let store = self.store;
        match &store.get(store.resolve(of)).kind {
            TypeKind::Aggregate(layout) if is_named(layout, self.wanted) => self.found.push(base),
            TypeKind::Aggregate(layout) if layout.kind != AggregateKind::Union => {
                for member in &layout.members {
                    self.collect(member.type_id, base + member.byte_offset(), depth - 1);
                }
            }
            TypeKind::Array { element, count } => {
                let size = store.get(*element).size.unwrap_or(0);
                for index in 0..count.unwrap_or(0).min(SEVERAL as u64) {
                    self.collect(*element, base + index * size, depth - 1);
                }
            }
            _ => {}
        }
    }
}

/// Matches `rq`, `struct rq` and `ns::Foo`; the last part is the type's own name.
fn is_named(layout: &StructLayout, wanted: &str) -> bool {
    let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
    let name = layout.name.as_deref();
    name.is_some_and(|name| last(name) == last(bare(wanted)))
}

#[cfg(test)]
mod tests {
    use crate::BtfFile;
    use hitm_test::btf::Assembler;

    use super::*;

    #[test]
    fn the_one_instance_of_a_type_is_found_also_inside() {
        let mut btf = Assembler::new(false);
        let word = btf.int("long", 8);
        let lock = btf.structure("lock", 8, &[("word", word, 0)]);
        let node = btf.structure("node", 16, &[("id", word, 0), ("lock", lock, 64)]);
        btf.structure("outer", 24, &[("id", word, 0), ("node", node, 64)]);
        btf.structure("two", 16, &[("a", lock, 0), ("b", lock, 64)]);
        let locks = btf.array(lock, 4);
        btf.structure("many", 32, &[("locks", locks, 0)]);
        let mut btf = BtfFile::parse(btf.finish().into(), None, "types").unwrap();
        let mut only = |of: &str| {
            let of = btf.type_by_name(of).unwrap();
            only_instance(btf.types(), of, "lock")
        };
        assert_eq!(only("lock"), Some(0));
        assert_eq!(only("outer"), Some(16));
        // Several instances: none is the one.
        assert_eq!(
            (only("two"), only("many"), only("long")),
            (None, None, None)
        );
    }

    #[test]
    fn the_structure_that_is_an_element_is_found() {
        let mut btf = Assembler::new(false);
        let word = btf.int("long", 8);
        let words = btf.array(word, 2);
        let shard = btf.structure("shard", 24, &[("n", word, 0), ("of", words, 64)]);
        let shards = btf.array(shard, 4);
        btf.structure(
            "counter",
            112,
            &[("all", words, 0), ("shards", shards, 128)],
        );
        let mut btf = BtfFile::parse(btf.finish().into(), None, "types").unwrap();
        let counter = btf.type_by_name("counter").unwrap();
        let store = btf.types();
        let name = |offset| {
            let element = element_at(store, counter, offset)?;
            Some(store.get(element).name.to_string())
        };
        let shard = Some("struct shard".to_owned());
        // In the word of the second, and in the array of the third.
        assert_eq!([name(40), name(16 + 48 + 16)], [shard.clone(), shard]);
        assert_eq!([name(8), name(112)], [None, None]);
    }
}
