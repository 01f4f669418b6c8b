//! Memory of running processes: which lines may be contended, and which ones are the same.

use std::collections::BTreeMap;

use hitm_base::LINE_SIZE;
use hitm_layout::Mapping;
use hitm_live::lines::is_kernels;
use hitm_trace::SHARED_FIRST;

use super::super::maps::{self, Area, FileId};

/// Processes that are kept: beyond them numbers are those of shared memory.
const PROCESSES_MAX: usize = SHARED_FIRST as usize;
/// Bytes above the stack pointer that are the thread's own frames. Assumed, 4 to 64 KiB: frames further up are found
/// to be its own when they are watched.
const FRAMES_BYTES: u64 = 16 << 10;
/// Bytes below the stack pointer that a function may use (System V ABI for x86-64, section 3.2.2).
const RED_ZONE_BYTES: u64 = 128;

/// Memory that a line lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Space {
    /// That of a process alone.
    Process(u32),
    /// A file's, which processes share.
    File(FileId),
    /// The kernel's.
    Kernel,
}

/// A line as all processes know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Line {
    /// Memory that it lies in.
    pub(super) space: Space,
    /// Place of its first byte there: an address, or an offset in the file.
    pub(super) at: u64,
}

/// Mappings of some processes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    areas: BTreeMap<u32, Vec<Area>>,
    /// True if other addresses are memory, too, of which nobody took a note.
    has_unknown: bool,
}

impl Memory {
    /// Reads the mappings of these processes; one that has ended keeps those that it had.
    pub(super) fn read(&mut self, processes: &[u32]) {
        for pid in processes {
            let has_room = self.areas.len() < PROCESSES_MAX || self.areas.contains_key(pid);
            let areas = maps::areas(*pid);
            if has_room && !areas.is_empty() {
                self.areas.insert(*pid, areas);
            }
        }
    }

    /// Mappings that somebody else took a note of, by process and address; perhaps of code alone.
    pub(super) fn noted(areas: BTreeMap<u32, Vec<Area>>) -> Memory {
        Memory {
            areas: areas.into_iter().take(PROCESSES_MAX).collect(),
            has_unknown: true,
        }
    }

    /// Mappings by process.
    pub(super) fn areas(&self) -> impl Iterator<Item = (u32, &Area)> {
        let all = self.areas.iter();
        all.flat_map(|(pid, areas)| areas.iter().map(|area| (*pid, area)))
    }

    fn area(&self, pid: u32, address: u64) -> Option<&Area> {
        let areas = self.areas.get(&pid)?;
        let behind = areas.partition_point(|area| area.range.start() <= address);
        areas[..behind]
            .last()
            .filter(|area| area.range.contains(address))
    }

    /// The line of an address that a thread with this stack pointer accesses, if others may write to it.
    pub(super) fn line(&self, pid: u32, address: u64, stack: u64) -> Option<Line> {
        let own = stack.saturating_sub(RED_ZONE_BYTES)..stack.saturating_add(FRAMES_BYTES);
        if is_kernels(address) {
            let of_kernel = Line {
                space: Space::Kernel,
                at: address & !(LINE_SIZE - 1),
            };
            return (!own.contains(&address)).then_some(of_kernel);
        }
        let area = self.area(pid, address);
        let (may_write, has_stack) = match area {
            Some(area) => (area.is_writable, area.range.contains(stack)),
            None => (self.has_unknown, true),
        };
        if !may_write || own.contains(&address) && has_stack {
            return None;
        }
        let address = address & !(LINE_SIZE - 1);
        Some(match area.and_then(|area| Some((area, area.shared?))) {
            Some((area, file)) => Line {
                space: Space::File(file),
                at: area.offset + (address - area.range.start()),
            },
            None => Line {
                space: Space::Process(pid),
                at: address,
            },
        })
    }

    /// Address of the line's first byte in a process, if it has the line.
    pub(super) fn address_in(&self, pid: u32, line: Line) -> Option<u64> {
        let file = match line.space {
            Space::Process(own) => return (own == pid).then_some(line.at),
            Space::File(file) => file,
            Space::Kernel => return Some(line.at),
        };
        self.areas.get(&pid)?.iter().find_map(|area| {
            let inside = line.at.checked_sub(area.offset)?;
            let address = area.range.start().checked_add(inside)?;
            (area.shared == Some(file) && area.range.contains(address)).then_some(address)
        })
    }

    /// Returns true if code may run at the address.
    pub(super) fn is_code(&self, pid: u32, address: u64) -> bool {
        is_kernels(address)
            || self
                .area(pid, address)
                .is_some_and(|area| area.is_executable)
    }

    /// Returns true if the address lies in a mapping that is known.
    pub(super) fn has(&self, pid: u32, address: u64) -> bool {
        is_kernels(address) || self.area(pid, address).is_some()
    }

    /// Mappings with code or with a file's variables.
    pub(super) fn mappings(&self) -> BTreeMap<u32, Vec<Mapping>> {
        let named = |areas: &Vec<Area>| areas.iter().filter_map(Area::named).collect();
        let all = self.areas.iter();
        all.map(|(pid, areas)| (*pid, named(areas))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(processes: &[&str]) -> Memory {
        let areas = |text: &&str| {
            text.lines()
                .filter_map(|line| Area::parse(line.trim()))
                .collect()
        };
        let areas: Vec<Vec<Area>> = processes.iter().map(areas).collect();
        Memory {
            areas: (1..).zip(areas).collect(),
            has_unknown: false,
        }
    }

    const fn own(at: u64) -> Option<Line> {
        let space = Space::Process(1);
        Some(Line { space, at })
    }

    #[test]
    fn frames_and_what_nobody_writes_are_no_candidates() {
        let memory = memory(&["1000-9000 rw-p 0 0:0 0\n a000-b000 r--p 0 0:0 0"]);
        let line = |address, stack| memory.line(1, address, stack);
        assert_eq!(line(0x1048, 0xffff), own(0x1040));
        assert_eq!(line(0x1048, 0x1000), None);
        assert_eq!(line(0x6048, 0x1000), own(0x6040));
        assert_eq!(line(0xa000, 0xffff), None);
        assert_eq!(line(0xc000, 0xffff), None);
    }

    #[test]
    fn memory_that_nobody_took_a_note_of_is_the_processs_own() {
        let known = memory(&["a000-b000 r-xp 0 0:0 0"]);
        let noted = Memory::noted(known.areas);
        let line = |address, stack| noted.line(1, address, stack);
        assert_eq!(line(0x1048, 0xffff), own(0x1040));
        assert_eq!(line(0x1048, 0x1000), None);
        assert_eq!(line(0xa000, 0xffff), None);
    }

    #[test]
    fn shared_memory_is_one_line_in_all_processes() {
        let memory = memory(&[
            "10000-12000 rw-s 1000 8:1 7 /dev/shm/a",
            "50000-53000 rw-s 0 8:1 7 /dev/shm/a",
        ]);
        let line = |pid, address| memory.line(pid, address, 0).expect("a line");
        let both = line(1, 0x10048);
        assert_eq!(line(2, 0x51050), both);
        assert_eq!(both.at, 0x1040);
        assert_eq!(memory.address_in(1, both), Some(0x10040));
        assert_eq!(memory.address_in(2, both), Some(0x51040));
        // The first process has not the file's first page.
        let second = line(2, 0x50000);
        assert_eq!(memory.address_in(2, second), Some(0x50000));
        assert_eq!(memory.address_in(1, second), None);
    }
}
