//! Commands with a deadline: whatever they start ends with them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{FixError, check_signal};
use crate::record::{Signals, end_with_this_thread};

/// Period in which a command and the user's signals are looked at.
const POLL: Duration = Duration::from_millis(10);

/// Bytes of output that are read, of each command.
const OUTPUT_MAX: u64 = 16 << 20;

/// Lines of a failed command that are shown, and characters of them.
const TAIL_LINES: usize = 4;
const TAIL_CHARACTERS: usize = 600;

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Ran {
    /// Its exit code; none where the deadline or a signal ended it.
    pub(super) code: Option<i32>,
    /// Its end, in words.
    pub(super) how: String,
    pub(super) output: Vec<u8>,
    pub(super) errors: Vec<u8>,
}

impl Ran {
    /// Returns true if it has succeeded.
    pub(super) fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Its end, and a compiler's first error, or the end of what it printed.
    pub(super) fn failure(&self) -> String {
        let printed = match self.errors.is_empty() {
            true => &self.output,
            false => &self.errors,
        };
        let text = String::from_utf8_lossy(printed);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        // A compiler's first error has the place, and what follows may be long.
        let is_error = |line: &&str| {
            // The linker's own lines, before this one, have the cause.
            let is_summary = line.starts_with("collect2: error: ld returned");
            line.starts_with("error") || line.contains(": error: ") && !is_summary
        };
        let first = lines.iter().position(is_error);
        let first = first.unwrap_or(lines.len().saturating_sub(TAIL_LINES));
        let tail = lines[first..].iter().take(TAIL_LINES);
        let tail = tail.copied().collect::<Vec<_>>().join(" | ");
        let skipped = tail.chars().count().saturating_sub(TAIL_CHARACTERS);
        let tail: String = tail.chars().skip(skipped).collect();
        match tail.is_empty() {
            true => self.how.clone(),
            false => format!("{}: {tail}", self.how),
        }
    }
}

/// Folder and time limit of commands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'s> {
    /// Folder for what they print.
    pub(super) folder: &'s Path,
    pub(super) timeout: Duration,
    pub(super) signals: &'s Signals,
}

impl Surroundings<'_> {
    /// Runs a command to its end, with nothing on its standard input. All processes of its group are killed at the
    /// deadline, after a signal, and when it has ended.
    pub(super) fn run(&self, command: &mut Command) -> Result<Ran, FixError> {
        check_signal(self.signals)?;
        let program = || command_name(command);
        let start = |source| FixError::Start {
            program: program(),
            source,
        };
        let paths = ["output", "errors"].map(|name| self.folder.join(name));
        let [output, errors] = paths.each_ref().map(File::create);
        let (output, errors) = (output.map_err(start)?, errors.map_err(start)?);
        let name = program();
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        command.process_group(0);
        end_with_this_thread(command);
        let child = command.spawn().map_err(|source| FixError::Start {
            program: name.clone(),
            source,
        })?;
        let status = Group(child).wait(self.timeout, self.signals)?;
        let read = |path: &Path| {
            read_some(path).map_err(|source| FixError::System {
                what: "read",
                path: path.to_owned(),
                source,
            })
        };
        Ok(Ran {
            code: status.and_then(|status| status.code()),
            how: how_ended(status, self.timeout),
            output: read(&paths[0])?,
            errors: read(&paths[1])?,
        })
    }
}

fn command_name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    // The disk is for builds.
    fs::remove_file(path)?;
    Ok(bytes)
}

fn how_ended(status: Option<ExitStatus>, timeout: Duration) -> String {
    match status {
        None => format!(
            "it ran for more than {} s (--timeout)",
            timeout.as_secs_f64()
        ),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or(0)),
        },
    }
}

/// A process and all that it started.
struct Group(Child);

impl Group {
    /// Waits for the end; none when the time is over.
    fn wait(
        mut self,
        timeout: Duration,
        signals: &Signals,
    ) -> Result<Option<ExitStatus>, FixError> {
        let begun = Instant::now();
        while !self.has_ended() {
            check_signal(signals)?;
            if begun.elapsed() >= timeout {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
        self.end();
        let name = format!("process {}", self.0.id());
        let status = self.0.wait();
        let failed = |source| FixError::Start {
            program: name,
            source,
        };
        status.map(Some).map_err(failed)
    }

    /// Returns true if the first process has ended. It keeps its number, and so does the group, until it is waited for.
    fn has_ended(&self) -> bool {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the memory is for what the call writes; all of its bytes may be zero.
        unsafe {
            let failed = libc::waitid(libc::P_PID, self.0.id(), info.as_mut_ptr(), options) != 0;
            failed || info.assume_init().si_pid() != 0
        }
    }

    /// Kills all processes that are left.
    fn end(&self) {
        // SAFETY: a plain system call.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.end();
            // It is dead, whatever is answered.
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, timeout: Duration) -> Result<Ran, FixError> {
        let folder = tempfile::tempdir().unwrap();
        let signals = Signals::catch();
        let surroundings = Surroundings {
            folder: folder.path(),
            timeout,
            signals: &signals,
        };
        surroundings.run(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn a_command_that_hangs_ends_with_all_that_it_started() {
        let ran = run(
            "sleep 1000 & echo $!; sleep 1000",
            Duration::from_millis(200),
        )
        .unwrap();
        assert_eq!((ran.code, ran.is_success()), (None, false));
        let pid: i32 = String::from_utf8(ran.output)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // It is killed; its new parent waits for it soon.
        let is_dead = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let begun = Instant::now();
        while !is_dead() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{pid} lives on");
            thread::yield_now();
        }
    }

    #[test]
    fn the_end_of_what_a_command_printed_is_told() {
        let long = Duration::from_secs(60);
        let ran = run("echo out; echo one >&2; echo two >&2; exit 3", long).unwrap();
        assert_eq!(ran.output, b"out\n");
        assert_eq!(ran.failure(), "exit code 3: one | two");
        let rustc = "printf 'error[E1]: a\\n --> a.rs:3\\nb\\nc\\nd\\nerror: e\\n' >&2; exit 1";
        assert_eq!(
            run(rustc, long).unwrap().failure(),
            "exit code 1: error[E1]: a | --> a.rs:3 | b | c"
        );
        let linker = "printf 'ld: final link failed: No space left on device\\ncollect2: error: ld returned 1 exit status\\n' >&2; exit 1";
        assert_eq!(
            run(linker, long).unwrap().failure(),
            "exit code 1: ld: final link failed: No space left on device | collect2: error: ld returned 1 exit status"
        );
        assert_eq!(run("kill -9 $$", long).unwrap().failure(), "signal 9");
    }
}
