//! Structures of files: in the notation that pahole made common, as lists, differences and broken rules, and as JSON.

mod check;
mod diff;
mod list;
mod pahole;

use hitm_layout::structs::{ShowOptions, StructsError, TypesFile, bare, shown};
use serde::Serialize;

use crate::Printout;
use crate::object::pretty;

pub use check::check_text;
pub use diff::diff_text;
pub use list::list_text;
pub use pahole::layout_text;

/// A layout in pahole's notation.
///
/// # Errors
/// The file has no such structure.
pub fn show_text(
    file: &mut TypesFile,
    name: &str,
    options: &ShowOptions,
) -> Result<Printout, StructsError> {
    let layout = file.struct_layout(name)?;
    Ok(layout_text(file.types(), &layout, bare(name), options))
}

/// A layout as JSON.
///
/// # Errors
/// The file has no such structure.
pub fn show_json(
    file: &mut TypesFile,
    name: &str,
    options: &ShowOptions,
) -> Result<String, StructsError> {
    shown(file, name, options).map(|shown| json(&shown))
}

/// A list, a difference or a check as JSON.
pub fn json(found: &impl Serialize) -> String {
    pretty(found)
}
