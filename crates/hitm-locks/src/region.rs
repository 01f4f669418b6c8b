//! The region that hitm provides.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::layout::{
    self, LENGTH, LOCKS_AT, MAGIC, MODULES_AT, POOL_AT, PROCESSES_AT, THREADS_AT, VERSION, header,
};

static REGION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// A word of the region. Most words have one writer, so adding is a load and a store.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to a word that only this thread writes.
    #[inline]
    pub(crate) fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }

    /// Adds to a word that other threads write too; returns the value before.
    pub(crate) fn add_shared(&self, value: u64) -> u64 {
        self.0.fetch_add(value, Ordering::Relaxed)
    }

    /// Raises a word that only this thread writes.
    #[inline]
    pub(crate) fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Publishes what was written before.
    pub(crate) fn publish(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Reads what was published.
    pub(crate) fn read_published(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Replaces `old`; returns the value found otherwise.
    pub(crate) fn replace(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

pub(crate) type Record<const N: usize> = &'static [Word; N];
/// A thread's use of a lock.
pub(crate) type Usage = [Word; layout::usage::WORDS];

/// The mapped region.
#[derive(Clone, Copy)]
pub(crate) struct Region(*const u8);

/// Returns the region, if hitm provided one.
#[inline]
pub(crate) fn get() -> Option<Region> {
    let region = REGION.load(Ordering::Acquire);
    (!region.is_null()).then_some(Region(region.cast()))
}

/// Returns true when times are CLOCK_MONOTONIC's. Only for threads with a record.
#[inline]
pub(crate) fn is_monotonic() -> bool {
    get().is_some_and(|region| region.header(header::IS_MONOTONIC).get() != 0)
}

/// Nanoseconds as ticks.
pub(crate) fn ticks_of(nanos: u64) -> u64 {
    let Some(region) = get() else { return 0 };
    let ticks = u128::from(region.header(header::TICKS).get());
    let per = u128::from(region.header(header::TICKS_NANOS).get().max(1));
    (u128::from(nanos) * ticks / per) as u64
}

impl Region {
    #[inline]
    pub(crate) fn header(self, word: usize) -> &'static Word {
        &self.record::<{ header::WORDS }>(0, 0)[word]
    }

    pub(crate) fn process(self, number: usize) -> Record<{ layout::process::WORDS }> {
        self.record(PROCESSES_AT, number)
    }

    pub(crate) fn module(self, number: usize) -> Record<{ layout::module::WORDS }> {
        self.record(MODULES_AT, number)
    }

    #[inline]
    pub(crate) fn lock(self, number: usize) -> Record<{ layout::lock::WORDS }> {
        self.record(LOCKS_AT, number)
    }

    pub(crate) fn thread(self, number: usize) -> Record<{ layout::thread::WORDS }> {
        self.record(THREADS_AT, number)
    }

    /// Record `number` of the table at byte `table`.
    #[inline]
    fn record<const N: usize>(self, table: usize, number: usize) -> Record<N> {
        let at = table + number * N * layout::WORD;
        debug_assert!(at + N * layout::WORD <= LENGTH);
        // SAFETY: the mapping is `LENGTH` bytes, is never unmapped, and is written as atomic words only;
        // numbers are below the tables' limits.
        unsafe { &*self.0.add(at).cast::<[Word; N]>() }
    }

    /// The table of uses at byte `at`, a place that [`Region::take_pool`] returned for `count`
    /// uses.
    pub(crate) fn usages(self, at: usize, count: usize) -> &'static [Usage] {
        debug_assert!(at + count * size_of::<Usage>() <= LENGTH);
        // SAFETY: as for records.
        unsafe { std::slice::from_raw_parts(self.0.add(at).cast::<Usage>(), count) }
    }

    /// Takes the next record of a table; `None` when all are taken.
    pub(crate) fn take(self, counter: usize, limit: usize) -> Option<usize> {
        let number = self.header(counter).add_shared(1) as usize;
        (number < limit).then_some(number)
    }

    /// Takes `bytes` of the pool; returns their place.
    pub(crate) fn take_pool(self, bytes: usize) -> Option<usize> {
        let at = self.header(header::POOL).add_shared(bytes as u64) as usize;
        let end = at.checked_add(bytes)?.checked_add(POOL_AT)?;
        (end <= LENGTH).then_some(POOL_AT + at)
    }
}

/// Maps the region that the environment names. Leaves any other file alone.
pub(crate) fn open() {
    // SAFETY: names are C strings; the descriptor is this function's own.
    unsafe {
        let path = libc::getenv(VARIABLE.as_ptr());
        if path.is_null() {
            return;
        }
        let fd = libc::open(path, libc::O_RDWR | libc::O_CLOEXEC);
        if fd < 0 {
            return;
        }
        let region = map(fd);
        libc::close(fd);
        if let Some(region) = region {
            REGION.store(region, Ordering::Release);
            Region(region.cast()).header(header::LOADED).add_shared(1);
        }
    }
}

/// [`layout::VARIABLE`] as a C string.
const VARIABLE: &CStr = c"HITM_LOCKS";

/// # Safety
/// `fd` is an open file.
unsafe fn map(fd: i32) -> Option<*mut c_void> {
    // SAFETY: the kernel checks the arguments. The file is as long as the mapping and sealed by
    // hitm against shrinking, so that no access faults.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut stat) != 0 || stat.st_size as usize != LENGTH {
            return None;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let region = libc::mmap(
            std::ptr::null_mut(),
            LENGTH,
            protection,
            libc::MAP_SHARED,
            fd,
            0,
        );
        if region == libc::MAP_FAILED {
            return None;
        }
        let header = Region(region.cast());
        let is_ours = header.header(header::MAGIC).get() == MAGIC
            && header.header(header::VERSION).get() == VERSION
            && header.header(header::LENGTH).get() == LENGTH as u64;
        if !is_ours {
            libc::munmap(region, LENGTH);
            return None;
        }
        Some(region)
    }
}
