//! Extensions of time slices: include/linux/rseq_entry.h and kernel/rseq.c, v7.0.
//!
//! **What Linux does:** a thread says in a word of its own memory that it would rather not lose the CPU
//! now. An interrupt that would have taken it looks at the word before it returns to user mode. It takes
//! the request back, writes that the time was granted, forgets that the task was to go, and starts a
//! timer of 5 us. The thread that leaves its critical section finds that it was granted, and gives the
//! CPU up by a system call. When the timer is first, the next return to user mode takes the CPU. So a
//! request is granted once.
//!
//! **What we do:** the same, with the word on a line of its own and the timer among those of the CPU.
//!
//! **What a test could notice:** the timer is not taken back when the thread yields; it finds nothing
//! to do. A thread that has been granted time and makes another system call is not scheduled there.

use std::cell::Cell;
use std::rc::Rc;

use super::functions as f;
use super::hrtimer::Expiry;
use super::preempt::EXIT_RESCHED;
use super::process::Thread;
use super::task::{TIF_NEED_RESCHED, Task};
use super::{Kernel, Mechanism};
use crate::engine::{MemberKey, Place, Rmw};

/// The thread asks for time.
const REQUEST: u64 = 1;
/// The kernel has granted it.
const GRANTED: u64 = 2;

/// A thread's part of it.
#[derive(Debug, Default)]
pub(super) struct SliceExtension {
    /// `rseq.slice_ctrl`; absent until the thread first asks.
    word: Cell<Option<Place>>,
    /// The number of the grant that lasts.
    granted: Cell<Option<u64>>,
    grants: Cell<u64>,
}

impl Thread {
    /// Asks the kernel for some time more, from here to [`Thread::slice_end`], if the CPU should be
    /// wanted. Nothing where the kernel has no such extension.
    pub async fn slice_request(&self) {
        let kernel = &self.kernel;
        if !kernel.has(Mechanism::SliceExtension) {
            return;
        }
        let slice = &self.task.slice;
        let word = slice.word.get().unwrap_or_else(|| {
            let key = MemberKey::new("rseq", "slice_ctrl", 0);
            kernel.engine.place(kernel.user_line(), self.cpu(), key)
        });
        slice.word.set(Some(word));
        kernel.engine.store(f::USER, word, REQUEST).await;
    }

    /// The critical section is over: takes the request back, or gives the CPU up if time was granted.
    pub async fn slice_end(&self) {
        let engine = &self.kernel.engine;
        let Some(word) = self.task.slice.word.get() else {
            return;
        };
        let seen = engine.load(f::USER, word).await;
        if seen & GRANTED == 0 {
            engine.store(f::USER, word, 0).await;
            return;
        }
        self.enter();
        if self.task.slice.granted.take().is_some() {
            engine.store(f::RSEQ_SLICE_YIELD, word, 0).await;
            self.kernel.schedule().await;
        }
        self.leave().await;
    }
}

impl Kernel {
    /// The running task shall go, and an interrupt is about to return to its user code: true when it
    /// may stay for a while.
    pub(super) async fn grant_slice_extension(&self, task: &Rc<Task>) -> bool {
        let (engine, site) = (&self.engine, f::RSEQ_GRANT_SLICE_EXTENSION);
        let slice = &task.slice;
        let Some(word) = slice.word.get() else {
            return false;
        };
        if slice.granted.take().is_some() {
            // The time is up.
            engine.store(site, word, 0).await;
            self.count(|counts| counts.slices_expired += 1);
            return false;
        }
        if engine.load(site, word).await & REQUEST == 0 {
            return false;
        }
        engine.store(site, word, GRANTED).await;
        engine
            .rmw(site, task.p.flags, Rmw::And(!EXIT_RESCHED))
            .await;
        let number = slice.grants.get();
        slice.grants.set(number + 1);
        slice.granted.set(Some(number));
        self.count(|counts| counts.slices_extended += 1);
        let end = engine.now() + self.costs.slice_extension;
        let expiry = Expiry::SliceEnd(task.id, number);
        self.hrtimer_start_for(expiry, end).await;
        true
    }

    /// The time that was granted to a task of this CPU is up. Interrupts are off.
    pub(super) async fn slice_extension_expired(&self, task: &Task, number: u64) {
        let rq = self.rq(self.engine.cpu());
        if rq.curr.get() == task.id && task.slice.granted.get() == Some(number) {
            let must_go = Rmw::Or(TIF_NEED_RESCHED);
            let site = f::RSEQ_GRANT_SLICE_EXTENSION;
            self.engine.rmw(site, task.p.flags, must_go).await;
        }
    }
}
