//! One writer for each recording; programs and recorders that end with each other.

use hitm_test::process::{Child, Command, wait_for};
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::programs::{self, hitm, report, run};
use crate::recording::{endless, has_worked, programs_of, signal, ticks_of, wait_for_work};

/// The longest time for which a program may outlive its recorder, on a busy host. One that is not ended runs
/// without end.
pub(crate) const OUTLIVES_MAX: Duration = Duration::from_secs(60);

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("hitm starts");
    wait_for_work(&child);
    child
}

/// Returns true if a process runs; one that nobody has waited for does not.
pub(crate) fn is_running(pid: libc::pid_t) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

/// Waits for processes to be gone; which ones are not.
pub(crate) fn outliving(pids: &[libc::pid_t], patience: Duration) -> Vec<libc::pid_t> {
    let started = Instant::now();
    loop {
        let running: Vec<_> = pids
            .iter()
            .copied()
            .filter(|&pid| is_running(pid))
            .collect();
        if running.is_empty() || started.elapsed() > patience {
            return running;
        }
        sleep(Duration::from_millis(5));
    }
}

/// They end by themselves.
fn check_ended(pids: &[libc::pid_t]) {
    let left = outliving(pids, OUTLIVES_MAX);
    assert!(left.is_empty(), "{left:?} run on");
}

fn kill(pid: libc::pid_t) {
    // SAFETY: a signal to a process that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

fn check_refused(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cannot write killed.hitm: it is being written by another process"),
        "{said}"
    );
}

#[test]
fn a_recording_has_one_writer() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let small = run(directory, &["record", "-o", "small.hitm", "--", "true"]);
    assert!(small.status.success());
    let export = ["export", "small.hitm", "--perf-data"];
    assert!(
        run(directory, &[&export[..], &["perf.data"]].concat())
            .status
            .success()
    );

    let mut first = start(endless(directory, &[]));
    for second in [
        &["record", "-o", "killed.hitm", "--", "true"][..],
        &["import", "perf.data", "-o", "killed.hitm"],
        &[&export[..], &["killed.hitm"]].concat(),
    ] {
        check_refused(&run(directory, second));
    }
    signal(&first, libc::SIGTERM);
    let status = first.wait().expect("hitm ends");
    assert_eq!(status.code(), Some(128 + libc::SIGTERM));
    let report = report(&directory.join("killed.hitm"));
    assert_eq!(report["run"]["complete"], true);
    assert_eq!(report["lines"][0]["verdict"], "false-sharing");
}

/// Both may begin before either writes; then, too, one of them has the file to itself.
#[test]
fn of_recordings_that_begin_together_one_succeeds_and_is_whole() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let record = || {
        let mut command = Command::new(hitm());
        command.args(["record", "-o", "killed.hitm", "--", "cat"]);
        command.current_dir(directory).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("hitm starts")
    };
    let mut started = [record(), record(), record()];
    wait_for("two that are refused", || {
        let ended = started
            .iter_mut()
            .map(|child| child.try_wait().expect("hitm is there"));
        ended.flatten().count() >= 2
    });
    // The program ends with its input.
    let outputs = started.map(|child| child.wait_with_output().expect("hitm ends"));
    let (done, refused): (Vec<&Output>, Vec<&Output>) =
        outputs.iter().partition(|output| output.status.success());
    assert_eq!(done.len(), 1);
    refused.into_iter().for_each(check_refused);
    assert_eq!(
        report(&directory.join("killed.hitm"))["run"]["complete"],
        true
    );
}

#[test]
fn a_hangup_ends_a_recording_cleanly() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut child = start(endless(directory.path(), &[]));
    let programs = programs_of(&child);
    signal(&child, libc::SIGHUP);
    let status = child.wait().expect("hitm ends");
    assert_eq!(status.code(), Some(128 + libc::SIGHUP));
    check_ended(&programs);
    let report = report(&directory.path().join("killed.hitm"));
    assert_eq!(report["run"]["complete"], true);
}

/// The program's own options need no `--` before them.
#[test]
fn a_recording_ends_after_its_duration() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let spinner = ["sh", "-c", "while :; do :; done"];
    let output = run(
        directory,
        &[
            &["record", "--duration", "2s", "-o", "x.hitm"][..],
            &spinner,
        ]
        .concat(),
    );
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM));
    assert_eq!(report(&directory.join("x.hitm"))["run"]["complete"], true);
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = endless(directory.path(), &[]);
    // As nohup(1) does.
    // SAFETY: between fork and exec only this system call is made.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let mut child = start(command);
    let programs = programs_of(&child);
    for pid in programs.iter().copied().chain([child.id() as libc::pid_t]) {
        // SAFETY: a signal to processes that this test started.
        unsafe { libc::kill(pid, libc::SIGHUP) };
    }
    check_works_on(&programs);
    signal(&child, libc::SIGTERM);
    let status = child.wait().expect("hitm ends");
    assert_eq!(status.code(), Some(128 + libc::SIGTERM));
}

