//! Instances of a type inside typed memory.

use hitm_layout::{StructLayout, TypeId, TypeKind, TypeStore};

/// Nesting of arrays and structures that is followed: deeper than any real type.
const DEPTH_MAX: usize = 64;

/// Returns the offset, in an object of type `of`, of the instance of `wanted` that holds the byte
/// at `offset`: the outermost one where instances nest.
pub(crate) fn instance_at(store: &TypeStore, of: TypeId, wanted: &str, offset: u64) -> Option<u64> {
    let (mut of, mut base) = (store.resolve(of), 0);
    for _ in 0..DEPTH_MAX {
        let inner = offset - base;
        match &store.get(of).kind {
            TypeKind::Aggregate(layout) if is_named(layout, wanted) => return Some(base),
            TypeKind::Aggregate(layout) => {
                let holds = |member: &&hitm_layout::Member| {
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

/// Matches `rq`, `struct rq` and `ns::Foo`; the last part is the type's own name.
fn is_named(layout: &StructLayout, wanted: &str) -> bool {
    let words = ["struct ", "class ", "union "];
    let bare = words
        .iter()
        .find_map(|word| wanted.strip_prefix(word))
        .unwrap_or(wanted);
    let last = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
    layout
        .name
        .as_deref()
        .is_some_and(|name| name == bare || last(name) == last(bare))
}
