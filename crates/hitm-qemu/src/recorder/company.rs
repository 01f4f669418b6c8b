//! A process with one thread that shares no memory: nothing can come of its accesses, and nobody looks at them.
//!
//! Before a second thread or process comes, QEMU is asked to translate all again, now with callbacks of accesses. At
//! the first thread, and at the first mapping that is shared, it does so by itself, for code that runs in parallel
//! (`CF_PARALLEL`). A file that is shared and only read is no company: many programs map one of the C library's
//! (`gconv-modules.cache`).
//!
//! What the thread has written by then is its own, by page, as if it had done so just now: nobody knows when it did.
//! Whoever comes soon shares those lines with it, whoever comes later takes them over.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::{Api, PluginId};
use crate::guest::Syscall;
use crate::mappings;
use crate::vcpu::Vcpu;

use super::Recorder;
use super::callbacks::register;

/// Bytes of a mapping that are looked through for pages: those beyond count as untouched. Looking takes some
/// milliseconds.
const LOOKED_AT_MAX: u64 = 8 << 30;

/// Company of the process: who may see what it does to its memory.
#[derive(Debug)]
pub(super) struct Company {
    id: PluginId,
    is_none: AtomicBool,
    /// QEMU translates for code that runs in parallel, and will not begin to.
    is_parallel: AtomicBool,
    /// QEMU is to be asked to translate all again.
    comes: AtomicBool,
}

impl Company {
    /// Of a process that begins, and that `may_be_alone`.
    pub(super) fn new(id: PluginId, may_be_alone: bool) -> Company {
        Company {
            id,
            is_none: AtomicBool::new(may_be_alone),
            is_parallel: AtomicBool::new(false),
            comes: AtomicBool::new(false),
        }
    }

    /// Returns true while the process's accesses are nobody else's business.
    pub(super) fn is_none(&self) -> bool {
        self.is_none.load(Ordering::Relaxed)
    }

    /// The thread waits in a block that begins: has all translated again if that is to be.
    #[cold]
    pub(super) fn come(&self, api: &Api) {
        if self.comes.load(Ordering::Relaxed) && self.comes.swap(false, Ordering::Relaxed) {
            api.reset(self.id, register);
        }
    }
}

impl Recorder {
    /// A system call begins after which the process may have company.
    pub(super) fn expect_company(
        &self,
        vcpu: &mut Vcpu,
        kind: Syscall,
        number: i64,
        args: &[u64; 6],
    ) {
        const SHARED: u64 = libc::MAP_SHARED as u64;
        const STACK: u64 = libc::MAP_STACK as u64;
        const WRITE: u64 = libc::PROT_WRITE as u64;
        let company = &self.company;
        if !company.is_none() {
            return;
        }
        let [_, _, protection, flags, ..] = *args;
        let comes = match kind {
            Syscall::ShmAt => true,
            Syscall::Mmap if flags & SHARED != 0 => {
                company.is_parallel.store(true, Ordering::Relaxed);
                protection & WRITE != 0
            }
            // A thread's, which comes a little later: there is time to translate all again.
            Syscall::Mmap => flags & STACK != 0,
            Syscall::Clone if !self.forks(number, args) => {
                let is_parallel = company.is_parallel.load(Ordering::Relaxed);
                return self.begin_company(vcpu, is_parallel);
            }
            _ => false,
        };
        if comes {
            self.begin_company(vcpu, true);
        }
    }

    /// The process has company from here on. If QEMU does not by itself, it is to translate all `again`.
    pub(super) fn begin_company(&self, vcpu: &mut Vcpu, again: bool) {
        if !self.company.is_none.swap(false, Ordering::Relaxed) {
            return;
        }
        for range in mappings::writable() {
            for page in mappings::present_pages(range, LOOKED_AT_MAX) {
                vcpu.own_untouched(page);
            }
        }
        if again {
            self.company.comes.store(true, Ordering::Relaxed);
            vcpu.limit = 0;
        }
    }
}
