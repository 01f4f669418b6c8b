//! Fields of classes, as two generations of HotSpot pack them: rows of half words (until JDK 20), or a stream of
//! bytes (fieldInfo.hpp since JDK 21).

use std::rc::Rc;

use crate::bytes::Packed;
use crate::classes::Classes;
use crate::{HotspotError, JavaMachine};

/// Classes above a class that are followed.
const DEPTH_MAX: usize = 256;
/// Fields of a class: a class file has two bytes for their number.
const FIELDS_MAX: u32 = 1 << 16;
/// `static` among the flags of a field (JVMS 4.5).
const STATIC: u32 = 0x0008;

/// A field of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Place of its first byte in the object, with the object's header.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Its name.
    pub name: String,
}

/// The fields of a class and of those above it; those of an object, or the static ones.
pub(crate) type Fields = Rc<[Field]>;

/// A field with its texts as numbers in the pool of constants.
#[derive(Debug, Clone, Copy)]
struct Row {
    is_static: bool,
    name: u16,
    signature: u16,
    offset: u64,
}

impl JavaMachine<'_> {
    /// The fields of an object of a class, those of the classes above it first; or its own static ones.
    pub(crate) fn fields(
        &self,
        classes: &Classes,
        class: u64,
        are_static: bool,
    ) -> Result<Fields, HotspotError> {
        if let Some(known) = classes.fields.borrow().get(&(class, are_static)) {
            return Ok(Rc::clone(known));
        }
        let above = self.tables.offset("Klass", "_super")?;
        let (mut found, mut one) = (Vec::new(), class);
        for _ in 0..DEPTH_MAX {
            if !classes.all.contains(&one) {
                break;
            }
            self.add_fields(classes, one, are_static, &mut found)?;
            if are_static {
                break;
            }
            one = self.view.word(one.wrapping_add(above))?;
        }
        found.sort_by_key(|field: &Field| field.offset);
        let found: Fields = found.into();
        let mut fields = classes.fields.borrow_mut();
        fields.insert((class, are_static), Rc::clone(&found));
        Ok(found)
    }

    fn add_fields(
        &self,
        classes: &Classes,
        class: u64,
        are_static: bool,
        into: &mut Vec<Field>,
    ) -> Result<(), HotspotError> {
        let pool = self.tables.offset("InstanceKlass", "_constants")?;
        let pool = self.view.word(class.wrapping_add(pool))?;
        let rows = match self.tables.offset("InstanceKlass", "_fieldinfo_stream") {
            Ok(stream) => self.streamed(self.view.word(class.wrapping_add(stream))?)?,
            Err(_) => self.listed(class)?,
        };
        for row in rows.into_iter().filter(|row| row.is_static == are_static) {
            let signature = self.constant_symbol(pool, row.signature)?;
            into.push(Field {
                offset: row.offset,
                size: bytes_of(&signature, classes.reference_bytes),
                name: self.constant_symbol(pool, row.name)?,
            });
        }
        Ok(())
    }

    /// Rows of JDK 21 and later: two counts, then five numbers a field, and up to three by its flags.
    fn streamed(&self, list: u64) -> Result<Vec<Row>, HotspotError> {
        let tables = &self.tables;
        let flag = |name: &str| {
            let bit = tables.constant(&format!("FieldInfo::FieldFlags::{name}"))?;
            Ok::<u32, HotspotError>(1_u32.checked_shl(bit as u32).unwrap_or(0))
        };
        let optional = [
            flag("_ff_initialized")?,
            flag("_ff_generic")?,
            flag("_ff_contended")?,
        ];
        let first = list.wrapping_add(tables.offset("Array<u1>", "_data")?);
        let mut packed = Packed::new(&self.view, first, self.packing());
        let count = packed.unsigned()?;
        // Fields that the machine adds come last; they have no names in the pool.
        packed.unsigned()?;
        let mut rows = Vec::new();
        for _ in 0..count.min(FIELDS_MAX) {
            let (name, signature) = (packed.unsigned()?, packed.unsigned()?);
            let (offset, access, flags) =
                (packed.unsigned()?, packed.unsigned()?, packed.unsigned()?);
            for bit in optional {
                if flags & bit != 0 {
                    packed.unsigned()?;
                }
            }
            rows.push(Row {
                is_static: access & STATIC != 0,
                name: name as u16,
                signature: signature as u16,
                offset: offset.into(),
            });
        }
        Ok(rows)
    }

    /// Rows until JDK 20: a number of half words a field.
    fn listed(&self, class: u64) -> Result<Vec<Row>, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let member = |name| {
            Ok::<u64, HotspotError>(class.wrapping_add(tables.offset("InstanceKlass", name)?))
        };
        let count = view.half(member("_java_fields_count")?)?;
        let list = view.word(member("_fields")?)?;
        let first = list.wrapping_add(tables.offset("Array<u2>", "_data")?);
        let slots = tables.constant("FieldInfo::field_slots")? as u64;
        let tag_bits = tables.constant("FIELDINFO_TAG_SIZE")? as u32;
        let slot_of = |name| {
            let slot = tables.constant(name)?;
            Ok::<u64, HotspotError>(slot as u64)
        };
        let [flags, name, signature, low, high] = [
            slot_of("FieldInfo::access_flags_offset")?,
            slot_of("FieldInfo::name_index_offset")?,
            slot_of("FieldInfo::signature_index_offset")?,
            slot_of("FieldInfo::low_packed_offset")?,
            slot_of("FieldInfo::high_packed_offset")?,
        ];
        let mut rows = Vec::new();
        for number in 0..u64::from(count) {
            let row = first.wrapping_add(number.wrapping_mul(slots).wrapping_mul(2));
            let slot = |slot: u64| view.half(row.wrapping_add(slot.wrapping_mul(2)));
            let packed = u32::from(slot(high)?) << 16 | u32::from(slot(low)?);
            rows.push(Row {
                is_static: u32::from(slot(flags)?) & STATIC != 0,
                name: slot(name)?,
                signature: slot(signature)?,
                offset: packed.checked_shr(tag_bits).unwrap_or(0).into(),
            });
        }
        Ok(rows)
    }
}

/// Bytes of a field, by its descriptor (JVMS 4.3.2).
fn bytes_of(descriptor: &str, reference_bytes: u64) -> u64 {
    match descriptor.bytes().next() {
        Some(b'J' | b'D') => 8,
        Some(b'I' | b'F') => 4,
        Some(b'S' | b'C') => 2,
        Some(b'B' | b'Z') => 1,
        _ => reference_bytes,
    }
}
