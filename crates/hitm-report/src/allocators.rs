//! Functions of memory allocators: a lock or a list that they fight over is the allocator's, and its remedies
//! are not those of the program's own.

/// Beginnings of the names of functions of glibc, jemalloc, mimalloc, tcmalloc and C++'s operators, without the
/// underscores before them.
const FUNCTIONS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "free",
    "cfree",
    "libc_malloc",
    "libc_calloc",
    "libc_realloc",
    "libc_free",
    "int_malloc",
    "int_free",
    "int_realloc",
    "int_memalign",
    "sysmalloc",
    "systrim",
    "arena_get",
    "tcache_",
    "je_",
    "rje_",
    "mi_",
    "tc_malloc",
    "tc_free",
    "tcmalloc",
    "operator new",
    "operator delete",
];

/// Returns true for a function of an allocator.
pub(crate) fn is_of_allocator(function: &str) -> bool {
    let bare = function.trim_start_matches('_');
    FUNCTIONS.iter().any(|begin| bare.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_known_by_their_functions() {
        for function in [
            "malloc",
            "_int_free",
            "__libc_malloc",
            "_mi_free",
            "operator new(unsigned long)",
        ] {
            assert!(is_of_allocator(function), "{function}");
        }
        for function in ["main", "read", "take_slot", "queue::free"] {
            assert!(!is_of_allocator(function), "{function}");
        }
    }
}
