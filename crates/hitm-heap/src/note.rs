//! Messages to the recorder.

use std::ffi::c_void;

use crate::Site;
use crate::stack;

/// The number of the system call that carries a message; the recorder knows it as `HEAP_NOTE`.
const HEAP_NOTE: usize = 0x4849_544d;
const ALLOCATED: usize = 1;
const FREED: usize = 2;
const UNWINDING_BEGINS: usize = 3;
const UNWINDING_ENDS: usize = 4;

/// Tells of a block that was handed out; returns it.
pub(crate) fn allocated(block: *mut c_void, size: usize, site: Site) -> *mut c_void {
    if !block.is_null() && size > 0 {
        stack::with_stack(site, |frames| {
            send([
                ALLOCATED,
                block as usize,
                size,
                frames.as_ptr() as usize,
                frames.len(),
            ]);
        });
    }
    block
}

/// Tells of an anonymous mapping.
pub(crate) fn mapped(block: *mut c_void, size: usize) {
    stack::with_unwound_stack(|frames| {
        send([
            ALLOCATED,
            block as usize,
            size,
            frames.as_ptr() as usize,
            frames.len(),
        ]);
    });
}

/// Tells of a block that is given back.
pub(crate) fn freed(block: *mut c_void) {
    if !block.is_null() {
        send([FREED, block as usize, 0, 0, 0]);
    }
}

/// Sets aside all that this thread does from here on: it is no part of the program.
pub(crate) fn unwinding_begins() {
    send([UNWINDING_BEGINS, 0, 0, 0, 0]);
}

/// The thread resumes its program.
pub(crate) fn unwinding_ends() {
    send([UNWINDING_ENDS, 0, 0, 0, 0]);
}

/// Makes the system call itself: the C library's wrapper would set `errno`.
fn send(message: [usize; 5]) {
    let [operation, addr, size, stack, depth] = message;
    // SAFETY: no kernel has this call, so it changes nothing but the registers that are named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") HEAP_NOTE => _,
            in("rdi") operation,
            in("rsi") addr,
            in("rdx") size,
            in("r10") stack,
            in("r8") depth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
}
