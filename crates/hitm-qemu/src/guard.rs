//! The end of a process whose recorder was killed.
//!
//! Linux tells a process of the death of its parent, not of its recorder. So the recorder holds a robust
//! mutex in the shared memory, and each process has a thread that waits for it. The kernel hands the
//! mutex over when its holder dies, however it dies.

use std::ffi::c_void;
use std::ptr::NonNull;

/// Bytes of the thread's stack: it makes three calls.
const STACK_BYTES: usize = 64 << 10;

/// Ends this process when the thread that holds the mutex at `mutex` dies.
///
/// # Safety
/// `mutex` is an initialised robust mutex that processes share, and stays mapped.
pub(crate) unsafe fn start(mutex: NonNull<u8>) {
    // SAFETY: plain calls with structures that they fill. The thread starts with all signals blocked:
    // QEMU's handlers expect to run on guest threads.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK_BYTES);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = std::mem::zeroed();
        libc::pthread_create(&mut thread, &attributes, watch, mutex.as_ptr().cast());
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
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
