//! Functions that only lock, count or allocate: their accesses say something about those who call them.
//!
//! With call chains, totals by function attribute such an access to the first function around it
//! that is none of them, be it inlined or called.

use std::str::FromStr;

use crate::by::{EmptyPattern, glob};

/// Functions that are skipped without being asked for. Names as reports have them; `*` stands for any
/// characters.
const ALWAYS: [&str; 58] = [
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

/// Returns true for a function of a runtime: of Go's, which names functions by their package, or one that starts a
/// thread or a program.
pub(crate) fn is_of_runtime(function: &str) -> bool {
    let packages = [
        "runtime.",
        "internal/runtime/",
        "runtime/internal/",
        "sync/atomic.",
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
