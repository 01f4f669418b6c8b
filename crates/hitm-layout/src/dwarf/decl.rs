//! Places at which the source declares types and members.
//!
//! Many entries of a unit name few files, so the names of a unit's files are kept for a while. What
//! is spent on reading them has a bound: after it, declarations have no place.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use gimli::AttributeValue;

use super::code::file_names;
use super::die::Die;
use super::sources::View;
use super::units::Unit;
use crate::Decl;

/// Units whose file names are kept.
const MAX_UNITS: usize = 64;

/// File names that are read from one file's line tables, the same ones again counted again. The
/// largest kernels have about a million in all of their units.
const MAX_NAMES: usize = 1 << 22;

/// The names of a unit's files, by number.
type Names = Arc<[Option<Arc<str>>]>;

/// File names of the units that were asked about last.
#[derive(Debug, Default)]
pub(crate) struct FileNames {
    units: RefCell<BTreeMap<u32, Names>>,
    spent: Cell<usize>,
}

impl FileNames {
    fn of_unit<'a>(&self, view: &View<'a>, unit: &Unit<'a>, number: u32) -> Option<Names> {
        if let Some(known) = self.units.borrow().get(&number) {
            return Some(known.clone());
        }
        let left = MAX_NAMES.checked_sub(self.spent.get())?;
        // A damaged line table leaves its unit without names.
        let names: Names = file_names(view, unit, number, left)
            .unwrap_or_default()
            .into();
        self.spent.set(self.spent.get() + names.len() + 1);
        let mut units = self.units.borrow_mut();
        if units.len() >= MAX_UNITS {
            units.clear();
        }
        units.insert(number, names.clone());
        Some(names)
    }
}

impl<'a> View<'a> {
    /// Place at which the source declares what the entry describes.
    pub(crate) fn decl(&self, unit: &Unit<'a>, die: &Die<'a>) -> Option<Decl> {
        let index = match die.get(gimli::DW_AT_decl_file)? {
            AttributeValue::FileIndex(index) => index,
            other => other.udata_value()?,
        };
        let line = u32::try_from(die.u64(gimli::DW_AT_decl_line)?).ok()?;
        let number = self.file.line_unit(die.at.unit);
        let skeleton = (number != die.at.unit).then(|| self.unit(number).ok());
        let unit = match &skeleton {
            Some(unit) => unit.as_ref()?,
            None => unit,
        };
        let names = self.file.file_names.of_unit(self, unit, number)?;
        let file = names.get(usize::try_from(index).ok()?)?.clone()?;
        (line > 0).then_some(Decl { file, line })
    }
}
