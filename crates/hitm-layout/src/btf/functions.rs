//! Prototypes of functions, by name.

use super::file::BtfFile;
use super::names::NameIndex;
use super::record::Kind;

/// Parameters that are read: those behind are in no register.
const PARAMETERS_MAX: usize = 8;

/// Functions of one name that are compared.
const ALIKE_MAX: usize = 16;

/// Types of a function's parameters and of its result, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prototype {
    /// The first ones.
    pub(crate) parameters: Vec<u32>,
    /// 0 for `void`.
    pub(crate) result: u32,
}

impl BtfFile {
    /// The prototype of the functions with a name. None when it has none, or when several with the name
    /// differ.
    pub(crate) fn prototype(&mut self, name: &str) -> Option<Prototype> {
        if self.functions.is_none() {
            self.functions = Some(NameIndex::new(&self.blob, |kind| kind == Kind::Func));
        }
        let mut ids = self.functions.as_ref()?.find(&self.blob, name);
        let first = self.prototype_of(ids.next()?)?;
        let mut others = 0;
        for id in ids {
            others += 1;
            if others == ALIKE_MAX || self.prototype_of(id).as_ref() != Some(&first) {
                return None;
            }
        }
        Some(first)
    }

    /// The prototype of the function with an id.
    fn prototype_of(&self, id: u32) -> Option<Prototype> {
        let function = self.blob.record(id)?;
        let record = self.blob.record(function.size_or_type)?;
        if record.kind != Kind::FuncProto {
            return None;
        }
        let count = record.part_count.min(PARAMETERS_MAX);
        Some(Prototype {
            parameters: (0..count).map(|index| record.parameter(index)).collect(),
            result: record.size_or_type,
        })
    }
}
