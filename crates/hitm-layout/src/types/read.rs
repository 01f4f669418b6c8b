//! Reads types from DWARF entries, each once, on demand.

mod members;

pub(super) use members::for_each_member;
pub(crate) use members::overlap;

use std::sync::Arc;

use gimli::{AttributeValue, DwTag};

use super::dwarf_name::{is_alias, is_rust, name_at};
use super::{AggregateKind, Enumerator, MAX_SIZE, TypeId, TypeIndex, TypeKind, TypeStore};
use crate::TypeFault;
use crate::dwarf::{Children, Die, DieRef, Unit, View, attr_u64};

/// Values of one enumeration that are read.
const MAX_ENUMERATORS: usize = 1 << 16;

/// Dimensions of one array.
const MAX_DIMENSIONS: usize = 16;

/// Reads types into a store.
pub(crate) struct TypeReader<'s, 'v, 'a> {
    store: &'s mut TypeStore,
    view: &'v View<'a>,
    /// The entries that are being read, outermost first.
    under_way: Vec<DieRef>,
}

impl<'s, 'v, 'a> TypeReader<'s, 'v, 'a> {
    pub(crate) fn new(store: &'s mut TypeStore, view: &'v View<'a>) -> TypeReader<'s, 'v, 'a> {
        TypeReader {
            store,
            view,
            under_way: Vec::new(),
        }
    }

    /// The type at an entry. Never fails: a type without a layout is broken, with its name.
    pub(crate) fn read(&mut self, at: DieRef) -> TypeId {
        if let Some(known) = self.store.by_die.get(&at) {
            return *known;
        }
        if let Some(fault) = self.store.fault_of_entering(&self.under_way, &at) {
            return self.broken(at, fault);
        }
        self.under_way.push(at);
        let id = match self.view.fetch(at) {
            Some((unit, die)) => self.read_die(&unit, &die),
            None => self.broken(at, TypeFault::Damaged),
        };
        self.under_way.pop();
        self.store.note_die(at, id);
        id
    }

    fn broken(&mut self, at: DieRef, fault: TypeFault) -> TypeId {
        let name = name_at(self.view, at);
        self.store.broken(name, fault)
    }

    fn read_die(&mut self, unit: &Unit<'a>, die: &Die<'a>) -> TypeId {
        let name = || name_at(self.view, die.at);
        let size = die.u64(gimli::DW_AT_byte_size);
        match die.tag {
            gimli::DW_TAG_base_type => self.store.add(name(), size, TypeKind::Base),
            gimli::DW_TAG_unspecified_type => {
                // C++'s `std::nullptr_t` is as large as a pointer, and has no size of its own.
                let name = name();
                let is_null = name.text.contains("nullptr");
                let size = size.or(is_null.then(|| u64::from(unit.header.address_size())));
                self.store.add(name, size, TypeKind::Base)
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                let size = size.unwrap_or_else(|| u64::from(unit.header.address_size()));
                self.store.add(name(), Some(size), TypeKind::Pointer)
            }
            gimli::DW_TAG_ptr_to_member_type => {
                let size = size.unwrap_or_else(|| self.pointer_to_member(unit, die));
                self.store.add(name(), Some(size), TypeKind::Pointer)
            }
            gimli::DW_TAG_enumeration_type => self.read_enum(unit, die, size),
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_interface_type
            | gimli::DW_TAG_union_type => self.read_aggregate(unit, die, size),
            gimli::DW_TAG_array_type => self.read_array(unit, die),
            tag if is_alias(tag) => self.read_alias(die),
            _ => self.broken(die.at, TypeFault::NotAnObject),
        }
    }

    fn type_of(&mut self, die: &Die<'a>) -> Option<TypeId> {
        self.view.type_of(die).map(|target| self.read(target))
    }

    /// The size of a pointer to member: of a function also what to add to `this` (Itanium C++ ABI,
    /// section 2.3).
    fn pointer_to_member(&self, unit: &Unit<'a>, die: &Die<'a>) -> u64 {
        let target = self.view.type_of(die);
        let target = target.and_then(|target| self.view.fetch(target));
        let is_function = target.is_some_and(|(_, die)| die.tag == gimli::DW_TAG_subroutine_type);
        u64::from(unit.header.address_size()) * if is_function { 2 } else { 1 }
    }

    fn read_enum(&mut self, unit: &Unit<'a>, die: &Die<'a>, size: Option<u64>) -> TypeId {
        let size = size.or_else(|| {
            let base = self.type_of(die)?;
            self.store.get(base).size
        });
        match size {
            Some(_) => {
                let name = name_at(self.view, die.at);
                let found = self.store.add(name, size, TypeKind::Enum);
                let all = self.enumerators(unit, die);
                self.store.set_enumerators(found, all);
                found
            }
            None => self.read_elsewhere(die),
        }
    }

    /// The values of an enumeration, up to the first that is damaged.
    fn enumerators(&self, unit: &Unit<'a>, die: &Die<'a>) -> Vec<Enumerator> {
        let mut all = Vec::new();
        // Values before the damage are kept: only their names are shown.
        let _ = for_each_child(self.view, unit, die.at, |tag, child| {
            if tag == gimli::DW_TAG_enumerator {
                let name = self.view.name(unit, child);
                let value = match child.get(gimli::DW_AT_const_value) {
                    Some(AttributeValue::Sdata(value)) => Some(i128::from(value)),
                    value => value.and_then(|value| value.udata_value()).map(i128::from),
                };
                let named = name.zip(value).map(|(name, value)| Enumerator {
                    name: Arc::from(name),
                    value,
                });
                all.extend(named);
            }
            all.len() < MAX_ENUMERATORS
        });
        all
    }

    fn read_alias(&mut self, die: &Die<'a>) -> TypeId {
        let Some(target) = self.type_of(die) else {
            return self.broken(die.at, TypeFault::NotAnObject);
        };
        let name = name_at(self.view, die.at);
        let size = self.store.get(target).size;
        self.store.add(name, size, TypeKind::Alias(target))
    }

    fn read_array(&mut self, unit: &Unit<'a>, die: &Die<'a>) -> TypeId {
        let Some(mut element) = self.type_of(die) else {
            return self.broken(die.at, TypeFault::Damaged);
        };
        let mut counts = Vec::new();
        let read = for_each_child(self.view, unit, die.at, |tag, child| {
            if tag == gimli::DW_TAG_subrange_type || tag == gimli::DW_TAG_enumeration_type {
                counts.push(element_count(child));
            }
            counts.len() < MAX_DIMENSIONS
        });
        if read.is_err() {
            return self.broken(die.at, TypeFault::Damaged);
        }
        if counts.is_empty() {
            counts.push(None);
        }
        for count in counts.into_iter().rev() {
            element = self.store.add_array(element, count);
        }
        // A vector of three elements takes the bytes of four.
        let found = self.store.get(element);
        let size = die.u64(gimli::DW_AT_byte_size);
        if let (true, TypeKind::Array { .. }) = (size > found.size, &found.kind) {
            let (name, kind) = (name_at(self.view, die.at), found.kind.clone());
            return self.store.add(name, size, kind);
        }
        element
    }

    fn read_aggregate(&mut self, unit: &Unit<'a>, die: &Die<'a>, size: Option<u64>) -> TypeId {
        let declared = die.flag(gimli::DW_AT_declaration);
        let (Some(size), false) = (size, declared) else {
            return self.read_elsewhere(die);
        };
        if size > MAX_SIZE {
            return self.broken(die.at, TypeFault::TooLarge);
        }
        let kind = match die.tag {
            gimli::DW_TAG_class_type => AggregateKind::Class,
            gimli::DW_TAG_union_type => AggregateKind::Union,
            _ => AggregateKind::Struct,
        };
        let members = match self.read_members(unit, die, size) {
            Ok(members) => members,
            Err(fault) => return self.broken(die.at, fault),
        };
        let own_name = self.view.name(unit, die);
        let alignment = die.u64(gimli::DW_AT_alignment);
        let mut layout = members.layout(own_name.map(Arc::from), kind, size, alignment);
        layout.decl = self.view.decl(unit, die);
        layout.is_rust = is_rust(self.view, die.at.unit);
        let name = name_at(self.view, die.at);
        let kind = TypeKind::Aggregate(Arc::new(layout));
        self.store.add(name, Some(size), kind)
    }

    /// Reads the definition of a type that is only declared here. It is in the type unit that the
    /// declaration names, or in another unit, under the same name.
    fn read_elsewhere(&mut self, die: &Die<'a>) -> TypeId {
        let definition = match die.get(gimli::DW_AT_signature) {
            Some(signature) => self.view.target(die.at.unit, signature),
            None => TypeIndex::of(self.view).definition(self.view, die),
        };
        match definition {
            Some(definition) => self.read(definition),
            None => self.broken(die.at, TypeFault::DeclarationOnly),
        }
    }
}

/// Calls `take` for each direct child until it answers false.
fn for_each_child<'a>(
    view: &View<'a>,
    unit: &Unit<'a>,
    parent: DieRef,
    mut take: impl FnMut(DwTag, &Die<'a>) -> bool,
) -> gimli::Result<()> {
    let mut children = Children::of(view, unit, parent)?;
    while let Some(step) = children.next()? {
        if !take(step.tag, &children.die(step)?) {
            break;
        }
    }
    Ok(())
}

pub(super) fn element_count(subrange: &Die<'_>) -> Option<u64> {
    if let Some(count) = subrange.u64(gimli::DW_AT_count) {
        return Some(count);
    }
    match subrange.get(gimli::DW_AT_upper_bound)? {
        // `int a[0]` has the upper bound -1, in whatever form.
        AttributeValue::Sdata(-1) => Some(0),
        AttributeValue::Data8(u64::MAX) | AttributeValue::Udata(u64::MAX) => Some(0),
        value => {
            let lower = subrange.u64(gimli::DW_AT_lower_bound).unwrap_or(0);
            let above = attr_u64(value)?.checked_sub(lower)?;
            above.checked_add(1)
        }
    }
}
