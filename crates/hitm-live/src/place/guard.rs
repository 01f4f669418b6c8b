//! The guard: a process in its own session that undoes a placement when its tool has ended, however
//! it ended.
//!
//! It holds one end of a pipe to the tool, whose closing tells it the tool's end. It inherits the
//! tool's open journal and with it the journal's lock. It ignores SIGINT, SIGQUIT and SIGHUP, which
//! a terminal sends to all its processes. SIGTERM makes it undo and end.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::PlaceError;
use super::change::place;
use super::follow::{Follower, has_tasks, records};
use super::journal::Journal;
use super::session::Place;
use super::stop::Stop;
use super::store::{Held, Store, remove};
use super::system::System;
use super::task::Mounts;
use super::undo::{Undone, undo};
use crate::procfs::TaskId;

/// Interval between searches for new threads, and the longest time in which a guard misses a
/// signal.
pub(super) const PERIOD: Duration = Duration::from_millis(100);
/// Longest time until a guard watches. A loaded machine takes 100 ms.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The tool ends and the placement stays.
const KEEP: u8 = b'k';
/// The guard watches.
const READY: u8 = b'r';

/// Command that starts a guard: this program with the arguments of its hidden command.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program; /proc/self/exe is this one, even when its file has been replaced.
    pub program: PathBuf,
    /// Its arguments; `--journal PATH --descriptor N` follow.
    pub args: Vec<OsString>,
}

/// A running guard, seen from its tool.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    request: Option<ChildStdin>,
    pub(super) id: TaskId,
}

impl Guard {
    /// Starts a guard and waits until it watches.
    pub(super) fn start(launcher: &Launcher, held: &Held) -> Result<Guard, PlaceError> {
        let descriptor = held.descriptor();
        let mut command = Command::new(&launcher.program);
        command.args(&launcher.args);
        command.arg("--journal").arg(&held.path);
        command.arg("--descriptor").arg(descriptor.to_string());
        command.current_dir("/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // SAFETY: `detach` makes system calls alone, which a child may between fork and exec.
        unsafe { command.pre_exec(move || detach(descriptor)) };
        let started = command.spawn();
        let mut child = started.map_err(PlaceError::system("start a guard process"))?;
        let request = child.stdin.take();
        let is_ready = child.stdout.take().is_some_and(wait_ready);
        let id = TaskId::of(child.id()).filter(|_| is_ready);
        let Some(id) = id else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(PlaceError::Refused(String::from(
                "the guard process does not start",
            )));
        };
        Ok(Guard { child, request, id })
    }

    /// Returns true while the guard lives.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells the guard that the placement outlives the tool.
    pub(super) fn keep(mut self) -> Result<TaskId, PlaceError> {
        let told = match self.request.take() {
            Some(mut request) => request.write_all(&[KEEP]),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        told.map_err(PlaceError::system("tell the guard to keep the placement"))?;
        Ok(self.id)
    }

    /// Lets the guard end. It undoes the rest of the placement.
    pub(super) fn release(mut self) {
        drop(self.request.take());
        let _ = self.child.wait();
    }
}

/// Runs in the child before exec: leaves the terminal's session, and keeps the journal open.
fn detach(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: plain system calls.
    unsafe {
        if libc::setsid() < 0 || libc::fcntl(descriptor, libc::F_SETFD, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        // SIGTERM too, until the guard has a handler for it.
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    Ok(())
}

/// A signal ends the wait but does not count as a failure: the tool handles it later.
fn wait_ready(mut answer: std::process::ChildStdout) -> bool {
    let begun = Instant::now();
    let mut left = START_PATIENCE;
    while !wait(answer.as_raw_fd(), left) {
        left = START_PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return false;
        }
    }
    let mut byte = [0];
    answer.read_exact(&mut byte).is_ok() && byte[0] == READY
}

/// Waits until a descriptor can be read or is closed; false after `patience`, or at a signal.
fn wait(descriptor: RawFd, patience: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    let millis = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: one structure, and a count of one.
    unsafe { libc::poll(&mut poll, 1, millis) > 0 }
}

/// Runs the guard, in a process that [`Launcher`] started. Returns what it undid, if anything was
/// left.
///
/// # Errors
/// It was not started by a tool, or its journal cannot be read.
pub fn guard(
    system: &dyn System,
    journal: &Path,
    descriptor: RawFd,
) -> Result<Option<Undone>, PlaceError> {
    let stop = Stop::catch_termination();
    let held = Held::inherited(descriptor, journal)?;
    let mounts = Mounts::read(system)?;
    let folder = journal.parent().unwrap_or(Path::new("/"));
    let Some(store) = Store::open(folder, false)? else {
        return Ok(None);
    };
    let place = Place {
        system,
        mounts: &mounts,
        store: &store,
    };
    let mut watch = Watch { stop, place, held };
    // The tool may be dead already: then the pipe shows it next.
    let _ = io::stdout()
        .write_all(&[READY])
        .and_then(|()| io::stdout().flush());
    if watch.is_to_keep() {
        watch.keep();
    }
    watch.undo()
}

struct Watch<'a> {
    stop: Stop,
    place: Place<'a>,
    held: Held,
}

impl Watch<'_> {
    /// Waits for the tool's message or end; true if the placement shall stay.
    fn is_to_keep(&self) -> bool {
        let mut stdin = io::stdin().lock();
        while !self.stop.is_requested() {
            if wait(stdin.as_raw_fd(), PERIOD) {
                let mut byte = [0];
                return stdin.read(&mut byte).is_ok_and(|count| count == 1) && byte[0] == KEEP;
            }
        }
        false
    }

