//! The filter at the source: which lines only one thread has touched.
//!
//! One 16-bit cell per line of the guest's address space, in leaves that the host allocates page by
//! page as lines are touched: 1/32 of the memory that the program uses. An access to a line that is
//! the thread's own costs one look at its cell.
//!
//! A cell holds 0 (never touched), the tag of the only thread that has touched the line with a bit
//! for "it has written", or [`SHARED`].

use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

use hitm_base::LINE_SIZE;

/// Lines of a leaf: 4 GiB of guest memory.
const LEAF_LINES: usize = 1 << 26;
/// User space of x86-64 and aarch64 with four page-table levels ends below 2^47 or 2^48.
const LEAVES: usize = 1 << 16;
const SHARED: u16 = u16::MAX;
const WRITTEN: u16 = 1 << 15;

/// A thread as a cell names it, 1 to [`Tag::MAX`]. After that many threads tags repeat; two threads
/// with one tag look like one to the filter, which hides lines that only they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(u16);

impl Tag {
    const MAX: u32 = 0x7ffe;

    /// The tag of the thread with this number, counted from 0.
    pub(crate) fn of_thread(number: u32) -> Tag {
        Tag((number % Tag::MAX) as u16 + 1)
    }

    /// The lowest thread number with this tag.
    pub(crate) fn first_thread(self) -> u32 {
        u32::from(self.0) - 1
    }
}

/// What the filter says of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Nobody else has touched the line: count the access and forget it.
    Private,
    /// The line is shared: record the access.
    Shared,
    /// This access makes the line shared; until now it was the other thread's.
    BecameShared {
        /// The thread that had it.
        owner: Tag,
        /// Whether that thread has written to it.
        written: bool,
    },
    /// The address is outside the guest's user space.
    OutOfRange,
}

/// The cells of all lines.
#[derive(Debug)]
pub(crate) struct FirstTouch {
    leaves: Box<[AtomicPtr<AtomicU16>]>,
}

impl FirstTouch {
    pub(crate) fn new() -> FirstTouch {
        FirstTouch {
            leaves: (0..LEAVES).map(|_| AtomicPtr::default()).collect(),
        }
    }

    /// Notes that `me` touches the line of `addr`.
    #[inline(always)]
    pub(crate) fn touch(&self, addr: u64, me: Tag, is_write: bool) -> Touch {
        let Some(cell) = self.cell(addr / LINE_SIZE) else {
            return Touch::OutOfRange;
        };
        let seen = cell.load(Ordering::Relaxed);
        if seen == me.0 | WRITTEN || (seen == me.0 && !is_write) {
            return Touch::Private;
        }
        if seen == SHARED {
            return Touch::Shared;
        }
        touch_slowly(cell, me, is_write)
    }

    /// Whether the line of `addr` is shared.
    pub(crate) fn is_shared(&self, addr: u64) -> bool {
        self.cell(addr / LINE_SIZE)
            .is_some_and(|cell| cell.load(Ordering::Relaxed) == SHARED)
    }

    /// Gives a shared line back to the one thread that still uses it.
    pub(crate) fn make_private(&self, addr: u64, owner: Tag) {
        if let Some(cell) = self.cell(addr / LINE_SIZE) {
            cell.store(owner.0 | WRITTEN, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn cell(&self, line: u64) -> Option<&AtomicU16> {
        let leaf = self.leaves.get((line / LEAF_LINES as u64) as usize)?;
        let mut cells = leaf.load(Ordering::Acquire);
        if cells.is_null() {
            cells = allocate_leaf(leaf);
        }
        // SAFETY: a leaf has LEAF_LINES cells and is never freed.
        Some(unsafe { &*cells.add((line % LEAF_LINES as u64) as usize) })
    }
}

/// The accesses that change the cell.
#[cold]
fn touch_slowly(cell: &AtomicU16, me: Tag, is_write: bool) -> Touch {
    let mine = me.0 | if is_write { WRITTEN } else { 0 };
    let mut seen = cell.load(Ordering::Relaxed);
    loop {
        let next = match seen {
            SHARED => return Touch::Shared,
            0 => mine,
            _ if seen & !WRITTEN == me.0 => seen | mine,
            _ => SHARED,
        };
        match cell.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) if next == SHARED => {
                let owner = Tag(seen & !WRITTEN);
                return Touch::BecameShared {
                    owner,
                    written: seen & WRITTEN != 0,
                };
            }
            Ok(_) => return Touch::Private,
            Err(now) => seen = now,
        }
    }
}

#[cold]
fn allocate_leaf(leaf: &AtomicPtr<AtomicU16>) -> *mut AtomicU16 {
    let size = LEAF_LINES * size_of::<AtomicU16>();
    // SAFETY: a fresh anonymous mapping, zeroed by the kernel.
    let fresh = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert!(
        fresh != libc::MAP_FAILED,
        "no address space for the first-touch table"
    );
    let fresh = fresh.cast::<AtomicU16>();
    match leaf.compare_exchange(
        std::ptr::null_mut(),
        fresh,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        Ok(_) => fresh,
        Err(theirs) => {
            // SAFETY: nobody else has seen this mapping.
            unsafe { libc::munmap(fresh.cast(), size) };
            theirs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_private_until_a_second_thread_comes() {
        let table = FirstTouch::new();
        let (a, b) = (Tag::of_thread(0), Tag::of_thread(1));
        let addr = 0x7fff_1234_5678;
        assert_eq!(table.touch(addr, a, false), Touch::Private);
        assert_eq!(table.touch(addr, a, true), Touch::Private);
        assert_eq!(table.touch(addr, a, false), Touch::Private);
        assert_eq!(
            table.touch(addr, b, false),
            Touch::BecameShared {
                owner: a,
                written: true
            }
        );
        assert_eq!(table.touch(addr, a, false), Touch::Shared);
        assert!(table.is_shared(addr));
        table.make_private(addr, b);
        assert_eq!(table.touch(addr, b, true), Touch::Private);
        assert_eq!(
            table.touch(addr, a, true),
            Touch::BecameShared {
                owner: b,
                written: true
            }
        );
        assert_eq!(table.touch(u64::MAX, a, true), Touch::OutOfRange);
    }
}
