//! Types behind pointers.
//!
//! A [`TypeStore`] does not know what pointers point at, so this goes back to the declarations that its
//! types were read from.

use crate::types::{StructLayout, TypeId, TypeKind, TypeStore};

/// Members and elements that one question may look at.
const PARTS_MAX: usize = 256;

/// A byte of an object, or of a part of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) of: TypeId,
    pub(super) offset: u64,
}

/// Types and variables as debug information or BTF declares them.
pub(crate) trait Types {
    /// The place of a type's declaration.
    type At: Copy;

    /// The types that were read.
    fn store(&self) -> &TypeStore;

    /// Reads the type at a place.
    fn read(&mut self, at: Self::At) -> TypeId;

    /// Type that a pointer or reference is declared to point at.
    fn pointee(&mut self, pointer: TypeId) -> Option<TypeId>;

    /// Type that the first parameter of a template or generic stands for.
    fn type_parameter(&mut self, of: TypeId) -> Option<TypeId>;

    /// The byte of a variable that an address stands for.
    fn variable(&mut self, address: u64) -> Option<Part>;

    /// The byte of a variable of each CPU that an address stands for.
    fn per_cpu(&mut self, _: u64) -> Option<Part> {
        None
    }

    /// Returns true if the distances to CPUs' own variables begin at an address, or the distance to those of
    /// the CPU that runs is kept there.
    fn holds_distance(&self, _: u64) -> bool {
        false
    }

    /// Type of the task that a CPU runs.
    fn task(&mut self) -> Option<TypeId> {
        None
    }

    /// Type that the pointer at byte `offset` of a type points at. Where it is one of several
    /// members of a union, all that are pointers must agree.
    fn pointer_at(&mut self, of: TypeId, offset: u64) -> Option<TypeId> {
        let size = bytes_of(self.store(), of)?;
        let paths = paths(self.store(), of, offset.checked_rem(size)?);
        let mut found: Option<TypeId> = None;
        for path in paths {
            let Some(to) = self.pointer_of(&path) else {
                continue;
            };
            if found.is_some_and(|known| !self.store().is_same(known, to)) {
                return None;
            }
            found = Some(to);
        }
        found
    }

    /// Type that the last part of a path points at, if it is a pointer.
    fn pointer_of(&mut self, path: &[Part]) -> Option<TypeId> {
        let leaf = path.last()?;
        let kind = &self.store().get(self.store().resolve(leaf.of)).kind;
        if !matches!(kind, TypeKind::Pointer) || leaf.offset != 0 {
            return None;
        }
        let pointee = self.pointee(leaf.of);
        let pointee = pointee.filter(|to| says_something(self.store(), *to));
        pointee.or_else(|| {
            // Rust's vectors keep a pointer to bytes and say what they are of in a parameter.
            let mut around = path.iter().rev();
            let vector = around.find(|part| is_vector(self.store(), part.of))?;
            let parameter = self.type_parameter(vector.of)?;
            says_something(self.store(), parameter).then_some(parameter)
        })
    }

    /// The object that another one is only a shell of, if that holds a byte: what Rust's `Arc` counts
    /// references to, what a node of a C++ container keeps. With the byte's offset in it.
    fn content_at(&mut self, of: TypeId, offset: u64) -> Option<(TypeId, u64)> {
        let (mut at, mut offset) = (of, offset);
        for _ in 0..PARTS_MAX {
            let layout = self.store().layout(at)?.clone();
            let name = layout.name.as_deref().unwrap_or_default();
            if SHELLS.iter().any(|shell| is_instance(name, shell)) {
                let member = layout.members.iter().find(|member| {
                    let is_content = matches!(member.name.as_deref(), Some("data" | "value"));
                    is_content && member.byte_offset() <= offset
                })?;
                return Some((member.type_id, offset - member.byte_offset()));
            }
            if BUFFERS.iter().any(|buffer| is_instance(name, buffer)) {
                return Some((self.type_parameter(at)?, offset));
            }
            let inner = members_at(self.store(), &layout, offset);
            let part = inner.first()?;
            (at, offset) = (part.of, part.offset);
        }
        None
    }
}

