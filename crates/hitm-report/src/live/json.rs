//! Live locks as JSON; docs/formats/live.md describes the form.

use hitm::live::LockWhatIf;

use super::{
    LIVE_SCHEMA, LiveLocks, LockView, ProgramLocks, holders, live_caller, live_lock, live_program,
    live_program_lock, live_run, live_thread, lock_whatif,
};
use crate::object::{Node, Object, list};

/// The tables as one JSON object, indented, with a line feed at the end. Answers of a what-if are a part of it.
pub fn render(locks: &LiveLocks, what_if: Option<&LockWhatIf>) -> String {
    let program = |program: &ProgramLocks| {
        let locks = list(live_program_lock::ALL, &program.locks);
        Object::of(live_program::ALL, program).with("locks", locks)
    };
    let lock = |view: &LockView| {
        Object::of(live_lock::ALL, view)
            .with_or_null("holders", view.lock.holders.as_ref().map(holders::object))
            .with("callers", list(live_caller::ALL, &view.lock.callers))
            .with("threads", list(live_thread::ALL, &view.lock.threads))
    };
    let mut all = Object::default()
        .with("schema", LIVE_SCHEMA)
        .with("run", Object::of(live_run::ALL, &locks.run))
        .with("locks", locks.locks.iter().map(lock).collect::<Node>())
        .with_or_null("program", locks.program.as_ref().map(program));
    if let Some(what_if) = what_if {
        all = all.with("what_if", lock_whatif::object(what_if));
    }
    all.text()
}
