//! Mappings of each process and of the kernel.
//!
//! A mapping hides the parts of older ones that it covers. A forked process sees its parent's
//! mappings until it maps something itself or starts another program. Later mappings of the parent
//! show through: a copy for each fork would let a small file claim much memory.

use std::collections::BTreeMap;

use crate::c2c::{MapPlace, Maps};
use crate::{CpuMode, TaskId};

/// The process that kernel mappings belong to.
pub const KERNEL: TaskId = TaskId::first(u32::MAX);

/// Forks that a look-up follows from child to parent.
const GENERATIONS_MAX: usize = 64;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Place in the file that `start` shows.
    pub file_offset: u64,
    /// Device, inode and its generation; zeros when unknown or without a file.
    pub file: [u64; 4],
    /// Shared with other processes (`MAP_SHARED`).
    pub is_shared: bool,
    /// Holds code.
    pub executable: bool,
    /// May be written, as far as its record says.
    pub is_writable: bool,
    /// Index of the path among those of the file.
    pub path: u32,
    /// Memory without a file, whose addresses are absolute.
    pub is_anonymous: bool,
}

#[derive(Debug, Clone, Default)]
struct Space {
    /// By first address; none overlaps another.
    maps: BTreeMap<u64, Map>,
    parent: Option<TaskId>,
}

/// The mappings of all processes.
#[derive(Debug, Clone, Default)]
pub struct AddressMaps {
    spaces: BTreeMap<TaskId, Space>,
}

impl AddressMaps {
    /// Adds a mapping over those that it overlaps.
    pub fn insert(&mut self, process: TaskId, map: Map) {
        if map.start >= map.end {
            return;
        }
        let maps = &mut self.spaces.entry(process).or_default().maps;
        // The mapping that begins before may reach into the new one, or beyond it.
        let before = maps.range(..map.start).next_back().map(|(start, _)| *start);
        let inside = maps.range(map.start..map.end).map(|(start, _)| *start);
        let touched: Vec<u64> = before.into_iter().chain(inside).collect();
        for start in touched {
            let Some(old) = maps.remove(&start) else {
                continue;
            };
            if old.start < map.start {
                let mut head = old.clone();
                head.end = old.end.min(map.start);
                maps.insert(head.start, head);
            }
            if old.end > map.end {
                let mut tail = old;
                tail.file_offset = tail.file_offset.wrapping_add(map.end - tail.start);
                tail.start = map.end;
                maps.insert(tail.start, tail);
            }
        }
        maps.insert(map.start, map);
    }

    /// A process was forked from another.
    pub fn fork(&mut self, process: TaskId, parent: TaskId) {
        if process != parent {
            self.spaces.insert(
                process,
                Space {
                    maps: BTreeMap::new(),
                    parent: Some(parent),
                },
            );
        }
    }

    /// A process started another program: its mappings are gone.
    pub fn exec(&mut self, process: TaskId) {
        self.spaces.remove(&process);
    }

    /// The mappings that a process sees, by address: its own ones, over those that it has from its parents.
    pub fn of(&self, process: TaskId) -> Vec<Map> {
        let mut spaces = Vec::new();
        let mut next = Some(process);
        while let Some(space) = next.and_then(|process| self.spaces.get(&process))
            && spaces.len() < GENERATIONS_MAX
        {
            spaces.push(space);
            next = space.parent;
        }
        let mut seen = AddressMaps::default();
        let maps = spaces.iter().rev().flat_map(|space| space.maps.values());
        maps.for_each(|map| seen.insert(process, map.clone()));
        seen.iter().map(|(_, map)| map.clone()).collect()
    }

    /// The mapping that holds an address of a process.
    pub fn at(&self, process: TaskId, addr: u64) -> Option<&Map> {
        let mut process = process;
        for _ in 0..GENERATIONS_MAX {
            let space = self.spaces.get(&process)?;
            if let Some((_, map)) = space.maps.range(..=addr).next_back()
                && addr < map.end
            {
                return Some(map);
            }
            process = space.parent?;
        }
        None
    }

