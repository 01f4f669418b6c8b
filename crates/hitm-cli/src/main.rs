//! The `hitm` program: see `hitm_cli`.

use std::process::ExitCode;

use hitm_cli::{Terminal, guarded, run};
use libmimalloc_sys::{mi_option_large_os_pages, mi_option_set_enabled_default};
use mimalloc::MiMalloc;

/// Simulations of hundreds of CPUs go through tens of megabytes in no order, and with huge pages below
/// them the host looks up fewer addresses and has fewer pages to clear, one by one, at their start.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The first allocation decides about all, and comes before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = allow_huge_pages;

extern "C" fn allow_huge_pages() {
    // SAFETY: sets a number of the allocator's, while there is one thread.
    unsafe { mi_option_set_enabled_default(mi_option_large_os_pages, true) };
}

fn main() -> ExitCode {
    let exit = guarded(|| run(std::env::args_os(), &mut Terminal::of_this_process()));
    ExitCode::from(exit.code())
}
