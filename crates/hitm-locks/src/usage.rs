//! Acquisitions and releases, counted and timed.

use std::ffi::{c_int, c_void};

use crate::layout::{header, kind, lock, usage};
use crate::region::{Region, Usage};
use crate::thread::{self, Local};
use crate::{clock, modules};

/// Replaces a release's time when the record has a new thread, which has not acquired the lock.
pub(crate) const NEW_USER: u64 = u64::MAX;

/// Slots in which a lock's record may be.
const PROBES: usize = 64;

/// A lock and the call for it.
pub(crate) struct Subject {
    address: usize,
    kind: u64,
    /// Return address of the call.
    site: usize,
}

impl Subject {
    #[inline]
    pub(crate) fn new(lock: *mut c_void, kind: u64, site: usize) -> Subject {
        Subject {
            address: lock as usize,
            kind,
            site,
        }
    }
}

/// A time, and the time until then for which the thread is known not to have run.
#[derive(Clone, Copy)]
struct Moment {
    at: u64,
    paused: u64,
}

/// An observed thread at a lock.
#[derive(Clone, Copy)]
struct Visit {
    region: Region,
    local: &'static Local,
    entry: &'static Usage,
}

/// Acquires a lock: at once if it is free, else by waiting.
#[inline]
pub(crate) fn acquire(
    subject: &Subject,
    attempt: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let Some(visit) = Visit::start(subject) else {
        return wait();
    };
    let status = attempt();
    if status == libc::EBUSY {
        return visit.acquire_late(subject, wait);
    }
    if is_acquired(status) {
        visit.note_acquired_at_once();
    }
    status
}

/// Acquires a lock if it is free.
#[inline]
pub(crate) fn attempt(subject: &Subject, attempt: impl FnOnce() -> c_int) -> c_int {
    let Some(visit) = Visit::start(subject) else {
        return attempt();
    };
    let status = attempt();
    if is_acquired(status) {
        visit.note_acquired_at_once();
    } else if status == libc::EBUSY {
        visit.entry[usage::REFUSED].add(1);
    }
    status
}

/// Releases a lock of one of these kinds.
#[inline]
pub(crate) fn release(address: usize, kinds: &[u64], release: impl FnOnce() -> c_int) -> c_int {
    let Some((visit, depth)) = Visit::holding(address, kinds) else {
        return release();
    };
    if depth > 1 {
        let status = release();
        if status == 0 {
            visit.entry[usage::DEPTH].set(depth - 1);
        }
        return status;
    }
    let released = visit.arrive();
    let status = release();
    // Counted afterwards, so that other threads do not wait for it. After a failure the lock is
    // still held.
    if status == 0 {
        visit.note_released(released, clock::roughly_now());
    }
    status
}

/// Waits for a condition, which releases and acquires `mutex`.
pub(crate) fn wait(subject: &Subject, mutex: usize, wait: impl FnOnce() -> c_int) -> c_int {
    let Some(visit) = Visit::start(subject) else {
        return wait();
    };
    let held = Visit::holding(mutex, &[kind::MUTEX]);
    let start = visit.arrive();
    if let Some((held, _)) = held {
        held.note_released(start, start.at);
    }
    let status = wait();
    let end = visit.resume();
    visit.count_use();
    visit.entry[usage::ACQUISITIONS].add(1);
    visit.note_wait(subject, end.at.saturating_sub(start.at));
    // With most errors the mutex was not released at all: count a release of no duration.
    if let Some((held, depth)) = held {
        held.note_acquired(end, 0);
        held.entry[usage::DEPTH].set(depth);
    }
    status
}

/// Signals a condition.
pub(crate) fn signal(subject: &Subject, signal: impl FnOnce() -> c_int) -> c_int {
    if let Some(visit) = Visit::start(subject) {
        visit.entry[usage::REFUSED].add(1);
    }
    signal()
}

/// Returns true when a function has acquired its lock, also a robust mutex whose owner died.
#[inline]
fn is_acquired(status: c_int) -> bool {
    status == 0 || status == libc::EOWNERDEAD
}

impl Visit {
    /// This thread at the lock; `None` when it is not observed, or there is no room.
    #[inline]
    fn start(subject: &Subject) -> Option<Visit> {
        let (region, local) = thread::current()?;
        let entry = match local.find(subject.address, subject.kind) {
            Some(entry) => entry,
            None => Visit::first(region, local, subject)?,
        };
        Some(Visit {
            region,
            local,
            entry,
        })
    }

