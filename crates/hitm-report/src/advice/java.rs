//! Remedies for objects of a Java machine.

use hitm_base::LINE_SIZE;

use super::{Advisor, list};
use crate::model::ObjectUse;
use crate::names::brief;
use crate::sentences::java as say;

impl Advisor<'_> {
    /// A remedy by layout for the objects of some bytes; none if they are not all a Java machine's.
    pub(super) fn separate_in_java(&self, objects: &[&ObjectUse], bytes: u64) -> Option<String> {
        let [first, others @ ..] = objects else {
            return None;
        };
        if !objects.iter().all(|object| object.is_java()) {
            return None;
        }
        // Elements that several threads write meet whatever lies beside their array.
        let writers = |one: &&ObjectUse| self.names.groups_of_writers(one, self.sharing.written);
        let mut arrays = objects.iter().copied().filter(|object| object.is_array);
        if let Some(array) = arrays.find(|one| others.is_empty() || writers(one).len() > 1) {
            let size = array.element_size_bytes.unwrap_or(1).clamp(1, LINE_SIZE);
            return Some(say::elements(brief(&array.name), LINE_SIZE / size));
        }
        Some(match others {
            [] => self.fields(first, bytes),
            _ if others.iter().all(|one| one.name == first.name) => {
                say::objects_of(brief(&first.name), objects.len())
            }
            _ => {
                let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
                say::objects(list(&names))
            }
        })
    }

    fn fields(&self, object: &ObjectUse, bytes: u64) -> String {
        let read_mostly = self.sharing.read_mostly;
        let written = self.names.written_in(bytes & !read_mostly);
        // An object's header goes where the object goes.
        let is_header = |name: &str| name.contains(".<");
        let mut read = self.names.members_in(bytes & read_mostly);
        read.retain(|name| !is_header(name));
        let mut names = match written.is_empty() {
            true => self.names.members_in(bytes),
            false => written,
        };
        names.dedup();
        let names: Vec<String> = names.into_iter().map(brief).collect();
        let (is_one, names, class) = (names.len() == 1, names.join(", "), brief(&object.name));
        let apart = match (object.has_statics(), is_one) {
            (true, true) => say::static_field(names, class),
            (true, false) => say::statics(names, class),
            (false, true) => say::field(names, class),
            (false, false) => say::fields(names, class),
        };
        match read.is_empty() {
            true => apart,
            false => say::away_from(apart, list(&read)),
        }
    }
}
