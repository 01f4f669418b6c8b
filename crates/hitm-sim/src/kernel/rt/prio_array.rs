//! The runnable tasks of a run queue by priority: `struct rt_prio_array`.
//!
//! Linux has a list for each of the hundred priorities and a bitmap of those in use. The first, the
//! last and the next task are the same here. But a run queue seldom has more than three such tasks,
//! so they stand in one vector. For hundreds of CPUs that takes a fiftieth of the host's memory.

use crate::kernel::task::TaskId;

/// Tasks that a run queue has room for before it has to ask for memory.
pub(in crate::kernel) const USUAL_ROOM: usize = 8;

/// Best priority first; equals in order of their lists.
#[derive(Debug)]
pub(in crate::kernel) struct PrioArray {
    tasks: Vec<(u32, TaskId)>,
}

impl PrioArray {
    pub(in crate::kernel) fn new() -> PrioArray {
        PrioArray {
            tasks: Vec::with_capacity(USUAL_ROOM),
        }
    }

    /// The task to run, with its priority.
    pub(in crate::kernel) fn first(&self) -> Option<(u32, TaskId)> {
        self.tasks.first().copied()
    }

    /// Adds a task at the head or the tail of its priority's list; returns its neighbour there.
    pub(in crate::kernel) fn push(
        &mut self,
        prio: u32,
        id: TaskId,
        at_head: bool,
    ) -> Option<TaskId> {
        let at = self.tasks.partition_point(|(other, _)| match at_head {
            true => *other < prio,
            false => *other <= prio,
        });
        let neighbour = if at_head { Some(at) } else { at.checked_sub(1) };
        let neighbour = neighbour.and_then(|at| self.tasks.get(at)).copied();
        self.tasks.insert(at, (prio, id));
        neighbour
            .filter(|(other, _)| *other == prio)
            .map(|(_, id)| id)
    }

    /// Takes out a task that was added with this priority.
    pub(in crate::kernel) fn remove(&mut self, prio: u32, id: TaskId) {
        let index = self.tasks.iter().position(|task| *task == (prio, id));
        self.tasks
            .remove(index.expect("a task that leaves a queue is in it"));
    }

    /// Number of tasks that have this priority.
    pub(in crate::kernel) fn count(&self, prio: u32) -> usize {
        self.tasks
            .iter()
            .filter(|(other, _)| *other == prio)
            .count()
    }

    /// All of them, best first.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().map(|(_, id)| *id)
    }

    pub(in crate::kernel) fn buffer(&self) -> &Vec<(u32, TaskId)> {
        &self.tasks
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_list_for_each_priority(
            changes in proptest::collection::vec((0u32..5, any::<bool>(), any::<bool>()), 1..60),
        ) {
            let mut array = PrioArray::new();
            let mut lists = vec![VecDeque::new(); 5];
            for (number, (prio, at_head, takes)) in changes.into_iter().enumerate() {
                let list = &mut lists[prio as usize];
                if takes && !list.is_empty() {
                    array.remove(prio, list.remove(list.len() / 2).unwrap());
                } else {
                    let id = TaskId(number as u32);
                    let neighbour = if at_head { list.front() } else { list.back() };
                    prop_assert_eq!(array.push(prio, id, at_head), neighbour.copied());
                    if at_head {
                        list.push_front(id);
                    } else {
                        list.push_back(id);
                    }
                }
                prop_assert_eq!(array.count(prio), lists[prio as usize].len());
                prop_assert!(array.iter().eq(lists.iter().flatten().copied()));
                let first = lists.iter().position(|list| !list.is_empty());
                let first = first.map(|prio| (prio as u32, lists[prio][0]));
                prop_assert_eq!(array.first(), first);
            }
        }
    }
}
