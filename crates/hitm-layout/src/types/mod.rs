//! Types as they lie in memory: sizes, members with bit offsets, arrays, names.
//!
//! A [`TypeStore`] is an arena. Invariants: a type refers only to types made before it, so that the
//! types form no cycle. `depth` is one more than that of the deepest part and at most
//! [`TypeStore::MAX_DEPTH`], so that recursion over parts is safe. A size fits in 63 bits. Pointers
//! do not refer to what they point at, which is what keeps recursive types finite.

mod alignment;
mod definitions;
mod dwarf_name;
mod index;
mod layout;
mod name;
mod read;
mod scope;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use alignment::ForcedAlignments;
pub(crate) use definitions::{DefinitionGroup, definitions};
pub(crate) use dwarf_name::is_alias;
pub(crate) use index::TypeIndex;
pub(crate) use layout::MemberFault;
pub use layout::{AggregateKind, Decl, Discriminant, Hole, Member, MemberKind, StructLayout};
pub(crate) use name::{Declarator, TypeName};
pub(crate) use read::{TypeReader, overlap};
pub use scope::SourceNames;
pub use shape::{Gap, Shape};

use crate::TypeFault;
use crate::dwarf::DieRef;

/// The number of a type in its [`TypeStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u32);

/// A type as it lies in memory.
#[derive(Debug, Clone)]
pub struct Type {
    /// The name as its language writes it: `struct rq`, `long[4]`, `ns::Foo`'s own `Foo`.
    pub name: Arc<str>,
    /// Bytes, if the type has a size: a flexible array and a broken type have none.
    pub size: Option<u64>,
    /// Its kind, with its parts.
    pub kind: TypeKind,
    /// Bytes: an object of this type begins at a multiple of it. A power of two. What the debug
    /// information does not say is inferred ([`TypeStore::forced_alignments`]).
    pub alignment: u64,
    /// Bytes of the name before what is declared.
    slot: usize,
    depth: u8,
}

impl Type {
    /// Declares `name` to be of this type, in C's syntax: `void (*name)(int)`, `long name[4]`.
    pub fn declare(&self, name: &str) -> String {
        name::declare(&self.name, self.slot, name)
    }

    /// The two parts of the type's name between which what is declared stands.
    pub fn name_around(&self) -> (&str, &str) {
        self.name.split_at(self.slot)
    }
}

/// A value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enumerator {
    /// Name of the value, as the source has it.
    pub name: Arc<str>,
    /// The number that it stands for.
    pub value: i128,
}

/// Kind of a type, with its parts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TypeKind {
    /// An integer, a floating-point number, a character.
    Base,
    /// An enumeration without payload.
    Enum,
    /// A pointer or reference. What it points at is only in the name.
    Pointer,
    /// A structure, class or union.
    Aggregate(Arc<StructLayout>),
    /// An array.
    Array {
        /// The type of an element; an array again for further dimensions.
        element: TypeId,
        /// Elements; none for a flexible array.
        count: Option<u64>,
    },
    /// Another name for a type: a typedef or a qualifier.
    Alias(TypeId),
    /// A type without a layout.
    Broken(TypeFault),
}

/// Returns true for the name of what Go's generic code knows of a type: the type beneath its name alone
/// (`go.shape.struct {..}`, cmd/compile/internal/noder).
pub(crate) fn is_shape(name: &str) -> bool {
    name.starts_with("go.shape.")
}

/// The types of one file that were read.
#[derive(Debug, Default)]
pub struct TypeStore {
    types: Vec<Type>,
    by_die: BTreeMap<DieRef, TypeId>,
    /// The first entry that each type was read from.
    dies: BTreeMap<TypeId, DieRef>,
    enumerators: BTreeMap<TypeId, Arc<[Enumerator]>>,
    member_count: usize,
    pub(crate) name_bytes: usize,
    unknown: Option<TypeId>,
}

