//! Reads types from DWARF entries, each once, when first asked for.

use std::sync::Arc;

use gimli::{AttributeValue, DwTag};

use super::{
    AggregateKind, MAX_SIZE, Member, MemberKind, StructLayout, TypeId, TypeKind, TypeStore,
};
use crate::TypeFault;
use crate::dwarf::{Die, DieRef, Slice, Unit, View, Walker};

/// How many pointers, qualifiers and typedefs a name is composed from.
const MAX_NAME_HOPS: usize = 32;

/// Members of one structure; a structure with more is [`TypeFault::TooMany`].
const MAX_MEMBERS: usize = 1 << 16;

/// Dimensions of one array.
const MAX_DIMENSIONS: usize = 16;

/// How deep reading goes: the broken type at the end and what is around it fit in the store's depth.
const MAX_UNDER_WAY: usize = TypeStore::MAX_DEPTH as usize - 2;

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
        let fault = if self.under_way.contains(&at) {
            Some(TypeFault::Cyclic)
        } else if self.under_way.len() >= MAX_UNDER_WAY {
            Some(TypeFault::TooDeep)
        } else if self.store.is_full() {
            Some(TypeFault::TooMany)
        } else {
            None
        };
        if let Some(fault) = fault {
            return self.broken(at, fault);
        }
        self.under_way.push(at);
        let id = match self.view.fetch(at) {
            Some((unit, die)) => self.read_die(&unit, &die),
            None => self.broken(at, TypeFault::Damaged),
        };
        self.under_way.pop();
        self.store.by_die.insert(at, id);
        id
    }

    /// A broken type. They are few kinds of, but may be asked for often: once the store is full the
    /// last one is used again.
    fn broken(&mut self, at: DieRef, fault: TypeFault) -> TypeId {
        if self.store.is_full() {
            let last = TypeId(self.store.len() as u32 - 1);
            if matches!(self.store.get(last).kind, TypeKind::Broken(_)) {
                return last;
            }
        }
        let name = name_at(self.view, at);
        self.store.add_broken(&name, fault)
    }

    fn read_die(&mut self, unit: &Unit<'a>, die: &Die<'a>) -> TypeId {
        let name = || name_at(self.view, die.at);
        let size = die.u64(gimli::DW_AT_byte_size);
        match die.tag {
            gimli::DW_TAG_base_type | gimli::DW_TAG_unspecified_type => {
                self.store.add(&name(), size, TypeKind::Base)
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type
            | gimli::DW_TAG_ptr_to_member_type => {
                let size = size.unwrap_or_else(|| u64::from(unit.header.address_size()));
                self.store.add(&name(), Some(size), TypeKind::Pointer)
            }
            gimli::DW_TAG_enumeration_type => self.read_enum(die, size),
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
        let value = die.get(gimli::DW_AT_type)?;
        let target = self.view.target(die.at.unit, value)?;
        Some(self.read(target))
    }

    fn read_enum(&mut self, die: &Die<'a>, size: Option<u64>) -> TypeId {
        let size = size.or_else(|| {
            let base = self.type_of(die)?;
            self.store.get(base).size
        });
        match size {
            Some(_) => {
                let name = name_at(self.view, die.at);
                self.store.add(&name, size, TypeKind::Enum)
            }
            None => self.broken(die.at, TypeFault::DeclarationOnly),
        }
    }

    fn read_alias(&mut self, die: &Die<'a>) -> TypeId {
        let Some(target) = self.type_of(die) else {
            return self.broken(die.at, TypeFault::NotAnObject);
        };
        let name = name_at(self.view, die.at);
        let size = self.store.get(target).size;
        self.store.add(&name, size, TypeKind::Alias(target))
    }

    fn read_array(&mut self, unit: &Unit<'a>, die: &Die<'a>) -> TypeId {
        let Some(mut element) = self.type_of(die) else {
            return self.broken(die.at, TypeFault::Damaged);
        };
        let mut counts = Vec::new();
        let read = for_each_child(unit, die.at, |tag, child| {
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
        element
    }

    fn read_aggregate(&mut self, unit: &Unit<'a>, die: &Die<'a>, size: Option<u64>) -> TypeId {
        let declared = die.flag(gimli::DW_AT_declaration);
        let (Some(size), false) = (size, declared) else {
            return match self.definition_elsewhere(die) {
                Some(definition) => self.read(definition),
                None => self.broken(die.at, TypeFault::DeclarationOnly),
            };
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
        let own_name = die.get(gimli::DW_AT_name);
        let own_name = own_name.and_then(|value| self.view.text(unit, die.at.unit, value));
        let layout = StructLayout::new(
            own_name.map(Arc::from),
            kind,
            size,
            die.u64(gimli::DW_AT_alignment),
            members,
        );
        let name = name_at(self.view, die.at);
        let kind = TypeKind::Aggregate(Arc::new(layout));
        self.store.add(&name, Some(size), kind)
    }

    /// A declaration of a type that a type unit defines.
    fn definition_elsewhere(&self, die: &Die<'a>) -> Option<DieRef> {
        let signature = die.get(gimli::DW_AT_signature)?;
        self.view.target(die.at.unit, signature)
    }

    fn read_members(
        &mut self,
        unit: &Unit<'a>,
        die: &Die<'a>,
        struct_size: u64,
    ) -> Result<Vec<Member>, TypeFault> {
        let mut entries = Vec::new();
        let read = for_each_member(unit, die.at, |entry| {
            entries.push(entry);
            entries.len() <= MAX_MEMBERS
        });
        if read.is_err() {
            return Err(TypeFault::Damaged);
        }
        if entries.len() > MAX_MEMBERS {
            return Err(TypeFault::TooMany);
        }
        let mut members = Vec::with_capacity(entries.len());
        for entry in &entries {
            members.extend(self.read_member(unit, entry, struct_size));
        }
        Ok(members)
    }

    /// A member, unless it is a static one or its place is only known at run time.
    fn read_member(
        &mut self,
        unit: &Unit<'a>,
        entry: &MemberEntry<'a>,
        struct_size: u64,
    ) -> Option<Member> {
        let die = &entry.die;
        if die.flag(gimli::DW_AT_declaration) || die.flag(gimli::DW_AT_external) {
            return None;
        }
        let type_id = self.type_of(die)?;
        let member_type = self.store.get(type_id);
        let place = bit_place(die, member_type.size)?;
        let in_bounds = place.offset.checked_add(place.size)? <= struct_size.checked_mul(8)?;
        if !in_bounds {
            return None;
        }
        let kind = match die.tag {
            gimli::DW_TAG_inheritance => MemberKind::Base,
            _ if place.is_bit_field => MemberKind::BitField,
            _ if entry.in_variant => MemberKind::Variant,
            _ => MemberKind::Field,
        };
        let name = die.get(gimli::DW_AT_name);
        let name = name.and_then(|value| self.view.text(unit, die.at.unit, value));
        let name = match name {
            // Rust's tuples have members `__0`, `__1`: written `.0`, `.1`.
            Some(name) if is_rust(self.view, die.at.unit) => match name.strip_prefix("__") {
                Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => Some(number.into()),
                _ => Some(name),
            },
            None if entry.is_discriminant => Some(String::from("discriminant")),
            other => other,
        };
        self.store.name_bytes += name.as_ref().map_or(0, String::len);
        Some(Member {
            name: name.filter(|name| !name.is_empty()).map(Arc::from),
            type_id,
            type_name: self.store.get(type_id).name.clone(),
            bit_offset: place.offset,
            bit_size: place.size,
            kind,
        })
    }
}

/// A member as found in the debug information.
struct MemberEntry<'a> {
    die: Die<'a>,
    in_variant: bool,
    is_discriminant: bool,
}

/// Where a member is, in bits.
struct BitPlace {
    offset: u64,
    size: u64,
    is_bit_field: bool,
}

/// The place of a member, from any of the three ways that DWARF 2 to 5 have of saying it. Zero-width
/// bit-fields and places that need a running program (virtual bases) have none.
fn bit_place(die: &Die<'_>, type_size: Option<u64>) -> Option<BitPlace> {
    let byte_offset = match die.get(gimli::DW_AT_data_member_location) {
        None => 0,
        Some(AttributeValue::Exprloc(_) | AttributeValue::Block(_)) => return None,
        Some(value) => value.udata_value()?,
    };
    let base = byte_offset.checked_mul(8)?;
    let Some(bit_size) = die.u64(gimli::DW_AT_bit_size) else {
        return Some(BitPlace {
            offset: base,
            size: type_size.unwrap_or(0).checked_mul(8)?,
            is_bit_field: false,
        });
    };
    let offset = if let Some(from_start) = die.u64(gimli::DW_AT_data_bit_offset) {
        from_start.checked_add(base)?
    } else if let Some(from_top) = die.u64(gimli::DW_AT_bit_offset) {
        // DWARF 3 counts from the most significant bit of the storage unit.
        let storage = die.u64(gimli::DW_AT_byte_size).or(type_size)?;
        let top = base.checked_add(storage.checked_mul(8)?)?;
        top.checked_sub(from_top)?.checked_sub(bit_size)?
    } else {
        base
    };
    (bit_size > 0).then_some(BitPlace {
        offset,
        size: bit_size,
        is_bit_field: true,
    })
}

/// Calls `take` for each direct child until it answers false.
fn for_each_child<'a>(
    unit: &Unit<'a>,
    parent: DieRef,
    mut take: impl FnMut(DwTag, &Die<'a>) -> bool,
) -> gimli::Result<()> {
    let mut walker = Walker::new(unit, Some(parent.offset))?;
    while let Some(step) = walker.next()? {
        if step.depth != 1 {
            continue;
        }
        let mut attributes = Vec::new();
        walker.read(&mut attributes)?;
        let at = DieRef {
            unit: parent.unit,
            offset: step.offset,
        };
        let tag = step.tag;
        if !take(
            tag,
            &Die {
                at,
                tag,
                attributes,
            },
        ) {
            break;
        }
    }
    Ok(())
}

/// Calls `take` for each member and base class until it answers false. The parts of a Rust enum
/// (a part with the discriminant and the variants, each with a member) count as members.
fn for_each_member<'a>(
    unit: &Unit<'a>,
    parent: DieRef,
    mut take: impl FnMut(MemberEntry<'a>) -> bool,
) -> gimli::Result<()> {
    let mut walker = Walker::new(unit, Some(parent.offset))?;
    // The depth of variant parts and variants that the walk is in: members below others are nested
    // types' own.
    let mut own_depth = 1;
    while let Some(step) = walker.next()? {
        own_depth = own_depth.min(step.depth.max(1));
        if step.depth != own_depth {
            continue;
        }
        match step.tag {
            gimli::DW_TAG_variant_part | gimli::DW_TAG_variant => own_depth += 1,
            gimli::DW_TAG_member | gimli::DW_TAG_inheritance => {
                let mut attributes = Vec::new();
                walker.read(&mut attributes)?;
                let die = Die {
                    at: DieRef {
                        unit: parent.unit,
                        offset: step.offset,
                    },
                    tag: step.tag,
                    attributes,
                };
                let entry = MemberEntry {
                    die,
                    in_variant: step.depth >= 3,
                    is_discriminant: step.depth == 2,
                };
                if !take(entry) {
                    break;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn element_count(subrange: &Die<'_>) -> Option<u64> {
    if let Some(count) = subrange.u64(gimli::DW_AT_count) {
        return Some(count);
    }
    match subrange.get(gimli::DW_AT_upper_bound)? {
        // `int a[0]` has the upper bound -1, in whatever form.
        AttributeValue::Sdata(-1) => Some(0),
        AttributeValue::Data8(u64::MAX) | AttributeValue::Udata(u64::MAX) => Some(0),
        value => {
            let lower = subrange.u64(gimli::DW_AT_lower_bound).unwrap_or(0);
            let above = attr_number(value)?.checked_sub(lower)?;
            above.checked_add(1)
        }
    }
}

fn attr_number(value: AttributeValue<Slice<'_>>) -> Option<u64> {
    match value {
        AttributeValue::Sdata(number) => u64::try_from(number).ok(),
        other => other.udata_value(),
    }
}

fn is_alias(tag: DwTag) -> bool {
    tag == gimli::DW_TAG_typedef || tag == gimli::DW_TAG_template_alias || qualifier(tag).is_some()
}

/// The word for a qualifier.
fn qualifier(tag: DwTag) -> Option<&'static str> {
    match tag {
        gimli::DW_TAG_const_type => Some("const"),
        gimli::DW_TAG_volatile_type => Some("volatile"),
        gimli::DW_TAG_atomic_type => Some("_Atomic"),
        gimli::DW_TAG_restrict_type => Some("restrict"),
        _ => None,
    }
}

fn is_rust(view: &View<'_>, unit: u32) -> bool {
    view.file.root(unit).language == gimli::DW_LANG_Rust.0
}

fn is_c(view: &View<'_>, unit: u32) -> bool {
    matches!(
        gimli::DwLang(view.file.root(unit).language),
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            // dwz's shared units name no language; what is shared most is C.
            | gimli::DwLang(0)
    )
}

/// The name of a type as its language writes it, composed along pointers and qualifiers.
pub(super) fn name_at(view: &View<'_>, start: DieRef) -> String {
    let mut front = String::new();
    let mut back = String::new();
    let mut next = Some(start);
    for _ in 0..MAX_NAME_HOPS {
        let Some(at) = next else {
            return format!("{front}void{back}");
        };
        let Some((unit, die)) = view.fetch(at) else {
            return format!("{front}(damaged){back}");
        };
        let own = die.get(gimli::DW_AT_name);
        let own = own.and_then(|value| view.text(&unit, at.unit, value));
        match die.tag {
            gimli::DW_TAG_pointer_type if own.is_none() => back.insert_str(0, " *"),
            gimli::DW_TAG_reference_type => back.insert_str(0, " &"),
            gimli::DW_TAG_rvalue_reference_type => back.insert_str(0, " &&"),
            gimli::DW_TAG_array_type => back.insert_str(0, "[]"),
            gimli::DW_TAG_subroutine_type => return format!("{front}(function){back}"),
            gimli::DW_TAG_ptr_to_member_type => back.insert_str(0, " ::*"),
            tag => match (qualifier(tag), own) {
                (Some(word), _) if back.is_empty() => {
                    front.push_str(word);
                    front.push(' ');
                }
                (Some(word), _) => back = format!(" {word}{back}"),
                (None, Some(own)) => return format!("{front}{}{own}{back}", keyword(view, &die)),
                (None, None) => {
                    return format!("{front}{}(anonymous){back}", keyword(view, &die));
                }
            },
        }
        let value = die.get(gimli::DW_AT_type);
        next = value.and_then(|value| view.target(at.unit, value));
    }
    format!("{front}(…){back}")
}

/// `struct `, `union ` or `enum ` where the language wants it, and before what has no name.
fn keyword(view: &View<'_>, die: &Die<'_>) -> &'static str {
    if die.get(gimli::DW_AT_name).is_some() && !is_c(view, die.at.unit) {
        return "";
    }
    match die.tag {
        gimli::DW_TAG_structure_type => "struct ",
        gimli::DW_TAG_class_type => "class ",
        gimli::DW_TAG_union_type => "union ",
        gimli::DW_TAG_enumeration_type => "enum ",
        _ => "",
    }
}
