//! The end of a process whose recorder was killed.
//!
//! Linux tells a process of the death of its parent, not of its recorder. So the recorder holds a robust
//! mutex in the shared memory, and each process has a thread that waits for it. The kernel hands the
//! mutex over when its holder dies, however it dies.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::hidden_thread;

/// Ends this process when the thread that holds the mutex at `mutex` dies.
///
/// # Safety
/// `mutex` is an initialised robust mutex that processes share, and stays mapped.
pub(crate) unsafe fn start(mutex: NonNull<u8>) {
    // SAFETY: as the caller says.
    unsafe { hidden_thread::start(watch, mutex.as_ptr().cast()) };
}

extern "C" fn watch(mutex: *mut c_void) -> *mut c_void {
    let mutex = mutex.cast::<libc::pthread_mutex_t>();
    // SAFETY: `start`'s caller vouches for the mutex.
    unsafe {
        match libc::pthread_mutex_lock(mutex) {
            // The next process finds its holder dead as well.
            libc::EOWNERDEAD => {
                libc::kill(libc::getpid(), libc::SIGKILL);
                // The first process of a namespace survives that.
                libc::_exit(128 + libc::SIGKILL);
            }
            0 => {
                libc::pthread_mutex_unlock(mutex);
            }
            _ => {}
        }
    }
    std::ptr::null_mut()
}
