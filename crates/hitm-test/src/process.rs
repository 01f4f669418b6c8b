//! Processes that tests start, each with a deadline.
//!
//! [`Command`] and [`Child`] are those of the standard library, except that a process which outlives
//! its deadline is killed with all that it started. So a hang ends, as a failure that names its test.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{self, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Ten times what the slowest process takes on a busy host.
const LIMIT: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(5);

/// Methods as the standard library has them.
macro_rules! as_std {
    ($($name:ident($($arg:ident: $type:ty),+);)+) => {$(
        #[expect(missing_docs, reason = "the standard library's")]
        pub fn $name(&mut self, $($arg: $type),+) -> &mut Command {
            self.inner.$name($($arg),+);
            self
        }
    )+};
}

/// A process to start.
#[derive(Debug)]
pub struct Command {
    inner: process::Command,
    limit: Duration,
    has_input: bool,
    has_output: bool,
    has_errors: bool,
}

impl Command {
    /// A process with a deadline ten minutes after its start.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command {
            inner: process::Command::new(program),
            limit: LIMIT,
            has_input: false,
            has_output: false,
            has_errors: false,
        }
    }

    /// Sets the deadline.
    pub fn within(&mut self, limit: Duration) -> &mut Command {
        self.limit = limit;
        self
    }

    as_std! {
        arg(arg: impl AsRef<OsStr>);
        args(args: impl IntoIterator<Item = impl AsRef<OsStr>>);
        env(key: impl AsRef<OsStr>, value: impl AsRef<OsStr>);
        env_remove(key: impl AsRef<OsStr>);
        current_dir(folder: impl AsRef<Path>);
    }

    #[expect(missing_docs, reason = "the standard library's")]
    pub fn stdin(&mut self, input: impl Into<Stdio>) -> &mut Command {
        self.inner.stdin(input);
        self.has_input = true;
        self
    }

    #[expect(missing_docs, reason = "the standard library's")]
    pub fn stdout(&mut self, output: impl Into<Stdio>) -> &mut Command {
        self.inner.stdout(output);
        self.has_output = true;
        self
    }

    #[expect(missing_docs, reason = "the standard library's")]
    pub fn stderr(&mut self, errors: impl Into<Stdio>) -> &mut Command {
        self.inner.stderr(errors);
        self.has_errors = true;
        self
    }

    /// Starts the process.
    pub fn spawn(&mut self) -> io::Result<Child> {
        let inner = self.inner.spawn()?;
        Ok(Child {
            deadline: Deadline::start(inner.id(), self.limit),
            inner: Some(inner),
            name: format!("{:?}", self.inner),
        })
    }

    /// Runs the process to its end.
    ///
    /// # Panics
    ///
    /// If it outlives its deadline.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Runs the process to its end, and returns what it took.
    ///
    /// # Panics
    ///
    /// If it outlives its deadline.
    pub fn usage(&mut self) -> io::Result<(ExitStatus, Usage)> {
        let mut child = self.spawn()?;
        let (mut status, mut taken) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both are memory for what the call writes.
        while unsafe { libc::wait4(child.id() as i32, &mut status, 0, taken.as_mut_ptr()) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        child.check();
        // SAFETY: zeros are a value of it.
        let taken = unsafe { taken.assume_init() };
        let span = |time: libc::timeval| {
            Duration::from_micros((time.tv_sec * 1_000_000 + time.tv_usec) as u64)
        };
        let usage = Usage {
            cpu: span(taken.ru_utime) + span(taken.ru_stime),
            memory_bytes_max: taken.ru_maxrss as u64 * 1024,
        };
        Ok((ExitStatus::from_raw(status), usage))
    }

    /// Runs the process to its end, and returns what it printed where no other place was set.
    ///
    /// # Panics
    ///
    /// If it outlives its deadline.
    pub fn output(&mut self) -> io::Result<Output> {
        if !self.has_input {
            self.stdin(Stdio::null());
        }
        if !self.has_output {
            self.stdout(Stdio::piped());
        }
        if !self.has_errors {
            self.stderr(Stdio::piped());
        }
        self.spawn()?.wait_with_output()
    }
}

/// CPU time and memory that a process took, those of its children included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, in the kernel too: Linux knows the sum exactly, and its parts by samples.
    pub cpu: Duration,
    /// The most memory that it had at a time. Linux counts what its parent had at the start, too.
    pub memory_bytes_max: u64,
}

impl Deref for Command {
    type Target = process::Command;

    fn deref(&self) -> &process::Command {
        &self.inner
    }
}

impl DerefMut for Command {
    fn deref_mut(&mut self) -> &mut process::Command {
        &mut self.inner
    }
}

/// A process that runs. Dropping it kills it, with all that it started.
#[derive(Debug)]
pub struct Child {
    /// None once it was waited for with its output.
    inner: Option<process::Child>,
    deadline: Deadline,
    name: String,
}

