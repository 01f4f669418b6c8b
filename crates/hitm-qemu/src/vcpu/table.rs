//! The states of all guest threads.

use std::ffi::c_uint;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Vcpu;

/// The states of all guest threads, by QEMU's index of them.
///
/// **Invariant:** a thread asks for its own index only, and holds one state at a time: that is what
/// makes the references sound.
#[derive(Debug)]
pub(crate) struct VcpuTable {
    /// Null until the thread runs its first block.
    states: Box<[AtomicPtr<Vcpu>]>,
}

#[allow(
    clippy::mut_from_ref,
    reason = "each pointer is used by its own thread only"
)]
impl VcpuTable {
    pub(crate) fn new(count_max: usize) -> VcpuTable {
        VcpuTable {
            states: (0..count_max).map(|_| AtomicPtr::default()).collect(),
        }
    }

    /// Forgets all threads but one, which is the only one of a forked child.
    pub(crate) fn forget_others(&self, index: c_uint) {
        for (other, state) in self.states.iter().enumerate() {
            if other != index as usize && !state.load(Ordering::Relaxed).is_null() {
                state.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
    }

    /// The calling thread's state, made at its first block.
    #[inline(always)]
    pub(crate) fn get_or_make(&self, index: c_uint, make: impl FnOnce() -> Vcpu) -> &mut Vcpu {
        match self.get(index) {
            Some(vcpu) => vcpu,
            None => self.put(index, make),
        }
    }

    /// The calling thread's state, if it has run.
    #[inline(always)]
    pub(crate) fn get(&self, index: c_uint) -> Option<&mut Vcpu> {
        let vcpu = self.states[index as usize].load(Ordering::Relaxed);
        // SAFETY: QEMU passes the index of the thread that it runs on; only that thread uses it.
        unsafe { vcpu.as_mut() }
    }

    /// Another thread gets the index. The old state is leaked: it is small, and its thread's last
    /// callbacks may still be running.
    pub(crate) fn forget(&self, index: c_uint) {
        self.states[index as usize].store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn put(&self, index: c_uint, make: impl FnOnce() -> Vcpu) -> &mut Vcpu {
        let vcpu = Box::leak(Box::new(make()));
        self.states[index as usize].store(vcpu, Ordering::Relaxed);
        vcpu
    }
}
