//! The lock objects in a line, by their types and by who works on them.
//!
//! A mutex or a condition variable has several words, and what threads do to them looks like false
//! sharing when nobody says that they are one thing. Where debug information knows the type, the names
//! say so. Memory may have no type: there the functions that touch a place tell, and the sizes of their
//! library's objects how far one reaches.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, LINE_SIZE, LineAddr};
use hitm_coherence::stats::{LineStats, byte_mask};
use hitm_recording::{CodeLabel, SyncKind, SyncObject};

use crate::Names;

/// An object by which threads agree, as far as it lies in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineLock {
    /// Its bytes in the line.
    pub(crate) mask: u64,
    pub(crate) kind: SyncKind,
    pub(crate) name: String,
    /// Hardly anybody holds it alone: what is contended is the readers' count.
    pub(crate) is_only_read: bool,
}

/// Knowledge of a line's places by their types and by who works on them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LineObjects {
    /// The objects by which threads agree; no two overlap.
    pub(crate) locks: Vec<LineLock>,
    /// Bytes of a kernel that are known to be no lock, whatever is done to them: a kernel's locks have types.
    pub(crate) plain: u64,
}

/// Functions by a part of their name, what they work on, and its size in bytes: glibc's objects on
/// 64-bit machines, those of Go's package sync, of Rust's library and of parking_lot.
const LOCK_FUNCTIONS: &[(&str, SyncKind, u64)] = &[
    ("pthread_mutex_", SyncKind::Lock, 40),
    ("lll_mutex_", SyncKind::Lock, 40),
    ("pthread_cond_", SyncKind::ConditionVariable, 48),
    ("__condvar_", SyncKind::ConditionVariable, 48),
    ("wide_counter_", SyncKind::ConditionVariable, 48),
    ("pthread_barrier_", SyncKind::Lock, 32),
    ("pthread_rwlock_", SyncKind::ReadWriteLock, 56),
    ("sync.(*Mutex).", SyncKind::Lock, 8),
    ("sync.(*RWMutex).", SyncKind::ReadWriteLock, 24),
    ("futex::Mutex::", SyncKind::Lock, 4),
    ("futex::RwLock::", SyncKind::ReadWriteLock, 8),
    ("futex_mutex::Mutex::", SyncKind::Lock, 4),
    ("futex_rwlock::RwLock::", SyncKind::ReadWriteLock, 8),
    ("RawMutex", SyncKind::Lock, 1),
    ("RawRwLock", SyncKind::ReadWriteLock, 8),
];

/// Bytes of the lock that glibc's functions for all kinds of locks work on.
const LOW_LEVEL_LOCK_BYTES: u64 = 4;

/// Parts of the names of functions that hold a read-write lock together with others.
const READERS: &[&str] = &[
    "rdlock",
    "RLock",
    "RUnlock",
    "RwLock::read",
    "lock_shared",
    "read_lock",
    "read_unlock",
    "down_read",
    "up_read",
];

/// The same of those that hold one alone. What gives a lock back may serve both.
const WRITERS: &[&str] = &[
    "wrlock",
    "RWMutex).Lock",
    "RWMutex).Unlock",
    "RwLock::write",
    "lock_exclusive",
    "write_lock",
    "write_unlock",
    "down_write",
    "up_write",
];

/// A lock is only read if at most this part (one in ...) of the operations that change it is by writers.
const WRITER_SHARE_DIVISOR: u64 = 10;

/// The objects by which threads agree in a line.
pub(super) fn lock_objects(names: &dyn Names, line: LineAddr, stats: &LineStats) -> LineObjects {
    let mut codes: BTreeMap<(u8, u8), BTreeMap<CodeAddr, u64>> = BTreeMap::new();
    for (key, row) in &stats.rows {
        let place = codes.entry((key.offset, key.size)).or_default();
        let changes = if key.op.is_write() {
            row.sources.total()
        } else {
            0
        };
        *place.entry(key.code).or_default() += changes;
    }
    let mut found = Found::default();
    for (offset, size) in codes.keys().copied() {
        let addr = line.first_byte() + u64::from(offset);
        if let Some(object) = names.sync_object(addr, size) {
            let object = match object.size_bytes < u64::from(size) {
                true if object.kind != SyncKind::Count => count_behind(names, &object, size),
                _ => Some(object),
            };
            if let Some(object) = object {
                found.add(line, byte_mask(offset, size), object);
            }
        }
    }
    let is_kernel = line.first_byte() >> 63 == 1;
    let mut plain = 0;
    let mut functions = Functions::new(names);
    for ((offset, size), codes) in &codes {
        let addr = line.first_byte() + u64::from(*offset);
        let mask = byte_mask(*offset, *size);
        if found.has(mask) {
            continue;
        }
        if names.has_type(addr, *size) {
            plain |= if is_kernel { mask } else { 0 };
            continue;
        }
        // A line without locked operations has parts of locks of known types alone.
        if stats.rmws.total() == 0 {
            continue;
        }
        if let Some((kind, size_bytes)) = functions.work_on(codes.keys()) {
            let lock = SyncObject {
                name: names.place(addr, *size),
                addr,
                size_bytes,
                kind,
            };
            found.add(line, mask, lock);
        }
    }
    for lock in &mut found.locks {
        let places = codes.iter();
        let places =
            places.filter(|((offset, size), _)| lock.mask & byte_mask(*offset, *size) != 0);
        let codes = places.flat_map(|(_, codes)| codes);
        lock.is_only_read = lock.kind == SyncKind::ReadWriteLock && functions.are_readers(codes);
    }
    LineObjects {
        locks: found.locks,
        plain,
    }
}

