//! Recording real programs: they behave as without hitm, and whatever dies, the file is readable.

use hitm_test::process::{Child, Command, wait_for};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::programs::{self, hitm, report, run};

/// Three megabytes that compress, but not to nothing.
fn sample_text(path: &Path) {
    let mut file = fs::File::create(path).expect("a temporary file");
    let mut state = 1u64;
    for line in 0..60_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        writeln!(
            file,
            "{line} {:x} the quick brown fox {}",
            state >> 40,
            state >> 60
        )
        .expect("a temporary file takes text");
    }
}

/// Records a filter over `input` and compares what it writes with what it writes natively.
fn check_same_output(directory: &Path, command: &[&str]) {
    let input = directory.join("input");
    if !input.exists() {
        sample_text(&input);
    }
    let open = || Stdio::from(fs::File::open(&input).expect("the sample is there"));
    let native = Command::new(command[0])
        .args(&command[1..])
        .stdin(open())
        .output();
    let native = native.unwrap_or_else(|error| panic!("{}: {error}", command[0]));
    let mut recorded = Command::new(hitm());
    recorded
        .args(["record", "-o", "x.hitm", "--"])
        .args(command)
        .current_dir(directory);
    let recorded = recorded.stdin(open()).output().expect("hitm starts");
    assert_eq!(recorded.status.code(), native.status.code());
    assert!(
        recorded.stdout == native.stdout,
        "{command:?} wrote something else when recorded"
    );
    let report = report(&directory.join("x.hitm"));
    assert_eq!(report["run"]["lost_access_count"], 0);
    assert_eq!(report["run"]["complete"], true);
}

#[test]
fn real_programs_write_the_same_bytes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    check_same_output(directory.path(), &["pigz", "-n", "-c", "-p", "4"]);
    check_same_output(
        directory.path(),
        &["xz", "-c", "-1", "-T", "4", "--block-size=512KiB"],
    );
    let source = programs::root().join("examples/padded_atomics.rs");
    let program = programs::build(directory.path(), "padded_atomics", &source, &[]);
    let program = program.to_str().expect("a temporary path is UTF-8");
    check_same_output(directory.path(), &[program, "20000"]);
}

/// A shell's `exit` and a signal, as a shell reports them.
#[test]
fn the_exit_status_is_the_programs() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let code = |script: &str| {
        run(directory.path(), &["record", "--", "sh", "-c", script])
            .status
            .code()
    };
    assert_eq!(code("exit 7"), Some(7));
    assert_eq!(code("kill -TERM $$"), Some(128 + libc::SIGTERM));
}

/// A recording of a program that never ends, into `killed.hitm`.
fn start_endless(directory: &Path) -> Child {
    endless(directory, &[])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("hitm starts")
}

/// The command for it, with further options.
pub(crate) fn endless(directory: &Path, options: &[&str]) -> Command {
    let source = programs::root().join("examples/counter_array.c");
    let program = directory.join("counter_array");
    if !program.exists() {
        programs::build(directory, "counter_array", &source, &[]);
    }
    let mut command = Command::new(hitm());
    command
        .args(["record", "-o", "killed.hitm"])
        .args(options)
        .arg("--")
        .arg(program)
        .arg("1000000000");
    command.current_dir(directory).stdin(Stdio::null());
    command
}

