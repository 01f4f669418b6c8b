//! The structures that are to move.

use crate::layout_file::{FileStruct, LayoutFile};
use crate::{StructLayout, TypeId, TypeKind, TypeStore};

use super::{MapError, MemberMap, Sizes};
use crate::structs::bare;

/// The structures that are to move.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Those with other layouts.
    pub layouts: &'a [LayoutFile],
    /// Those whose maps are known.
    pub known: &'a [MemberMap],
}

/// A structure of another build, as far as a profile touches it.
#[derive(Debug, Clone, Copy)]
pub struct Replaced<'a> {
    /// Its name in the recorded program.
    pub type_name: &'a str,
    /// Its bytes in both builds.
    pub sizes: Sizes,
    /// Its alignment in the other build.
    pub align: u64,
    /// The touched members.
    pub places: &'a [Place<'a>],
}

/// A touched member in both builds.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its offset in the recorded program.
    pub from: u64,
    /// Its offset in the other build.
    pub to: u64,
    /// Bytes that both builds have of it.
    pub size: u64,
}

/// New form of a type.
pub(crate) enum Target<'a> {
    Known(&'a MemberMap),
    Layout(&'a FileStruct),
}

impl<'a> Wanted<'a> {
    /// Names of the structures.
    pub fn names(self) -> Vec<&'a str> {
        let structs = self.layouts.iter().flat_map(|layout| &layout.structs);
        let known = self.known.iter().map(|map| map.type_name.as_str());
        known.chain(structs.map(|of| of.name.as_str())).collect()
    }

    /// Returns true if nothing is to move.
    pub fn is_empty(self) -> bool {
        self.layouts.is_empty() && self.known.is_empty()
    }

    /// New form of a type, by its name or that of a typedef.
    pub(crate) fn of_type(self, types: &TypeStore, type_id: TypeId) -> Option<Target<'a>> {
        types.layout(type_id)?;
        let names = names_of(types, type_id);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.of_names(&names)
    }

    /// New form of the structure with one of these names.
    pub(crate) fn of_names(self, names: &[&str]) -> Option<Target<'a>> {
        let mut known = self.known.iter();
        if let Some(map) = known.find(|map| names.contains(&map.type_name.as_str())) {
            return Some(Target::Known(map));
        }
        let mut structs = self.layouts.iter().flat_map(|layout| &layout.structs);
        let layout = structs.find(|wanted| names.contains(&wanted.name.as_str()))?;
        Some(Target::Layout(layout))
    }
}

impl Target<'_> {
    pub(crate) fn map(
        self,
        types: &TypeStore,
        compiled: &StructLayout,
        wanted: Wanted<'_>,
    ) -> Result<MemberMap, MapError> {
        match self {
            Target::Known(map) => Ok(map.clone()),
            Target::Layout(layout) => MemberMap::new(types, compiled, layout, wanted.layouts),
        }
    }
}

/// Returns the element type behind nested arrays, and the number of elements.
pub fn element_of(types: &TypeStore, type_id: TypeId) -> (TypeId, u64) {
    let mut count: u64 = 1;
    let mut element = type_id;
    while let TypeKind::Array {
        element: inner,
        count: Some(elements),
    } = types.get(types.resolve(element)).kind
    {
        count = count.saturating_mul(elements);
        element = inner;
    }
    (element, count)
}

/// Names by which a layout file may refer to the type: its own, and its typedefs'.
fn names_of(types: &TypeStore, type_id: TypeId) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = type_id;
    loop {
        names.push(bare(&types.get(at).name).to_owned());
        match types.get(at).kind {
            TypeKind::Alias(target) => at = target,
            _ => break,
        }
    }
    let own = types
        .layout(type_id)
        .and_then(|layout| layout.name.as_deref());
    names.extend(own.map(str::to_owned));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(places: &[Place<'_>], before: u64, after: u64) -> MemberMap {
        MemberMap::of_places(&Replaced {
            type_name: "s",
            sizes: Sizes { before, after },
            align: 8,
            places,
        })
    }

    /// Of another build the places of touched members are known: bytes between them go with the member before.
    #[test]
    fn touched_members_take_the_rest_along() {
        let place = |path, from, to| Place {
            path,
            from,
            to,
            size: 8,
        };
        let moved = map(&[place("a", 0, 64), place("c", 16, 0)], 32, 128);
        assert_eq!(moved.place(4), (68, 4, false));
        assert_eq!(moved.place(12), (76, 4, true));
        assert_eq!(moved.place(16), (0, 8, false));
        assert!(!moved.moves_nothing());
        let same = map(&[place("a", 0, 0), place("c", 16, 16)], 32, 32);
        assert!(same.moves_nothing());
    }
}
