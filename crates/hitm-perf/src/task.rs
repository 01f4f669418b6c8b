//! Processes and threads, whose numbers are used again.
//!
//! The number of a process that ended may be given to another one. The two are told apart by how many
//! had the number before: a new *life* of it begins with the first record about it after the end of
//! the one before.

use std::collections::BTreeMap;

/// A process or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaskId {
    /// Its number.
    pub id: u32,
    /// How many had this number before, as far as the file tells.
    pub life: u16,
}

impl TaskId {
    /// The first with this number.
    pub const fn first(id: u32) -> TaskId {
        TaskId { id, life: 0 }
    }
}

/// When numbers were used again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lives {
    /// By number: when each life but the first began, ascending.
    begins: BTreeMap<u32, Vec<u64>>,
}

impl Lives {
    /// A number is used again from this time on, which is not before that of its last life.
    pub(crate) fn begin(&mut self, id: u32, time_ns: u64) {
        let begins = self.begins.entry(id).or_default();
        if begins.len() < usize::from(u16::MAX) {
            begins.push(time_ns);
        }
    }

    /// Whether no number was used again.
    pub fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// How many times a number was used again.
    pub fn len(&self) -> usize {
        self.begins.values().map(Vec::len).sum()
    }

    /// Who had a number at a time.
    pub fn at(&self, id: u32, time_ns: u64) -> TaskId {
        let begins = self.begins.get(&id);
        let life = begins.map_or(0, |begins| {
            begins.partition_point(|begin| *begin <= time_ns)
        });
        // Fewer than 2^16, see `begin`.
        TaskId {
            id,
            life: life as u16,
        }
    }

    /// Who has a number at the end.
    pub(crate) fn last(&self, id: u32) -> TaskId {
        self.at(id, u64::MAX)
    }

    /// When a life began, 0 for the first of a number.
    pub fn began_ns(&self, task: TaskId) -> u64 {
        let begins = self.begins.get(&task.id);
        let place = usize::from(task.life).checked_sub(1);
        let begin = begins
            .zip(place)
            .and_then(|(begins, place)| begins.get(place));
        begin.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_belongs_to_who_has_it_at_the_time() {
        let mut lives = Lives::default();
        assert_eq!(lives.at(7, 5), TaskId::first(7));
        lives.begin(7, 100);
        lives.begin(7, 200);
        let life = |time_ns| lives.at(7, time_ns).life;
        assert_eq!([0, 99, 100, 199, 200, 300].map(life), [0, 0, 1, 1, 2, 2]);
        assert_eq!(lives.at(8, 300), TaskId::first(8));
        let second = TaskId { id: 7, life: 2 };
        assert_eq!((lives.began_ns(second), lives.last(7)), (200, second));
        assert_eq!((lives.began_ns(TaskId::first(7)), lives.len()), (0, 2));
    }
}
