//! Live locks as JSON; docs/formats/live.md describes the form.

use super::{
    LIVE_SCHEMA, LiveLocks, LockView, ProgramLocks, holders, live_caller, live_lock, live_program,
    live_program_lock, live_run, live_thread,
};
use crate::object::{Node, Object, list};

/// The tables as one JSON object, indented, with a line feed at the end.
pub fn render(locks: &LiveLocks) -> String {
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
    let all = Object::default()
        .with("schema", LIVE_SCHEMA)
        .with("run", Object::of(live_run::ALL, &locks.run))
        .with("locks", locks.locks.iter().map(lock).collect::<Node>())
        .with_or_null("program", locks.program.as_ref().map(program));
    all.text()
}
