//! Reads the members of a structure: their places in bits, base classes, the variants of enums.
//!
//! DWARF 2 to 5 have three ways to say where a bit-field is, and two to say where a member is; all
//! are read. A member whose place is not sound is left out, and the first of them is noted as the
//! structure's fault. Names of data use the others; a layout is refused.

use std::ops::RangeInclusive;
use std::sync::Arc;

use gimli::{AttributeValue, Operation};

use super::TypeReader;
use crate::TypeFault;
use crate::dwarf::{Children, Die, DieRef, Slice, Unit, View};
use crate::types::dwarf_name::{is_cpp, is_rust};
use crate::types::{
    AggregateKind, Discriminant, Member, MemberFault, MemberKind, StructLayout, TypeKind, TypeStore,
};

/// Members of one structure; a structure with more is [`TypeFault::TooMany`].
const MAX_MEMBERS: usize = 1 << 16;

/// Contents of the children of a structure's entry.
pub(super) struct Members {
    list: Vec<Member>,
    virtual_bases: Vec<Arc<str>>,
    has_virtual_bases: bool,
    discriminant: Option<Discriminant>,
    fault: Option<MemberFault>,
}

impl<'a> TypeReader<'_, '_, 'a> {
    /// The members of the structure at `die`, which takes `size` bytes.
    pub(super) fn read_members(
        &mut self,
        unit: &Unit<'a>,
        die: &Die<'a>,
        size: u64,
    ) -> Result<Members, TypeFault> {
        let mut entries = Vec::new();
        let read = for_each_member(self.view, unit, die.at, |entry| {
            entries.push(entry);
            entries.len() <= MAX_MEMBERS
        });
        if read.is_err() {
            return Err(TypeFault::Damaged);
        }
        if entries.len() > MAX_MEMBERS {
            return Err(TypeFault::TooMany);
        }
        let mut members = Members {
            list: Vec::with_capacity(entries.len()),
            virtual_bases: Vec::new(),
            has_virtual_bases: false,
            discriminant: None,
            fault: None,
        };
        for entry in &entries {
            self.read_member(unit, entry, size, &mut members);
        }
        if die.tag != gimli::DW_TAG_union_type && members.fault.is_none() {
            let shares_bytes = is_cpp(self.view, die.at.unit);
            members.fault = overlap(&members.list, self.store, shares_bytes);
        }
        Ok(members)
    }

    /// Adds a member, unless it is a static one.
    fn read_member(
        &mut self,
        unit: &Unit<'a>,
        entry: &MemberEntry<'a>,
        struct_size: u64,
        members: &mut Members,
    ) {
        let die = &entry.die;
        if die.flag(gimli::DW_AT_declaration) || die.flag(gimli::DW_AT_external) {
            return;
        }
        let name = self.member_name(unit, entry);
        let Some(type_id) = self.type_of(die) else {
            members.refuse(name.as_deref(), "", TypeFault::Damaged);
            return;
        };
        let found = self.store.get(type_id);
        let type_name = found.name.clone();
        if let TypeKind::Broken(fault @ (TypeFault::Cyclic | TypeFault::TooLarge)) = found.kind {
            members.refuse(name.as_deref(), &type_name, fault);
        }
        if is_virtual(die) {
            members.virtual_bases.push(type_name);
            members.has_virtual_bases = true;
            return;
        }
        let mut place = match bit_place(die, found.size) {
            Ok(Some(place)) => place,
            Ok(None) => return,
            Err(fault) => return members.refuse(name.as_deref(), &type_name, fault),
        };
        if die.tag == gimli::DW_TAG_inheritance
            && let Some(base) = self.store.layout(type_id)
            && base.has_virtual_bases
        {
            place.size = own_bits(base, place.size);
            members.has_virtual_bases = true;
        }
        let end = place.offset.checked_add(place.size);
        if end.is_none_or(|end| end > struct_size * 8) {
            return members.refuse(name.as_deref(), &type_name, TypeFault::OutOfBounds);
        }
        let kind = match die.tag {
            gimli::DW_TAG_inheritance => MemberKind::Base,
            _ if place.is_bit_field => MemberKind::BitField,
            _ if entry.variant.is_some() => MemberKind::Variant,
            _ => MemberKind::Field,
        };
        members.note_variant(entry, name.as_deref(), &place);
        self.store.name_bytes += name.as_ref().map_or(0, String::len);
        members.list.push(Member {
            name: name.filter(|name| !name.is_empty()).map(Arc::from),
            type_id,
            type_name,
            bit_offset: place.offset,
            bit_size: place.size,
            alignment: die.u64(gimli::DW_AT_alignment),
            kind,
            decl: self.view.decl(unit, die),
        });
    }

