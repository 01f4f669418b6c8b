//! The tables by which a Java machine describes itself.

use std::collections::BTreeMap;

use crate::memory::View;
use crate::{Exports, HotspotError};

/// Entries of a table that are read: JDK 17 has 1,300.
const ENTRIES_MAX: u64 = 1 << 14;
/// Flags of a Java machine that are read: JDK 17 has 1,400.
const FLAGS_MAX: u64 = 1 << 14;

// Places of the members of an entry (VMStructEntry, VMTypeEntry, VMIntConstantEntry, VMLongConstantEntry).
const STRUCT_BYTES: u64 = 48;
const STRUCT_FIELD: u64 = 8;
const STRUCT_IS_STATIC: u64 = 24;
const STRUCT_OFFSET: u64 = 32;
const STRUCT_ADDRESS: u64 = 40;
const TYPE_BYTES: u64 = 40;
const TYPE_SIZE: u64 = 32;
const CONSTANT_BYTES: u64 = 16;
const CONSTANT_VALUE: u64 = 8;

/// Offsets, sizes, addresses and constants, by the names that HotSpot's source has for them.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    offsets: BTreeMap<(String, String), u64>,
    variables: BTreeMap<(String, String), u64>,
    sizes: BTreeMap<String, u64>,
    constants: BTreeMap<String, i32>,
    long_constants: BTreeMap<String, u64>,
}

impl Tables {
    pub(crate) fn read(view: &View<'_>, exports: Exports) -> Result<Tables, HotspotError> {
        let mut tables = Tables::default();
        entries(view, exports.structs, STRUCT_BYTES, |at, of| {
            let field = match view.word(at + STRUCT_FIELD)? {
                0 => String::new(),
                name => view.c_text(name)?,
            };
            let name = (of, field);
            match view.int(at + STRUCT_IS_STATIC)? {
                0 => tables.offsets.insert(name, view.word(at + STRUCT_OFFSET)?),
                _ => tables
                    .variables
                    .insert(name, view.word(at + STRUCT_ADDRESS)?),
            };
            Ok(())
        })?;
        entries(view, exports.types, TYPE_BYTES, |at, name| {
            tables.sizes.insert(name, view.word(at + TYPE_SIZE)?);
            Ok(())
        })?;
        entries(view, exports.constants, CONSTANT_BYTES, |at, name| {
            tables
                .constants
                .insert(name, view.int(at + CONSTANT_VALUE)?);
            Ok(())
        })?;
        entries(view, exports.long_constants, CONSTANT_BYTES, |at, name| {
            tables
                .long_constants
                .insert(name, view.word(at + CONSTANT_VALUE)?);
            Ok(())
        })?;
        Ok(tables)
    }

    /// Offset of a member.
    pub(crate) fn offset(&self, of: &str, field: &str) -> Result<u64, HotspotError> {
        found(&self.offsets, &(of.into(), field.into()), || {
            format!("{of}::{field}")
        })
    }

    /// Address of a static variable.
    pub(crate) fn variable(&self, of: &str, field: &str) -> Result<u64, HotspotError> {
        found(&self.variables, &(of.into(), field.into()), || {
            format!("{of}::{field}")
        })
    }

    /// Bytes of a type.
    pub(crate) fn size(&self, name: &str) -> Result<u64, HotspotError> {
        found(&self.sizes, &name.into(), || name.into())
    }

    pub(crate) fn constant(&self, name: &str) -> Result<i32, HotspotError> {
        found(&self.constants, &name.into(), || name.into())
    }

    pub(crate) fn long_constant(&self, name: &str) -> Result<u64, HotspotError> {
        found(&self.long_constants, &name.into(), || name.into())
    }

    /// Value of a flag of the Java machine that is true or false; none if it has no such flag.
    pub(crate) fn flag(&self, view: &View<'_>, wanted: &str) -> Result<Option<bool>, HotspotError> {
        let first = view.word(self.variable("JVMFlag", "flags")?)?;
        let count = view.word(self.variable("JVMFlag", "numFlags")?)?;
        let (name, value) = (
            self.offset("JVMFlag", "_name")?,
            self.offset("JVMFlag", "_addr")?,
        );
        let size = self.size("JVMFlag")?;
        for number in 0..count.min(FLAGS_MAX) {
            let at = first.wrapping_add(number.wrapping_mul(size));
            let text = view.word(at.wrapping_add(name))?;
            if text != 0 && view.c_text(text)? == wanted {
                let value = view.word(at.wrapping_add(value))?;
                return Ok(Some(view.byte(value)? != 0));
            }
        }
        Ok(None)
    }
}

fn found<K: Ord, V: Copy>(
    table: &BTreeMap<K, V>,
    key: &K,
    name: impl FnOnce() -> String,
) -> Result<V, HotspotError> {
    let found = table.get(key).copied();
    found.ok_or_else(|| HotspotError::Missing(name()))
}

/// Passes the address and the name of each entry of a table, up to the one without a name.
fn entries(
    view: &View<'_>,
    variable: u64,
    entry_bytes: u64,
    mut take: impl FnMut(u64, String) -> Result<(), HotspotError>,
) -> Result<(), HotspotError> {
    let first = view.word(variable)?;
    for number in 0..ENTRIES_MAX {
        let at = first
            .checked_add(number * entry_bytes)
            .filter(|at| *at < u64::MAX - entry_bytes);
        let at = at.ok_or(HotspotError::Unreadable(first))?;
        let name = view.word(at)?;
        if name == 0 {
            break;
        }
        take(at, view.c_text(name)?)?;
    }
    Ok(())
}