impl Child {
    /// Waits for the process to end.
    ///
    /// # Panics
    ///
    /// If it outlives its deadline.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.deref_mut().wait();
        self.check();
        status
    }

    /// Returns how the process ended, if it has.
    ///
    /// # Panics
    ///
    /// If it ended at its deadline.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.deref_mut().try_wait();
        if let Ok(Some(_)) = status {
            self.check();
        }
        status
    }

    /// Waits for the process to end, and returns what it printed.
    ///
    /// # Panics
    ///
    /// If it outlives its deadline.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        let inner = self.inner.take().expect("taken only here");
        let output = inner.wait_with_output();
        self.check();
        output
    }

    #[track_caller]
    fn check(&mut self) {
        let limit = self.deadline.limit;
        let in_time = self.deadline.end();
        // A test that fails already has said why.
        assert!(
            in_time || thread::panicking(),
            "not at its end after {limit:?}: {}",
            self.name
        );
    }
}

impl Deref for Child {
    type Target = process::Child;

    fn deref(&self) -> &process::Child {
        self.inner.as_ref().expect("there until its output is")
    }
}

impl DerefMut for Child {
    fn deref_mut(&mut self) -> &mut process::Child {
        self.inner.as_mut().expect("there until its output is")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(inner) = &mut self.inner else {
            return;
        };
        if let Ok(None) = inner.try_wait() {
            kill_all(inner.id());
            let _ = inner.wait();
        }
    }
}

/// A thread that kills a process at a time, unless it is ended before.
#[derive(Debug)]
struct Deadline {
    limit: Duration,
    end: Option<mpsc::Sender<()>>,
    /// Answers true if the process was left in peace.
    thread: Option<JoinHandle<bool>>,
}

impl Deadline {
    fn start(process: u32, limit: Duration) -> Deadline {
        let (end, ended) = mpsc::channel();
        let watch = move || {
            let in_time = ended.recv_timeout(limit) != Err(RecvTimeoutError::Timeout);
            if !in_time {
                kill_all(process);
            }
            in_time
        };
        Deadline {
            limit,
            end: Some(end),
            thread: Some(thread::spawn(watch)),
        }
    }

    /// Ends it; true if it had not passed.
    fn end(&mut self) -> bool {
        self.end = None;
        let thread = self.thread.take();
        thread.is_none_or(|thread| thread.join().expect("it does not panic"))
    }
}

/// Waits until something holds, for two minutes: milliseconds on an idle host.
///
/// # Panics
///
/// If it does not hold by then.
#[track_caller]
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        thread::sleep(POLL);
    }
}

/// Processes that a process has started, and that they have, as far as their parents still run.
pub fn below(process: u32) -> Vec<u32> {
    let mut found = children(process);
    let mut next = 0;
    while let Some(&above) = found.get(next) {
        found.extend(children(above));
        next += 1;
    }
    found
}

/// Kills a process and those below it.
fn kill_all(process: u32) {
    for process in below(process).into_iter().chain([process]) {
        // SAFETY: a signal to a process that a test started.
        unsafe { libc::kill(process as libc::pid_t, libc::SIGKILL) };
    }
}

/// Processes that the threads of one have started.
fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        let numbers = list.split_ascii_whitespace();
        numbers.filter_map(|number| number.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_process_in_time_is_as_the_standard_library_has_it() {
        let output = shell("cat; echo out; echo error >&2; exit 3").output();
        let output = output.expect("there is a shell");
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (&output.stdout[..], &output.stderr[..]),
            (&b"out\n"[..], &b"error\n"[..])
        );
        let missing = Command::new("no-such-program").status();
        assert_eq!(missing.expect_err("none").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn usage_is_that_of_the_process() {
        let mut command = shell("n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done; exit 3");
        let (status, usage) = command.usage().expect("there is a shell");
        assert_eq!(status.code(), Some(3));
        assert!(usage.cpu > Duration::from_millis(1), "{usage:?}");
        assert!(usage.memory_bytes_max > 1 << 16, "{usage:?}");
    }

    /// Both hold the pipe of the output: it ends with the last of them.
    #[test]
    fn a_hang_ends_with_all_that_was_started_and_fails() {
        let mut command = shell("sleep 1000 & sleep 1000; true");
        command.within(Duration::from_millis(200));
        let hang = catch_unwind(AssertUnwindSafe(|| command.output()));
        let said = hang.expect_err("it fails");
        let said = said.downcast_ref::<String>().expect("a text");
        assert!(
            said.starts_with("not at its end after 200ms: \"sh\""),
            "{said}"
        );
    }

    #[test]
    fn a_dropped_child_ends_with_all_that_it_started() {
        let mut command = shell("sleep 1000 & echo begun; sleep 1000; true");
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut printed = child.stdout.take().expect("it has a pipe");
        printed.read_exact(&mut [0; 6]).expect("the first line");
        drop(child);
        // The end of the pipe is that of its last writer.
        let rest = printed.read_to_end(&mut Vec::new()).expect("a pipe");
        assert_eq!(rest, 0);
    }
}
