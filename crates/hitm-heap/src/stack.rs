//! Call stacks of allocations.
//!
//! Unwinding is slow, so each thread remembers the stacks that it has unwound, by the caller's
//! return address and the stack pointer. A remembered stack is used again only when every return
//! address is still where the unwinder found it.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};

use crate::Site;

/// Return addresses kept of a stack.
const DEPTH_MAX: usize = 16;
/// Stacks that a thread remembers; a power of two.
const REMEMBERED: usize = 64;

#[derive(Clone, Copy)]
struct Stack {
    site: Site,
    depth: usize,
    /// Return addresses, innermost first.
    frames: [usize; DEPTH_MAX],
    /// Where on the stack each of them lies.
    slots: [usize; DEPTH_MAX],
}

const EMPTY: Stack = Stack {
    site: (0, 0),
    depth: 0,
    frames: [0; DEPTH_MAX],
    slots: [0; DEPTH_MAX],
};

thread_local! {
    static STACKS: UnsafeCell<[Stack; REMEMBERED]> = const { UnsafeCell::new([EMPTY; REMEMBERED]) };
    /// Set while this thread unwinds: the unwinder may allocate.
    static IS_UNWINDING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `use_stack` with the return addresses above `site`, innermost first.
pub(crate) fn with_stack(site: Site, use_stack: impl FnOnce(&[usize])) {
    let is_nested = IS_UNWINDING
        .try_with(|unwinding| unwinding.replace(true))
        .unwrap_or(true);
    if is_nested {
        use_stack(&[site.0]);
        return;
    }
    let used = STACKS.try_with(|stacks| {
        // SAFETY: the flag above keeps a nested call on this thread out.
        let stacks = unsafe { &mut *stacks.get() };
        let stack = &mut stacks[(site.0 ^ site.1 >> 4) % REMEMBERED];
        if stack.site != site || !stack.is_still_there() {
            *stack = unwind(site);
        }
        use_stack(&stack.frames[..stack.depth]);
    });
    debug_assert!(used.is_ok(), "the flag's storage outlived the stacks'");
    let _ = IS_UNWINDING.try_with(|unwinding| unwinding.set(false));
}

/// Calls `use_stack` with the return addresses above this library, unwound afresh: for calls that are
/// rare.
pub(crate) fn with_unwound_stack(use_stack: impl FnOnce(&[usize])) {
    let is_nested = IS_UNWINDING
        .try_with(|unwinding| unwinding.replace(true))
        .unwrap_or(true);
    if is_nested {
        use_stack(&[]);
        return;
    }
    let mut stack = EMPTY;
    // SAFETY: the callback gets back the pointer that is passed here, while the call lasts.
    unsafe { _Unwind_Backtrace(visit_any_frame, (&raw mut stack).cast()) };
    let frames = &stack.frames[..stack.depth];
    let own = library_of(with_stack_marker as *const () as usize);
    let outside = frames
        .iter()
        .position(|frame| library_of(*frame) != own)
        .unwrap_or(0);
    use_stack(&frames[outside..]);
    let _ = IS_UNWINDING.try_with(|unwinding| unwinding.set(false));
}

/// An address in this library.
fn with_stack_marker() {}

/// Where the library that holds the code at `address` is loaded; 0 for none.
fn library_of(address: usize) -> usize {
    // SAFETY: the call only fills the description in.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address as *const c_void, &mut info);
        info.dli_fbase as usize
    }
}

/// Called for each frame from this library outwards: keeps all.
unsafe extern "C" fn visit_any_frame(context: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the stack that was passed with this callback; the context is the
    // unwinder's.
    let (stack, ip) = unsafe { (&mut *argument.cast::<Stack>(), _Unwind_GetIP(context)) };
    if stack.depth == DEPTH_MAX || ip == 0 {
        return STOP;
    }
    stack.frames[stack.depth] = ip;
    stack.depth += 1;
    GO_ON
}

impl Stack {
    fn is_still_there(&self) -> bool {
        let mut frames = self.frames[..self.depth].iter().zip(&self.slots);
        // SAFETY: the slots lie above the present stack pointer, which is where it was when they
        // were found: the memory is part of this thread's stack.
        frames.all(|(frame, slot)| unsafe { *(*slot as *const usize) } == *frame)
    }
}

enum UnwindContext {}
type TraceFn = unsafe extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int;

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(trace: TraceFn, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
    fn _Unwind_GetCFA(context: *mut UnwindContext) -> usize;
}

/// `_URC_NO_REASON` and `_URC_END_OF_STACK`.
const GO_ON: c_int = 0;
const STOP: c_int = 5;

fn unwind(site: Site) -> Stack {
    let mut stack = Stack { site, ..EMPTY };
    // SAFETY: the callback gets back the pointer that is passed here, while the call lasts.
    unsafe { _Unwind_Backtrace(visit_frame, (&raw mut stack).cast()) };
    if stack.depth == 0 {
        // No unwind information: the caller is known all the same.
        (stack.frames[0], stack.slots[0], stack.depth) = (site.0, site.1, 1);
    }
    stack
}

/// Called for each frame from this library outwards; keeps those from the caller of the allocator on.
unsafe extern "C" fn visit_frame(context: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the stack that `unwind` passes; the context is the unwinder's.
    let (stack, ip, cfa) = unsafe {
        (
            &mut *argument.cast::<Stack>(),
            _Unwind_GetIP(context),
            _Unwind_GetCFA(context),
        )
    };
    if stack.depth == DEPTH_MAX || ip == 0 {
        return STOP;
    }
    // `_Unwind_GetCFA` in a frame's context is the stack pointer after the call returned into it:
    // the return address lies in the word below.
    let slot = cfa.wrapping_sub(size_of::<usize>());
    if stack.depth > 0 || slot == stack.site.1 {
        stack.frames[stack.depth] = ip;
        stack.slots[stack.depth] = slot;
        stack.depth += 1;
    }
    GO_ON
}