    fn member_name(&self, unit: &Unit<'a>, entry: &MemberEntry<'a>) -> Option<String> {
        let at = entry.die.at;
        match self.view.name(unit, &entry.die) {
            // Rust's tuples have members `__0`, `__1`: written `.0`, `.1`.
            Some(name) if is_rust(self.view, at.unit) => match name.strip_prefix("__") {
                Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => Some(number.into()),
                _ => Some(name),
            },
            None if entry.is_discriminant => Some(String::from("discriminant")),
            other => other,
        }
    }
}

impl Members {
    /// The layout of a structure with these members.
    pub(super) fn layout(
        self,
        name: Option<Arc<str>>,
        kind: AggregateKind,
        size: u64,
        alignment: Option<u64>,
    ) -> StructLayout {
        let mut layout = StructLayout::new(name, kind, size, alignment, self.list);
        layout.virtual_bases = self.virtual_bases;
        layout.has_virtual_bases = self.has_virtual_bases;
        layout.discriminant = self.discriminant;
        layout.fault = self.fault;
        layout
    }

    /// Notes the first member that cannot be as it is said to be.
    fn refuse(&mut self, name: Option<&str>, type_name: &str, fault: TypeFault) {
        self.fault.get_or_insert_with(|| MemberFault {
            member: Arc::from(name.unwrap_or(type_name)),
            fault,
        });
    }

    fn note_variant(&mut self, entry: &MemberEntry<'_>, name: Option<&str>, place: &BitPlace) {
        if entry.is_discriminant {
            self.discriminant.get_or_insert_with(|| Discriminant {
                bit_offset: place.offset,
                bit_size: place.size,
                variants: Vec::new(),
            });
        }
        if let (Some(values), Some(discriminant)) = (&entry.variant, &mut self.discriminant) {
            let name = Arc::from(name.unwrap_or_default());
            discriminant.variants.push((name, values.clone()));
        }
    }
}

/// A virtual base class: only an object's own table knows where it is.
fn is_virtual(die: &Die<'_>) -> bool {
    die.tag == gimli::DW_TAG_inheritance
        && matches!(
            die.get(gimli::DW_AT_virtuality),
            Some(AttributeValue::Virtuality(virtuality)) if virtuality != gimli::DW_VIRTUALITY_none
        )
}

/// The bits of a base class inside a derived one: what it has of virtual bases lies elsewhere.
fn own_bits(base: &StructLayout, whole: u64) -> u64 {
    let ends = base.members.iter().map(|m| m.bit_offset + m.bit_size);
    ends.max().unwrap_or(0).min(whole)
}

/// The first member that begins before the one before it ends. C++ puts members and bases into the
/// padding of a class before them; variants of an enum and their discriminant lie over each other.
pub(crate) fn overlap(
    members: &[Member],
    store: &TypeStore,
    shares_bytes: bool,
) -> Option<MemberFault> {
    let has_variants = members.iter().any(|m| m.kind == MemberKind::Variant);
    if has_variants {
        return None;
    }
    let takes_its_bytes = |member: &&Member| {
        member.bit_size > 0 && !(shares_bytes && store.layout(member.type_id).is_some())
    };
    let mut owners: Vec<&Member> = members.iter().filter(takes_its_bytes).collect();
    owners.sort_by_key(|member| member.bit_offset);
    let pair = owners
        .windows(2)
        .find(|pair| pair[0].bit_offset + pair[0].bit_size > pair[1].bit_offset)?;
    let name = pair[1].name.clone();
    Some(MemberFault {
        member: name.unwrap_or_else(|| pair[1].type_name.clone()),
        fault: TypeFault::Overlap,
    })
}

/// A member as found in the debug information.
pub(in crate::types) struct MemberEntry<'a> {
    pub(in crate::types) die: Die<'a>,
    /// For the payload of a variant: the values of the discriminant that stand for it.
    variant: Option<Vec<RangeInclusive<u128>>>,
    is_discriminant: bool,
}

/// Place of a member, in bits.
struct BitPlace {
    offset: u64,
    size: u64,
    is_bit_field: bool,
}

