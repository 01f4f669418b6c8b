//! Several processes in one space of addresses.
//!
//! A recording has one address space. Samples may come from many processes, whose equal addresses
//! are different memory: the number of the process, in the order of appearance, is put into bits 48
//! to 62 of its addresses, where no user address of the usual 48 bits has anything. The first
//! process and the kernel keep theirs. Addresses above 2^48 (five-level page tables) and processes
//! beyond the 32,767th share the first one's space.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

const SHIFT: u32 = 48;
const PROCESSES_MAX: usize = (1 << 15) - 1;

/// Numbers processes.
#[derive(Debug, Clone, Default)]
pub struct Spaces {
    pids: IndexSet<u32, FxBuildHasher>,
    last: Option<(u32, u64)>,
}

impl Spaces {
    /// Spaces of these processes, in the order of their numbers.
    pub fn of(pids: impl Iterator<Item = u32>) -> Spaces {
        Spaces {
            pids: pids.collect(),
            last: None,
        }
    }

    /// What is put into the addresses of a process, which becomes known.
    #[inline]
    fn tag(&mut self, pid: u32) -> u64 {
        if let Some((last, tag)) = self.last
            && last == pid
        {
            return tag;
        }
        let index = match self.pids.get_index_of(&pid) {
            Some(index) => index,
            None => self.pids.insert_full(pid).0,
        };
        let index = if index < PROCESSES_MAX { index } else { 0 };
        let tag = (index as u64) << SHIFT;
        self.last = Some((pid, tag));
        tag
    }

    /// The address of a process's memory in the common space.
    #[inline]
    pub fn pack(&mut self, pid: u32, addr: u64) -> u64 {
        if addr >> SHIFT != 0 {
            return addr;
        }
        self.tag(pid) | addr
    }

    /// The same for a process that is known already, `None` for another.
    pub fn pack_known(&self, pid: u32, addr: u64) -> Option<u64> {
        let index = self.pids.get_index_of(&pid)?;
        let fits = addr >> SHIFT == 0 && index < PROCESSES_MAX;
        Some(if fits {
            addr | (index as u64) << SHIFT
        } else {
            addr
        })
    }

    /// The process, if the address is not the kernel's, and the address as the process sees it.
    pub fn unpack(&self, addr: u64) -> (Option<u32>, u64) {
        if addr >> 63 == 1 {
            return (None, addr);
        }
        let pid = self.pids.get_index((addr >> SHIFT) as usize).copied();
        (pid, addr & ((1 << SHIFT) - 1))
    }

    /// The processes, by number.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.pids.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_processes_are_told_apart_and_found_again() {
        let mut spaces = Spaces::default();
        let first = spaces.pack(100, 0x5555_0000);
        let second = spaces.pack(200, 0x5555_0000);
        let kernel = spaces.pack(200, 0xffff_8880_0000_1000);
        assert_eq!(first, 0x5555_0000);
        assert_ne!(first, second);
        assert_eq!(kernel, 0xffff_8880_0000_1000);
        assert_eq!(spaces.unpack(first), (Some(100), 0x5555_0000));
        assert_eq!(spaces.unpack(second), (Some(200), 0x5555_0000));
        assert_eq!(spaces.unpack(kernel), (None, 0xffff_8880_0000_1000));
        assert_eq!(spaces.pack_known(200, 0x10), Some(1 << 48 | 0x10));
        assert_eq!(spaces.pack_known(300, 0x10), None);
    }
}
