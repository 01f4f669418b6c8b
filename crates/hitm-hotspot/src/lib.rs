//! Names in the memory of HotSpot, the Java virtual machine: objects by class and field, compiled code by method
//! and source line.
//!
//! libjvm.so describes its own structures for its serviceability agent: tables of types, members, static variables
//! and constants, behind the symbols of [`Exports`] (src/hotspot/share/runtime/vmStructs.hpp of OpenJDK 17 and 25).
//! Every offset used here comes from them. A Java machine that lacks one is refused with its name.
//!
//! The program must stand still while it is read, outside of a collection. Nothing that is read is trusted:
//! lists, names and searches have limits.
//!
//! Not read: objects of ZGC, and lines of code of JDK 23 and 24, which do not say where its methods are listed.

mod bytes;
mod classes;
mod code;
mod fields;
mod headers;
mod memory;
mod objects;
mod sections;
mod tables;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

use thiserror::Error;

pub use code::{Compiled, Frame, Place};
pub use fields::Field;
pub use memory::Memory;
pub use objects::{Elements, JavaObject};

use bytes::Packing;
use classes::Classes;
use memory::View;
use tables::Tables;

/// Addresses of the symbols by which a Java machine describes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exports {
    /// Of `gHotSpotVMStructs`.
    pub structs: u64,
    /// Of `gHotSpotVMTypes`.
    pub types: u64,
    /// Of `gHotSpotVMIntConstants`.
    pub constants: u64,
    /// Of `gHotSpotVMLongConstants`.
    pub long_constants: u64,
}

impl Exports {
    /// Names of the symbols, in the order of the members.
    pub const SYMBOLS: [&str; 4] = [
        "gHotSpotVMStructs",
        "gHotSpotVMTypes",
        "gHotSpotVMIntConstants",
        "gHotSpotVMLongConstants",
    ];
}

/// Reason why a Java machine cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HotspotError {
    /// Its memory ends where something should be.
    #[error("its memory cannot be read at {0:#x}")]
    Unreadable(u64),
    /// Its tables lack an entry.
    #[error("the Java machine does not describe {0} (OpenJDK 17 and 25 do)")]
    Missing(String),
    /// Its collector keeps objects at several addresses each.
    #[error("ZGC maps its heap several times: -XX:+UseG1GC keeps objects where they have names")]
    Mapped,
    /// It has not made its heap yet.
    #[error("the Java machine has not started yet")]
    NotStarted,
}

/// A Java machine that stands still.
#[derive(Debug)]
pub struct JavaMachine<'m> {
    view: View<'m>,
    tables: Tables,
    /// Found when first asked for.
    classes: RefCell<Option<Classes>>,
}

impl<'m> JavaMachine<'m> {
    /// Reads the tables of a Java machine that has made its heap.
    ///
    /// # Errors
    /// Memory without tables, and a machine that has not started.
    pub fn attach(
        memory: &'m dyn Memory,
        exports: Exports,
    ) -> Result<JavaMachine<'m>, HotspotError> {
        let view = View::new(memory);
        let tables = Tables::read(&view, exports)?;
        let machine = JavaMachine {
            view,
            tables,
            classes: RefCell::new(None),
        };
        machine.heap()?;
        Ok(machine)
    }

    /// Address of the number of collections so far, a 32-bit word: objects may have moved when it changes.
    ///
    /// # Errors
    /// Tables without it.
    pub fn collections_at(&self) -> Result<u64, HotspotError> {
        let offset = self.tables.offset("CollectedHeap", "_total_collections")?;
        Ok(self.heap()?.wrapping_add(offset))
    }

    /// The way in which numbers are packed. It changed in JDK 20, the list of fields in JDK 21: lines of JDK 20 are
    /// wrong by a little.
    fn packing(&self) -> Packing {
        match self.tables.offset("InstanceKlass", "_fieldinfo_stream") {
            Ok(_) => Packing::NoZero,
            Err(_) => Packing::Plain,
        }
    }

    /// Address of the description of the heap.
    fn heap(&self) -> Result<u64, HotspotError> {
        let at = self.tables.variable("Universe", "_collectedHeap")?;
        match self.view.word(at)? {
            0 => Err(HotspotError::NotStarted),
            heap => Ok(heap),
        }
    }
}
