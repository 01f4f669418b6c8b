//! One address space for several processes.
//!
//! A recording has one address space. Samples may come from many processes, whose equal addresses
//! are different memory. So a process's number, in the order of appearance, goes into bits 48 to 62
//! of its addresses; user addresses of the usual 48 bits leave them free. The first process and the
//! kernel keep their addresses. Addresses above 2^48 (five-level page tables) and processes beyond
//! the 32,767th share the first one's space.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::TaskId;

const SHIFT: u32 = 48;
const PROCESSES_MAX: usize = (1 << 15) - 1;

/// Numbers processes and tags their addresses.
#[derive(Debug, Clone, Default)]
pub struct Spaces {
    processes: IndexSet<TaskId, FxBuildHasher>,
    last: Option<(TaskId, u64)>,
}

impl Spaces {
    /// Spaces of these processes, in the order of their numbers.
    pub fn of(processes: impl Iterator<Item = TaskId>) -> Spaces {
        Spaces {
            processes: processes.collect(),
            last: None,
        }
    }

    /// Tag in the addresses of a process, which is registered if it is new.
    #[inline]
    fn tag(&mut self, process: TaskId) -> u64 {
        if let Some((last, tag)) = self.last
            && last == process
        {
            return tag;
        }
        let index = match self.processes.get_index_of(&process) {
            Some(index) => index,
            None if self.processes.len() < PROCESSES_MAX => self.processes.insert_full(process).0,
            None => 0,
        };
        let tag = (index as u64) << SHIFT;
        self.last = Some((process, tag));
        tag
    }

    /// Address of a process's memory in the common space.
    #[inline]
    pub fn pack(&mut self, process: TaskId, addr: u64) -> u64 {
        if addr >> SHIFT != 0 {
            return addr;
        }
        self.tag(process) | addr
    }

    /// Like [`Spaces::pack`] for a process that is registered, `None` for another one.
    pub fn pack_known(&self, process: TaskId, addr: u64) -> Option<u64> {
        let index = self.processes.get_index_of(&process)?;
        let fits = addr >> SHIFT == 0 && index < PROCESSES_MAX;
        Some(if fits {
            addr | (index as u64) << SHIFT
        } else {
            addr
        })
    }

    /// Returns the process, unless the address is the kernel's, and the address as the process sees
    /// it.
    pub fn unpack(&self, addr: u64) -> (Option<TaskId>, u64) {
        if addr >> 63 == 1 {
            return (None, addr);
        }
        let process = self.processes.get_index((addr >> SHIFT) as usize);
        (process.copied(), addr & ((1 << SHIFT) - 1))
    }

    /// The processes, by number.
    pub fn processes(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.processes.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_processes_are_told_apart_and_found_again() {
        let mut spaces = Spaces::default();
        let [one, other, third] = [100, 200, 300].map(TaskId::first);
        let first = spaces.pack(one, 0x5555_0000);
        let second = spaces.pack(other, 0x5555_0000);
        let kernel = spaces.pack(other, 0xffff_8880_0000_1000);
        assert_eq!(first, 0x5555_0000);
        assert_ne!(first, second);
        assert_eq!(kernel, 0xffff_8880_0000_1000);
        assert_eq!(spaces.unpack(first), (Some(one), 0x5555_0000));
        assert_eq!(spaces.unpack(second), (Some(other), 0x5555_0000));
        assert_eq!(spaces.unpack(kernel), (None, 0xffff_8880_0000_1000));
        assert_eq!(spaces.pack_known(other, 0x10), Some(1 << 48 | 0x10));
        assert_eq!(spaces.pack_known(third, 0x10), None);
    }
}