impl TypeStore {
    /// Deepest nesting of types: members in members, elements, typedefs of typedefs.
    pub const MAX_DEPTH: u8 = 96;

    /// Depth that readers go to: the broken type at the end and what is around it fit in
    /// [`Self::MAX_DEPTH`].
    pub(crate) const MAX_UNDER_WAY: usize = TypeStore::MAX_DEPTH as usize - 2;

    /// Types that a store holds; what comes after is [`TypeFault::TooMany`].
    pub const MAX_TYPES: usize = 1 << 20;

    /// Members of all types together.
    const MAX_MEMBERS: usize = 1 << 22;

    /// Bytes in the names of all types and members together.
    const MAX_NAME_BYTES: usize = 1 << 28;

    /// The entry that a structure of this store was read from.
    fn die_of_layout(&self, layout: &StructLayout) -> Option<DieRef> {
        let is_it = |kind: &TypeKind| matches!(kind, TypeKind::Aggregate(own) if std::ptr::eq(&**own, layout));
        let at = self.types.iter().position(|of| is_it(&of.kind))?;
        self.die_of(TypeId(at as u32))
    }

    /// The type with this number. Panics when the number is of another store.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The type behind typedefs and qualifiers.
    pub fn resolve(&self, mut id: TypeId) -> TypeId {
        while let TypeKind::Alias(target) = self.get(id).kind {
            id = target;
        }
        id
    }

    /// The entry that a type was read from.
    pub(crate) fn die_of(&self, id: TypeId) -> Option<DieRef> {
        self.dies.get(&id).copied()
    }

    /// Notes the type at an entry.
    pub(crate) fn note_die(&mut self, at: DieRef, id: TypeId) {
        self.by_die.insert(at, id);
        self.dies.entry(id).or_insert(at);
    }

    /// The type of the elements of an array, those of an array of arrays; of any other type itself.
    pub fn element_of(&self, mut id: TypeId) -> TypeId {
        while let TypeKind::Array { element, .. } = self.get(self.resolve(id)).kind {
            id = element;
        }
        id
    }

    /// Returns true if the two are one type, perhaps read from two units: they have one name and size. A shape
    /// is the same as each type that has it.
    pub fn is_same(&self, one: TypeId, other: TypeId) -> bool {
        let (one, other) = (self.resolve(one), self.resolve(other));
        let (one_type, other_type) = (self.get(one), self.get(other));
        let has_shape = || {
            let are_shapes = is_shape(&one_type.name) != is_shape(&other_type.name);
            are_shapes && self.are_members_alike(one, other)
        };
        one == other
            || (one_type.size == other_type.size
                && (one_type.name == other_type.name || has_shape()))
    }

    /// Returns true if two structures have members of the same names at the same places.
    fn are_members_alike(&self, one: TypeId, other: TypeId) -> bool {
        let members = |id: TypeId| {
            let members = &self.layout(id)?.members;
            let places = members
                .iter()
                .map(|member| (member.name.clone(), member.bit_offset, member.bit_size));
            Some(places.collect::<Vec<_>>())
        };
        members(one).is_some_and(|own| Some(own) == members(other))
    }

    /// Returns true if a structure ends in an array without a size.
    pub fn has_open_end(&self, of: TypeId) -> bool {
        let last = self.layout(of).and_then(|layout| layout.members.last());
        last.is_some_and(|member| {
            let of_member = &self.get(self.resolve(member.type_id)).kind;
            matches!(
                of_member,
                TypeKind::Array {
                    count: None | Some(0),
                    ..
                }
            )
        })
    }

    /// Returns true if an object of type `of` has one of type `part` at an offset, or is one.
    pub fn has_part(&self, of: TypeId, offset: u64, part: TypeId) -> bool {
        self.any_part(of, offset, |id, offset| {
            offset == 0 && self.is_same(id, part)
        })
    }

