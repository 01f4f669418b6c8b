//! Stacks of the observer's own.
//!
//! The unwinder needs more than two kilobytes, and a thread with the least stack there is has some ten
//! for itself. So it runs elsewhere, with signals blocked: a handler belongs on the thread's stack.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// Stacks: as many threads can unwind at a time without using their own.
const STACKS: usize = 16;
/// Four times what glibc's dynamic linker and the unwinder use together where a symbol is bound on the
/// way.
const STACK_BYTES: usize = 24 << 10;

#[repr(C, align(64))]
struct Stacks(UnsafeCell<[MaybeUninit<u8>; STACKS * STACK_BYTES]>);

// SAFETY: a part is used by the one thread that has its bit in `IN_USE`.
unsafe impl Sync for Stacks {}

static MEMORY: Stacks = Stacks(UnsafeCell::new(
    [MaybeUninit::uninit(); STACKS * STACK_BYTES],
));

/// A bit for each stack that a thread has. A child of fork keeps those of its parent's other threads.
static IN_USE: AtomicU32 = AtomicU32::new(0);

/// Runs `work` on a stack of the observer's own; on the thread's when none is free.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> T {
    let claim = |index: &usize| IN_USE.fetch_or(1 << index, Ordering::Acquire) & 1 << index == 0;
    let Some(index) = (0..STACKS).find(claim) else {
        return work();
    };
    let signals = block_signals();
    let result = run_on(index, work);
    restore_signals(signals);
    IN_USE.fetch_and(!(1 << index), Ordering::Release);
    result
}

fn run_on<T, F: FnOnce() -> T>(index: usize, work: F) -> T {
    struct Call<T, F> {
        work: Option<F>,
        result: Option<T>,
    }
    unsafe extern "C" fn call<T, F: FnOnce() -> T>(argument: *mut c_void) {
        // SAFETY: `run_on` passes its own, while it waits.
        let call = unsafe { &mut *argument.cast::<Call<T, F>>() };
        call.result = call.work.take().map(|work| work());
    }
    let mut this = Call {
        work: Some(work),
        result: None,
    };
    // SAFETY: the stack is this thread's, as its bit says, and its end is within the memory. `call` gets
    // the argument that it expects, and a panic ends the process there.
    unsafe {
        let end = MEMORY.0.get().cast::<u8>().add((index + 1) * STACK_BYTES);
        switch(end.cast(), (&raw mut this).cast(), call::<T, F>);
    }
    this.result.expect("the call has returned")
}

/// Calls `function` with `argument` on the stack that ends at `end`. Unwinders find the way back by
/// the frame pointer.
#[unsafe(naked)]
unsafe extern "C" fn switch(
    end: *mut c_void,
    argument: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rsi",
        "call rdx",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Blocks all signals; those that were blocked before.
fn block_signals() -> u64 {
    let mut before = 0;
    set_signals(libc::SIG_SETMASK, &u64::MAX, &mut before);
    before
}

fn restore_signals(before: u64) {
    set_signals(libc::SIG_SETMASK, &before, &mut 0);
}

fn set_signals(how: libc::c_int, mask: &u64, before: &mut u64) {
    // SAFETY: the kernel reads and writes a word each. It does not fail, so `errno` stays as it is.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            mask,
            before,
            size_of::<u64>(),
        )
    };
}
