//! Functions that only lock, count or allocate: their accesses say something about those who call them.
//!
//! With call chains, totals by function attribute such an access to the first function around it
//! that is none of them, be it inlined or called.

use std::str::FromStr;

use crate::by::{EmptyPattern, glob};

/// Functions that are skipped without being asked for. Names as reports have them; `*` stands for any
/// characters.
const ALWAYS: &[&str] = &[
    // The C library: locks, allocation.
    "*pthread_mutex_*",
    "*pthread_rwlock_*",
    "*pthread_spin_*",
    "*pthread_cond_*",
    "*pthread_barrier_*",
    "__condvar_*",
    "*lll_lock_*",
    "*lll_mutex_*",
    "*lll_unlock_*",
    "__futex_abstimed_wait*",
    "sem_post*",
    "sem_wait*",
    "__new_sem_*",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "*aligned_alloc",
    "posix_memalign",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "_int_malloc",
    "_int_free*",
    "_int_realloc",
    "sysmalloc",
    "malloc_consolidate",
    "tcache_*",
    "arena_get*",
    // hitm's observer of the heap, in front of the program's allocator.
    "observed_malloc",
    "observed_calloc",
    "observed_realloc",
    "observed_memalign",
    "observed_posix_memalign",
    // Atomics of the compiler.
    "__aarch64_*",
    "__atomic_*",
    "__sync_*",
    // C++.
    "operator new*",
    "operator delete*",
    "std::atomic*",
    "std::__atomic_*",
    "std::mutex::*",
    "std::shared_mutex::*",
    "std::unique_lock<*",
    "std::lock_guard<*",
    "std::scoped_lock<*",
    "std::condition_variable*",
    "__gthread_*",
    // Rust.
    "core::sync::atomic::*",
    "std::sys::sync::*",
    "std::sync::*",
    "parking_lot*",
    "lock_api::*",
    // Go.
    "runtime.lock*",
    "runtime.unlock*",
    "sync.(*",
    "internal/sync.(*",
    // Linux: spinning locks, their queues and what debuggers and hypervisors put in front of them.
    "spin_lock*",
    "spin_trylock*",
    "spin_unlock*",
    "_raw_read_*",
    "_raw_spin_*",
    "_raw_write_*",
    "__raw_read_*",
    "__raw_spin_*",
    "__raw_write_*",
    "do_raw_*lock*",
    "*queued_spin_*",
    "queued_read_*",
    "queued_write_*",
    "lockref_*",
    // Linux: locks that sleep.
    "mutex_lock*",
    "mutex_trylock*",
    "mutex_unlock*",
    "mutex_spin_on_owner",
    "mutex_can_spin_on_owner",
    "mutex_optimistic_spin",
    "__mutex_*lock*",
    "ww_mutex_*",
    "__ww_mutex_*",
    "osq_lock*",
    "osq_unlock*",
    "osq_wait_next*",
    "down_read*",
    "__down_read*",
    "down_write*",
    "__down_write*",
    "up_read*",
    "__up_read*",
    "up_write*",
    "__up_write*",
    "downgrade_write*",
    "rwsem_*",
    "percpu_down_*",
    "percpu_up_*",
    "percpu_rwsem_*",
    "__percpu_down_*",
    "__percpu_up_*",
    "down_interruptible",
    "down_killable",
    "down_trylock",
    "down_timeout",
    "rt_mutex_*",
    "__rt_mutex_*",
    "rt_read_*lock*",
    "rt_spin_*lock*",
    "rt_write_*lock*",
    "rtlock_slow*",
];

/// Names that match all of a function's name: `my_lock`, `*_trylock`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkippedFunctions {
    more: Vec<Glob>,
}

/// A pattern for a whole name, `*` for any characters and `?` for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl FromStr for Glob {
    type Err = EmptyPattern;

    fn from_str(text: &str) -> Result<Glob, EmptyPattern> {
        match text {
            "" => Err(EmptyPattern),
            text => Ok(Glob(text.to_owned())),
        }
    }
}

impl SkippedFunctions {
    /// The functions that are always skipped, and those that match `more`.
    pub fn with(more: Vec<Glob>) -> SkippedFunctions {
        SkippedFunctions { more }
    }

