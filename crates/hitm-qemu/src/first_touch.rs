//! The filter at the source: which lines only one thread uses.
//!
//! One 32-bit cell per line of the guest's address space, in leaves that the host allocates page by
//! page as lines are touched. They take 1/16 of the memory that the program uses. An access to a
//! line that is the thread's own costs one look at its cell.
//!
//! A line belongs to the thread that touched it first. A second thread that comes while the owner
//! may still use it makes it shared: every access to it is recorded. When the owner has left the
//! line alone for [`HAND_OVER_EPOCHS`], the line is handed over instead. It belongs to the second
//! thread from then on, whose first access and first write are recorded. They are what the line
//! costs: all further accesses of the new owner hit its own caches.
//!
//! A line that its owner has only read, as far as is known, becomes read-shared instead of shared when a
//! second thread reads it. Until a thread writes, only the first read of each thread is recorded: those
//! after it hit its own caches. A write makes the line shared.
//!
//! A cell holds 0 (never touched), [`SHARED`], [`READ_SHARED`] with the epoch in which it became so, or
//! these bits:
//!
//! | bits | content |
//! |---|---|
//! | 0-14 | the owner's tag |
//! | 15 | the owner has written |
//! | 16 | the weave knows the line, and who had it before |
//! | 17-31 | the epoch of the owner's last touch |

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use hitm_base::{AddrRange, Cycles, LINE_SIZE};
use hitm_weave::HAND_OVER_EPOCHS;

use crate::shared::SharedMemory;

/// Lines of a leaf: 4 GiB of guest memory.
const LEAF_LINES: usize = 1 << 26;
/// User space with four page-table levels ends at 2^48 at the latest.
const LEAVES: usize = 1 << 16;
const TAG: u32 = 0x7fff;
const SHARED: u32 = TAG;
const WRITTEN: u32 = 1 << 15;
const KNOWN: u32 = 1 << 16;
/// Memory that processes share: what they do to it is recorded, whoever touches it.
const FOREIGN: u32 = TAG | WRITTEN;
/// In the bits below the epoch.
const READ_SHARED: u32 = TAG | KNOWN;
const EPOCH_SHIFT: u32 = 17;
const EPOCHS: u32 = 1 << 15;

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

/// A thread in an epoch of virtual time: the cell of a line that it has just read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Toucher(u32);

impl Toucher {
    fn tag(self) -> u32 {
        self.0 & TAG
    }

    /// Returns true if a cell says that the thread has used the line before in this epoch, as it does now.
    #[inline(always)]
    fn has_alone(self, cell: u32, is_write: bool) -> bool {
        let difference = (cell ^ self.0) & !KNOWN;
        difference == WRITTEN || (difference == 0 && !is_write)
    }

    /// Epochs since the last touch that a cell tells of; negative when that was in a later epoch.
    /// Epochs repeat: a line that was left alone for half of them may look as if it was in use.
    fn epochs_since(self, cell: u32) -> i32 {
        let since = (self.0 >> EPOCH_SHIFT).wrapping_sub(cell >> EPOCH_SHIFT) % EPOCHS;
        let is_later = since >= EPOCHS / 2;
        since as i32 - if is_later { EPOCHS as i32 } else { 0 }
    }
}

/// A line's owner until now, as far as the weave does not know about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Former {
    pub(crate) owner: Tag,
    /// True if that thread has written to the line.
    pub(crate) written: bool,
}

/// Answer of the filter for an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Nobody else uses the line: count the access and forget it.
    Private,
    /// The line is shared, or this is the new owner's first write: record the access.
    Recorded,
    /// Since the epoch with this number, threads have only read the line: record the first read of
    /// each.
    ReadShared(u32),
    /// This access makes the line shared, or takes it over; until now it was the other thread's.
    TakenFrom(Former),
    /// The line is of memory that processes share: record the access under its address there.
    Foreign,
    /// The address is outside the guest's user space.
    OutOfRange,
}

