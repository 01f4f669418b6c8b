//! All definitions of structures in a file's debug information.

use std::sync::Arc;

use super::ObjectFile;
use crate::Error;
use crate::types::{StructLayout, TypeIndex, TypeReader, TypeStore};

/// Types that are read before all of them are forgotten: a type that was listed is not needed
/// again.
const BATCH: usize = 1 << 16;

impl ObjectFile {
    /// Calls `take` for each structure, class and union that is defined, and for each typedef of
    /// one that has no name. `take` gets name and layout, in the order of the file. A structure
    /// that many units define comes many times.
    pub fn each_definition(
        &mut self,
        mut take: impl FnMut(&str, &TypeStore, Result<Arc<StructLayout>, Error>),
    ) {
        let file = self.elf.name.clone();
        let view = self.debug().dwarf.view();
        let index = TypeIndex::of(&view);
        let problems = index.problems().to_vec();
        let mut store = TypeStore::default();
        for die in index.definitions() {
            if store.len() > BATCH {
                store = TypeStore::default();
            }
            let id = TypeReader::new(&mut store, &view).read(die);
            let Some(layout) = store.layout(id) else {
                continue;
            };
            let own_name = store.get(id).name.clone();
            let is_typedef = store.resolve(id) != id;
            let name = match (&layout.name, is_typedef) {
                (Some(name), false) => name.clone(),
                (None, true) => own_name,
                _ => continue,
            };
            let layout = layout.clone();
            take(&name, &store, layout.sound(&file, &name));
        }
        self.note_all(problems);
    }
}