/// A program that still computes.
fn check_works_on(programs: &[libc::pid_t]) {
    let ticks = || programs.iter().map(|&pid| ticks_of(pid)).sum::<u64>();
    let (before, started) = (ticks(), Instant::now());
    // A second is the time in which it would have ended.
    wait_for("work", || {
        ticks() >= before + 20 && started.elapsed() > Duration::from_secs(1)
    });
}

#[test]
fn a_program_ends_with_its_recorder() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for by in [libc::SIGKILL, libc::SIGQUIT] {
        let mut child = start(endless(directory.path(), &[]));
        let programs = programs_of(&child);
        signal(&child, by);
        let status = child.wait().expect("hitm is gone");
        assert_eq!(status.signal(), Some(by));
        check_ended(&programs);
    }
}

#[test]
fn a_program_that_keeps_running_has_no_part_in_the_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut child = start(endless(directory.path(), &["--keep-running"]));
    let programs = programs_of(&child);
    signal(&child, libc::SIGKILL);
    child.wait().expect("hitm is gone");
    check_works_on(&programs);
    // The lock of the file went with the recorder.
    let args = ["record", "-o", "killed.hitm", "--", "true"];
    let again = run(directory.path(), &args);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    programs.iter().copied().for_each(kill);
    assert!(again.status.success(), "{said}");
}

/// A whole machine: its QEMU goes with `hitm vm run`, and leaves no temporary file.
#[test]
fn a_machine_ends_with_its_recorder() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let temporary = directory.path().join("temporary");
    fs::create_dir(&temporary).expect("a folder in it");
    fs::write(directory.path().join("kernel"), ENDLESS_KERNEL).expect("a file in it");
    let mut command = Command::new(hitm());
    command.args(["vm", "run", "--smp", "4", "--memory", "256", "-k", "kernel"]);
    command.args(["--snapshot-cache", "cache", "--", "fifo_pool"]);
    command
        .current_dir(directory.path())
        .env("TMPDIR", &temporary);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("hitm starts");
    let mut ended = None;
    wait_for("a machine", || {
        ended = child.try_wait().expect("hitm is there");
        ended.is_some() || has_worked(&child)
    });
    if let Some(status) = ended {
        assert_eq!(status.code(), Some(3));
        return programs::say_not_run("ending a machine", "no qemu-system-x86_64 of version 9");
    }
    let programs = programs_of(&child);
    assert!(!programs.is_empty());
    signal(&child, libc::SIGKILL);
    child.wait().expect("hitm is gone");
    check_ended(&programs);
    let left = fs::read_dir(&temporary).expect("the folder is there");
    assert_eq!(left.count(), 0);
}

/// A kernel that loops: a header of the Multiboot specification (0.6.96, section 3.1; with the addresses
/// of a flat image) and a jump to itself.
const ENDLESS_KERNEL: [u8; 34] = {
    const FLAGS: u32 = 1 << 16;
    const BASE: u32 = 0x10_0000;
    let words = [
        0x1bad_b002,
        FLAGS,
        0u32.wrapping_sub(0x1bad_b002).wrapping_sub(FLAGS),
        BASE,
        BASE,
        0,
        0,
        BASE + 32,
    ];
    let mut image = [0; 34];
    let mut at = 0;
    while at < 32 {
        image[at] = (words[at / 4] >> (at % 4 * 8)) as u8;
        at += 1;
    }
    image[32] = 0xeb;
    image[33] = 0xfe;
    image
};

/// Exits while eight threads fight over a line, most of which wait for the others at any time.
const EXITS: &str = r#"
#include <pthread.h>
#include <stdlib.h>

static volatile long shared[8];

static void *run(void *argument) {
    for (;;)
        shared[(long)argument]++;
    return 0;
}

int main(void) {
    pthread_t thread;
    for (long i = 0; i < 8; i++)
        pthread_create(&thread, 0, run, (void *)i);
    while (shared[7] < 2000)
        ;
    exit(3);
}
"#;

/// QEMU's exit waits for all threads to leave its code, and threads that wait for each other are in it.
#[test]
fn a_program_exits_while_its_threads_wait_for_each_other() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("exits.c");
    fs::write(&source, EXITS).expect("a temporary file");
    let program = programs::build(directory.path(), "exits", &source, &[]);
    for _ in 0..20 {
        let mut record = Command::new(hitm());
        record.args(["record", "-o", "x.hitm", "--"]).arg(&program);
        let output = record.current_dir(directory.path()).output();
        let output = output.expect("hitm starts");
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
}