/// The count that an access of `size` bytes reaches behind a lock: a lockref's, which changes without taking the lock.
fn count_behind(names: &dyn Names, lock: &SyncObject, size: u8) -> Option<SyncObject> {
    let size_bytes = u64::from(size);
    let behind = names.sync_object(
        lock.addr + lock.size_bytes,
        (size_bytes - lock.size_bytes) as u8,
    );
    let count = behind.filter(|object| object.kind == SyncKind::Count)?;
    Some(SyncObject {
        addr: lock.addr,
        size_bytes,
        ..count
    })
}

#[derive(Debug, Default)]
struct Found {
    locks: Vec<LineLock>,
}

impl Found {
    fn has(&self, mask: u64) -> bool {
        self.locks.iter().any(|lock| lock.mask & mask != 0)
    }

    /// Adds the lock around an accessed place, unless it is known.
    fn add(&mut self, line: LineAddr, accessed: u64, lock: SyncObject) {
        if let Some(known) = self.locks.iter_mut().find(|one| one.mask & accessed != 0) {
            // Counts beside each other may be read together.
            let is_count = lock.kind == SyncKind::Count;
            if is_count && known.kind == SyncKind::Count {
                known.mask |= accessed;
            }
            // A count may lie behind a lock, and change together with it.
            if !is_count || known.kind == SyncKind::Count || accessed & !known.mask == 0 {
                return;
            }
        }
        let others = self.locks.iter().fold(0, |all, other| all | other.mask);
        let mask = (mask_of(line, lock.addr, lock.size_bytes) | accessed) & !others;
        if mask == 0 {
            return;
        }
        self.locks.push(LineLock {
            mask,
            kind: lock.kind,
            name: lock.name,
            is_only_read: false,
        });
    }
}

/// The bytes of a line that an object of some size covers.
fn mask_of(line: LineAddr, addr: u64, size_bytes: u64) -> u64 {
    let first = line.first_byte();
    let start = addr.max(first).saturating_sub(first);
    let end = addr.saturating_add(size_bytes).saturating_sub(first);
    let end = end.min(LINE_SIZE);
    if start >= end {
        return 0;
    }
    byte_mask(start as u8, (end - start) as u8)
}

/// The work of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// On a kind of lock object of this size.
    On(SyncKind, u64),
    /// On some lock: code that kinds of locks share.
    OnSomeLock,
    /// On something else.
    Other,
}

/// The work of instructions, each asked for once.
struct Functions<'a> {
    names: &'a dyn Names,
    works: BTreeMap<CodeAddr, Work>,
}

impl<'a> Functions<'a> {
    fn new(names: &'a dyn Names) -> Functions<'a> {
        Functions {
            names,
            works: BTreeMap::new(),
        }
    }

    /// The kind of object and its size, when all of the instructions work on one kind of lock, or one of them on
    /// some lock.
    fn work_on<'c>(
        &mut self,
        codes: impl Iterator<Item = &'c CodeAddr>,
    ) -> Option<(SyncKind, u64)> {
        let mut works: BTreeSet<Work> = codes.map(|code| self.work_of(*code)).collect();
        let is_some_lock = works.remove(&Work::OnSomeLock);
        match works.into_iter().collect::<Vec<_>>().as_slice() {
            [Work::On(kind, size_bytes)] => Some((*kind, *size_bytes)),
            _ => is_some_lock.then_some((SyncKind::Lock, LOW_LEVEL_LOCK_BYTES)),
        }
    }

    fn work_of(&mut self, code: CodeAddr) -> Work {
        let names = self.names;
        *self.works.entry(code).or_insert_with(|| {
            let frames = names.code_frames(code).into_iter();
            let mut works = frames
                .chain([names.code(code)])
                .map(|frame| work_of(&frame));
            works
                .find(|work| *work != Work::Other)
                .unwrap_or(Work::Other)
        })
    }

