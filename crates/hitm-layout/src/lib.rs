//! Names for addresses, and layouts for types, from ELF, DWARF and BTF.
//!
//! Start with [`Symbolizer`] (runtime addresses of a process) or [`ObjectFile`] (addresses of one
//! file). Both say which function, file and line an instruction belongs to, and which
//! `object.member` holds a byte. [`BtfFile`] has the types of a kernel. [`StructLayout`] has a
//! structure's members, holes and cache-line boundaries; [`structs`] lists, compares and checks them.
//!
//! Nothing here opens a file: bytes come from the caller. Any bytes may come. A damaged or hostile
//! file gives an [`Error`], a [`Diagnostic`] or a poorer name, in time and memory that grow
//! linearly with its size.
//!
//! Not read, and why: objects on the stack and in thread-local storage, because their place depends
//! on the thread.
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod advise;
mod bounds;
mod btf;
mod c_source;
mod data;
mod demangle;
mod dwarf;
mod elf;
pub mod emit;
mod error;
mod flow;
mod instances;
pub mod layout_file;
pub mod member_map;
mod mini_debug;
mod object_file;
mod path;
pub mod profile;
mod range_map;
pub mod structs;
mod symbolizer;
mod symbols;
mod types;

pub use btf::{BtfDefinition, BtfFile, BtfVariable};
pub use c_source::c_source;
pub use data::{DataLocation, DataObject, LineMember, NameSource};
pub use dwarf::{CodeLocation, Frame};
pub use elf::Segment;
pub use error::{Diagnostic, Error, TypeFault};
pub use flow::{
    AccessedType, BtfFlow, CodeBytes, KernelFunction, MayAccess, Operand, ResultUse, Spin,
    WordWrite,
};
pub use hitm_base::{Buffer, Bytes, Unread};
pub use instances::{element_at, instance_at, only_instance};
pub use object_file::{Definition, FrameAccess, FrameVariable, FunctionRef, ObjectFile};
pub use path::{AccessPath, Leaf, LeafKind, LeafList};
pub use range_map::RangeMap;
pub use symbolizer::{CodeName, DataName, Mapping, Symbolizer};
pub use types::{
    AggregateKind, Decl, Discriminant, Enumerator, ForcedAlignments, Gap, Hole, Member, MemberKind,
    Shape, SourceNames, StructLayout, Type, TypeId, TypeKind, TypeStore,
};
