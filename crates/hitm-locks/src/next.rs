//! The next functions in the search order: those that the program would have called.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, timespec};

thread_local! {
    /// Set while this thread looks functions up: the look-up may allocate, and an allocator may lock.
    static IS_LOOKING_UP: Cell<bool> = const { Cell::new(false) };
}

/// Declares looked-up functions, each with a slot for its address, and [`look_up`] for all.
macro_rules! next_functions {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        /// Addresses by name.
        #[allow(non_upper_case_globals, reason = "named as the functions are")]
        mod slot {
            use super::*;
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());)*
        }

        $(
            /// # Safety
            /// As for the C function of this name.
            #[inline]
            pub(crate) unsafe fn $name($($arg: $type),*) -> c_int {
                let mut function = slot::$name.load(Ordering::Acquire);
                if function.is_null() {
                    look_up();
                    function = slot::$name.load(Ordering::Acquire);
                }
                if function.is_null() {
                    return missing();
                }
                // SAFETY: `look_up` found the function of this name and signature.
                unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($type),*) -> c_int>(function)($($arg),*)
                }
            }
        )*

        /// Finds all functions.
        pub(crate) fn look_up() {
            if IS_LOOKING_UP.replace(true) {
                return;
            }
            $(slot::$name.store(
                find(concat!(stringify!($name), "\0")),
                Ordering::Release,
            );)*
            IS_LOOKING_UP.set(false);
        }
    };
}

next_functions! {
    pthread_mutex_trylock(lock: *mut c_void);
    pthread_mutex_lock(lock: *mut c_void);
    pthread_mutex_unlock(lock: *mut c_void);
    pthread_mutex_timedlock(lock: *mut c_void, until: *const timespec);
    pthread_mutex_clocklock(lock: *mut c_void, clock: clockid_t, until: *const timespec);
    pthread_rwlock_tryrdlock(lock: *mut c_void);
    pthread_rwlock_rdlock(lock: *mut c_void);
    pthread_rwlock_timedrdlock(lock: *mut c_void, until: *const timespec);
    pthread_rwlock_clockrdlock(lock: *mut c_void, clock: clockid_t, until: *const timespec);
    pthread_rwlock_trywrlock(lock: *mut c_void);
    pthread_rwlock_wrlock(lock: *mut c_void);
    pthread_rwlock_timedwrlock(lock: *mut c_void, until: *const timespec);
    pthread_rwlock_clockwrlock(lock: *mut c_void, clock: clockid_t, until: *const timespec);
    pthread_rwlock_unlock(lock: *mut c_void);
    pthread_spin_trylock(lock: *mut c_void);
    pthread_spin_lock(lock: *mut c_void);
    pthread_spin_unlock(lock: *mut c_void);
    pthread_cond_wait(condition: *mut c_void, mutex: *mut c_void);
    pthread_cond_timedwait(condition: *mut c_void, mutex: *mut c_void, until: *const timespec);
    pthread_cond_clockwait(condition: *mut c_void, mutex: *mut c_void, clock: clockid_t, until: *const timespec);
    pthread_cond_signal(condition: *mut c_void);
    pthread_cond_broadcast(condition: *mut c_void);
}

/// Result for a function that was not found. While this thread looks functions up it is success,
/// since an allocator locks and releases then; otherwise the C library is too old to have the
/// function.
fn missing() -> c_int {
    match IS_LOOKING_UP.get() {
        true => 0,
        false => libc::ENOSYS,
    }
}

fn find(name: &str) -> *mut c_void {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
    // glibc keeps the conditions of before NPTL under the same names, with an older version.
    let has_versions =
        cfg!(target_arch = "x86_64") && name.to_bytes().starts_with(b"pthread_cond_");
    // SAFETY: plain look-ups by name.
    unsafe {
        if has_versions {
            let found = libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), c"GLIBC_2.3.2".as_ptr());
            if !found.is_null() {
                return found;
            }
        }
        libc::dlsym(libc::RTLD_NEXT, name.as_ptr())
    }
}