/// The place of a member, from any of the ways that DWARF 2 to 5 have of saying it. Zero-width
/// bit-fields have none.
fn bit_place(die: &Die<'_>, type_size: Option<u64>) -> Result<Option<BitPlace>, TypeFault> {
    let damaged = TypeFault::Damaged;
    let bytes = byte_offset(die).ok_or(damaged)?;
    let base = bytes.checked_mul(8).ok_or(TypeFault::OutOfBounds)?;
    let Some(bit_size) = die.u64(gimli::DW_AT_bit_size) else {
        let size = type_size.unwrap_or(0).checked_mul(8);
        return Ok(Some(BitPlace {
            offset: base,
            size: size.ok_or(TypeFault::TooLarge)?,
            is_bit_field: false,
        }));
    };
    let from_start = die.u64(gimli::DW_AT_data_bit_offset);
    let from_top = die.get(gimli::DW_AT_bit_offset).and_then(signed);
    let offset = match (from_start, from_top) {
        (Some(from_start), _) => from_start.checked_add(base),
        // DWARF 3 counts from the most significant bit of the storage unit; a bit-field that
        // reaches beyond it has a negative offset.
        (None, Some(from_top)) => {
            let storage = die.u64(gimli::DW_AT_byte_size).or(type_size);
            let top = storage
                .and_then(|bytes| bytes.checked_mul(8))
                .and_then(|bits| bits.checked_add(base));
            top.and_then(|top| top.checked_sub(bit_size))
                .and_then(|last| last.checked_add_signed(from_top.checked_neg()?))
        }
        (None, None) => Some(base),
    };
    let offset = offset.ok_or(TypeFault::OutOfBounds)?;
    Ok((bit_size > 0).then_some(BitPlace {
        offset,
        size: bit_size,
        is_bit_field: true,
    }))
}

fn signed(value: AttributeValue<Slice<'_>>) -> Option<i64> {
    match value {
        AttributeValue::Sdata(number) => Some(number),
        other => i64::try_from(other.udata_value()?).ok(),
    }
}

/// Bytes from the structure's start: a number, or in DWARF 2 an expression that adds one.
fn byte_offset(die: &Die<'_>) -> Option<u64> {
    let bytes = match die.get(gimli::DW_AT_data_member_location) {
        None => return Some(0),
        Some(AttributeValue::Exprloc(expression)) => expression.0,
        Some(AttributeValue::Block(bytes)) => bytes,
        Some(value) => return signed(value).and_then(|offset| u64::try_from(offset).ok()),
    };
    let encoding = gimli::Encoding {
        format: gimli::Format::Dwarf32,
        version: 4,
        address_size: 8,
    };
    let mut operations = gimli::Expression(bytes).operations(encoding);
    match (operations.next().ok()??, operations.next().ok()?) {
        (Operation::PlusConstant { value }, None) => Some(value),
        _ => None,
    }
}

/// The values of the discriminant for which a variant is there. None for the variant that is there
/// otherwise.
fn discriminant_values(variant: &Die<'_>) -> Vec<RangeInclusive<u128>> {
    if let Some(value) = variant.get(gimli::DW_AT_discr_value) {
        return unsigned(value)
            .map(|value| value..=value)
            .into_iter()
            .collect();
    }
    match variant.get(gimli::DW_AT_discr_list) {
        Some(AttributeValue::Block(bytes)) => discriminant_list(bytes).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// A list of values and of ranges, each behind a byte that says which.
fn discriminant_list(mut bytes: Slice<'_>) -> Option<Vec<RangeInclusive<u128>>> {
    use gimli::Reader;
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let kind = gimli::DwDsc(bytes.read_u8().ok()?);
        let low = u128::from(bytes.read_uleb128().ok()?);
        let high = match kind {
            gimli::DW_DSC_label => low,
            gimli::DW_DSC_range => u128::from(bytes.read_uleb128().ok()?),
            _ => return None,
        };
        values.push(low..=high);
    }
    Some(values)
}

fn unsigned(value: AttributeValue<Slice<'_>>) -> Option<u128> {
    match value {
        AttributeValue::Sdata(number) => Some(u128::from(number.cast_unsigned())),
        AttributeValue::Block(bytes) => {
            let bytes = <[u8; 16]>::try_from(bytes.slice()).ok()?;
            Some(u128::from_le_bytes(bytes))
        }
        other => other.udata_value().map(u128::from),
    }
}

/// Calls `take` for each member and base class until it answers false. The parts of a Rust enum
/// (a part with the discriminant and the variants, each with a member) count as members.
pub(in crate::types) fn for_each_member<'a>(
    view: &View<'a>,
    unit: &Unit<'a>,
    parent: DieRef,
    mut take: impl FnMut(MemberEntry<'a>) -> bool,
) -> gimli::Result<()> {
    // Variant parts and variants are entered: members below others are nested types' own.
    let mut children = Children::of(view, unit, parent)?;
    let mut values = Vec::new();
    while let Some(step) = children.next()? {
        let wanted = [
            gimli::DW_TAG_variant_part,
            gimli::DW_TAG_variant,
            gimli::DW_TAG_member,
            gimli::DW_TAG_inheritance,
        ];
        if !wanted.contains(&step.tag) {
            continue;
        }
        let die = children.die(step)?;
        match step.tag {
            gimli::DW_TAG_variant_part => children.enter(),
            gimli::DW_TAG_variant => {
                children.enter();
                values = discriminant_values(&die);
            }
            _ => {
                let entry = MemberEntry {
                    die,
                    variant: (step.depth >= 3).then(|| values.clone()),
                    is_discriminant: step.depth == 2,
                };
                if !take(entry) {
                    break;
                }
            }
        }
    }
    Ok(())
}
