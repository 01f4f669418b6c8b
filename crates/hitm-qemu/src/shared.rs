//! Memory that processes share, by what lies behind it: a file, an object in /dev/shm, a memfd, a SysV
//! segment, or the anonymous region that was mapped before a fork.
//!
//! A fork copies this table with everything else, and the child has the same memory at the same
//! addresses. So the table takes no lock, which another thread could hold while the process forks.
//! A change makes a new table, and old ones stay, because a thread may be reading them.

use std::sync::atomic::{AtomicPtr, Ordering};

use hitm_base::AddrRange;

use crate::mappings::SharedMapping;

/// The parts of this process's memory that it shares, and where recordings have them.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory {
    parts: AtomicPtr<Vec<Part>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    range: AddrRange,
    base: u64,
}

impl SharedMemory {
    /// The address that recordings have for `addr`; none when that is not shared.
    pub(crate) fn at(&self, addr: u64) -> Option<u64> {
        let parts = self.get();
        let part = parts.iter().find(|part| part.range.contains(addr))?;
        Some(part.base + (addr - part.range.start()))
    }

    /// The shared memory that begins at `addr`.
    pub(crate) fn from(&self, addr: u64) -> Option<AddrRange> {
        let mut ranges = self.get().iter().map(|part| part.range);
        ranges.find(|range| range.start() == addr)
    }

    /// The memory of `range` is shared; recordings have its first byte at `base`.
    pub(crate) fn add(&self, range: AddrRange, base: u64) {
        self.change(|parts| parts.push(Part { range, base }));
    }

    /// The memory of `range` is not shared any more; true if some of it was.
    pub(crate) fn remove(&self, range: AddrRange) -> bool {
        let overlaps =
            |part: &Part| part.range.start() < range.end() && range.start() < part.range.end();
        if !self.get().iter().any(overlaps) {
            return false;
        }
        self.change(|parts| {
            let mut kept = Vec::with_capacity(parts.len() + 1);
            for part in parts.drain(..) {
                if !overlaps(&part) {
                    kept.push(part);
                    continue;
                }
                let (start, end) = (part.range.start(), part.range.end());
                let before = AddrRange::new(start, range.start());
                let after = AddrRange::new(range.end(), end);
                let pieces = [before, after].into_iter().flatten();
                kept.extend(pieces.filter(|piece| !piece.is_empty()).map(|piece| Part {
                    range: piece,
                    base: part.base + (piece.start() - start),
                }));
            }
            *parts = kept;
        });
        true
    }

    fn get(&self) -> &[Part] {
        let parts = self.parts.load(Ordering::Acquire);
        // SAFETY: null, or a table that is never freed nor changed.
        unsafe { parts.as_ref() }.map_or(&[], Vec::as_slice)
    }

    fn change(&self, change: impl Fn(&mut Vec<Part>)) {
        loop {
            let old = self.parts.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            let mut parts = unsafe { old.as_ref() }.cloned().unwrap_or_default();
            change(&mut parts);
            let new = Box::into_raw(Box::new(parts));
            let order = Ordering::AcqRel;
            let put = self
                .parts
                .compare_exchange(old, new, order, Ordering::Acquire);
            if put.is_ok() {
                return;
            }
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// Kind of object behind a shared mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File = 1,
    Memfd = 2,
    SysV = 3,
    Anonymous = 4,
}

impl Kind {
    /// The kind of what proc(5) shows under this path; its inode alone does not tell SysV segments from
    /// others. None of a file that is only read: processes do not fight over it.
    pub(crate) fn of(mapping: &SharedMapping) -> Option<Kind> {
        let path = mapping.path.as_str();
        if path.starts_with("/SYSV") {
            Some(Kind::SysV)
        } else if path.starts_with("/memfd:") {
            Some(Kind::Memfd)
        } else if path == "/dev/zero" {
            Some(Kind::Anonymous)
        } else if mapping.is_writable || path.starts_with("/dev/shm/") {
            Some(Kind::File)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_out() {
        let memory = SharedMemory::default();
        let range = |start, end| AddrRange::new(start, end).unwrap();
        assert_eq!(memory.at(0x1000), None);
        memory.add(range(0x1000, 0x5000), 0x70000);
        assert!(!memory.remove(range(0x5000, 0x6000)));
        assert!(memory.remove(range(0x2000, 0x3000)));
        assert_eq!(memory.at(0x1fff), Some(0x70fff));
        assert_eq!(memory.at(0x2000), None);
        assert_eq!(memory.at(0x3000), Some(0x72000));
        assert!(memory.remove(range(0, 0x9000)));
        assert_eq!(memory.at(0x3000), None);
    }
}