pub(crate) fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// The program that a `hitm record` runs.
pub(crate) fn programs_of(child: &Child) -> Vec<libc::pid_t> {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(path).unwrap_or_default();
    let pids = children.split_ascii_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

fn kill_program_of(child: &Child) {
    for pid in programs_of(child) {
        // SAFETY: a signal to a process that this test started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// The time that a process has had, in ticks of the kernel's clock.
pub(crate) fn ticks_of(pid: libc::pid_t) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |index| after_name.split_ascii_whitespace().nth(index);
    let [user, system] = [11, 12].map(|index| field(index)?.parse::<u64>().ok());
    user.unwrap_or(0) + system.unwrap_or(0)
}

/// Returns true if the program has run for a while: by the time that it had, which on a busy host says
/// more than the time that went by.
pub(crate) fn has_worked(child: &Child) -> bool {
    const TICKS: u64 = 50;
    programs_of(child).into_iter().map(ticks_of).sum::<u64>() >= TICKS
}

pub(crate) fn wait_for_work(child: &Child) {
    wait_for("work", || has_worked(child));
}

#[test]
fn an_interrupted_recording_ends_cleanly() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut child = start_endless(directory.path());
    wait_for_work(&child);
    signal(&child, libc::SIGINT);
    let status = child.wait().expect("hitm ends");
    assert_eq!(status.code(), Some(128 + libc::SIGINT));
    let report = report(&directory.path().join("killed.hitm"));
    assert_eq!(report["run"]["complete"], true);
    assert_eq!(report["lines"][0]["verdict"], "false-sharing");
}

#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for delay_ms in [0, 117, 233] {
        let mut child = start_endless(directory.path());
        wait_for_work(&child);
        sleep(Duration::from_millis(delay_ms));
        let pid = child.id();
        signal(&child, libc::SIGKILL);
        let status = child.wait().expect("hitm is gone");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "process {pid}");
        let report = report(&directory.path().join("killed.hitm"));
        assert_eq!(report["run"]["complete"], false);
    }
}

#[test]
fn a_killed_program_loses_nothing_that_was_priced() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut child = start_endless(directory.path());
    wait_for_work(&child);
    kill_program_of(&child);
    let status = child.wait().expect("hitm ends");
    assert_eq!(status.code(), Some(128 + libc::SIGKILL));
    let report = report(&directory.path().join("killed.hitm"));
    assert_eq!(report["lines"][0]["verdict"], "false-sharing");
}

#[test]
fn a_gate_fails_with_code_1() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = programs::root().join("examples/counter_array.c");
    let program = programs::build(directory.path(), "counter_array", &source, &[]);
    let recording = programs::record(directory.path(), &program, &["20000".to_owned()]);
    let recording = recording.to_str().expect("a temporary path is UTF-8");
    let gate = |condition| {
        let args = ["report", "-i", recording, "--fail-on", condition];
        run(directory.path(), &args).status.code()
    };
    assert_eq!(gate("false-sharing"), Some(1));
    assert_eq!(gate("cycles=1000"), Some(1));
    assert_eq!(gate("cycles=1000000000000"), Some(0));
}

#[test]
fn files_that_are_no_recordings_end_with_code_2_and_the_place() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let check = |name: &str, bytes: &[u8], expected: &str| {
        fs::write(directory.path().join(name), bytes).expect("a temporary file");
        let output = run(directory.path(), &["report", "-i", name]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(name) && error.contains(expected), "{error}");
    };
    check("empty", b"", "not a hitm trace");
    check(
        "elf",
        &fs::read("/bin/sh").expect("there is a shell"),
        "is a program, expected a recording",
    );
    check(
        "cut",
        b"\x89HITM\r\n\x1a\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00",
        "header",
    );
    let output = run(directory.path(), &["report", "-i", "missing"]);
    assert_eq!(output.status.code(), Some(2));
}

const QEMU_WITHOUT_PLUGINS: &str = "#!/bin/sh
case $1 in
--version) echo 'qemu-x86_64 version 7.2.0' ;;
-help) echo 'usage: qemu-x86_64 [options] program' ;;
*) exit 1 ;;
esac
";

#[test]
fn what_is_missing_ends_with_code_3_and_names_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let args = ["record", "--qemu", "/nonexistent/qemu-x86_64", "--", "true"];
    let output = run(directory.path(), &args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("apt install qemu-user"), "{error}");
    // One that says that it is of the right version, and takes no plugins.
    let emulator = directory.path().join("qemu-without");
    fs::write(&emulator, QEMU_WITHOUT_PLUGINS).expect("a file in it");
    fs::set_permissions(&emulator, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = emulator.to_str().expect("the name is text");
    let output = run(directory.path(), &["record", "--qemu", path, "--", "true"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("is built without plugins"), "{error}");
    assert_eq!(
        run(directory.path(), &["record", "--", "no-such-program"])
            .status
            .code(),
        Some(2)
    );
}