    /// Follows new threads until the guard shall end, or the last task has ended.
    fn keep(&mut self) {
        let Ok(mut journal) = self.held.read() else {
            return;
        };
        let mut follower = Follower::new(&journal);
        while !self.stop.is_requested() && has_tasks(self.place.system, &journal) {
            // A failure is tried again in the next period.
            let _ = follow(self.place, &mut self.held, &mut follower, &mut journal);
            thread::sleep(PERIOD);
        }
    }

    fn undo(&mut self) -> Result<Option<Undone>, PlaceError> {
        loop {
            match undo_held(self.place, &self.held) {
                // A process that holds the lock for long was stopped; waiting is all that helps.
                Err(PlaceError::Refused(_)) => thread::sleep(PERIOD),
                undone => return undone,
            }
        }
    }
}

/// Places new threads; returns false when another process has undone the placement.
pub(super) fn follow(
    at: Place<'_>,
    held: &mut Held,
    follower: &mut Follower,
    journal: &mut Journal,
) -> Result<bool, PlaceError> {
    if !held.is_there() {
        return Ok(false);
    }
    let new = follower.new_threads(at.system, at.mounts, journal)?;
    if new.is_empty() {
        return Ok(true);
    }
    let _lock = at.store.lock()?;
    if !held.is_there() {
        return Ok(false);
    }
    let records = records(&new);
    held.append(&records)?;
    journal.records.extend(records);
    place(at.system, &journal.head, &new)?;
    Ok(true)
}

/// Undoes a placement of this process or of its tool; `None` when another process did.
pub(super) fn undo_held(at: Place<'_>, held: &Held) -> Result<Option<Undone>, PlaceError> {
    let _lock = at.store.lock()?;
    if !held.is_there() {
        return Ok(None);
    }
    let undone = undo(at.system, at.mounts, &held.read()?);
    if undone.problems.is_empty() {
        remove(&held.path)?;
    }
    Ok(Some(undone))
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt as _;

    use super::*;

    extern "C" fn nothing(_: libc::c_int) {}

    #[test]
    fn a_signal_does_not_end_the_wait_for_a_guard() {
        // SAFETY: a handler that does nothing, for a signal with no other use here.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int) = nothing;
            action.sa_sigaction = handler as libc::sighandler_t;
            libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
        }
        let mut late = Command::new("/bin/sh");
        late.arg("-c").arg("sleep 0.5; printf r");
        let mut late = late.stdout(Stdio::piped()).spawn().unwrap();
        let answer = late.stdout.take().unwrap();
        let waiting = thread::spawn(move || wait_ready(answer));
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(20));
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(waiting.as_pthread_t(), libc::SIGUSR2) };
        }
        assert!(waiting.join().unwrap());
        late.wait().unwrap();
    }
}