    /// Like [`TypeStore::has_part`], for a type of another file, known by what it is called without its
    /// qualifiers, and its size.
    pub fn has_part_called(&self, of: TypeId, offset: u64, name: &str, size: u64) -> bool {
        self.any_part(of, offset, |id, offset| {
            let one = self.get(id);
            let own_name = self.layout(id).and_then(|layout| layout.name.as_deref());
            let is_called = own_name == Some(name) || *one.name == *name;
            offset == 0 && is_called && one.size == Some(size)
        })
    }

    /// Returns true if all that lies at an offset of a type is an array of bytes, which may hold anything. A
    /// union that has one beside other members is none.
    pub fn is_storage(&self, of: TypeId, offset: u64) -> bool {
        let kind = |id: TypeId| &self.get(self.resolve(id)).kind;
        let is_bytes = |id: TypeId, _: u64| match kind(id) {
            TypeKind::Array { element, .. } => {
                self.get(*element).size == Some(1) && matches!(kind(*element), TypeKind::Base)
            }
            _ => false,
        };
        let is_value = |id: TypeId, _: u64| {
            let is_leaf = matches!(
                kind(id),
                TypeKind::Base | TypeKind::Enum | TypeKind::Pointer
            );
            is_leaf && self.get(id).size != Some(1)
        };
        self.any_part(of, offset, is_bytes) && !self.any_part(of, offset, is_value)
    }

    /// Returns true if `is_wanted` is for a part of a type that holds a byte, given the byte's offset in the
    /// part.
    fn any_part(&self, of: TypeId, offset: u64, is_wanted: impl Fn(TypeId, u64) -> bool) -> bool {
        let mut open = vec![(of, offset)];
        for _ in 0..PARTS_MAX {
            let Some((id, offset)) = open.pop() else {
                return false;
            };
            if is_wanted(id, offset) {
                return true;
            }
            match &self.get(self.resolve(id)).kind {
                TypeKind::Aggregate(layout) => {
                    let holds = |member: &&Member| {
                        (member.byte_offset()..member.byte_end()).contains(&offset)
                    };
                    let inner = layout.members.iter().filter(holds);
                    open.extend(inner.map(|m| (m.type_id, offset - m.byte_offset())));
                }
                TypeKind::Array { element, .. } => {
                    let size = self.get(*element).size.unwrap_or(0);
                    open.extend(offset.checked_rem(size).map(|rest| (*element, rest)));
                }
                _ => {}
            }
        }
        false
    }

    /// The layout behind typedefs and qualifiers, if it is a structure, class or union.
    pub fn layout(&self, id: TypeId) -> Option<&Arc<StructLayout>> {
        self.layout_or_fault(id).ok()
    }

    /// The layout of a type, or why it has none.
    pub(crate) fn layout_or_fault(&self, id: TypeId) -> Result<&Arc<StructLayout>, TypeFault> {
        match &self.get(self.resolve(id)).kind {
            TypeKind::Aggregate(layout) => Ok(layout),
            TypeKind::Broken(fault) => Err(*fault),
            _ => Err(TypeFault::NotAggregate),
        }
    }

