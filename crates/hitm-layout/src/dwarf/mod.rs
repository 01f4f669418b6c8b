//! Debug information of one file: sections, units, and what is read from them on demand.
//!
//! Nothing borrowed is kept between questions. [`DwarfFile`] owns the sections and small tables; a
//! [`View`] borrows it for one question and makes gimli's readers, which cost a few slices.
//! Invariant: an index into `units` or `parts` was made by this file.

mod children;
mod code;
mod decl;
mod die;
mod locals;
mod relocate;
mod root;
mod sections;
mod sources;
mod split;
mod units;
mod variables;

pub(crate) use children::Children;
pub(crate) use code::CodeIndex;
pub use code::{CodeLocation, Frame};
pub(crate) use die::{Die, Walker, attr_u64, value_of};
pub(crate) use locals::{Base, FunctionLocals, Local, LocalPlace};
pub(crate) use sections::{DebugSections, Naming};
pub(crate) use sources::View;
pub(crate) use split::Skeleton;
pub(crate) use units::{DieRef, DwarfFile, Slice, Unit};
pub(crate) use variables::{Variable, VariableIndex};
