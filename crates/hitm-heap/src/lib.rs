//! The heap observer: a library that is preloaded into the recorded program and stands before the
//! C library's allocator.
//!
//! Every allocation and every free is passed on to the next allocator and told to the recorder, by
//! a system call that no kernel knows. The recorder sees its arguments; the program sees nothing
//! (`errno` is untouched). The message is (operation, address, size, return addresses, their
//! count).
//!
//! Only the entry points that hand out memory are here, `mmap` among them. A program that links its own
//! allocator statically is not observed; its heap lines are named by their mapping.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod next;
mod note;
mod own_stack;
mod stack;
mod steps;

use std::ffi::{c_int, c_void};

use next::Allocator;
use note::{allocated, freed, mapped};

/// Defines an entry point that passes its caller's return address and stack pointer on, as two more
/// arguments after its own. Both are gone once compiled code has run.
macro_rules! entry_point {
    ($name:ident, $inner:ident, $return_address:literal, $stack_pointer:literal) => {
        /// The C library's function of this name, observed.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $return_address, ", [rsp]"),
                concat!("lea ", $stack_pointer, ", [rsp]"),
                "jmp {inner}",
                inner = sym $inner,
            )
        }
    };
}

entry_point!(malloc, observed_malloc, "rsi", "rdx");
entry_point!(calloc, observed_calloc, "rdx", "rcx");
entry_point!(realloc, observed_realloc, "rdx", "rcx");
entry_point!(memalign, observed_memalign, "rdx", "rcx");
entry_point!(aligned_alloc, observed_memalign, "rdx", "rcx");
entry_point!(posix_memalign, observed_posix_memalign, "rcx", "r8");

/// Call site of an allocation: the caller's return address, and its address on the stack.
type Site = (usize, usize);

unsafe extern "C" fn observed_malloc(size: usize, caller: usize, stack: usize) -> *mut c_void {
    // SAFETY: the caller's promise is the allocator's.
    let block = unsafe { Allocator::get().malloc(size) };
    allocated(block, size, (caller, stack))
}

unsafe extern "C" fn observed_calloc(
    count: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise is the allocator's.
    let block = unsafe { Allocator::get().calloc(count, size) };
    allocated(block, count.saturating_mul(size), (caller, stack))
}

unsafe extern "C" fn observed_realloc(
    old: *mut c_void,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut c_void {
    // Told first: once the block is free, another thread may get it.
    freed(old);
    // SAFETY: the caller's promise is the allocator's.
    let block = unsafe { Allocator::get().realloc(old, size) };
    // A block that could not grow is still there, and is named by its address alone.
    allocated(block, size, (caller, stack))
}

unsafe extern "C" fn observed_memalign(
    align: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> *mut c_void {
    // SAFETY: the caller's promise is the allocator's.
    let block = unsafe { Allocator::get().memalign(align, size) };
    allocated(block, size, (caller, stack))
}

unsafe extern "C" fn observed_posix_memalign(
    out: *mut *mut c_void,
    align: usize,
    size: usize,
    caller: usize,
    stack: usize,
) -> c_int {
    // SAFETY: the caller's promise is the allocator's.
    let status = unsafe { Allocator::get().posix_memalign(out, align, size) };
    if status == 0 {
        // SAFETY: on success the allocator has written the block's address.
        allocated(unsafe { *out }, size, (caller, stack));
    }
    status
}

/// The C library's `free`, observed.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    freed(block);
    // SAFETY: the caller's promise is the allocator's.
    unsafe { Allocator::get().free(block) }
}

/// The C library's `mmap`, observed: anonymous mappings are blocks like any other.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    addr: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the kernel checks every argument; the wrapper sets `errno` as the C library's does.
    let block = unsafe { libc::syscall(libc::SYS_mmap, addr, len, protection, flags, fd, offset) };
    let block = block as *mut c_void;
    if block != libc::MAP_FAILED && flags & libc::MAP_ANONYMOUS != 0 {
        mapped(block, len);
    }
    block
}

/// `mmap` under its other name.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    addr: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise is the same.
    unsafe { mmap(addr, len, protection, flags, fd, offset) }
}

/// The C library's `munmap`, observed.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(block: *mut c_void, len: usize) -> c_int {
    freed(block);
    // SAFETY: the kernel checks the range; what it holds is the caller's business.
    unsafe { libc::syscall(libc::SYS_munmap, block, len) as c_int }
}

/// Runs before `main`: takes this library out of `LD_PRELOAD`, so that the program and its children
/// find the environment that they would find anyway.
extern "C" fn clean_environment() {
    next::remove_self_from_preload();
}

#[used]
#[unsafe(link_section = ".init_array")]
static CLEAN_ENVIRONMENT: extern "C" fn() = clean_environment;
