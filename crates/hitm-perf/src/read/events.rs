//! The file's events, and which of them a record belongs to.

use std::collections::BTreeMap;

use super::attr::Attr;
use super::bytes::{ByteOrder, Bytes};
use crate::format::sample;

/// Sample ids that a file may have: one for each event and CPU.
pub(super) const IDS_MAX: usize = 1 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its name, or its number when the file has no name for it.
    pub name: String,
    /// Contents of its samples.
    pub attr: Attr,
    /// Samples of it that were read.
    pub sample_count: u64,
    /// Accesses that these samples stand for.
    pub period_sum: u64,
}

/// The events, by their place in the file.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) list: Vec<Event>,
    by_id: BTreeMap<u64, u32>,
    /// All samples have one layout, so that the first attribute reads any of them.
    is_uniform: bool,
    has_identifier: bool,
}

impl Events {
    pub(super) fn add(&mut self, attr: Attr, ids: impl Iterator<Item = u64>) {
        let index = self.list.len() as u32;
        for id in ids {
            self.by_id.insert(id, index);
        }
        self.list.push(Event {
            name: format!("event {}:{:#x}", attr.kind, attr.config),
            attr,
            ..Event::default()
        });
        let first = self.list[0].attr;
        self.is_uniform = self
            .list
            .iter()
            .all(|event| event.attr.is_laid_out_as(&first));
        self.has_identifier = self
            .list
            .iter()
            .all(|event| event.attr.has(sample::IDENTIFIER));
    }

    pub(super) fn id_count(&self) -> usize {
        self.by_id.len()
    }

    /// Gives events the names that the file has for them: by sample id, or else by number.
    pub(super) fn name(&mut self, names: &[(String, Attr, Vec<u64>)]) {
        for (place, (name, attr, ids)) in names.iter().enumerate() {
            let by_id = ids
                .iter()
                .find_map(|id| self.by_id.get(id))
                .map(|index| *index as usize);
            let by_place = (names.len() == self.list.len()).then_some(place);
            let by_config = self
                .list
                .iter()
                .position(|event| event.attr.kind == attr.kind && event.attr.config == attr.config);
            if let Some(event) = by_id
                .or(by_place)
                .or(by_config)
                .and_then(|index| self.list.get_mut(index))
            {
                event.name.clone_from(name);
            }
        }
    }

    /// Returns the attribute by which to read a sample record; `None` when nothing in the record
    /// tells.
    #[inline]
    pub(super) fn attr_of(&self, body: &[u8], order: ByteOrder) -> Option<&Attr> {
        let first = self.list.first()?;
        if self.is_uniform {
            return Some(&first.attr);
        }
        if self.has_identifier {
            let id = Bytes::new(body, order).u64()?;
            return self
                .by_id
                .get(&id)
                .map(|index| &self.list[*index as usize].attr);
        }
        None
    }

    /// Returns the event with this sample id; a file's only event has every id.
    #[inline]
    pub(super) fn index_of(&self, id: u64) -> Option<usize> {
        match self.list.len() {
            1 => Some(0),
            _ => self.by_id.get(&id).map(|index| *index as usize),
        }
    }
}
