//! Reads types from BTF records, each once, on demand.
//!
//! Recursion follows members, elements and other names, never pointers: in what a compiler makes it
//! ends. What would not end is found because the ids under way are known, and becomes a broken type.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blob::Blob;
use super::name::name_of;
use super::record::{Kind, RawMember, Record};
use crate::TypeFault;
use crate::types::{
    AggregateKind, Enumerator, MAX_SIZE, Member, MemberFault, MemberKind, StructLayout, TypeId,
    TypeKind, TypeName, TypeStore, overlap,
};

/// Types that were read so far.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_id: BTreeMap<u32, TypeId>,
    /// Ids of the types that pointers point at.
    pub(super) pointees: BTreeMap<TypeId, u32>,
}

/// Reads types into a store.
pub(super) struct Reader<'s> {
    pub(super) blob: &'s Blob,
    pub(super) store: &'s mut TypeStore,
    pub(super) known: &'s mut Known,
    /// Bytes of a pointer, which no record says.
    pub(super) pointer_size: u64,
    /// The ids that are being read, outermost first.
    pub(super) under_way: Vec<u32>,
}

impl Reader<'_> {
    /// The type of an id. Never fails: a type without a layout is broken, with its name.
    pub(super) fn read(&mut self, id: u32) -> TypeId {
        if let Some(known) = self.known.by_id.get(&id) {
            return *known;
        }
        if let Some(fault) = self.store.fault_of_entering(&self.under_way, &id) {
            return self.broken(id, fault);
        }
        self.under_way.push(id);
        let found = match self.blob.record(id) {
            Some(record) => self.read_record(id, &record),
            None if id == 0 => self.broken(id, TypeFault::NotAnObject),
            None => self.broken(id, TypeFault::NoSuchType),
        };
        self.under_way.pop();
        self.known.by_id.insert(id, found);
        found
    }

    fn broken(&mut self, id: u32, fault: TypeFault) -> TypeId {
        let name = name_of(self.blob, id);
        self.store.broken(name, fault)
    }

    fn read_record(&mut self, id: u32, record: &Record<'_>) -> TypeId {
        let name = name_of(self.blob, id);
        let size = Some(u64::from(record.size_or_type));
        match record.kind {
            Kind::Int | Kind::Float => self.store.add(name, size, TypeKind::Base),
            Kind::Enum | Kind::Enum64 => {
                let found = self.store.add(name, size, TypeKind::Enum);
                let all = (0..record.part_count).map(|index| self.enumerator(record, index));
                self.store.set_enumerators(found, all.collect());
                found
            }
            Kind::Ptr => {
                let size = Some(self.pointer_size);
                let found = self.store.add(name, size, TypeKind::Pointer);
                self.known.pointees.insert(found, record.size_or_type);
                found
            }
            Kind::Array => self.read_array(id, record, name),
            Kind::Struct | Kind::Union => self.read_aggregate(record, name),
            Kind::Fwd => self.broken(id, TypeFault::DeclarationOnly),
            // A variable stands for its type, which is what callers look its name up for.
            kind if kind.is_alias() || kind == Kind::Var => {
                let target = self.read(record.size_or_type);
                let size = self.store.get(target).size;
                self.store.add(name, size, TypeKind::Alias(target))
            }
            _ => self.broken(id, TypeFault::NotAnObject),
        }
    }

    fn enumerator(&self, record: &Record<'_>, index: usize) -> Enumerator {
        let (name, value) = record.enumerator(index);
        Enumerator {
            name: Arc::from(&*self.blob.name(name).unwrap_or_default()),
            value,
        }
    }

    /// BTF has no flexible arrays of its own: `a[]` and `a[0]` are both of no elements.
    fn read_array(&mut self, id: u32, record: &Record<'_>, name: TypeName) -> TypeId {
        let (element, count) = record.array();
        let element = self.read(element);
        let found = self.store.get(self.store.resolve(element));
        if let TypeKind::Broken(fault) = found.kind {
            return self.broken(id, fault);
        }
        let size = self.store.get(element).size.unwrap_or(0);
        let count = u64::from(count);
        match size.checked_mul(count).filter(|size| *size <= MAX_SIZE) {
            None => self.broken(id, TypeFault::TooLarge),
            Some(size) => {
                let count = Some(count);
                self.store
                    .add(name, Some(size), TypeKind::Array { element, count })
            }
        }
    }

    fn read_aggregate(&mut self, record: &Record<'_>, name: TypeName) -> TypeId {
        let size = u64::from(record.size_or_type);
        let mut members = Vec::with_capacity(record.part_count);
        let mut fault: Option<MemberFault> = None;
        for index in 0..record.part_count {
            let raw = record.member(index);
            match self.read_member(&raw, size) {
                Ok(member) => members.push(member),
                Err(found) => fault = fault.or(Some(found)),
            }
        }
        let kind = match record.kind {
            Kind::Union => AggregateKind::Union,
            _ => AggregateKind::Struct,
        };
        let own_name = self.blob.name(record.name).map(|own| Arc::from(&*own));
        let mut layout = StructLayout::new(own_name, kind, size, None, members);
        if kind == AggregateKind::Struct {
            fault = fault.or_else(|| overlap(&layout.members, self.store, false));
        }
        layout.fault = fault;
        self.store
            .add(name, Some(size), TypeKind::Aggregate(Arc::new(layout)))
    }

    fn read_member(&mut self, raw: &RawMember, size: u64) -> Result<Member, MemberFault> {
        let type_id = self.read(raw.type_id);
        let resolved = self.store.resolve(type_id);
        let own_name = self.blob.name(raw.name).map(|name| Arc::from(&*name));
        let found = self.store.get(type_id);
        let refuse = |fault| MemberFault {
            member: own_name.clone().unwrap_or_else(|| found.name.clone()),
            fault,
        };
        match &self.store.get(resolved).kind {
            TypeKind::Broken(fault) => return Err(refuse(*fault)),
            // A fault of a part is one of the whole.
            TypeKind::Aggregate(inner) if inner.fault.is_some() => {
                let inner = inner.fault.as_ref().map(|inner| inner.fault);
                return Err(refuse(inner.unwrap_or(TypeFault::Damaged)));
            }
            _ => {}
        }
        let bytes = found.size.unwrap_or(0);
        let (bit_offset, bits) = self.bit_place(raw);
        let bit_size = bits.unwrap_or(bytes * 8);
        if bits.is_some_and(|bits| bits > bytes * 8) {
            return Err(refuse(TypeFault::Damaged));
        }
        let is_inside = bit_offset + bit_size <= size * 8;
        // An odd bit is no place for what is no bit-field.
        if !is_inside || bits.is_none() && bit_offset % 8 != 0 {
            return Err(refuse(TypeFault::OutOfBounds));
        }
        let name_bytes = own_name.as_ref().map_or(0, |name: &Arc<str>| name.len());
        let member = Member {
            name: own_name,
            type_id,
            type_name: found.name.clone(),
            bit_offset,
            bit_size,
            alignment: None,
            kind: bits.map_or(MemberKind::Field, |_| MemberKind::BitField),
            decl: None,
        };
        self.store.name_bytes += name_bytes;
        Ok(member)
    }

    /// Start of a member in bits, and the number of bits of a bit-field. Older encoders say it by
    /// an integer type that has fewer bits than its bytes hold.
    fn bit_place(&self, raw: &RawMember) -> (u64, Option<u64>) {
        let offset = u64::from(raw.bit_offset);
        if let Some(bits) = raw.bit_field {
            return (offset, Some(u64::from(bits)));
        }
        match self.int_behind(raw.type_id) {
            Some(int) => {
                let (bits, shift) = int.int_bits();
                let is_whole = shift == 0 && bits == int.size_or_type.saturating_mul(8);
                match is_whole || bits == 0 {
                    true => (offset, None),
                    false => (offset + u64::from(shift), Some(u64::from(bits))),
                }
            }
            None => (offset, None),
        }
    }

    /// The record of the integer that a type is, behind other names and qualifiers.
    fn int_behind(&self, mut id: u32) -> Option<Record<'_>> {
        for _ in 0..TypeStore::MAX_UNDER_WAY {
            let record = self.blob.record(id)?;
            match record.kind {
                Kind::Int => return Some(record),
                kind if kind.is_alias() => id = record.size_or_type,
                _ => return None,
            }
        }
        None
    }
}
