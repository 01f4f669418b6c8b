//! Waits for kernel locks, from the tracepoints lock:contention_begin and lock:contention_end.
//!
//! They cover waiters of mutexes (spinning and sleeping), spinlocks and rtmutexes, and sleeping
//! waiters of rwsems and percpu_rwsems. They miss spinners of an rwsem: its slow path returns
//! before the tracepoint.

use crate::object::{Hook, Object, image};
use crate::{Error, Filter, LockWaitTable};

/// Programs that count waits for locks until this is dropped.
#[derive(Debug)]
pub struct LockWaits {
    object: Object,
}

impl LockWaits {
    /// Starts to count the waits of the tasks of `filter`, and of processes that they start from
    /// now on.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(filter: &Filter) -> Result<LockWaits, Error> {
        let mut object = Object::open_filtered(image::LOCKS, filter, &[])?;
        object.follow_children(filter)?;
        // Ends first, so that each beginning has its end.
        object.attach("contention_end", Hook::Typed("contention_end"))?;
        object.attach("contention_begin", Hook::Typed("contention_begin"))?;
        Ok(LockWaits { object })
    }

    /// Returns all waits since the start. Counting continues.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn read(&self) -> Result<LockWaitTable, Error> {
        LockWaitTable::read(&self.object)
    }
}
