//! Quantities of a live lock's callers and threads.

use hitm_fields::fields;
use hitm_live::locks::{LockCaller, LockThread};

fields! {
    /// Of a caller.
    pub live_caller for LockCaller {
        /// Functions from the one that takes the lock outwards.
        chain => name "called by";
        /// Samples that waited there.
        waiting_samples => count "samples", |caller| caller.samples;
        /// Time of the waits there that the kernel's tracepoints saw.
        wait_ns => nanos "waits", |caller| caller.traced_ns;
    }
}

fields! {
    /// Of a thread of a lock.
    pub live_thread for LockThread {
        /// Its process.
        pid => number "pid", |part| part.thread.pid;
        /// Its number.
        tid => number "tid", |part| part.thread.tid;
        /// Its name.
        comm => name "thread", |part| part.thread.comm;
        /// Time for which it held the lock while it ran.
        held_ns => nanos "held";
        /// CPU time that it spent waiting for the lock.
        waited_ns => nanos "waited";
    }
}
