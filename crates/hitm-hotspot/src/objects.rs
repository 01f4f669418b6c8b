//! Objects: found by their headers, from an address in them backwards.
//!
//! Hardly any other word of an object is a valid mark with a loaded class behind it or in it. An object further from its start than
//! [`SEARCHED_BYTES`] is not found: the elements of a large array.

use std::ops::Range;
use std::rc::Rc;

use crate::classes::Classes;
use crate::fields::{Field, Fields};
use crate::headers::Headers;
use crate::{HotspotError, JavaMachine};

/// Bytes before an address in which its object may begin.
const SEARCHED_BYTES: u64 = 1 << 20;
/// Objects begin at multiples of this.
const ALIGNMENT: u64 = 8;

/// An object that holds an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaObject {
    /// Address of its header.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// Its class, `java.util.concurrent.atomic.AtomicLong`; `long[]` for an array; the class whose static fields it
    /// holds.
    pub class: Rc<str>,
    /// True if it holds the static fields of `class`.
    pub is_static: bool,
    /// Its fields by offset; none for an array.
    pub fields: Rc<[Field]>,
    /// Of an array, its elements.
    pub elements: Option<Elements>,
}

/// Elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// Place of the first one in the object.
    pub offset: u64,
    /// Bytes of each.
    pub size: u64,
}

impl JavaMachine<'_> {
    /// The objects that hold some addresses, in the order of the addresses; each once.
    ///
    /// # Errors
    /// Tables that lack what is needed. Memory that is no object is passed over.
    pub fn objects(
        &self,
        addresses: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<JavaObject>, HotspotError> {
        if self.tables.flag(&self.view, "UseZGC")? == Some(true) {
            return Err(HotspotError::Mapped);
        }
        let headers = self.headers()?;
        let heap = self.heap_range()?;
        self.with_classes(|classes| {
            let mut found: Vec<JavaObject> = Vec::new();
            // No object begins at or before this address and holds a later one.
            let mut passed = 0;
            for address in addresses {
                let is_known = |object: &JavaObject| {
                    address
                        .checked_sub(object.start)
                        .is_some_and(|into| into < object.size)
                };
                if !heap.contains(&address) || found.last().is_some_and(is_known) {
                    continue;
                }
                let first = match passed < address {
                    true => passed.max(address.saturating_sub(SEARCHED_BYTES)),
                    false => address.saturating_sub(SEARCHED_BYTES),
                };
                // What cannot be read is no object.
                match self.object_at(classes, headers, first..address) {
                    Ok(Some(object)) => found.push(object),
                    Ok(None) | Err(_) => passed = address,
                }
            }
            Ok(found)
        })
    }

    /// The addresses that are reserved for objects.
    ///
    /// # Errors
    /// Tables without them.
    pub fn heap_range(&self) -> Result<Range<u64>, HotspotError> {
        let at = self
            .heap()?
            .wrapping_add(self.tables.offset("CollectedHeap", "_reserved")?);
        let member = |name| {
            let offset = self.tables.offset("MemRegion", name)?;
            self.view.word(at.wrapping_add(offset))
        };
        let (start, words) = (member("_start")?, member("_word_size")?);
        Ok(start..start.saturating_add(words.saturating_mul(8)))
    }

    /// The object that begins behind the first of these addresses and holds the last.
    fn object_at(
        &self,
        classes: &Classes,
        headers: Headers,
        searched: Range<u64>,
    ) -> Result<Option<JavaObject>, HotspotError> {
        let address = searched.end;
        let mut start = address & !(ALIGNMENT - 1);
        while start > searched.start {
            if headers.is_mark(self.view.word(start)?) {
                let class = self.class_of(headers, start)?;
                if classes.all.contains(&class) {
                    let object = self.object(classes, headers, start, class)?;
                    let holds = |object: &JavaObject| address - start < object.size;
                    return Ok(Some(object).filter(holds));
                }
            }
            start -= ALIGNMENT;
        }
        Ok(None)
    }

    fn object(
        &self,
        classes: &Classes,
        headers: Headers,
        start: u64,
        class: u64,
    ) -> Result<JavaObject, HotspotError> {
        let layout = self
            .view
            .int(class.wrapping_add(self.tables.offset("Klass", "_layout_helper")?))?;
        if layout < 0 {
            let array_class = self.class_name(classes, class)?;
            return self.array(headers, start, &array_class, layout as u32);
        }
        if Some(class) == classes.mirror {
            return self.statics(classes, start);
        }
        Ok(JavaObject {
            start,
            size: (layout as u64) & !(ALIGNMENT - 1),
            class: self.class_name(classes, class)?,
            is_static: false,
            fields: self.fields(classes, class, false)?,
            elements: None,
        })
    }

    /// An array: its class tells the bytes of its header, and the logarithm of those of an element.
    fn array(
        &self,
        headers: Headers,
        start: u64,
        class: &str,
        layout: u32,
    ) -> Result<JavaObject, HotspotError> {
        let (offset, size) = (u64::from(layout >> 16 & 0xff), 1 << (layout & 7));
        let length = self.view.int(start.wrapping_add(headers.length_at()))?;
        let bytes = offset + u64::from(length.max(0) as u32) * size;
        let none: Fields = Rc::from([]);
        Ok(JavaObject {
            start,
            size: bytes.next_multiple_of(ALIGNMENT),
            class: array_name(class).into(),
            is_static: false,
            fields: none,
            elements: Some(Elements { offset, size }),
        })
    }

    /// The object that stands for a class, with the static fields of that class.
    fn statics(&self, classes: &Classes, start: u64) -> Result<JavaObject, HotspotError> {
        let place = |name| {
            self.view
                .int(self.tables.variable("java_lang_Class", name)?)
        };
        let words = self
            .view
            .int(start.wrapping_add(place("_oop_size_offset")? as u64))?;
        let of = self
            .view
            .word(start.wrapping_add(place("_klass_offset")? as u64))?;
        let is_class = classes.all.contains(&of);
        Ok(JavaObject {
            start,
            size: u64::from(words.max(0) as u32) * 8,
            class: match is_class {
                true => self.class_name(classes, of)?,
                false => "java.lang.Class".into(),
            },
            is_static: is_class,
            fields: match is_class {
                true => self.fields(classes, of, true)?,
                false => Rc::from([]),
            },
            elements: None,
        })
    }
}

/// Name of an array's class as the language has it: `[[J` as `long[][]`, `[Ljava.lang.String;` as `java.lang.String[]`.
fn array_name(class: &str) -> String {
    let element = class.trim_start_matches('[');
    let brackets = "[]".repeat(class.len() - element.len());
    let name = match element {
        "J" => "long",
        "I" => "int",
        "S" => "short",
        "B" => "byte",
        "C" => "char",
        "Z" => "boolean",
        "D" => "double",
        "F" => "float",
        other => other
            .strip_prefix('L')
            .unwrap_or(other)
            .trim_end_matches(';'),
    };
    format!("{name}{brackets}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_the_names_of_the_language() {
        let names = ["[J", "[[I", "[Ljava.lang.String;", "[LHits$Counter;"];
        let wanted = ["long[]", "int[][]", "java.lang.String[]", "Hits$Counter[]"];
        assert_eq!(names.map(array_name), wanted);
    }
}