type Leaf = [AtomicU32; LEAF_LINES];

/// The leaf that a thread has used last: an access there costs one look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Near {
    number: u64,
    cells: Option<&'static Leaf>,
}

impl Near {
    /// Returns true if the line of `addr` is near, and nobody else uses it.
    #[inline(always)]
    pub(crate) fn is_private(self, addr: u64, me: Toucher, is_write: bool) -> bool {
        let line = addr / LINE_SIZE;
        match self.cells {
            Some(cells) if line / LEAF_LINES as u64 == self.number => {
                let cell = &cells[(line % LEAF_LINES as u64) as usize];
                me.has_alone(cell.load(Ordering::Relaxed), is_write)
            }
            _ => false,
        }
    }
}

/// The cells of all lines.
#[derive(Debug)]
pub(crate) struct FirstTouch {
    leaves: Box<[AtomicPtr<Leaf>]>,
    /// None: lines are never handed over.
    epoch: Option<Cycles>,
    /// Memory that processes share.
    shared: SharedMemory,
}

impl FirstTouch {
    /// Cells of lines that are never handed over: what a second thread touches is shared.
    pub(crate) fn new() -> FirstTouch {
        FirstTouch {
            leaves: (0..LEAVES).map(|_| AtomicPtr::default()).collect(),
            epoch: None,
            shared: SharedMemory::default(),
        }
    }

    /// Cells of lines that are handed over, with epochs of this length.
    pub(crate) fn with_hand_over(epoch: Cycles) -> FirstTouch {
        FirstTouch {
            epoch: Some(epoch.max(Cycles(1))),
            ..FirstTouch::new()
        }
    }

    /// The thread `tag` at the time `now`.
    pub(crate) fn toucher(&self, tag: Tag, now: Cycles) -> Toucher {
        let epoch = self.epoch.map_or(0, |epoch| now.0 / epoch.0) as u32 % EPOCHS;
        Toucher(epoch << EPOCH_SHIFT | u32::from(tag.0))
    }

    /// Notes that `me` touches the line of `addr`.
    #[inline(always)]
    pub(crate) fn touch(&self, addr: u64, me: Toucher, is_write: bool) -> Touch {
        let Some(cell) = self.cell(addr / LINE_SIZE) else {
            return Touch::OutOfRange;
        };
        let seen = cell.load(Ordering::Relaxed);
        if me.has_alone(seen, is_write) {
            return Touch::Private;
        }
        if seen == SHARED {
            return Touch::Recorded;
        }
        if seen == FOREIGN {
            return Touch::Foreign;
        }
        if seen == 0 && self.shared.at(addr).is_some() {
            cell.store(FOREIGN, Ordering::Relaxed);
            return Touch::Foreign;
        }
        touch_slowly(cell, me, is_write, self.epoch.is_some())
    }

    /// Returns true if accesses to the line of `addr` have been recorded.
    pub(crate) fn is_recorded(&self, addr: u64) -> bool {
        self.cell(addr / LINE_SIZE).is_some_and(|cell| {
            let cell = cell.load(Ordering::Relaxed);
            cell == SHARED || cell & KNOWN != 0
        })
    }

    /// Returns true if another thread has used the line of `addr` since `me` had it alone.
    pub(crate) fn is_anothers(&self, addr: u64, me: Toucher) -> bool {
        self.cell(addr / LINE_SIZE).is_some_and(|cell| {
            let cell = cell.load(Ordering::Relaxed);
            cell != 0 && cell & TAG != me.tag()
        })
    }

    /// The address in the object that processes share, if `addr` is in one.
    pub(crate) fn shared_addr(&self, addr: u64) -> Option<u64> {
        self.shared.at(addr)
    }

    /// The shared memory that begins at `addr`.
    pub(crate) fn shared_from(&self, addr: u64) -> Option<AddrRange> {
        self.shared.from(addr)
    }

