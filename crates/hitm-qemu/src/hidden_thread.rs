//! Threads of the recorder's in the program's process, which the program does not see.

use std::ffi::c_void;

/// Bytes of a thread's stack: they make a few calls.
const STACK_BYTES: usize = 64 << 10;

/// Runs `run` with `argument` on a new thread; false if there can be none.
///
/// # Safety
/// `run` may be called with `argument` at any time.
pub(crate) unsafe fn start(
    run: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> bool {
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
        let error = libc::pthread_create(&mut thread, &attributes, run, argument);
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        error == 0
    }
}