    /// Returns the number of types that the store holds.
    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }

    /// Adds a type. One that breaks a limit is added as broken, with its name.
    pub(crate) fn add(
        &mut self,
        name: impl Into<TypeName>,
        size: Option<u64>,
        kind: TypeKind,
    ) -> TypeId {
        let TypeName { text, slot } = name.into();
        let deepest = match &kind {
            TypeKind::Array { element, .. } => self.get(*element).depth,
            TypeKind::Alias(target) => self.get(*target).depth,
            TypeKind::Aggregate(layout) => {
                let depths = layout
                    .members
                    .iter()
                    .map(|member| self.get(member.type_id).depth);
                depths.max().unwrap_or(0)
            }
            _ => 0,
        };
        let fault = if deepest >= TypeStore::MAX_DEPTH {
            Some(TypeFault::TooDeep)
        } else if size.is_some_and(|size| size > MAX_SIZE) {
            Some(TypeFault::TooLarge)
        } else {
            None
        };
        let (size, kind, depth) = match fault {
            Some(fault) => (None, TypeKind::Broken(fault), 0),
            None => (size, kind, deepest + 1),
        };
        if let TypeKind::Aggregate(layout) = &kind {
            self.member_count += layout.members.len();
        }
        self.name_bytes += text.len();
        let alignment = alignment::of(self, size, &kind);
        let id = TypeId(self.types.len() as u32);
        self.types.push(Type {
            name: Arc::from(text),
            size,
            kind,
            alignment,
            slot,
            depth,
        });
        id
    }

    pub(crate) fn add_broken(&mut self, name: impl Into<TypeName>, fault: TypeFault) -> TypeId {
        self.add(name, None, TypeKind::Broken(fault))
    }

    /// A broken type. They are few kinds of, but may be needed often: once the store is full the
    /// last one is used again.
    pub(crate) fn broken(&mut self, name: impl Into<TypeName>, fault: TypeFault) -> TypeId {
        if self.is_full()
            && let Some(last) = self.types.len().checked_sub(1)
            && matches!(self.types[last].kind, TypeKind::Broken(_))
        {
            return TypeId(last as u32);
        }
        self.add_broken(name, fault)
    }

    /// The values of an enumeration, in the order of the source.
    pub fn enumerators(&self, id: TypeId) -> &[Enumerator] {
        self.enumerators.get(&id).map_or(&[], |all| all)
    }

    /// Notes the values of an enumeration.
    pub(crate) fn set_enumerators(&mut self, id: TypeId, all: Vec<Enumerator>) {
        self.member_count += all.len();
        self.name_bytes += all.iter().map(|one| one.name.len()).sum::<usize>();
        self.enumerators.insert(id, all.into());
    }

    /// A type of which nothing is known: an object of it is one leaf of the object's size.
    pub(crate) fn unknown(&mut self) -> TypeId {
        if let Some(known) = self.unknown {
            return known;
        }
        let id = self.add_broken("", TypeFault::Damaged);
        self.unknown = Some(id);
        id
    }

    pub(crate) fn is_full(&self) -> bool {
        self.types.len() >= TypeStore::MAX_TYPES
            || self.member_count >= TypeStore::MAX_MEMBERS
            || self.name_bytes >= TypeStore::MAX_NAME_BYTES
    }

    /// Fault that keeps a reader that has `under_way` open, outermost first, from going into `next`; none when it can.
    pub(crate) fn fault_of_entering<At: PartialEq>(
        &self,
        under_way: &[At],
        next: &At,
    ) -> Option<TypeFault> {
        if under_way.contains(next) {
            Some(TypeFault::Cyclic)
        } else if under_way.len() >= TypeStore::MAX_UNDER_WAY {
            Some(TypeFault::TooDeep)
        } else if self.is_full() {
            Some(TypeFault::TooMany)
        } else {
            None
        }
    }

    /// An array of `element`, named as C does: `long[4][8]`.
    pub(crate) fn add_array(&mut self, element: TypeId, count: Option<u64>) -> TypeId {
        let (before, after) = self.get(element).name_around();
        let name = TypeName {
            text: format!("{before}{}{after}", dimension(count)),
            slot: before.len(),
        };
        let size = self.get(element).size.zip(count);
        match size.map(|(size, count)| size.checked_mul(count)) {
            Some(None) => self.add_broken(name, TypeFault::TooLarge),
            Some(size) => self.add(name, size, TypeKind::Array { element, count }),
            None => self.add(name, None, TypeKind::Array { element, count }),
        }
    }
}

/// Parts of a type that one search for a part looks at.
const PARTS_MAX: usize = 256;

/// Largest size of a type in bytes: its bits still fit in 64 bits.
pub(crate) const MAX_SIZE: u64 = 1 << 60;

fn dimension(count: Option<u64>) -> String {
    count.map_or_else(|| String::from("[]"), |count| format!("[{count}]"))
}