    /// The memory of `range` is shared with other processes, which know its first byte as `base`.
    pub(crate) fn share(&self, range: AddrRange, base: u64) {
        self.unshare(range);
        self.shared.add(range, base);
        self.forget(range);
    }

    /// The memory of `range`, if it was shared, is so no more.
    pub(crate) fn unshare(&self, range: AddrRange) {
        if self.shared.remove(range) {
            self.forget(range);
        }
    }

    /// The lines of a range that nobody has touched are the thread's, which has just written them.
    pub(crate) fn own_untouched(&self, range: AddrRange, me: Toucher) {
        let owned = me.0 | WRITTEN;
        for line in range.start() / LINE_SIZE..range.end().div_ceil(LINE_SIZE) {
            if let Some(cell) = self.cell(line) {
                let order = Ordering::Relaxed;
                let _ = cell.compare_exchange(0, owned, order, order);
            }
        }
    }

    /// Forgets who touched the lines of a range.
    fn forget(&self, range: AddrRange) {
        for line in range.start() / LINE_SIZE..range.end().div_ceil(LINE_SIZE) {
            if let Some(cell) = self.cell(line)
                && cell.load(Ordering::Relaxed) != 0
            {
                cell.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Gives a shared line back to the one thread that still uses it, and may have written to it;
    /// whether it was shared.
    pub(crate) fn make_private(&self, addr: u64, owner: Toucher, is_written: bool) -> bool {
        let written = if is_written { WRITTEN } else { 0 };
        let private = owner.0 | KNOWN | written;
        let order = Ordering::Relaxed;
        self.cell(addr / LINE_SIZE)
            .is_some_and(|cell| cell.compare_exchange(SHARED, private, order, order).is_ok())
    }

    #[inline(always)]
    fn cell(&self, line: u64) -> Option<&'static AtomicU32> {
        let cells = self.leaf(line / LEAF_LINES as u64)?;
        Some(&cells[(line % LEAF_LINES as u64) as usize])
    }

    #[inline(always)]
    fn leaf(&self, number: u64) -> Option<&'static Leaf> {
        let leaf = self.leaves.get(number as usize)?;
        let mut cells = leaf.load(Ordering::Acquire);
        if cells.is_null() {
            cells = allocate_leaf(leaf);
        }
        // SAFETY: a leaf is never freed.
        Some(unsafe { &*cells })
    }

    /// The leaf of `addr`.
    pub(crate) fn near(&self, addr: u64) -> Near {
        let number = addr / LINE_SIZE / LEAF_LINES as u64;
        let cells = self.leaf(number);
        Near { number, cells }
    }
}

/// The accesses that change the cell.
#[inline(never)]
fn touch_slowly(cell: &AtomicU32, me: Toucher, is_write: bool, may_go: bool) -> Touch {
    let mut seen = cell.load(Ordering::Relaxed);
    loop {
        if seen == SHARED {
            return Touch::Recorded;
        }
        if seen == FOREIGN {
            return Touch::Foreign;
        }
        if seen & (TAG | KNOWN) == READ_SHARED && !is_write {
            return Touch::ReadShared(seen >> EPOCH_SHIFT);
        }
        let (next, touch) = next_cell(seen, me, is_write, may_go);
        match cell.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return touch,
            Err(now) => seen = now,
        }
    }
}

