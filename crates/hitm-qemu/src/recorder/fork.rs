//! Forks of a program, at the moment of the real one: the child gets whole tables and free locks
//! ([`crate::locks`]).

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::allocators::AllocatorsGuard;
use crate::guest_memory;
use crate::heap::HeapGuard;
use crate::locks::{self, RankedGuard};
use crate::timers::{self, Timers};

use super::callbacks::RECORDER;

type Held = (AllocatorsGuard, HeapGuard, RankedGuard<'static, Timers>);

thread_local! {
    /// Held by the thread that forks.
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// This process is a child and has not said so.
static IS_NEW_CHILD: AtomicBool = AtomicBool::new(false);

/// Has the C library call the handlers below at each fork.
pub(super) fn observe() -> Result<(), String> {
    // SAFETY: the handlers live as long as the process: QEMU never unloads the recorder.
    match unsafe { libc::pthread_atfork(Some(prepare), Some(end_in_parent), Some(end_in_child)) } {
        0 => Ok(()),
        _ => Err("there is no memory".into()),
    }
}

/// Returns true once in each child.
pub(super) fn take_new_child() -> bool {
    IS_NEW_CHILD.swap(false, Ordering::Relaxed)
}

/// Returns true for a child that has not said so.
pub(super) fn is_new_child() -> bool {
    IS_NEW_CHILD.load(Ordering::Relaxed)
}

extern "C" fn prepare() {
    locks::none_is_held("a fork");
    if let Some(recorder) = RECORDER.get() {
        // Another thread may be about to read it: its copy would wait for that thread for ever.
        recorder.cpus.topology();
        let (allocators, heap) = (recorder.allocators.hold(), recorder.heap.hold());
        HELD.set(Some((allocators, heap, timers::hold())));
    }
}

extern "C" fn end_in_parent() {
    HELD.take();
}

extern "C" fn end_in_child() {
    guest_memory::forked();
    HELD.take();
    IS_NEW_CHILD.store(true, Ordering::Relaxed);
}
