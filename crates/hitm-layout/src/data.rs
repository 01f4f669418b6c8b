//! The object that holds a byte, and the member of it.

use std::fmt;

use crate::path::{AccessPath, Leaf};
use crate::types::TypeId;

/// Source of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameSource {
    /// A variable of the debug information, with its type.
    Dwarf,
    /// The symbol table: a name and a size.
    SymbolTable,
}

/// A global or static object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataObject {
    /// Its name, with namespaces, type or function in front where it has them.
    pub name: String,
    /// The address of its first byte, in the address space that was asked about.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Its type, in the store of the file that it is in.
    pub type_id: Option<TypeId>,
    /// Its type's name.
    pub type_name: Option<String>,
    /// Source of the name.
    pub source: NameSource,
}

impl DataObject {
    /// The address after its last byte.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

/// The object and the members that an access touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataLocation {
    /// The object that holds the first byte.
    pub object: DataObject,
    /// Bytes from the object's start to the access.
    pub offset: u64,
    /// The members that are touched.
    pub path: AccessPath,
}

impl fmt::Display for DataLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path.text)
    }
}

/// A part of an object that lies in a range of addresses, such as a cache line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMember {
    /// The object that the part lies in.
    pub object: DataObject,
    /// The part; the whole object when its type is not known.
    pub leaf: Leaf,
}

impl LineMember {
    /// The object's name with the path to the part.
    pub fn name(&self) -> String {
        format!("{}{}", self.object.name, self.leaf.path)
    }

    /// The address of the part's first byte.
    pub const fn start(&self) -> u64 {
        self.object.start.saturating_add(self.leaf.offset)
    }
}
