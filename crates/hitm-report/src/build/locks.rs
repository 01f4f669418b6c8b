//! The lock objects in a line, by their types and by who works on them.
//!
//! A mutex or a condition variable has several words, and what threads do to them looks like false
//! sharing when nobody says that they are one thing. Where debug information knows the type, the names
//! say so. Memory may have no type: there the functions that touch a place tell, and the sizes of their
//! library's objects how far one reaches.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{CodeAddr, LINE_SIZE, LineAddr};
use hitm_coherence::stats::{LineStats, byte_mask};

use crate::Names;
use crate::names::{LockKind, LockName};

/// A lock object, as far as it lies in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineLock {
    /// Its bytes in the line.
    pub(crate) mask: u64,
    pub(crate) kind: LockKind,
    pub(crate) name: String,
}

/// Functions by a part of their name, what they work on, and its size in bytes: glibc's objects on
/// 64-bit machines and those of Go's package sync.
const LOCK_FUNCTIONS: &[(&str, LockKind, u64)] = &[
    ("pthread_mutex_", LockKind::Lock, 40),
    ("lll_mutex_", LockKind::Lock, 40),
    ("pthread_cond_", LockKind::ConditionVariable, 48),
    ("__condvar_", LockKind::ConditionVariable, 48),
    ("wide_counter_", LockKind::ConditionVariable, 48),
    ("pthread_barrier_", LockKind::Lock, 32),
    ("pthread_rwlock_", LockKind::Lock, 56),
    ("sync.(*Mutex).", LockKind::Lock, 8),
    ("sync.(*RWMutex).", LockKind::Lock, 24),
];

/// The lock objects in a line; no two overlap.
pub(super) fn lock_objects(names: &dyn Names, line: LineAddr, stats: &LineStats) -> Vec<LineLock> {
    let mut codes: BTreeMap<(u8, u8), BTreeSet<CodeAddr>> = BTreeMap::new();
    for key in stats.rows.keys() {
        let place = codes.entry((key.offset, key.size)).or_default();
        place.insert(key.code);
    }
    let mut found = Found::default();
    for (offset, size) in codes.keys().copied() {
        let addr = line.first_byte() + u64::from(offset);
        if let Some(lock) = names.lock(addr, size) {
            found.add(line, byte_mask(offset, size), lock);
        }
    }
    let mut functions = Functions::default();
    for ((offset, size), codes) in &codes {
        let addr = line.first_byte() + u64::from(*offset);
        let mask = byte_mask(*offset, *size);
        if found.has(mask) || names.has_type(addr, *size) {
            continue;
        }
        if let Some((kind, size_bytes)) = functions.work_on(names, codes) {
            let name = names.data(addr, *size);
            let name = name.map(|name| name.object + &name.member);
            let lock = LockName {
                name: name.unwrap_or_else(|| format!("{:#x}", names.shown(addr))),
                addr,
                size_bytes,
                kind,
            };
            found.add(line, mask, lock);
        }
    }
    found.locks
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
    fn add(&mut self, line: LineAddr, accessed: u64, lock: LockName) {
        if self.has(accessed) {
            return;
        }
        let others = self.locks.iter().fold(0, |all, other| all | other.mask);
        let mask = mask_of(line, lock.addr, lock.size_bytes) & !others;
        self.locks.push(LineLock {
            mask: mask | accessed,
            kind: lock.kind,
            name: lock.name,
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
    On(LockKind, u64),
    /// On some lock: code that kinds of locks share.
    OnSomeLock,
    /// On something else.
    Other,
}

/// The work of instructions, each asked for once.
#[derive(Debug, Default)]
struct Functions(BTreeMap<CodeAddr, Work>);

impl Functions {
    /// The kind of object and its size, when all of the instructions work on one kind of lock.
    fn work_on(
        &mut self,
        names: &dyn Names,
        codes: &BTreeSet<CodeAddr>,
    ) -> Option<(LockKind, u64)> {
        let mut works: BTreeSet<Work> = codes
            .iter()
            .map(|code| *self.0.entry(*code).or_insert_with(|| work_of(names, *code)))
            .collect();
        works.remove(&Work::OnSomeLock);
        match works.into_iter().collect::<Vec<_>>().as_slice() {
            [Work::On(kind, size_bytes)] => Some((*kind, *size_bytes)),
            _ => None,
        }
    }
}

fn work_of(names: &dyn Names, code: CodeAddr) -> Work {
    let code = names.code(code);
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
    use super::*;

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
