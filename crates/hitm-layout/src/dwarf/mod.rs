//! Debug information of one file: sections, units, and what is read from them on demand.
//!
//! Nothing borrowed is kept between questions. [`DwarfFile`] owns the sections and small tables; a
//! [`View`] borrows it for one question and makes gimli's readers, which cost a few slices.
//! Invariant: an index into `units` or `parts` was made by this file.

mod code;
mod decl;
mod die;
mod sections;
mod units;
mod variables;

pub(crate) use code::CodeIndex;
pub use code::{CodeLocation, Frame};
pub(crate) use die::{Die, Walker};
pub(crate) use sections::DebugSections;
pub(crate) use units::{DieRef, DwarfFile, Slice, Unit, View};
pub(crate) use variables::{Variable, VariableIndex};
