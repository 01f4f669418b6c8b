//! Types and variables of debug information.

use gimli::DwTag;

use super::types::{Part, Types};
use crate::dwarf::{Children, DieRef, VariableIndex, View};
use crate::types::{TypeId, TypeReader, TypeStore, is_alias};

/// Typedefs and qualifiers between a variable and its pointer.
const MAX_HOPS: usize = 16;

/// Reads types of debug information.
pub(crate) struct DwarfTypes<'s, 'v, 'a> {
    pub(crate) store: &'s mut TypeStore,
    pub(crate) view: &'v View<'a>,
    pub(crate) variables: &'v VariableIndex,
}

impl Types for DwarfTypes<'_, '_, '_> {
    type At = DieRef;

    fn store(&self) -> &TypeStore {
        self.store
    }

    fn read(&mut self, at: DieRef) -> TypeId {
        TypeReader::new(self.store, self.view).read(at)
    }

    fn pointee(&mut self, pointer: TypeId) -> Option<TypeId> {
        let mut at = self.store.die_of(pointer)?;
        for _ in 0..MAX_HOPS {
            let (_, die) = self.view.fetch(at)?;
            let target = self.view.type_of(&die)?;
            if is_pointer(die.tag) {
                return Some(self.read(target));
            }
            if !is_alias(die.tag) {
                return None;
            }
            at = target;
        }
        None
    }

    fn type_parameter(&mut self, of: TypeId) -> Option<TypeId> {
        let at = self.store.die_of(self.store.resolve(of))?;
        let unit = self.view.unit(at.unit).ok()?;
        let mut children = Children::of(self.view, &unit, at).ok()?;
        while let Some(step) = children.next().ok()? {
            if step.tag == gimli::DW_TAG_template_type_parameter {
                let die = children.die(step).ok()?;
                return self.view.type_of(&die).map(|target| self.read(target));
            }
        }
        None
    }

    fn variable(&mut self, address: u64) -> Option<Part> {
        let variable = self.variables.nearest(address)?;
        let die = self.view.variable_type(variable)?;
        Some(Part {
            of: self.read(die),
            offset: address.checked_sub(variable.address)?,
        })
    }
}

fn is_pointer(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type
    )
}
