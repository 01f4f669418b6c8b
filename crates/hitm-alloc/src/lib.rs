//! Allocator of hitm's programs: mimalloc, in huge pages where the host has them. `use hitm_alloc
//! as _;` selects it for a program.
//!
//! Simulations and replays access tens or hundreds of megabytes at random. With huge pages the host
//! has fewer TLB misses, and clears memory in large pieces instead of page by page.

use libmimalloc_sys::{mi_option_large_os_pages, mi_option_set_enabled_default};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The first allocation fixes the setting, and comes before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = allow_huge_pages;

extern "C" fn allow_huge_pages() {
    // SAFETY: sets a number of the allocator's while there is one thread. The environment
    // (MIMALLOC_LARGE_OS_PAGES) overrides it.
    unsafe { mi_option_set_enabled_default(mi_option_large_os_pages, true) };
}