    /// Returns true if hardly any of the operations that change a lock, by instruction, is by those that hold it
    /// alone.
    fn are_readers<'c>(&self, codes: impl Iterator<Item = (&'c CodeAddr, &'c u64)>) -> bool {
        let (mut readers, mut writers) = (0_u64, 0_u64);
        for (code, changes) in codes.filter(|(_, changes)| **changes > 0) {
            let frames = self.names.code_frames(*code).into_iter();
            let frames = frames.chain([self.names.code(*code)]);
            let functions: Vec<String> = frames.map(|frame| frame.function).collect();
            let is_one_of = |parts: &[&str]| {
                let mut functions = functions.iter();
                functions.any(|function| parts.iter().any(|part| function.contains(part)))
            };
            match (is_one_of(READERS), is_one_of(WRITERS)) {
                (true, false) => readers = readers.saturating_add(*changes),
                (false, true) => writers = writers.saturating_add(*changes),
                _ => {}
            }
        }
        readers > 0 && writers.saturating_mul(WRITER_SHARE_DIVISOR) <= readers
    }
}

fn work_of(code: &CodeLabel) -> Work {
    let file = code.file.rsplit('/').next().unwrap_or_default();
    let mut known = LOCK_FUNCTIONS.iter();
    let found = known.find(|(part, _, _)| code.function.contains(part) || file.starts_with(part));
    match found {
        Some((_, kind, size_bytes)) => Work::On(*kind, *size_bytes),
        None if code.function.starts_with("__lll_lock_") => Work::OnSomeLock,
        None => Work::Other,
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{AccessOp, ThreadId};
    use hitm_coherence::stats::{RowKey, RowStats};

    use super::*;

    /// A kernel's line with a lockref at its start and a word of another type behind it.
    struct Kernel;

    const LINE: LineAddr = LineAddr(0xffff_8880_0000_0000 / LINE_SIZE);

    impl Names for Kernel {
        fn data(&self, _: u64, _: u8) -> Option<hitm_recording::DataLabel> {
            None
        }

        fn code(&self, _: CodeAddr) -> CodeLabel {
            CodeLabel::default()
        }

        fn thread(&self, _: ThreadId) -> String {
            String::new()
        }

        fn sync_object(&self, addr: u64, _: u8) -> Option<SyncObject> {
            let start = LINE.first_byte();
            let of = |name: &str, addr, kind| SyncObject {
                name: name.to_owned(),
                addr,
                size_bytes: 4,
                kind,
            };
            match addr - start {
                0..4 => Some(of("lock", start, SyncKind::Lock)),
                4..8 => Some(of("count", start + 4, SyncKind::Count)),
                _ => None,
            }
        }

        fn has_type(&self, addr: u64, _: u8) -> bool {
            addr < LINE.first_byte() + 16
        }
    }

    fn objects(places: &[(u8, u8)]) -> LineObjects {
        let mut stats = LineStats::default();
        for (offset, size) in places.iter().copied() {
            let key = RowKey {
                offset,
                size,
                op: AccessOp::LockedRmw,
                thread: ThreadId(0),
                code: CodeAddr(1),
            };
            stats.rows.insert(key, RowStats::default());
        }
        lock_objects(&Kernel, LINE, &stats)
    }

    #[test]
    fn what_changes_a_lock_with_its_count_changes_the_count() {
        let names = |found: &LineObjects| -> Vec<(String, SyncKind, u64)> {
            let locks = found.locks.iter();
            locks
                .map(|one| (one.name.clone(), one.kind, one.mask))
                .collect()
        };
        let count = |mask| ("count".to_owned(), SyncKind::Count, mask);
        assert_eq!(names(&objects(&[(0, 8)])), [count(0xff)]);
        let both = [("lock".to_owned(), SyncKind::Lock, 0xf), count(0xf0)];
        assert_eq!(names(&objects(&[(0, 4), (0, 8)])), both);
    }

    #[test]
    fn a_kernels_member_of_another_type_is_no_lock() {
        let found = objects(&[(8, 8), (16, 8)]);
        assert_eq!((found.locks.len(), found.plain), (0, 0xff00));
    }

    #[test]
    fn the_part_of_an_object_in_a_line() {
        let line = LineAddr(2);
        assert_eq!(mask_of(line, 128, 8), 0xff);
        assert_eq!(mask_of(line, 120, 16), 0xff);
        assert_eq!(mask_of(line, 184, 40), 0xff << 56);
        assert_eq!(mask_of(line, 64, 256), u64::MAX);
        assert_eq!(mask_of(line, 64, 64), 0);
        assert_eq!(mask_of(line, 192, 8), 0);
        assert_eq!(mask_of(line, u64::MAX, u64::MAX), 0);
    }
}