/// Bytes of a type that memory can have.
pub(super) fn bytes_of(types: &TypeStore, of: TypeId) -> Option<u64> {
    types.get(of).size.filter(|size| *size > 0)
}

/// Returns false for a type behind a pointer that says nothing about memory: of `void *`, `char *`, pointers
/// to functions and to what is only declared.
fn says_something(types: &TypeStore, of: TypeId) -> bool {
    let Some(size) = bytes_of(types, of) else {
        return false;
    };
    match types.get(types.resolve(of)).kind {
        TypeKind::Aggregate(_) | TypeKind::Array { .. } => true,
        // Bytes may be of anything.
        TypeKind::Base | TypeKind::Enum | TypeKind::Pointer => size > 1,
        _ => false,
    }
}

/// The ways to what lies at a byte of a type, outermost part first: several where members overlap.
fn paths(types: &TypeStore, of: TypeId, offset: u64) -> Vec<Vec<Part>> {
    let mut found = Vec::new();
    let mut open = vec![vec![Part { of, offset }]];
    for _ in 0..PARTS_MAX {
        let Some(path) = open.pop() else {
            break;
        };
        let Part { of, offset } = path[path.len() - 1];
        let inner: Vec<Part> = match &types.get(types.resolve(of)).kind {
            TypeKind::Aggregate(layout) => members_at(types, layout, offset),
            TypeKind::Array { element, .. } => {
                let rest = bytes_of(types, *element).map(|size| offset % size);
                let of = *element;
                rest.map(|offset| Part { of, offset }).into_iter().collect()
            }
            _ => {
                found.push(path);
                continue;
            }
        };
        // The first member is looked at first.
        open.extend(inner.into_iter().rev().map(|part| {
            let mut longer = path.clone();
            longer.push(part);
            longer
        }));
    }
    found
}

fn members_at(types: &TypeStore, layout: &StructLayout, offset: u64) -> Vec<Part> {
    let holds = layout.members.iter().filter(|member| {
        let is_open = member.bit_size == 0 && bytes_of(types, member.type_id).is_none();
        let is_inside = (member.byte_offset()..member.byte_end()).contains(&offset);
        is_inside || (is_open && member.byte_offset() <= offset)
    });
    let inner = holds.map(|member| Part {
        of: member.type_id,
        offset: offset - member.byte_offset(),
    });
    inner.collect()
}

/// The array inside a type that begins at or holds an offset: the type of its elements, and the
/// offset in one.
pub(super) fn array_at(types: &TypeStore, of: TypeId, offset: u64) -> Option<(TypeId, u64)> {
    let is_array = |part: &Part| {
        let kind = &types.get(types.resolve(part.of)).kind;
        matches!(kind, TypeKind::Array { .. })
    };
    let paths = paths(types, of, offset);
    paths.iter().find_map(|path| {
        let outer = path.iter().rposition(is_array)?;
        let element = path.get(outer + 1)?;
        Some((element.of, element.offset))
    })
}

/// Rust's counted objects: `ArcInner` of alloc::sync, `RcInner` (once `RcBox`) of alloc::rc.
const SHELLS: &[&str] = &["ArcInner", "RcInner", "RcBox"];

/// libstdc++'s memory for an object of its parameter (ext/aligned_buffer.h).
const BUFFERS: &[&str] = &["__aligned_membuf", "__aligned_buffer"];

/// Returns true if a name is that of a generic type with parameters.
fn is_instance(name: &str, generic: &str) -> bool {
    let rest = name.strip_prefix(generic);
    rest.is_some_and(|rest| rest.starts_with('<'))
}

fn is_vector(store: &TypeStore, id: TypeId) -> bool {
    let layout = store.layout(id);
    let name = layout.and_then(|layout| layout.name.as_deref());
    name.is_some_and(|name| is_instance(name, "RawVec") || is_instance(name, "Vec"))
}
