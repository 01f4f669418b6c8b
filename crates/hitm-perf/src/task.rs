//! Processes and threads, whose numbers are reused.
//!
//! The kernel reuses the number of a process that ended. Each owner of a number is a *life* of it.
//! A new life begins with the first record about the number after the end of the one before.

use std::collections::BTreeMap;

/// A process or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaskId {
    /// Its number.
    pub id: u32,
    /// Earlier owners of this number, as far as the file tells.
    pub life: u16,
}

impl TaskId {
    /// The first owner of this number.
    pub const fn first(id: u32) -> TaskId {
        TaskId { id, life: 0 }
    }
}

/// Times at which numbers were reused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lives {
    /// By number: the begin of each life but the first, ascending.
    begins: BTreeMap<u32, Vec<u64>>,
}

impl Lives {
    /// Begins a new life of the number at a time not before that of the last one.
    pub(crate) fn begin(&mut self, id: u32, time_ns: u64) {
        let begins = self.begins.entry(id).or_default();
        if begins.len() < usize::from(u16::MAX) {
            begins.push(time_ns);
        }
    }

    /// Returns true if no number was reused.
    pub fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// Number of reuses.
    pub fn len(&self) -> usize {
        self.begins.values().map(Vec::len).sum()
    }

    /// The owner of a number at a time.
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

    /// The last owner of a number.
    pub(crate) fn last(&self, id: u32) -> TaskId {
        self.at(id, u64::MAX)
    }

    /// Begin of a life, 0 for the first one of a number.
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
