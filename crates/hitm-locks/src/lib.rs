//! The lock observer: a library that is preloaded into a program and interposes the C library's
//! locks.
//!
//! Each acquisition is tried first, which tells waiters from others without a system call. Counts
//! and times go to tables of each thread in a region that `hitm` provides (`layout`), so a killed
//! program loses nothing. Without a region every call is passed on unchanged.
//!
//! A signal handler that takes locks may interrupt a call: then a count may be lost, never memory.
//! Forced unwinding (cancellation) passes through, so nothing here has a destructor.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod clock;
#[path = "../../hitm-live/src/shim/layout.rs"]
#[allow(
    dead_code,
    reason = "the reader's half of the layout is compiled here as well"
)]
mod layout;
mod modules;
mod next;
mod process;
mod region;
mod thread;
mod usage;

use std::ffi::{c_int, c_void};

use layout::kind;
use libc::{clockid_t, timespec};
use usage::Subject;

/// Jumps to a function with the caller's return address as one more argument.
macro_rules! jump_with_site {
    ($inner:ident, $x86:literal, $arm:literal) => {
        #[cfg(target_arch = "x86_64")]
        core::arch::naked_asm!(
            concat!("mov ", $x86, ", [rsp]"),
            "jmp {inner}",
            inner = sym $inner,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::naked_asm!(
            concat!("mov ", $arm, ", x30"),
            "b {inner}",
            inner = sym $inner,
        );
    };
}

/// Defines an entry point whose body gets the caller's return address after the arguments.
macro_rules! entry_point {
    ($name:ident, $inner:ident ($($arg:ident: $type:ty),*) $site:ident, $x86:literal, $arm:literal, $body:expr) => {
        unsafe extern "C-unwind" fn $inner($($arg: $type,)* $site: usize) -> c_int {
            // SAFETY: the caller's promise is the C library's.
            unsafe { $body }
        }

        /// The C library's function of this name, observed.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            jump_with_site!($inner, $x86, $arm);
        }
    };
}

/// Defines the entry points of an acquisition with one, two and three arguments.
macro_rules! acquisitions {
    ($kind:expr; $try_name:ident $try_inner:ident,
     $name:ident $inner:ident,
     $timed_name:ident $timed_inner:ident,
     $clock_name:ident $clock_inner:ident) => {
        entry_point!($try_name, $try_inner(lock: *mut c_void) site, "rsi", "x1",
            usage::attempt(&Subject::new(lock, $kind, site), || next::$try_name(lock)));
        entry_point!($name, $inner(lock: *mut c_void) site, "rsi", "x1",
            usage::acquire(&Subject::new(lock, $kind, site),
                || next::$try_name(lock), || next::$name(lock)));
        entry_point!($timed_name, $timed_inner(lock: *mut c_void, until: *const timespec) site,
            "rdx", "x2",
            usage::acquire(&Subject::new(lock, $kind, site),
                || next::$try_name(lock), || next::$timed_name(lock, until)));
        entry_point!($clock_name,
            $clock_inner(lock: *mut c_void, clock: clockid_t, until: *const timespec) site,
            "rcx", "x3",
            usage::acquire(&Subject::new(lock, $kind, site),
                || next::$try_name(lock), || next::$clock_name(lock, clock, until)));
    };
}

acquisitions!(kind::MUTEX;
    pthread_mutex_trylock mutex_trylock,
    pthread_mutex_lock mutex_lock,
    pthread_mutex_timedlock mutex_timedlock,
    pthread_mutex_clocklock mutex_clocklock);
acquisitions!(kind::READ;
    pthread_rwlock_tryrdlock rwlock_tryrdlock,
    pthread_rwlock_rdlock rwlock_rdlock,
    pthread_rwlock_timedrdlock rwlock_timedrdlock,
    pthread_rwlock_clockrdlock rwlock_clockrdlock);
acquisitions!(kind::WRITE;
    pthread_rwlock_trywrlock rwlock_trywrlock,
    pthread_rwlock_wrlock rwlock_wrlock,
    pthread_rwlock_timedwrlock rwlock_timedwrlock,
    pthread_rwlock_clockwrlock rwlock_clockwrlock);

entry_point!(pthread_spin_trylock, spin_trylock(lock: *mut c_void) site, "rsi", "x1",
    usage::attempt(&Subject::new(lock, kind::SPIN, site), || next::pthread_spin_trylock(lock)));
entry_point!(pthread_spin_lock, spin_lock(lock: *mut c_void) site, "rsi", "x1",
    usage::acquire(&Subject::new(lock, kind::SPIN, site),
        || next::pthread_spin_trylock(lock), || next::pthread_spin_lock(lock)));

entry_point!(pthread_cond_wait, cond_wait(condition: *mut c_void, mutex: *mut c_void) site,
    "rdx", "x2",
    usage::wait(&Subject::new(condition, kind::CONDITION, site), mutex as usize,
        || next::pthread_cond_wait(condition, mutex)));
entry_point!(pthread_cond_timedwait,
    cond_timedwait(condition: *mut c_void, mutex: *mut c_void, until: *const timespec) site,
    "rcx", "x3",
    usage::wait(&Subject::new(condition, kind::CONDITION, site), mutex as usize,
        || next::pthread_cond_timedwait(condition, mutex, until)));
entry_point!(pthread_cond_clockwait,
    cond_clockwait(condition: *mut c_void, mutex: *mut c_void, clock: clockid_t, until: *const timespec) site,
    "r8", "x4",
    usage::wait(&Subject::new(condition, kind::CONDITION, site), mutex as usize,
        || next::pthread_cond_clockwait(condition, mutex, clock, until)));
entry_point!(pthread_cond_signal, cond_signal(condition: *mut c_void) site, "rsi", "x1",
    usage::signal(&Subject::new(condition, kind::CONDITION, site),
        || next::pthread_cond_signal(condition)));
entry_point!(pthread_cond_broadcast, cond_broadcast(condition: *mut c_void) site, "rsi", "x1",
    usage::signal(&Subject::new(condition, kind::CONDITION, site),
        || next::pthread_cond_broadcast(condition)));

/// Defines the entry point of a release.
macro_rules! release {
    ($name:ident, $kinds:expr) => {
        /// The C library's function of this name, observed.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(lock: *mut c_void) -> c_int {
            // SAFETY: the caller's promise is the C library's.
            usage::release(lock as usize, $kinds, || unsafe { next::$name(lock) })
        }
    };
}

release!(pthread_mutex_unlock, &[kind::MUTEX]);
release!(pthread_rwlock_unlock, &[kind::WRITE, kind::READ]);
release!(pthread_spin_unlock, &[kind::SPIN]);

/// Runs before `main`: maps the region.
extern "C" fn start() {
    next::look_up();
    region::open();
    if region::get().is_some() {
        thread::prepare();
        process::follow_forks();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
