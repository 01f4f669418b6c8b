//! Files by build id from the servers of debuginfod, where the user has named some (`DEBUGINFOD_URLS`).
//!
//! elfutils' own client asks them: it keeps what it gets in the cache that hitm reads, remembers what no server
//! has, and speaks every protocol that the servers do.

use std::env;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::build_ids::hex;

/// The client (debuginfod-find(1)).
const CLIENT: &str = "debuginfod-find";

/// Set when servers were to be asked and there was no client.
static IS_MISSING: AtomicBool = AtomicBool::new(false);

/// The file of this kind, `debuginfo` or `executable`; none when no server is named, or none has it.
pub(super) fn fetch(build_id: &[u8], kind: &str) -> Option<PathBuf> {
    let urls = env::var_os("DEBUGINFOD_URLS")?;
    if build_id.len() < 2 || urls.as_encoded_bytes().trim_ascii().is_empty() {
        return None;
    }
    let mut client = Command::new(CLIENT);
    client.args([kind, &hex(build_id)]).stdin(Stdio::null());
    match io::stderr().is_terminal() {
        true => client.env("DEBUGINFOD_PROGRESS", "1"),
        false => client.stderr(Stdio::null()),
    };
    let output = match client.output() {
        Ok(output) => output,
        Err(error) => {
            IS_MISSING.fetch_or(error.kind() == io::ErrorKind::NotFound, Ordering::Relaxed);
            return None;
        }
    };
    let path = String::from_utf8(output.stdout).ok()?;
    let is_found = output.status.success() && path.starts_with('/');
    is_found.then(|| PathBuf::from(path.trim_end()))
}

/// Says that servers were not asked, if they were to be.
pub(super) fn diagnostic() -> Option<String> {
    let is_missing = IS_MISSING.load(Ordering::Relaxed);
    is_missing.then(|| {
        format!("DEBUGINFOD_URLS is set, and {CLIENT} is not installed: its servers were not asked")
    })
}
