//! Memory of running processes: which lines may be contended, and which ones are the same.

use std::collections::BTreeMap;
use std::fs;

use hitm_base::{AddrRange, LINE_SIZE, MapsLine};
use hitm_layout::Mapping;
use hitm_live::lines::is_kernels;

/// Mappings of one process that are kept.
const MAPPINGS_MAX: usize = 1 << 16;
/// Bytes above the stack pointer that are the thread's own frames. Assumed, 4 to 64 KiB: frames further up are found
/// to be its own when they are watched.
const FRAMES_BYTES: u64 = 16 << 10;
/// Bytes below the stack pointer that a function may use (System V ABI for x86-64, section 3.2.2).
const RED_ZONE_BYTES: u64 = 128;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) range: AddrRange,
    pub(super) offset: u64,
    pub(super) path: String,
    pub(super) is_executable: bool,
    is_writable: bool,
    /// Device and inode of memory that processes share.
    shared: Option<FileId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    device: u64,
    inode: u64,
}

impl Area {
    fn parse(line: &str) -> Option<Area> {
        let line = MapsLine::parse(line)?;
        let file = FileId {
            device: line.device,
            inode: line.inode,
        };
        Some(Area {
            range: line.range,
            offset: line.offset,
            path: line.path.to_owned(),
            is_executable: line.has('x'),
            is_writable: line.has('w'),
            shared: (line.has('s') && line.inode != 0).then_some(file),
        })
    }
}

/// A line as all processes know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Line {
    /// A process that has it.
    pub(super) pid: u32,
    /// Address of its first byte there.
    pub(super) address: u64,
}

/// Mappings of some processes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    areas: BTreeMap<u32, Vec<Area>>,
}

impl Memory {
    /// Reads the mappings of these processes; one that has ended keeps those that it had.
    pub(super) fn read(&mut self, processes: &[u32]) {
        for pid in processes {
            let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let areas: Vec<Area> = text
                .lines()
                .filter_map(Area::parse)
                .take(MAPPINGS_MAX)
                .collect();
            if !areas.is_empty() {
                self.areas.insert(*pid, areas);
            }
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
            let address = address & !(LINE_SIZE - 1);
            let of_kernel = Line { pid: 0, address };
            return (!own.contains(&address)).then_some(of_kernel);
        }
        let area = self.area(pid, address).filter(|area| area.is_writable)?;
        if own.contains(&address) && area.range.contains(stack) {
            return None;
        }
        let address = address & !(LINE_SIZE - 1);
        let first = area
            .shared
            .and_then(|file| self.first_of(file, area.offset + (address - area.range.start())));
        Some(first.unwrap_or(Line { pid, address }))
    }

    /// The line at an offset of a shared file in the first process that has it.
    fn first_of(&self, file: FileId, offset: u64) -> Option<Line> {
        self.areas.keys().find_map(|pid| {
            let address = self.of_file(*pid, file, offset)?;
            Some(Line { pid: *pid, address })
        })
    }

    fn of_file(&self, pid: u32, file: FileId, offset: u64) -> Option<u64> {
        self.areas.get(&pid)?.iter().find_map(|area| {
            let inside = offset.checked_sub(area.offset)?;
            let address = area.range.start().checked_add(inside)?;
            (area.shared == Some(file) && area.range.contains(address)).then_some(address)
        })
    }

    /// Address of the line's first byte in a process, if it has the line.
    pub(super) fn address_in(&self, pid: u32, line: Line) -> Option<u64> {
        if pid == line.pid {
            return Some(line.address);
        }
        let area = self.area(line.pid, line.address)?;
        let offset = area.offset + (line.address - area.range.start());
        self.of_file(pid, area.shared?, offset)
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
        let mut mappings: BTreeMap<u32, Vec<Mapping>> = BTreeMap::new();
        for (pid, area) in self.areas() {
            let of = mappings.entry(pid).or_default();
            if area.is_executable || area.path.starts_with('/') {
                of.push(Mapping {
                    start: area.range.start(),
                    end: area.range.end(),
                    file_offset: area.offset,
                    path: area.path.clone(),
                    build_id: None,
                });
            }
        }
        mappings
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
        }
    }

    #[test]
    fn frames_and_what_nobody_writes_are_no_candidates() {
        let memory = memory(&["1000-9000 rw-p 0 0:0 0\n a000-b000 r--p 0 0:0 0"]);
        let line = |address, stack| memory.line(1, address, stack);
        assert_eq!(
            line(0x1048, 0xffff),
            Some(Line {
                pid: 1,
                address: 0x1040
            })
        );
        assert_eq!(line(0x1048, 0x1000), None);
        assert_eq!(
            line(0x6048, 0x1000),
            Some(Line {
                pid: 1,
                address: 0x6040
            })
        );
        assert_eq!(line(0xa000, 0xffff), None);
        assert_eq!(line(0xc000, 0xffff), None);
    }

    #[test]
    fn shared_memory_is_one_line_in_all_processes() {
        let memory = memory(&[
            "10000-12000 rw-s 1000 8:1 7 /dev/shm/a",
            "50000-53000 rw-s 0 8:1 7 /dev/shm/a",
        ]);
        let first = Line {
            pid: 1,
            address: 0x10040,
        };
        assert_eq!(memory.line(1, 0x10048, 0), Some(first));
        assert_eq!(memory.line(2, 0x51050, 0), Some(first));
        assert_eq!(memory.address_in(2, first), Some(0x51040));
        // The first process has not the file's first page.
        let second = Line {
            pid: 2,
            address: 0x50000,
        };
        assert_eq!(memory.line(2, 0x50000, 0), Some(second));
        assert_eq!(memory.address_in(1, second), None);
    }
}
