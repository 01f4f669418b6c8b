//! Types behind pointers.
//!
//! A [`TypeStore`] does not know what pointers point at, so this goes back to the entries that its
//! types were read from.

use gimli::DwTag;

use crate::dwarf::{Children, DieRef, View};
use crate::types::{StructLayout, TypeId, TypeKind, TypeReader, TypeStore, is_alias};

/// Members and elements that one question may look at.
const PARTS_MAX: usize = 256;

/// Typedefs and qualifiers between a variable and its pointer.
const MAX_HOPS: usize = 16;

/// A byte of a part of an object.
#[derive(Debug, Clone, Copy)]
struct Part {
    of: TypeId,
    offset: u64,
}

/// Reads types, and follows pointers between them.
pub(crate) struct Types<'s, 'v, 'a> {
    pub(crate) store: &'s mut TypeStore,
    pub(crate) view: &'v View<'a>,
}

impl Types<'_, '_, '_> {
    pub(super) fn read(&mut self, at: DieRef) -> TypeId {
        TypeReader::new(self.store, self.view).read(at)
    }

    /// Bytes of a type that memory can have.
    pub(super) fn size(&self, of: TypeId) -> Option<u64> {
        self.store.get(of).size.filter(|size| *size > 0)
    }

    /// The type that a pointer or reference at an entry points at. None where that says nothing about
    /// memory: `void *`, `char *`, pointers to functions and to what is only declared.
    pub(super) fn pointee(&mut self, at: DieRef) -> Option<TypeId> {
        let mut at = at;
        for _ in 0..MAX_HOPS {
            let (_, die) = self.view.fetch(at)?;
            let target = self.view.type_of(&die)?;
            if is_pointer(die.tag) {
                let found = self.read(target);
                return self.says_something(found).then_some(found);
            }
            if !is_alias(die.tag) {
                return None;
            }
            at = target;
        }
        None
    }

    fn says_something(&self, of: TypeId) -> bool {
        let Some(size) = self.size(of) else {
            return false;
        };
        match self.store.get(self.store.resolve(of)).kind {
            TypeKind::Aggregate(_) | TypeKind::Array { .. } => true,
            // Bytes may be of anything.
            TypeKind::Base | TypeKind::Enum | TypeKind::Pointer => size > 1,
            _ => false,
        }
    }

    /// Type that the pointer at byte `offset` of a type points at. Where it is one of several
    /// members of a union, all that are pointers must agree.
    pub(super) fn pointer_at(&mut self, of: TypeId, offset: u64) -> Option<TypeId> {
        let size = self.size(of)?;
        let paths = self.paths(of, offset.checked_rem(size)?);
        let mut found: Option<TypeId> = None;
        for path in paths {
            let Some(to) = self.pointer_of(&path) else {
                continue;
            };
            if found.is_some_and(|known| !self.store.is_same(known, to)) {
                return None;
            }
            found = Some(to);
        }
        found
    }

    /// Type that the last part of a path points at, if it is a pointer.
    fn pointer_of(&mut self, path: &[Part]) -> Option<TypeId> {
        let leaf = path.last()?;
        let kind = &self.store.get(self.store.resolve(leaf.of)).kind;
        if !matches!(kind, TypeKind::Pointer) || leaf.offset != 0 {
            return None;
        }
        let pointee = self.pointee(self.store.die_of(leaf.of)?);
        pointee.or_else(|| {
            // Rust's vectors keep a pointer to bytes and say what they are of in a parameter.
            let mut around = path.iter().rev();
            let vector = around.find(|part| is_vector(self.store, part.of))?;
            let parameter = self.type_parameter(vector.of)?;
            self.says_something(parameter).then_some(parameter)
        })
    }

    /// The ways to what lies at a byte of a type, outermost part first: several where members overlap.
    fn paths(&self, of: TypeId, offset: u64) -> Vec<Vec<Part>> {
        let mut found = Vec::new();
        let mut open = vec![vec![Part { of, offset }]];
        for _ in 0..PARTS_MAX {
            let Some(path) = open.pop() else {
                break;
            };
            let Part { of, offset } = path[path.len() - 1];
            let inner: Vec<Part> = match &self.store.get(self.store.resolve(of)).kind {
                TypeKind::Aggregate(layout) => self.members_at(layout, offset),
                TypeKind::Array { element, .. } => {
                    let rest = self.size(*element).map(|size| offset % size);
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

    fn members_at(&self, layout: &StructLayout, offset: u64) -> Vec<Part> {
        let holds = layout.members.iter().filter(|member| {
            let is_open = member.bit_size == 0 && self.size(member.type_id).is_none();
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
    pub(super) fn array_at(&self, of: TypeId, offset: u64) -> Option<(TypeId, u64)> {
        let is_array = |part: &Part| {
            let kind = &self.store.get(self.store.resolve(part.of)).kind;
            matches!(kind, TypeKind::Array { .. })
        };
        let paths = self.paths(of, offset);
        paths.iter().find_map(|path| {
            let outer = path.iter().rposition(is_array)?;
            let element = path.get(outer + 1)?;
            Some((element.of, element.offset))
        })
    }

    /// The object that another one is only a shell of, if that holds a byte: what Rust's `Arc` counts
    /// references to, what a node of a C++ container keeps. With the byte's offset in it.
    pub(crate) fn content_at(&mut self, of: TypeId, offset: u64) -> Option<(TypeId, u64)> {
        let (mut at, mut offset) = (of, offset);
        for _ in 0..PARTS_MAX {
            let layout = self.store.layout(at)?.clone();
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
            let inner = self.members_at(&layout, offset);
            let part = inner.first()?;
            (at, offset) = (part.of, part.offset);
        }
        None
    }

    /// The type that a template's or generic's first parameter stands for.
    fn type_parameter(&mut self, of: TypeId) -> Option<TypeId> {
        let at = self.store.die_of(self.store.resolve(of))?;
        let unit = self.view.unit(at.unit).ok()?;
        let mut children = Children::of(self.view, &unit, at).ok()?;
        while let Some(step) = children.next().ok()? {
            if step.tag == gimli::DW_TAG_template_type_parameter {
                let die = children.die(step).ok()?;
                return self.view.type_of(&die).map(|target| self.read(target));
            }
        }
        None
    }
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

fn is_pointer(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type
    )
}
