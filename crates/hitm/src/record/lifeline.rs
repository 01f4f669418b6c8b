//! The mutex that this process holds while it records: recorded processes end with it.
//!
//! It is robust: when the thread that holds it dies, however it dies, the kernel gives the mutex to a
//! waiter, with word of that. Each recorded process has a thread that waits.

use std::io;
use std::ptr::NonNull;

/// Held by the calling thread while this lives.
#[derive(Debug)]
pub(super) struct Lifeline {
    mutex: NonNull<libc::pthread_mutex_t>,
}

impl Lifeline {
    /// Makes the mutex in shared memory and takes it.
    ///
    /// # Safety
    /// `memory` is aligned, has room for a mutex, and stays mapped while the result lives.
    pub(super) unsafe fn hold(memory: NonNull<u8>) -> io::Result<Lifeline> {
        let mutex = memory.cast::<libc::pthread_mutex_t>();
        // SAFETY: the caller's promise, and a structure that the calls fill.
        let failure = unsafe {
            let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST);
            match libc::pthread_mutex_init(mutex.as_ptr(), &attributes) {
                0 => libc::pthread_mutex_lock(mutex.as_ptr()),
                failure => failure,
            }
        };
        match failure {
            0 => Ok(Lifeline { mutex }),
            failure => Err(io::Error::from_raw_os_error(failure)),
        }
    }
}

impl Drop for Lifeline {
    /// The recording is over: processes that still run may continue.
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex: the pointer keeps the structure from being sent to another.
        unsafe { libc::pthread_mutex_unlock(self.mutex.as_ptr()) };
    }
}
