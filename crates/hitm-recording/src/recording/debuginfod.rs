//! Files by build id from the servers of debuginfod, where the user has named some (`DEBUGINFOD_URLS`).
//!
//! elfutils' own client asks them: it keeps what it gets in the cache that hitm reads, remembers what no server
//! has, and speaks every protocol that the servers do.
//!
//! A server may answer with anything, for ever. The client has limits of its own, which hitm sets
//! where the user does not. It does not know the size of
//! an answer without a length, so the kernel holds it to that as well (`RLIMIT_FSIZE`), and a client
//! beyond its time is killed. Servers that have cost too much time for nothing are asked no more.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hitm_files::temporary;

use super::build_ids::hex;

/// The client (debuginfod-find(1)).
const CLIENT: &str = "debuginfod-find";
/// Longest path that the client may answer.
const PATH_BYTES_MAX: u64 = 4096;
/// Time in which the client ends by itself after its own limit.
const GRACE: Duration = Duration::from_secs(5);
/// Time beyond which an answer that has no file counts as lost: one that says so is fast.
const SLOW: Duration = Duration::from_secs(1);
/// Time between two looks for the client's end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A limit of the client's, by the variable that sets it.
struct Limit {
    variable: &'static str,
    default: u64,
}

/// Seconds in which a server must begin to answer, or go on.
const TIMEOUT: Limit = Limit {
    variable: "DEBUGINFOD_TIMEOUT",
    default: 30,
};
/// Seconds for a whole file.
const MAXTIME: Limit = Limit {
    variable: "DEBUGINFOD_MAXTIME",
    default: 300,
};
/// Further attempts.
const RETRIES: Limit = Limit {
    variable: "DEBUGINFOD_RETRY_LIMIT",
    default: 0,
};
/// Bytes of a file. Debug information of browsers and kernels has up to some GB.
const MAXSIZE: Limit = Limit {
    variable: "DEBUGINFOD_MAXSIZE",
    default: 4 << 30,
};

impl Limit {
    /// The limit: the user's, else ours. Zero stands for none.
    fn value(&self) -> u64 {
        let text = env::var(self.variable).unwrap_or_default();
        text.trim().parse().unwrap_or(self.default)
    }
}

/// Set when servers were to be asked and there was no client.
static IS_MISSING: AtomicBool = AtomicBool::new(false);
/// Milliseconds that requests took which brought nothing.
static LOST_MILLIS: AtomicU64 = AtomicU64::new(0);

/// The file of this kind, `debuginfo` or `executable`; none when no server is named, or none has it.
pub(super) fn fetch(build_id: &[u8], kind: &str) -> Option<PathBuf> {
    let urls = env::var_os("DEBUGINFOD_URLS")?;
    if build_id.len() < 2 || urls.as_encoded_bytes().trim_ascii().is_empty() || has_given_up() {
        return None;
    }
    let begin = Instant::now();
    let found = ask(kind, &hex(build_id)).ok().flatten();
    let time = begin.elapsed();
    if found.is_none() && time >= SLOW {
        LOST_MILLIS.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
    found
}

/// Returns true once requests took as long for nothing as one server may.
fn has_given_up() -> bool {
    let patience = TIMEOUT.value().saturating_mul(1000);
    patience > 0 && LOST_MILLIS.load(Ordering::Relaxed) >= patience
}

fn ask(kind: &str, build_id: &str) -> io::Result<Option<PathBuf>> {
    // A file, unlike a pipe, makes nobody wait, and has the same limit as what is fetched.
    let mut answer = temporary::unnamed_file()?;
    let mut client = Command::new(CLIENT);
    client.args([kind, build_id]).stdin(Stdio::null());
    client.stdout(answer.try_clone()?);
    match io::stderr().is_terminal() {
        true => client.env("DEBUGINFOD_PROGRESS", "1"),
        false => client.stderr(Stdio::null()),
    };
    for limit in [TIMEOUT, MAXTIME, RETRIES, MAXSIZE] {
        client.env(limit.variable, limit.value().to_string());
    }
    let size = MAXSIZE.value();
    if size > 0 {
        // SAFETY: makes system calls alone, which a child may between fork and exec.
        unsafe { client.pre_exec(move || limit_files(size)) };
    }
    let client = client.spawn().inspect_err(|error| {
        IS_MISSING.fetch_or(error.kind() == io::ErrorKind::NotFound, Ordering::Relaxed);
    });
    let patience = Some(MAXTIME.value()).filter(|seconds| *seconds > 0);
    let patience = patience.map(|seconds| Duration::from_secs(seconds).saturating_add(GRACE));
    let is_success = end_in_time(&mut client?, patience)?;
    Ok(is_success.then(|| path_in(&mut answer)).flatten())
}

/// Limits the files that this process writes. A write beyond is an error, and no signal: the client
/// removes what it has begun.
fn limit_files(bytes: u64) -> io::Result<()> {
    // SAFETY: plain system calls with a structure that lives.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_cur.min(bytes);
        match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Waits for a client, and kills it beyond its time; returns true if it found what it was asked for.
pub(crate) fn end_in_time(client: &mut Child, patience: Option<Duration>) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        if let Some(status) = client.try_wait()? {
            return Ok(status.success());
        }
        if patience.is_some_and(|patience| begin.elapsed() > patience) {
            client.kill()?;
            client.wait()?;
            return Ok(false);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The path that the client answered.
fn path_in(answer: &mut File) -> Option<PathBuf> {
    let mut path = String::new();
    answer.rewind().ok()?;
    answer.take(PATH_BYTES_MAX).read_to_string(&mut path).ok()?;
    path.starts_with('/')
        .then(|| PathBuf::from(path.trim_end()))
}

/// Says that servers were not asked, if they were to be.
pub(super) fn diagnostic() -> Option<String> {
    if IS_MISSING.load(Ordering::Relaxed) {
        return Some(format!(
            "DEBUGINFOD_URLS is set, and {CLIENT} is not installed: its servers were not asked"
        ));
    }
    has_given_up().then(|| {
        format!(
            "the servers of DEBUGINFOD_URLS took {} s and brought nothing: they were asked no more",
            LOST_MILLIS.load(Ordering::Relaxed) / 1000
        )
    })
}
