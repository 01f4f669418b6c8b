//! Ranges of addresses.

use std::fmt;

use crate::LineAddr;

/// The addresses from `start` up to, but not including, `end`. It never wraps: `start <= end`.
///
/// Sums and differences within a range therefore need no checks of their own. The byte at
/// [`u64::MAX`] is in no range: nothing that is recorded lies there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AddrRange {
    start: u64,
    end: u64,
}

impl AddrRange {
    /// The range between two addresses; none when `end` lies before `start`.
    pub const fn new(start: u64, end: u64) -> Option<AddrRange> {
        if start <= end {
            Some(AddrRange { start, end })
        } else {
            None
        }
    }

    /// The range of `len` bytes from `start`; none when it wraps.
    pub const fn with_len(start: u64, len: u64) -> Option<AddrRange> {
        match start.checked_add(len) {
            Some(end) => Some(AddrRange { start, end }),
            None => None,
        }
    }

    /// The first address.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The first address after the range.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Bytes in the range.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns true if the range has no byte.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns true if the byte at `addr` is in the range.
    pub const fn contains(self, addr: u64) -> bool {
        self.start <= addr && addr < self.end
    }

    /// Bytes from the start to `addr`; none when `addr` is not in the range.
    pub const fn offset_of(self, addr: u64) -> Option<u64> {
        if self.contains(addr) {
            Some(addr - self.start)
        } else {
            None
        }
    }

    /// The first and the last line that the range touches; an empty range touches that of its start.
    pub const fn lines(self) -> (LineAddr, LineAddr) {
        let last = if self.is_empty() {
            self.start
        } else {
            self.end - 1
        };
        (LineAddr::of(self.start), LineAddr::of(last))
    }
}

impl fmt::Debug for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_never_wraps() {
        assert_eq!(AddrRange::new(2, 1), None);
        assert_eq!(AddrRange::with_len(u64::MAX, 1), None);
        assert_eq!(AddrRange::with_len(1, u64::MAX), None);
        let last = AddrRange::with_len(u64::MAX - 8, 8).expect("it ends at the last address");
        assert_eq!((last.end(), last.len()), (u64::MAX, 8));
        assert!(last.contains(u64::MAX - 1) && !last.contains(u64::MAX));
    }

    #[test]
    fn places_in_a_range() {
        let range = AddrRange::with_len(0x1010, 0x70).expect("it does not wrap");
        assert_eq!(range.offset_of(0x1012), Some(2));
        assert_eq!(range.offset_of(0x1080), None);
        assert_eq!(range.lines(), (LineAddr(0x40), LineAddr(0x41)));
        let empty = AddrRange::new(0x1080, 0x1080).expect("it does not wrap");
        assert!(empty.is_empty() && !empty.contains(0x1080));
        assert_eq!(empty.lines(), (LineAddr(0x42), LineAddr(0x42)));
    }
}
