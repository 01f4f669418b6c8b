//! Call stacks of allocations.
//!
//! Unwinding is slow, so the observer unwinds once a call site: where a call returns to decides how
//! far below the next return address lies ([`crate::steps`]). A stack whose return addresses are all
//! known is walked word by word; only an unknown one is unwound, and makes its call sites known.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use crate::Site;
use crate::note;
use crate::own_stack;
use crate::steps::{Step, Steps};

/// Return addresses kept of a stack.
const DEPTH_MAX: usize = 16;

/// The call sites that have been unwound.
static STEPS: Steps = Steps::new();

#[derive(Clone, Copy)]
struct Stack {
    site: Site,
    depth: usize,
    /// Return addresses, innermost first.
    frames: [usize; DEPTH_MAX],
    /// Address on the stack of each of them.
    slots: [usize; DEPTH_MAX],
    /// The unwinder found no frame beyond the last one.
    is_whole: bool,
}

impl Stack {
    fn at(site: Site) -> Stack {
        Stack {
            site,
            depth: 0,
            frames: [0; DEPTH_MAX],
            slots: [0; DEPTH_MAX],
            is_whole: false,
        }
    }

    fn push(&mut self, frame: usize, slot: usize) {
        (self.frames[self.depth], self.slots[self.depth]) = (frame, slot);
        self.depth += 1;
    }
}

thread_local! {
    /// Set while this thread unwinds: the unwinder may allocate.
    static IS_UNWINDING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `use_stack` with the return addresses above `site`, innermost first.
pub(crate) fn with_stack(site: Site, use_stack: impl Fn(&[usize])) {
    let mut frames = [0; DEPTH_MAX];
    if let Some(depth) = walk(site, &mut frames) {
        return use_stack(&frames[..depth]);
    }
    let unwound = alone(|| {
        let stack = unwind(site);
        learn(&stack);
        use_stack(&stack.frames[..stack.depth]);
    });
    if unwound.is_none() {
        use_stack(&[site.0]);
    }
}

/// Calls `use_stack` with the return addresses above this library, unwound afresh: for calls that are
/// rare.
pub(crate) fn with_unwound_stack(use_stack: impl Fn(&[usize])) {
    let unwound = alone(|| {
        let mut stack = Stack::at((0, 0));
        // SAFETY: the callback gets back the pointer that is passed here, while the call lasts.
        unsafe { _Unwind_Backtrace(visit_any_frame, (&raw mut stack).cast()) };
        let frames = &stack.frames[..stack.depth];
        let own = library_of(own_code as *const () as usize);
        let outside = frames.iter().position(|frame| library_of(*frame) != own);
        use_stack(&frames[outside.unwrap_or(0)..]);
    });
    if unwound.is_none() {
        use_stack(&[]);
    }
}

/// Runs the unwinder, out of the recording; none inside of an unwinding on the same thread.
fn alone<T>(unwind: impl FnOnce() -> T) -> Option<T> {
    let is_nested = IS_UNWINDING
        .try_with(|unwinding| unwinding.replace(true))
        .unwrap_or(true);
    if is_nested {
        return None;
    }
    note::unwinding_begins();
    let result = own_stack::run(unwind);
    note::unwinding_ends();
    let _ = IS_UNWINDING.try_with(|unwinding| unwinding.set(false));
    Some(result)
}

/// Fills `frames` with the stack above `site`, by what is known of its call sites; their number.
fn walk(site: Site, frames: &mut [usize; DEPTH_MAX]) -> Option<usize> {
    let (mut frame, mut slot) = site;
    for (depth, place) in frames.iter_mut().enumerate() {
        let step = STEPS.of(frame)?;
        *place = frame;
        let Step::Up(bytes) = step else {
            return Some(depth + 1);
        };
        slot += bytes;
        if depth + 1 < DEPTH_MAX {
            // SAFETY: the call that returns to `frame` is under way, as it has a known return address
            // where its callee was called from. So its own return address is on this stack, that far up.
            frame = unsafe { *(slot as *const usize) };
        }
    }
    Some(DEPTH_MAX)
}

/// Makes the call sites of an unwound stack known.
fn learn(stack: &Stack) {
    for index in 1..stack.depth {
        let bytes = stack.slots[index].wrapping_sub(stack.slots[index - 1]);
        STEPS.learn(stack.frames[index - 1], Step::Up(bytes));
    }
    if stack.is_whole && stack.depth > 0 {
        STEPS.learn(stack.frames[stack.depth - 1], Step::Last);
    }
}

/// An address in this library.
fn own_code() {}

/// Returns the load address of the library that holds the code at `address`; 0 for none.
fn library_of(address: usize) -> usize {
    // SAFETY: the call only fills the description in.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address as *const c_void, &mut info);
        info.dli_fbase as usize
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
    let mut stack = Stack::at(site);
    // SAFETY: the callback gets back the pointer that is passed here, while the call lasts.
    unsafe { _Unwind_Backtrace(visit_frame, (&raw mut stack).cast()) };
    if stack.depth == 0 {
        // No unwind information: the caller is known all the same.
        stack.push(site.0, site.1);
    }
    stack.is_whole = stack.depth < DEPTH_MAX;
    stack
}

/// Called for each frame from this library outwards: keeps all.
unsafe extern "C" fn visit_any_frame(context: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: the argument is the stack that was passed with this callback; the context is the
    // unwinder's.
    let (stack, ip) = unsafe { (&mut *argument.cast::<Stack>(), _Unwind_GetIP(context)) };
    if stack.depth == DEPTH_MAX || ip == 0 {
        return STOP;
    }
    stack.push(ip, 0);
    GO_ON
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
        stack.push(ip, slot);
    }
    GO_ON
}