/// The cell of a line that is not shared after `me` has touched it, and what that was. `may_go`: lines
/// may be handed over and read-shared.
fn next_cell(seen: u32, me: Toucher, is_write: bool, may_go: bool) -> (u32, Touch) {
    let written = if is_write { WRITTEN } else { 0 };
    if seen == 0 {
        return (me.0 | written, Touch::Private);
    }
    if seen & TAG == me.tag() {
        let is_first_write = is_write && seen & (KNOWN | WRITTEN) == KNOWN;
        let touch = match is_first_write {
            true => Touch::Recorded,
            false => Touch::Private,
        };
        return (me.0 | seen & (KNOWN | WRITTEN) | written, touch);
    }
    if seen & TAG == TAG {
        return (SHARED, Touch::Recorded); // The first write to a read-shared line.
    }
    let is_only_read = seen & WRITTEN == 0 && !is_write;
    let next = match me.epochs_since(seen) >= HAND_OVER_EPOCHS {
        true => me.0 | KNOWN | written,
        false if may_go && is_only_read => READ_SHARED | me.0 & !(TAG | WRITTEN | KNOWN),
        false => SHARED,
    };
    let former = Former {
        owner: Tag((seen & TAG) as u16),
        written: seen & WRITTEN != 0,
    };
    // What the owner of a known line did to it was recorded.
    match seen & KNOWN != 0 {
        true => (next, Touch::Recorded),
        false => (next, Touch::TakenFrom(former)),
    }
}

