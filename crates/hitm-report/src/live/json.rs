//! Live locks as JSON; docs/formats/live.md describes the form.

use hitm_live::locks::Lock;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{
    LIVE_SCHEMA, LiveLocks, LockView, ProgramLocks, live_caller, live_lock, live_program,
    live_program_lock, live_run, live_thread,
};
use crate::json::{Fields, list};

/// The tables as one JSON object, indented, with a line feed at the end.
pub fn render(locks: &LiveLocks) -> String {
    let mut text = serde_json::to_string_pretty(&LocksJson(locks))
        .expect("tables are strings, numbers and lists of them");
    text.push('\n');
    text
}

struct LocksJson<'a>(&'a LiveLocks);

impl Serialize for LocksJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let locks: Vec<LockJson<'_>> = self.0.locks.iter().map(LockJson).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &LIVE_SCHEMA)?;
        map.serialize_entry("run", &Fields::new(live_run::ALL, &self.0.run))?;
        map.serialize_entry("locks", &locks)?;
        let program = self.0.program.as_ref().map(ProgramJson);
        map.serialize_entry("program", &program)?;
        map.end()
    }
}

struct ProgramJson<'a>(&'a ProgramLocks);

impl Serialize for ProgramJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let locks = list(live_program_lock::ALL, &self.0.locks);
        let mut map = serializer.serialize_map(None)?;
        Fields::new(live_program::ALL, self.0).write(&mut map)?;
        map.serialize_entry("locks", &locks)?;
        map.end()
    }
}

struct LockJson<'a>(&'a LockView);

impl Serialize for LockJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Lock {
            callers, threads, ..
        } = &self.0.lock;
        let mut map = serializer.serialize_map(None)?;
        Fields::new(live_lock::ALL, self.0).write(&mut map)?;
        map.serialize_entry("callers", &list(live_caller::ALL, callers))?;
        map.serialize_entry("threads", &list(live_thread::ALL, threads))?;
        map.end()
    }
}
