//! Recordings in which nothing moves: they say so, and they end when they are asked to.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hitm_test::process::{Child, Command};

use crate::programs::{report, run};
use crate::recording::{endless, programs_of, signal, wait_for_work};

/// Time in which a recording ends, and what a busy host adds.
const ENDS_MAX: Duration = Duration::from_secs(2 + 8);

/// A recording of a program whose processes are stopped: no thread of it comes any more.
fn start_stopped(directory: &Path, options: &[&str]) -> Child {
    let mut command: Command = endless(directory, options);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("hitm starts");
    wait_for_work(&child);
    for pid in programs_of(&child) {
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
    }
    child
}

#[test]
fn a_recording_that_stands_still_says_so_and_ends_if_that_is_asked_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let output = start_stopped(directory, &["--stall", "1s", "--stall-end"])
        .wait_with_output()
        .expect("hitm ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("nothing has moved for 1 s: thread "),
        "{said}"
    );
    assert!(said.contains("is stopped"), "{said}");
    assert!(
        said.contains("not recorded to its end: it stood still"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(128 + libc::SIGKILL), "{said}");
    let report = report(&directory.join("killed.hitm"));
    assert_eq!(report["run"]["complete"], false);
    assert!(
        report["lines"]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
    );
    let gate = ["report", "-i", "killed.hitm", "--fail-on", "cycles=100%"];
    let gate = run(directory, &gate);
    assert_eq!(gate.status.code(), Some(2), "{gate:?}");
}

#[test]
fn a_signal_ends_a_recording_whose_program_does_not_end() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for by in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let child = start_stopped(directory.path(), &[]);
        let asked = Instant::now();
        signal(&child, by);
        let output = child.wait_with_output().expect("hitm ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(asked.elapsed() < ENDS_MAX, "{said}");
        assert!(said.contains("it is killed"), "{said}");
        assert_eq!(output.status.code(), Some(128 + libc::SIGKILL), "{said}");
        let report = report(&directory.path().join("killed.hitm"));
        assert_eq!(report["run"]["complete"], true, "it was stopped by request");
    }
}