#[cold]
fn allocate_leaf(leaf: &AtomicPtr<Leaf>) -> *mut Leaf {
    let size = size_of::<Leaf>();
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
    // A forked child has memory of its own, which nobody has touched.
    // SAFETY: the mapping is ours.
    unsafe { libc::madvise(fresh, size, libc::MADV_WIPEONFORK) };
    let fresh = fresh.cast::<Leaf>();
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

    const ADDR: u64 = 0x7fff_1234_5678;
    const EPOCH: Cycles = Cycles(10_000);

    fn taken_from(thread: u32, written: bool) -> Touch {
        let owner = Tag::of_thread(thread);
        Touch::TakenFrom(Former { owner, written })
    }

    #[test]
    fn a_line_is_private_until_a_second_thread_comes() {
        let table = FirstTouch::new();
        let [a, b] = [0, 1].map(|thread| table.toucher(Tag::of_thread(thread), Cycles(7)));
        assert_eq!(table.touch(ADDR, a, false), Touch::Private);
        assert_eq!(table.touch(ADDR, a, true), Touch::Private);
        assert_eq!(table.touch(ADDR, a, false), Touch::Private);
        assert!(!table.is_recorded(ADDR));
        assert_eq!(table.touch(ADDR, b, false), taken_from(0, true));
        assert_eq!(table.touch(ADDR, a, false), Touch::Recorded);
        assert!(table.is_recorded(ADDR));
        assert!(table.make_private(ADDR, b, true));
        assert!(!table.make_private(ADDR, b, true), "it is private already");
        assert_eq!(table.touch(ADDR, b, true), Touch::Private);
        assert!(table.is_recorded(ADDR));
        // The weave knows what b did up to its last recorded access, and that b has written.
        assert_eq!(table.touch(ADDR, a, true), Touch::Recorded);
        assert_eq!(table.touch(ADDR, b, true), Touch::Recorded);
        assert_eq!(table.touch(u64::MAX, a, true), Touch::OutOfRange);
    }

    #[test]
    fn a_line_left_alone_is_handed_over_with_its_first_access_and_first_write() {
        let table = FirstTouch::with_hand_over(EPOCH);
        let at = |thread: u32, epoch: u64| {
            table.toucher(Tag::of_thread(thread), Cycles(epoch * EPOCH.0))
        };
        assert_eq!(table.touch(ADDR, at(0, 3), true), Touch::Private);
        assert_eq!(table.touch(ADDR, at(0, 4), false), Touch::Private);
        assert_eq!(table.touch(ADDR, at(1, 6), false), taken_from(0, true));
        assert_eq!(table.touch(ADDR, at(1, 6), false), Touch::Private);
        assert_eq!(
            table.touch(ADDR, at(1, 7), true),
            Touch::Recorded,
            "the first write"
        );
        assert_eq!(table.touch(ADDR, at(1, 7), true), Touch::Private);
        assert!(table.is_recorded(ADDR));
        // On to the next one, which writes at once: nothing that the weave does not know.
        assert_eq!(table.touch(ADDR, at(2, 9), true), Touch::Recorded);
        assert_eq!(table.touch(ADDR, at(2, 9), true), Touch::Private);
        // Too soon after the owner's last touch: shared from here on.
        assert_eq!(table.touch(ADDR, at(2, 10), false), Touch::Private);
        assert_eq!(table.touch(ADDR, at(0, 11), false), Touch::Recorded);
        assert_eq!(table.touch(ADDR, at(0, 99), false), Touch::Recorded);
    }

    #[test]
    fn a_line_that_is_only_read_is_read_shared_until_a_write() {
        let table = FirstTouch::with_hand_over(EPOCH);
        let at = |thread: u32, epoch: u64| {
            table.toucher(Tag::of_thread(thread), Cycles(epoch * EPOCH.0))
        };
        assert_eq!(table.touch(ADDR, at(0, 3), false), Touch::Private);
        assert_eq!(table.touch(ADDR, at(1, 4), false), taken_from(0, false));
        assert!(table.is_recorded(ADDR));
        assert_eq!(table.touch(ADDR, at(0, 5), false), Touch::ReadShared(4));
        assert_eq!(table.touch(ADDR, at(2, 99), false), Touch::ReadShared(4));
        assert_eq!(table.touch(ADDR, at(2, 99), true), Touch::Recorded);
        assert_eq!(table.touch(ADDR, at(0, 99), false), Touch::Recorded);
        // Not where everything that two threads touch is recorded.
        let table = FirstTouch::new();
        let [a, b] = [0, 1].map(|thread| table.toucher(Tag::of_thread(thread), Cycles(7)));
        assert_eq!(table.touch(ADDR, a, false), Touch::Private);
        assert_eq!(table.touch(ADDR, b, false), taken_from(0, false));
        assert_eq!(table.touch(ADDR, a, false), Touch::Recorded);
    }

    #[test]
    fn memory_of_several_processes_is_recorded_until_it_is_unmapped() {
        let table = FirstTouch::with_hand_over(EPOCH);
        let me = table.toucher(Tag::of_thread(0), EPOCH);
        let page = ADDR & !4095;
        table.touch(ADDR, me, true);
        let range = AddrRange::with_len(page, 4096).unwrap();
        table.share(range, 0x4000 << 48);
        assert_eq!(table.touch(ADDR, me, false), Touch::Foreign);
        assert_eq!(table.touch(ADDR, me, true), Touch::Foreign);
        assert_eq!(table.shared_addr(ADDR), Some((0x4000 << 48) + ADDR % 4096));
        assert_eq!(table.touch(ADDR + 4096, me, true), Touch::Private);
        table.unshare(range);
        assert_eq!(table.touch(ADDR, me, true), Touch::Private);
        assert_eq!(table.shared_addr(ADDR), None);
    }

    #[test]
    fn a_touch_in_a_later_epoch_is_a_recent_one() {
        let table = FirstTouch::with_hand_over(EPOCH);
        let at = |thread: u32, epoch: u64| {
            table.toucher(Tag::of_thread(thread), Cycles(epoch * EPOCH.0))
        };
        let last = u64::from(EPOCHS) - 1;
        // The second thread's clock is behind.
        table.touch(ADDR, at(0, 20), true);
        assert_eq!(table.touch(ADDR, at(1, 3), false), taken_from(0, true));
        assert_eq!(table.touch(ADDR, at(1, 99), false), Touch::Recorded);
        // Epochs start again from 0.
        let next_line = ADDR + LINE_SIZE;
        table.touch(next_line, at(0, last), true);
        assert_eq!(
            table.touch(next_line, at(1, last + 2), false),
            taken_from(0, true)
        );
        assert_eq!(
            table.touch(next_line, at(1, last + 2), false),
            Touch::Private
        );
    }
}