    /// Returns true if a function's accesses are its callers'.
    pub fn contains(&self, function: &str) -> bool {
        let mut more = self.more.iter().map(|pattern| pattern.0.as_str());
        let matches = |pattern: &str| glob(pattern.as_bytes(), function);
        ALWAYS.iter().any(|pattern| matches(pattern)) || more.any(matches)
    }
}

/// Returns true for a name that is skipped as an atomic operation: it stands for an instruction, as no lock does.
pub(crate) fn is_atomic(function: &str) -> bool {
    function.contains("atomic")
        || function.starts_with("__aarch64_")
        || function.starts_with("__sync_")
}

/// Returns true for a function of a runtime: of Go's, which names functions by their package, of V8's builtins, of
/// CPython's interpreter, or one that starts a thread or a program.
pub(crate) fn is_of_runtime(function: &str) -> bool {
    let packages = [
        "runtime.",
        "internal/runtime/",
        "runtime/internal/",
        "sync/atomic.",
        "Builtins_",
        "Builtin:",
        "_Py",
        "PyCOND_",
        "PyEval_",
        "PyMUTEX_",
        "PyObject_",
        "py_trampoline_",
    ];
    let starts = ["start_thread", "clone", "clone3", "_start"];
    packages.iter().any(|package| function.starts_with(package))
        || starts.contains(&function)
        || function.starts_with("__libc_start_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_linux_are_skipped_and_their_users_are_not() {
        let skipped = SkippedFunctions::default();
        for name in [
            "_raw_spin_lock",
            "_raw_spin_lock_irqsave",
            "_raw_spin_unlock_irqrestore",
            "_raw_read_lock",
            "_raw_write_lock_bh",
            "do_raw_spin_lock",
            "queued_spin_lock_slowpath",
            "native_queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "queued_read_lock_slowpath",
            "queued_write_lock_slowpath",
            "spin_lock",
            "lockref_get_not_zero",
            "mutex_lock",
            "mutex_lock_killable",
            "__mutex_lock.constprop.0",
            "__mutex_unlock_slowpath.isra.0",
            "mutex_spin_on_owner",
            "osq_lock",
            "down_read",
            "down_read_trylock",
            "__down_read_common",
            "down_write_killable",
            "up_read",
            "up_write",
            "rwsem_down_read_slowpath",
            "rwsem_down_write_slowpath",
            "rwsem_spin_on_owner",
            "percpu_down_write",
            "__percpu_down_read",
            "rt_mutex_lock",
            "rt_spin_lock",
            "rtlock_slowlock_locked",
            "__ww_mutex_lock_slowpath",
        ] {
            assert!(skipped.contains(name), "{name}");
        }
        for name in [
            "try_to_wake_up",
            "futex_wait_queue",
            "lock_sock_nested",
            "start_mutex_test",
            "group_read",
            "setup_write",
            "shutdown_read",
            "wake_up_read_waiters",
            "mutex_is_locked",
        ] {
            assert!(!skipped.contains(name), "{name}");
        }
    }

    #[test]
    fn locks_atomics_and_allocation_are_skipped() {
        let mut skipped = SkippedFunctions::default();
        for name in [
            "pthread_mutex_lock",
            "___pthread_mutex_lock",
            "__pthread_mutex_unlock_usercnt",
            "__lll_lock_wait",
            "lll_mutex_lock_optimized",
            "__aarch64_ldadd8_relax",
            "operator new(unsigned long)",
            "std::atomic<long>::operator++(int)",
            "core::sync::atomic::AtomicU64::fetch_add",
            "std::sys::sync::mutex::futex::Mutex::lock_contended",
            "parking_lot::raw_mutex::RawMutex::lock_slow",
            "runtime.lock2",
            "sync.(*Mutex).lockSlow",
            "observed_malloc",
        ] {
            assert!(skipped.contains(name), "{name}");
        }
        for name in ["worker", "my_lock", "malloc_stats_of_mine", "item_lock", ""] {
            assert!(!skipped.contains(name), "{name}");
        }
        skipped = SkippedFunctions::with(vec!["item_?ock".parse().unwrap()]);
        assert!(skipped.contains("item_lock") && skipped.contains("free"));
        assert!(!skipped.contains("item_lock_of"), "the whole name");
        assert_eq!("".parse::<Glob>(), Err(EmptyPattern));
    }
}
