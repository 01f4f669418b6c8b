//! How hitm's programs allocate: with mimalloc, in huge pages where the host has them. A program does
//! so by `use hitm_alloc as _;`.
//!
//! Simulations and replays go through tens or hundreds of megabytes in no order. With huge pages below
//! them the host looks up fewer addresses, and clears its memory at one go instead of page by page.

use libmimalloc_sys::{mi_option_large_os_pages, mi_option_set_enabled_default};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The first allocation decides for all, and comes before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = allow_huge_pages;

extern "C" fn allow_huge_pages() {
    // SAFETY: sets a number of the allocator's while there is one thread. The environment
    // (MIMALLOC_LARGE_OS_PAGES) goes before it.
    unsafe { mi_option_set_enabled_default(mi_option_large_os_pages, true) };
}
