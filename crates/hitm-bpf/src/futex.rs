//! Sleeps in futex(2), from the kernel's tracepoint of switches between tasks.
//!
//! A switch costs more than the program that looks at it. The tracepoints at the entry and the return of system calls
//! would be passed by every call of every program.

use crate::object::{Hook, Object, image};
use crate::{Error, Filter, LockWaitTable};

/// Programs that count waits in futex(2) until this is dropped.
#[derive(Debug)]
pub struct FutexWaits {
    object: Object,
}

impl FutexWaits {
    /// Starts to count the waits of the tasks of `filter`, and of processes that they start from
    /// now on.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(filter: &Filter) -> Result<FutexWaits, Error> {
        let number = |call: libc::c_long| call.unsigned_abs().to_ne_bytes().to_vec();
        let constants = [
            ("futex_call", number(libc::SYS_futex)),
            // include/uapi/asm-generic/unistd.h; the number is the same on all machines.
            ("futex_wait_call", number(455)),
        ];
        let mut object = Object::open_filtered(image::FUTEX, filter, &constants)?;
        object.follow_children(filter)?;
        object.attach("futex_switch", Hook::Typed("sched_switch"))?;
        Ok(FutexWaits { object })
    }

    /// Returns all waits since the start: `lock` is the address of the word in its process, `stack`
    /// the program's addresses from the system call outwards, at most 16. Counting continues.
    ///
    /// # Errors
    /// The tables cannot be read.
    pub fn read(&self) -> Result<LockWaitTable, Error> {
        LockWaitTable::read(&self.object)
    }
}
