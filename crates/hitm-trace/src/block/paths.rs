//! Paths of calls: who called the functions in which threads access memory.
//!
//! A thread's path holds for all its accesses until the block tells another one. A recorder that knows
//! the callers of each access tells them where they change, and each chain once a block.

use std::collections::BTreeMap;
use std::sync::Arc;

use hitm_base::{CodeAddr, ThreadId};

use super::DecodeFault;
use super::chains;
use super::dictionary::Dictionary;
use crate::wire::Cursor;

/// The encoder's side: paths have numbers of their own, and the block another one for each.
#[derive(Debug, Default)]
pub(super) struct Paths {
    known: Dictionary,
    last: BTreeMap<ThreadId, Option<u32>>,
}

impl Paths {
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.last.clear();
    }

    /// Returns true if a thread is on this path by what the block tells.
    #[inline]
    pub(super) fn is_last(&self, thread: ThreadId, path: Option<u32>) -> bool {
        self.last.get(&thread).copied().flatten() == path
    }

    pub(super) fn set_last(&mut self, thread: ThreadId, path: Option<u32>) {
        self.last.insert(thread, path);
    }

    /// The index of a path in the block, or `None` when it has to be introduced.
    pub(super) fn find_or_insert(&mut self, path: u32) -> Option<u32> {
        self.known.find_or_insert(path.into())
    }
}

/// The decoder's side.
#[derive(Debug, Default)]
pub(super) struct ReadPaths {
    known: Vec<Arc<[CodeAddr]>>,
    of_threads: BTreeMap<ThreadId, Arc<[CodeAddr]>>,
}

impl ReadPaths {
    /// Callers of what a thread accesses from here on.
    #[inline(always)]
    pub(super) fn of(&self, thread: ThreadId) -> Option<&Arc<[CodeAddr]>> {
        match self.of_threads.is_empty() {
            true => None,
            false => self.of_threads.get(&thread),
        }
    }

    /// Takes over a path.
    pub(super) fn read(&mut self, payload: &[u8]) -> Result<(), DecodeFault> {
        let cursor = &mut Cursor::new(payload);
        let thread = ThreadId(cursor.narrow("thread")?);
        let callers = &payload[cursor.position()..];
        match callers.is_empty() {
            true => self.of_threads.remove(&thread),
            false => {
                let callers = chains::decode_callers(callers, &mut self.known)?;
                self.of_threads.insert(thread, callers)
            }
        };
        Ok(())
    }
}
