//! Types by names that source can use outside of their namespaces.

use std::collections::{BTreeMap, BTreeSet};

use super::dwarf_name::source_name_at;
use super::index::names_a_type;
use super::name::{TypeName, declare};
use super::{StructLayout, TypeId, TypeKind, TypeStore};
use crate::dwarf::{DieRef, View, Walker};

/// Namespaces and types around the types of units, each with its `::`.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    read: BTreeSet<u32>,
    around: BTreeMap<DieRef, Scope>,
}

#[derive(Debug, Clone, Default)]
struct Scope {
    text: String,
    /// True if all around are namespaces with names.
    is_namespace: bool,
}

impl Scopes {
    /// Scope before the name of the type at `at`.
    pub(super) fn before(&mut self, view: &View<'_>, at: DieRef) -> &str {
        self.scope(view, at).map_or("", |scope| &scope.text)
    }

    fn scope(&mut self, view: &View<'_>, at: DieRef) -> Option<&Scope> {
        if self.read.insert(at.unit) {
            // What damage leaves unread has no namespace.
            let _ = self.read_unit(view, at.unit);
        }
        self.around.get(&at)
    }

    fn read_unit(&mut self, view: &View<'_>, number: u32) -> gimli::Result<()> {
        let unit = view.unit(number)?;
        let mut walker = Walker::new(&unit, None)?;
        let mut open: Vec<(isize, Scope)> = Vec::new();
        while let Some(step) = walker.next()? {
            while open.pop_if(|scope| scope.0 >= step.depth).is_some() {}
            let is_namespace = step.tag == gimli::DW_TAG_namespace;
            let is_type = names_a_type(step.tag);
            if !is_namespace && !is_type {
                continue;
            }
            let around = open.last().map(|open| open.1.clone());
            let die = walker.die(number, step)?;
            if let (true, Some(around)) = (is_type, &around) {
                self.around.insert(die.at, around.clone());
            }
            let mut inner = around.unwrap_or(Scope {
                text: String::new(),
                is_namespace: true,
            });
            match view.name(&unit, &die) {
                Some(name) => inner.text += &format!("{name}::"),
                None => inner.is_namespace = false,
            }
            inner.is_namespace &= is_namespace;
            open.push((step.depth, inner));
        }
        Ok(())
    }
}

/// Names of a structure's member types in source.
#[derive(Debug, Default)]
pub struct SourceNames {
    /// The namespace of the structure: `app::inner`.
    pub namespace: Option<String>,
    /// Scope before the name of a type that is declared inside the structure.
    pub inside: Option<String>,
    names: BTreeMap<TypeId, TypeName>,
}

impl SourceNames {
    pub(crate) fn new(view: &View<'_>, store: &TypeStore, layout: &StructLayout) -> SourceNames {
        let mut scopes = Scopes::default();
        let mut names = SourceNames::default();
        if let Some(at) = store.die_of_layout(layout) {
            let scope = scopes.scope(view, at).cloned().unwrap_or_default();
            let own = layout.name.as_deref().unwrap_or_default();
            names.inside = Some(format!("{}{own}::", scope.text));
            let namespace = scope.text.strip_suffix("::").map(str::to_owned);
            names.namespace = namespace.filter(|_| scope.is_namespace);
        }
        names.add(view, &mut scopes, store, layout);
        names
    }

    /// Adds the types of members, and of members of what has no name.
    fn add(
        &mut self,
        view: &View<'_>,
        scopes: &mut Scopes,
        store: &TypeStore,
        layout: &StructLayout,
    ) {
        for member in &layout.members {
            let mut id = member.type_id;
            loop {
                let known = self.names.contains_key(&id);
                if let Some(at) = store.die_of(id).filter(|_| !known) {
                    self.names.insert(id, source_name_at(view, at, scopes));
                }
                match &store.get(id).kind {
                    TypeKind::Array { element, .. } => id = *element,
                    TypeKind::Aggregate(inner) if inner.name.is_none() && !known => {
                        self.add(view, scopes, store, inner);
                        break;
                    }
                    _ => break,
                }
            }
        }
    }

    /// Declares `name` to be of a type. None where debug information has no entry of it.
    pub(crate) fn declare(&self, id: TypeId, name: &str) -> Option<String> {
        let found = self.names.get(&id)?;
        Some(declare(&found.text, found.slot, name))
    }
}
