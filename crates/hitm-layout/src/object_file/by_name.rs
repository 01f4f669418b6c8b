//! Types by name.

use std::sync::Arc;

use super::ObjectFile;
use crate::types::{DefinitionGroup, StructLayout, TypeId, TypeIndex, TypeReader, definitions};
use crate::{Decl, Error};

/// One of the definitions that a name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The type, in the file's store.
    pub type_id: TypeId,
    /// Bytes, if the definition says them.
    pub size: Option<u64>,
    /// Place of the definition in the source, if that is known. `NAME@FILE:LINE` selects this one.
    pub decl: Option<Decl>,
    /// Number of units that define the name so.
    pub units: usize,
}

/// Different definitions that a message lists.
const MAX_LISTED: usize = 8;

impl ObjectFile {
    /// The layout of a structure, class or union by name: `rq`, `struct rq`, `ns::Foo`, or a typedef
    /// of one. A name without namespaces finds types in any, if there is none of that full name.
    ///
    /// If units define the name differently, the definition of most units counts, and a diagnostic
    /// lists them all. `NAME@FILE:LINE`, or `NAME@FILE`, selects one of them.
    pub fn struct_layout(&mut self, name: &str) -> Result<Arc<StructLayout>, Error> {
        let groups = self.groups(name);
        let mut first_fault = None;
        for group in groups.iter().take(MAX_LISTED) {
            let id = self.read_type(group);
            match self.debug().types.layout_or_fault(id).cloned() {
                Ok(layout) => {
                    self.note_ambiguity(name, &groups);
                    return layout.sound(&self.elf.name, name);
                }
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        let (file, name) = (self.elf.name.clone(), name.to_owned());
        Err(match first_fault {
            Some(cause) => Error::BadType { file, name, cause },
            None => Error::NoSuchType { file, name },
        })
    }

    /// The type of a name, a structure or any other that has a definition or typedef.
    pub fn type_by_name(&mut self, name: &str) -> Option<TypeId> {
        let groups = self.groups(name);
        Some(self.read_type(groups.first()?))
    }

    /// The different definitions of a name, those of most units first.
    pub fn definitions_of(&mut self, name: &str) -> Vec<Definition> {
        let groups = self.groups(name);
        let definition = |group: DefinitionGroup| Definition {
            type_id: self.read_type(&group),
            size: group.size,
            decl: group.decl,
            units: group.units,
        };
        groups.into_iter().map(definition).collect()
    }

    fn groups(&mut self, name: &str) -> Vec<DefinitionGroup> {
        let view = self.debug().dwarf.view();
        let groups = definitions(&view, name);
        let problems = TypeIndex::of(&view).problems().to_vec();
        self.note_all(problems);
        groups
    }

    fn read_type(&mut self, group: &DefinitionGroup) -> TypeId {
        let debug = self.debug();
        let view = debug.dwarf.view();
        TypeReader::new(&mut debug.types, &view).read(group.die)
    }

    fn note_ambiguity(&mut self, name: &str, groups: &[DefinitionGroup]) {
        if groups.len() < 2 {
            return;
        }
        let describe = |group: &DefinitionGroup| {
            let place = group.decl.as_ref();
            let place = place.map_or_else(|| String::from("unknown place"), Decl::to_string);
            let size = group
                .size
                .map_or(String::new(), |size| format!("{size} bytes, "));
            format!("{place} ({size}{} units)", group.units)
        };
        let mut listed: Vec<String> = groups.iter().take(MAX_LISTED).map(describe).collect();
        if groups.len() > MAX_LISTED {
            listed.push(format!("{} more", groups.len() - MAX_LISTED));
        }
        let bare = name.split('@').next().unwrap_or(name);
        self.note(format!(
            "{name} has {} different definitions: {}; the first is taken, {bare}@FILE:LINE asks for \
             another",
            groups.len(),
            listed.join(", ")
        ));
    }
}
