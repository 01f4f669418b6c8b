//! Types of Go's debug information by the descriptions of them that its runtime has, and by their shapes.
//!
//! The linker notes with each type where the program has the `_type` of it, in an attribute of Go's own
//! (`DW_AT_go_runtime_type`, cmd/internal/dwarf): the address, or the distance from the first description.
//!
//! Generic code, as that of `atomic.Pointer[slab]`, is compiled once for all types of one shape, and its debug
//! information speaks of the shape.

use std::collections::BTreeMap;

use gimli::AttributeValue;

use super::ObjectFile;
use crate::dwarf::{DieRef, View};
use crate::types::{TypeId, TypeIndex, TypeReader, is_shape};

const RUNTIME_TYPE: gimli::DwAt = gimli::DwAt(0x2904);

/// Symbols of the first description, by versions of Go.
const FIRST: [&str; 3] = ["type:*", "type.*", "runtime.types"];

/// Answers to questions about Go's types.
#[derive(Debug, Default)]
pub(super) struct GoTypes {
    /// By what their entries say of their descriptions; read when first needed.
    described: Option<BTreeMap<u64, DieRef>>,
    /// The types that are meant by shapes.
    meant: BTreeMap<TypeId, TypeId>,
}

fn read_described(view: &View<'_>) -> BTreeMap<u64, DieRef> {
    let mut types = BTreeMap::new();
    for at in TypeIndex::of(view).definitions() {
        let described = view.fetch(at).and_then(|(_, die)| die.get(RUNTIME_TYPE));
        if let Some(AttributeValue::Addr(described @ 1..)) = described {
            types.entry(described).or_insert(at);
        }
    }
    types
}

/// The structures of some bytes that have names of their own.
fn named_structures(view: &View<'_>, bytes: u64) -> Vec<DieRef> {
    let is_wanted = |at: &DieRef| {
        let Some((unit, die)) = view.fetch(*at) else {
            return false;
        };
        let is_own = |name: String| !is_shape(&name) && !name.contains(' ');
        die.u64(gimli::DW_AT_byte_size) == Some(bytes) && view.name(&unit, &die).is_some_and(is_own)
    };
    let mut found = TypeIndex::of(view).definitions();
    found.retain(is_wanted);
    found
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
        let types = &mut debug.go_types.described;
        let types = types.get_or_insert_with(|| read_described(&view));
        let distance = first.and_then(|first| vaddr.checked_sub(first));
        let found = [Some(vaddr), distance].into_iter().flatten();
        let die = found.filter_map(|key| types.get(&key)).next().copied()?;
        Some(TypeReader::new(&mut debug.types, &view).read(die))
    }

    /// The type that a shape of a structure is of, if there is only one; of any other type itself.
    pub fn meant_type(&mut self, id: TypeId) -> TypeId {
        let debug = self.debug();
        let shape = debug.types.get(debug.types.resolve(id));
        let Some(bytes) = shape.size.filter(|_| is_shape(&shape.name)) else {
            return id;
        };
        if let Some(known) = debug.go_types.meant.get(&id) {
            return *known;
        }
        let view = debug.dwarf.view();
        let mut meant: Vec<TypeId> = Vec::new();
        for die in named_structures(&view, bytes) {
            let one = TypeReader::new(&mut debug.types, &view).read(die);
            let types = &debug.types;
            let is_other = !meant.iter().any(|other| types.is_same(*other, one));
            if is_other && types.is_same(id, one) {
                meant.push(one);
            }
        }
        let found = match meant[..] {
            [only] => only,
            _ => id,
        };
        debug.go_types.meant.insert(id, found);
        found
    }
}