    #[cold]
    fn first(region: Region, local: &'static Local, subject: &Subject) -> Option<&'static Usage> {
        let number = lock_number(region, local.process(), subject);
        let key = number.map(|number| subject.kind << 32 | number as u64);
        let entry = key.and_then(|key| local.insert(region, subject.address, key));
        if entry.is_none() {
            region.header(header::LOST).add_shared(1);
        }
        entry
    }

    /// This thread at a lock that it holds, and the number of its acquisitions that are not yet
    /// released.
    #[inline]
    fn holding(address: usize, kinds: &[u64]) -> Option<(Visit, u64)> {
        let (region, local) = thread::current()?;
        let entries = kinds.iter().filter_map(|kind| local.find(address, *kind));
        let mut held = entries.filter(|entry| entry[usage::ACQUIRED].get() != 0);
        let entry = held.next()?;
        let visit = Visit {
            region,
            local,
            entry,
        };
        Some((visit, entry[usage::DEPTH].get()))
    }

    /// The present moment, which the thread has reached by running.
    #[inline]
    fn arrive(self) -> Moment {
        let at = clock::now();
        Moment {
            at,
            paused: self.local.arrive(self.region, at),
        }
    }

    /// The present moment, at the end of a wait.
    #[inline]
    fn resume(self) -> Moment {
        let at = clock::now();
        Moment {
            at,
            paused: self.local.resume(self.region, at),
        }
    }

    #[cold]
    fn acquire_late(self, subject: &Subject, wait: impl FnOnce() -> c_int) -> c_int {
        let start = self.arrive();
        let status = wait();
        let end = self.resume();
        let waited = end.at.saturating_sub(start.at);
        self.note_wait(subject, waited);
        match is_acquired(status) {
            true => {
                self.entry[usage::CONTENDED].add(1);
                self.note_acquired(end, waited.max(1));
            }
            false => self.entry[usage::REFUSED].add(1),
        }
        status
    }

    fn note_wait(self, subject: &Subject, waited: u64) {
        self.entry[usage::WAITED].add(waited);
        if waited > self.entry[usage::WAIT_MAX].get() {
            let module = modules::number_of(self.region, self.local.process(), subject.site);
            self.entry[usage::WAIT_MAX].set(waited);
            self.entry[usage::WAIT_SITE].set(subject.site as u64);
            self.entry[usage::WAIT_MODULE].set(module);
        }
    }

    /// Counts this thread as a user of the lock, once.
    #[inline]
    fn count_use(self) {
        if self.entry[usage::RELEASED].get() == NEW_USER {
            self.entry[usage::RELEASED].set(0);
            self.entry[usage::USERS].add(1);
        }
    }

    #[inline]
    fn note_acquired_at_once(self) {
        self.note_acquired(self.arrive(), 0);
    }

    /// Notes an acquisition, after a wait (0 for none).
    #[inline]
    fn note_acquired(self, moment: Moment, waited: u64) {
        let Visit {
            region,
            local,
            entry,
        } = self;
        entry[usage::ACQUISITIONS].add(1);
        if entry[usage::ACQUIRED].get() != 0 && self.is_nested() {
            entry[usage::DEPTH].add(1);
            return;
        }
        self.count_use();
        entry[usage::ACQUIRED].set(moment.at);
        entry[usage::PAUSED_AT_ACQUIRE].set(moment.paused);
        entry[usage::DEPTH].set(1);
        entry[usage::WAIT].set(waited);
        let key = entry[usage::LOCK].get();
        if key >> 32 == kind::READ {
            return; // Readers hold it together.
        }
        let owner = &region.lock(key as u32 as usize)[lock::OWNER];
        let (last, this) = (owner.get(), local.number() as u64 + 1);
        if last != this {
            owner.set(this);
            entry[usage::HANDOVERS].add(u64::from(last != 0));
        }
    }

    /// Returns true when this thread acquires a lock that it holds already. If the mutex is not
    /// recursive, another thread has released it, and the old hold is dropped.
    #[cold]
    fn is_nested(self) -> bool {
        let address = self.entry[usage::ADDRESS].get() as usize;
        let is_nested = match self.entry[usage::LOCK].get() >> 32 {
            kind::READ => true,
            // SAFETY: the thread has just acquired the mutex.
            kind::MUTEX => unsafe { is_recursive(address as *const libc::pthread_mutex_t) },
            _ => false,
        };
        if !is_nested {
            self.region.header(header::STALE).add_shared(1);
        }
        is_nested
    }

    /// Notes a release. The next cycle begins at `done`, so that waking a waiter counts as
    /// neither held nor run.
    #[inline]
    fn note_released(self, moment: Moment, done: u64) {
        let Visit { local, entry, .. } = self;
        let Moment { at, paused } = moment;
        let held = at.saturating_sub(entry[usage::ACQUIRED].get());
        let ran = held.saturating_sub(paused - entry[usage::PAUSED_AT_ACQUIRE].get());
        entry[usage::HELD].add(held);
        entry[usage::HELD_MAX].raise(held);
        let released = entry[usage::RELEASED].get();
        if entry[usage::WAIT].get() != 0 {
            entry[usage::HELD_CONTENDED].add(held);
        }
        if released != 0 {
            let elapsed = at.saturating_sub(released);
            let cycle = elapsed.saturating_sub(paused - entry[usage::PAUSED_AT_RELEASE].get());
            entry[usage::RAN_HELD].add(ran);
            entry[usage::RAN_CYCLE].add(cycle);
        }
        if entry[usage::ACQUISITIONS]
            .get()
            .is_multiple_of(usage::WINDOW)
        {
            self.close_window();
        }
        entry[usage::ACQUIRED].set(0);
        entry[usage::DEPTH].set(0);
        entry[usage::RELEASED].set(done);
        entry[usage::PAUSED_AT_RELEASE].set(local.arrive(self.region, done));
    }

    /// Ends a window: if the thread had to wait in it, all its cycles count as contended.
    #[cold]
    fn close_window(self) {
        let entry = self.entry;
        let (held, cycle) = (entry[usage::RAN_HELD].get(), entry[usage::RAN_CYCLE].get());
        let contended = entry[usage::CONTENDED].get();
        if contended != entry[usage::WINDOW_CONTENDED].get() {
            entry[usage::RAN_HELD_CONTENDED].add(held - entry[usage::WINDOW_HELD].get());
            entry[usage::RAN_CYCLE_CONTENDED].add(cycle - entry[usage::WINDOW_CYCLE].get());
        }
        entry[usage::WINDOW_HELD].set(held);
        entry[usage::WINDOW_CYCLE].set(cycle);
        entry[usage::WINDOW_CONTENDED].set(contended);
    }
}

/// Reads a mutex's type where glibc keeps it. Static initialisers have it there, so it cannot move.
///
/// # Safety
/// `mutex` is a mutex.
unsafe fn is_recursive(mutex: *const libc::pthread_mutex_t) -> bool {
    const KIND_AT: usize = 16;
    const TYPE_MASK: i32 = 3;
    // SAFETY: a mutex is 40 bytes or more.
    let kind = unsafe {
        mutex
            .cast::<u8>()
            .add(KIND_AT)
            .cast::<i32>()
            .read_volatile()
    };
    kind & TYPE_MASK == libc::PTHREAD_MUTEX_RECURSIVE
}

/// Returns the number of the lock's record, which its first acquirer takes.
fn lock_number(region: Region, process: usize, subject: &Subject) -> Option<usize> {
    let address = subject.address as u64;
    let tag = (process as u64 + 1) << 8 | (subject.kind + 1);
    // Odd factors are invertible: locks of one tag have distinct keys. Different tags share a key,
    // or get key 0, with probability 2^-64.
    let key =
        (address ^ tag.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for probe in 0..PROBES {
        let number = ((key >> 32) as usize + probe) % lock::MAX;
        let record = region.lock(number);
        let found = match record[lock::KEY].read_published() {
            0 => record[lock::KEY].replace(0, key).err(),
            found => Some(found),
        };
        if found.is_none() {
            record[lock::ADDRESS].set(address);
            record[lock::TAG].set(tag);
            record[lock::SITE].set(subject.site as u64);
            let module = modules::number_of(region, process, subject.site);
            record[lock::MODULE].set(module);
        }
        if found.is_none_or(|found| found == key) {
            return Some(number);
        }
    }
    None
}
