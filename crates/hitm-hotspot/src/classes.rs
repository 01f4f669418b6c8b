//! Classes: all that are loaded, and their names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::fields::Fields;
use crate::{HotspotError, JavaMachine};

/// Class loaders that are followed.
const LOADERS_MAX: usize = 1 << 16;
/// Classes that are followed: large servers load some 100,000.
const CLASSES_MAX: usize = 1 << 20;
/// The classes that are loaded.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Their addresses, arrays' among them.
    pub(crate) all: BTreeSet<u64>,
    /// Class of the objects that stand for classes and hold their static fields.
    pub(crate) mirror: Option<u64>,
    /// Bytes of a reference.
    pub(crate) reference_bytes: u64,
    names: RefCell<BTreeMap<u64, Rc<str>>>,
    pub(crate) fields: RefCell<BTreeMap<(u64, bool), Fields>>,
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
}
