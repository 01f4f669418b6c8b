//! Long work without the interpreter's lock, which Ctrl-C ends.
//!
//! The work runs on a thread of its own; the calling thread polls the interpreter for signals.
//! Cancelled work unwinds from its next progress report, without the facade's knowledge.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// Interval between polls for signals.
const POLL: Duration = Duration::from_millis(50);

/// Payload of cancelled work that unwinds.
struct Cancelled;

/// Set when the user cancels the work.
#[derive(Debug, Default)]
pub(crate) struct Cancel(AtomicBool);

impl Cancel {
    /// True if the work is cancelled.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Unwinds when the work is cancelled. For callbacks without another way out.
    pub(crate) fn check(&self) {
        if self.is_set() {
            resume_unwind(Box::new(Cancelled));
        }
    }
}

/// Runs `work` on a thread of its own; `poll` is called with the lock every 50 ms.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> T + Send,
    poll: impl Fn(Python<'_>) -> PyResult<()> + Send,
) -> PyResult<T> {
    let cancel = &Cancel::default();
    let (done, wait) = mpsc::channel::<()>();
    let (result, raised) = py.detach(move || {
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let result = catch_unwind(AssertUnwindSafe(|| work(cancel)));
                drop(done);
                result
            });
            let mut raised = None;
            while wait.recv_timeout(POLL) == Err(mpsc::RecvTimeoutError::Timeout) {
                let looked = Python::attach(|py| py.check_signals().and_then(|()| poll(py)));
                if let Err(error) = looked
                    && raised.is_none()
                {
                    raised = Some(error);
                    cancel.0.store(true, Ordering::Relaxed);
                }
            }
            (worker.join().expect("the worker catches panics"), raised)
        })
    });
    match (result, raised) {
        (_, Some(error)) => Err(error),
        (Ok(value), None) => Ok(value),
        (Err(payload), None) if payload.is::<Cancelled>() => {
            Err(PyKeyboardInterrupt::new_err("cancelled"))
        }
        (Err(payload), None) => resume_unwind(payload),
    }
}
