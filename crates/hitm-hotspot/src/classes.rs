//! Classes: all that are loaded, their names, their fields.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::{HotspotError, JavaMachine};

/// Class loaders that are followed.
const LOADERS_MAX: usize = 1 << 16;
/// Classes that are followed: large servers load some 100,000.
const CLASSES_MAX: usize = 1 << 20;
/// Classes above a class that are followed.
const DEPTH_MAX: usize = 256;
/// `static` among the flags of a field (JVMS 4.5).
const STATIC: u16 = 0x0008;

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

/// The classes that are loaded.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Their addresses, arrays' among them.
    pub(crate) all: BTreeSet<u64>,
    /// Class of the objects that stand for classes and hold their static fields.
    pub(crate) mirror: Option<u64>,
    /// Bytes of a reference.
    reference_bytes: u64,
    names: RefCell<BTreeMap<u64, Rc<str>>>,
    fields: RefCell<BTreeMap<(u64, bool), Fields>>,
}

impl JavaMachine<'_> {
    /// Calls with the loaded classes.
    pub(crate) fn with_classes<T>(
        &self,
        look: impl FnOnce(&Classes) -> Result<T, HotspotError>,
    ) -> Result<T, HotspotError> {
        if self.classes.borrow().is_none() {
            let found = self.read_classes()?;
            *self.classes.borrow_mut() = Some(found);
        }
        look(self.classes.borrow().as_ref().expect("they were read"))
    }

    fn read_classes(&self) -> Result<Classes, HotspotError> {
        let (tables, view) = (&self.tables, &self.view);
        let next = tables.offset("ClassLoaderData", "_next")?;
        let klasses = tables.offset("ClassLoaderData", "_klasses")?;
        let next_klass = tables.offset("Klass", "_next_link")?;
        let mut all = BTreeSet::new();
        let mut loaders = BTreeSet::new();
        let mut loader = view.word(tables.variable("ClassLoaderDataGraph", "_head")?)?;
        while loader != 0 && loaders.len() < LOADERS_MAX && loaders.insert(loader) {
            let mut class = view.word(loader.wrapping_add(klasses))?;
            while class != 0 && all.len() < CLASSES_MAX && all.insert(class) {
                class = view.word(class.wrapping_add(next_klass))?;
            }
            loader = view.word(loader.wrapping_add(next))?;
        }
        let is_compressed = tables.flag(view, "UseCompressedOops")?.unwrap_or(false);
        let mut found = Classes {
            all,
            mirror: None,
            reference_bytes: if is_compressed { 4 } else { 8 },
            names: RefCell::default(),
            fields: RefCell::default(),
        };
        for class in &found.all {
            if &*self.class_name(&found, *class)? == "java.lang.Class" {
                found.mirror = Some(*class);
                break;
            }
        }
        Ok(found)
    }

    /// Name of a class as the language has it, `java.util.HashMap$Node`; of an array that of its class, `[J`.
    pub(crate) fn class_name(
        &self,
        classes: &Classes,
        class: u64,
    ) -> Result<Rc<str>, HotspotError> {
        if let Some(known) = classes.names.borrow().get(&class) {
            return Ok(Rc::clone(known));
        }
        let at = self
            .view
            .word(class.wrapping_add(self.tables.offset("Klass", "_name")?))?;
        let name: Rc<str> = self.symbol(at)?.replace('/', ".").into();
        classes.names.borrow_mut().insert(class, Rc::clone(&name));
        Ok(name)
    }

    /// Text of a symbol.
    pub(crate) fn symbol(&self, at: u64) -> Result<String, HotspotError> {
        let len = self
            .view
            .half(at.wrapping_add(self.tables.offset("Symbol", "_length")?))?;
        let body = self.tables.offset("Symbol", "_body")?;
        self.view.text(at.wrapping_add(body), len)
    }

    /// Symbol of this number in a pool of constants.
    pub(crate) fn constant_symbol(&self, pool: u64, number: u16) -> Result<String, HotspotError> {
        let first = pool.wrapping_add(self.tables.size("ConstantPool")?);
        self.symbol(self.view.word(first.wrapping_add(8 * u64::from(number)))?)
    }

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
        let (tables, view) = (&self.tables, &self.view);
        let member = |name| {
            Ok::<u64, HotspotError>(class.wrapping_add(tables.offset("InstanceKlass", name)?))
        };
        let count = view.half(member("_java_fields_count")?)?;
        let list = view.word(member("_fields")?)?;
        let pool = view.word(member("_constants")?)?;
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
        for number in 0..u64::from(count) {
            let slot = |slot: u64| {
                view.half(
                    first.wrapping_add(
                        number
                            .wrapping_mul(slots)
                            .wrapping_add(slot)
                            .wrapping_mul(2),
                    ),
                )
            };
            if (slot(flags)? & STATIC != 0) != are_static {
                continue;
            }
            let packed = u32::from(slot(high)?) << 16 | u32::from(slot(low)?);
            let signature = self.constant_symbol(pool, slot(signature)?)?;
            into.push(Field {
                offset: packed.checked_shr(tag_bits).unwrap_or(0).into(),
                size: self.bytes_of(&signature, classes.reference_bytes),
                name: self.constant_symbol(pool, slot(name)?)?,
            });
        }
        Ok(())
    }

    /// Bytes of a field, by its descriptor (JVMS 4.3.2).
    fn bytes_of(&self, descriptor: &str, reference_bytes: u64) -> u64 {
        match descriptor.bytes().next() {
            Some(b'J' | b'D') => 8,
            Some(b'I' | b'F') => 4,
            Some(b'S' | b'C') => 2,
            Some(b'B' | b'Z') => 1,
            _ => reference_bytes,
        }
    }
}
