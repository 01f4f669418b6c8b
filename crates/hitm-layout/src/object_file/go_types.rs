//! Types of Go's debug information by the descriptions of them that its runtime has.
//!
//! The linker notes with each type where the program has the `_type` of it, in an attribute of Go's own
//! (`DW_AT_go_runtime_type`, cmd/internal/dwarf): the address, or the distance from the first description.

use std::collections::BTreeMap;

use gimli::AttributeValue;

use super::ObjectFile;
use crate::dwarf::{DieRef, View};
use crate::types::{TypeId, TypeIndex, TypeReader};

const RUNTIME_TYPE: gimli::DwAt = gimli::DwAt(0x2904);

/// Symbols of the first description, by versions of Go.
const FIRST: [&str; 3] = ["type:*", "type.*", "runtime.types"];

/// Types by what their entries say of their descriptions.
#[derive(Debug, Default)]
pub(super) struct GoTypes(BTreeMap<u64, DieRef>);

impl GoTypes {
    fn read(view: &View<'_>) -> GoTypes {
        let mut types = BTreeMap::new();
        for at in TypeIndex::of(view).definitions() {
            let described = view.fetch(at).and_then(|(_, die)| die.get(RUNTIME_TYPE));
            if let Some(AttributeValue::Addr(described @ 1..)) = described {
                types.entry(described).or_insert(at);
            }
        }
        GoTypes(types)
    }
}

impl ObjectFile {
    /// The type whose description Go's runtime has at a virtual address.
    pub fn described_type(&mut self, vaddr: u64) -> Option<TypeId> {
        if !self.has_debug_info() {
            return None;
        }
        let mut firsts = FIRST.iter();
        let first = firsts.find_map(|name| self.symbol_address(name));
        let debug = self.debug();
        let view = debug.dwarf.view();
        let types = debug.go_types.get_or_insert_with(|| GoTypes::read(&view));
        let distance = first.and_then(|first| vaddr.checked_sub(first));
        let found = [Some(vaddr), distance].into_iter().flatten();
        let die = found.filter_map(|key| types.0.get(&key)).next().copied()?;
        Some(TypeReader::new(&mut debug.types, &view).read(die))
    }
}