    /// All mappings, by process and address.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, &Map)> {
        self.spaces
            .iter()
            .flat_map(|(process, space)| space.maps.values().map(move |map| (*process, map)))
    }
}

impl Maps for AddressMaps {
    fn find(&self, process: TaskId, mode: CpuMode, addr: u64) -> Option<MapPlace> {
        let in_kernel = matches!(mode, CpuMode::Kernel | CpuMode::GuestKernel);
        let map = self.at(if in_kernel { KERNEL } else { process }, addr)?;
        let address = if map.is_anonymous || in_kernel {
            addr
        } else {
            (addr - map.start).wrapping_add(map.file_offset)
        };
        Some(MapPlace {
            file: map.file,
            is_private: !in_kernel && !map.is_shared && map.file == [0; 4],
            address,
        })
    }
}

/// Returns true if perf takes the name for memory without a file or without symbols, whose
/// addresses it prints as they are.
pub fn is_anonymous_name(name: &str) -> bool {
    let anonymous = ["//anon", "/dev/zero", "/anon_hugepage", "[stack", "/SYSV"];
    name == "[heap]" || anonymous.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64, path: u32) -> Map {
        Map {
            start,
            end,
            file_offset: start,
            file: [1, 0, path.into(), 0],
            is_shared: false,
            executable: false,
            is_writable: false,
            path,
            is_anonymous: false,
        }
    }

    fn check(maps: &AddressMaps, pid: u32, expected: &[(u64, Option<u32>)]) {
        for (addr, path) in expected {
            assert_eq!(
                maps.at(TaskId::first(pid), *addr).map(|map| map.path),
                *path,
                "at {addr:#x}"
            );
        }
    }

    #[test]
    fn a_new_mapping_hides_what_it_covers() {
        let mut maps = AddressMaps::default();
        maps.insert(TaskId::first(1), map(0x1000, 0x5000, 1));
        maps.insert(TaskId::first(1), map(0x2000, 0x3000, 2));
        check(
            &maps,
            1,
            &[
                (0xfff, None),
                (0x1fff, Some(1)),
                (0x2000, Some(2)),
                (0x3000, Some(1)),
                (0x5000, None),
            ],
        );
        // The rest of the old mapping still shows the same part of its file.
        assert_eq!(
            maps.at(TaskId::first(1), 0x3000).unwrap().file_offset,
            0x3000
        );
        maps.insert(TaskId::first(1), map(0, 0x6000, 3));
        check(
            &maps,
            1,
            &[(0, Some(3)), (0x2000, Some(3)), (0x5fff, Some(3))],
        );
        assert_eq!(maps.iter().count(), 1);
    }

    #[test]
    fn a_child_sees_its_parents_mappings_until_it_executes() {
        let mut maps = AddressMaps::default();
        maps.insert(TaskId::first(1), map(0x1000, 0x2000, 1));
        maps.fork(TaskId::first(2), TaskId::first(1));
        maps.insert(TaskId::first(2), map(0x3000, 0x4000, 2));
        check(&maps, 2, &[(0x1000, Some(1)), (0x3000, Some(2))]);
        check(&maps, 1, &[(0x3000, None)]);
        let starts: Vec<u64> = maps
            .of(TaskId::first(2))
            .iter()
            .map(|map| map.start)
            .collect();
        assert_eq!(starts, [0x1000, 0x3000]);
        maps.exec(TaskId::first(2));
        check(&maps, 2, &[(0x1000, None)]);
        // A file may claim that two processes are each other's parents.
        maps.fork(TaskId::first(3), TaskId::first(4));
        maps.fork(TaskId::first(4), TaskId::first(3));
        check(&maps, 3, &[(0x1000, None)]);
    }
}
