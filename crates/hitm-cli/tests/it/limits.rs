//! Refusals of the host: each is named, and a result that is not written is no success.

use hitm_test::process::{Command, wait_for};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::programs::{self, hitm, report, run, say_not_run};
use crate::recording::{endless, signal, wait_for_work};

/// Runs `hitm` by a shell that does something before: `exec "$@"` in it stands for the command.
fn run_by(directory: &Path, script: &str, args: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(hitm()).args(args);
    command.current_dir(directory).stdin(Stdio::null());
    command.output().expect("there is a shell")
}

fn check_refused(output: &Output, expected: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in expected {
        assert!(said.contains(part), "'{part}' is not in: {said}");
    }
}

#[test]
fn the_limit_of_open_files_is_not_a_missing_program() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let limited = |args: &[&str]| run_by(directory.path(), r#"ulimit -n 6; exec "$@""#, args);
    let expected = "the limit of 6 open files (ulimit -n) is reached";
    let record = limited(&["record", "--", "true"]);
    check_refused(&record, &["cannot run", "qemu-x86_64", expected]);
    let machine = ["vm", "run", "-k", "kernel", "--", "fifo_pool"];
    if run(directory.path(), &machine).status.code() == Some(3) {
        return say_not_run("open files of a machine", "no qemu-system-x86_64");
    }
    check_refused(&limited(&machine), &["qemu-system-x86_64", expected]);
}

#[test]
fn a_file_size_limit_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let limited = |blocks: u32, args: &[&str]| {
        let script = format!(r#"ulimit -f {blocks}; exec "$@""#);
        run_by(directory.path(), &script, args)
    };
    // dash counts blocks of 512 bytes, bash of 1024.
    let record = limited(16, &["record", "--", "true"]);
    let memory =
        "cannot make the memory that is shared with QEMU: the file size limit (ulimit -f) of";
    check_refused(&record, &[memory]);
    let result = ["machine", "show", "xeon-480", "--format", "json"];
    let script = r#"ulimit -f 1; exec "$@" >result"#;
    let result = run_by(directory.path(), script, &result);
    check_refused(
        &result,
        &["cannot write the result: the file size limit (ulimit -f) of"],
    );
    copy_profile(directory.path());
    let own = "layout advise root_domain -i linux-6.12 -p x.csv -m xeon-480 -o own.toml";
    let own: Vec<&str> = own.split(' ').collect();
    check_refused(
        &limited(0, &own),
        &["cannot write own.toml: the file size limit (ulimit -f) of 0"],
    );
}

/// A table of accesses that an advice can be made of.
fn copy_profile(directory: &Path) {
    let profile = programs::root().join("profiles/root-domain-c2c.csv");
    fs::copy(profile, directory.join("x.csv")).expect("a file in it");
}

/// The limit comes while the file grows: what was written stays readable, and the program
/// continues.
#[test]
fn a_recording_that_reaches_the_file_size_limit_is_readable() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = endless(directory.path(), &[]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hitm starts");
    wait_for_work(&child);
    let path = directory.path().join("killed.hitm");
    let length = || fs::metadata(&path).expect("the file is there").len();
    let limit_bytes = length() + 20_000;
    set_file_size_limit(child.id(), limit_bytes);
    wait_for("a file that grows to the limit", || length() == limit_bytes);
    let running = child.try_wait().expect("hitm is there");
    assert_eq!(running, None, "the program was not asked to end");
    signal(&child, libc::SIGTERM);
    let output = child.wait_with_output().expect("hitm ends");
    let limit = format!("the file size limit (ulimit -f) of {limit_bytes} bytes is reached");
    check_refused(&output, &["cannot write killed.hitm", &limit]);
    let report = report(&path);
    assert_eq!(report["run"]["complete"], false);
    assert!(
        report["diagnostics"]
            .to_string()
            .contains("bytes are missing")
    );
    assert_eq!(report["lines"][0]["verdict"], "false-sharing");
}

fn set_file_size_limit(pid: u32, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: a plain system call that reads the structure.
    let done = unsafe {
        libc::prlimit(
            pid as libc::pid_t,
            libc::RLIMIT_FSIZE,
            &limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(done, 0);
}

#[test]
fn the_program_has_the_signal_of_the_limit_as_it_was() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = ["record", "--", "sh", "-c", "kill -XFSZ $$; exit 3"];
    let code = |script| run_by(directory.path(), script, &program).status.code();
    assert_eq!(code(r#"exec "$@""#), Some(128 + libc::SIGXFSZ));
    assert_eq!(code(r#"trap '' XFSZ; exec "$@""#), Some(3));
}

#[test]
fn a_memory_limit_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run_limited = |kib: u32, args: &[&str]| {
        let script = format!(r#"ulimit -v {kib}; exec "$@""#);
        run_by(directory.path(), &script, args)
    };
    let limited = |kib| run_limited(kib, &["record", "--", "true"]);
    // Enough for hitm, whose size depends on its build, but not for what it shares with QEMU.
    let starts = |kib: &u32| run_limited(*kib, &["--version"]).status.success();
    let least = (40_000..400_000).step_by(4_000).find(starts);
    let enough = least.expect("hitm is no larger") + 16_000;
    let memory = "cannot make the memory that is shared with QEMU: the memory limit (ulimit -v) of";
    check_refused(
        &limited(enough),
        &[memory, &format!(" {} bytes", enough * 1024)],
    );
    // Enough for that but not for QEMU. With less there is none for what hitm does in between. How
    // much QEMU needs differs from run to run, so what is looked at is the run that was refused.
    let no_start = "did not start";
    let says_so = |output: &Output| String::from_utf8_lossy(&output.stderr).contains(no_start);
    let (kib, refused) = (460_000..600_000)
        .step_by(10_000)
        .map(|kib: u32| (kib, limited(kib)))
        .find(|(_, output)| says_so(output))
        .expect("QEMU needs more than hitm");
    let of = format!(
        "memory limit (ulimit -v) of {} bytes",
        u64::from(kib) * 1024
    );
    check_refused(&refused, &[no_start, &of]);
}

/// A recording needs neither TMPDIR nor /dev/shm, a machine needs TMPDIR.
#[test]
fn a_folder_that_takes_no_temporary_file_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let without = r#"TMPDIR=/nonexistent exec "$@""#;
    let machine = ["vm", "run", "-k", "kernel", "--", "fifo_pool"];
    let record = ["record", "--", "true"];
    assert!(run_by(directory.path(), without, &record).status.success());
    let has_machines = run(directory.path(), &machine).status.code() != Some(3);
    if has_machines {
        let expected = ["temporary files go to /nonexistent (TMPDIR chooses another folder)"];
        check_refused(&run_by(directory.path(), without, &machine), &expected);
    }
    // A file system of our own that is full, in a namespace of our own.
    let full = r#"
        mkdir -p full && mount -t tmpfs -o size=4k none full && mount --bind full /dev/shm || exit 99
        printf %4096s x >full/x; TMPDIR=$PWD/full exec "$@""#;
    let in_namespace = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command
            .args(["sh", "-c", full, "sh"])
            .arg(hitm())
            .args(args);
        command.current_dir(directory.path()).stdin(Stdio::null());
        command.output()
    };
    match in_namespace(&record) {
        Ok(output) if output.status.success() => {}
        Ok(output) if ![Some(99), Some(1)].contains(&output.status.code()) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr))
        }
        _ => return say_not_run("a full folder", "this host grants no mount namespace"),
    }
    if has_machines {
        let output = in_namespace(&machine).expect("unshare ran before");
        check_refused(
            &output,
            &["/full (TMPDIR chooses", "No space left on device"],
        );
    }
}

/// Commands that write a result, each with what makes it one of its own.
const RESULTS: [&[&str]; 20] = [
    &["--help"],
    &["--version"],
    &["help", "report"],
    &["doctor"],
    &["report", "-i", "x.hitm"],
    &["report", "-i", "x.hitm", "--format", "json"],
    &["report", "-i", "x.hitm", "--perf-c2c"],
    &["report", "-i", "x.hitm", "--fail-on", "cycles=1000000000"],
    &["diff", "x.hitm", "x.hitm"],
    &["diff", "x.hitm", "x.hitm", "--format", "json"],
    &["whatif", "-i", "x.hitm"],
    &["whatif", "-i", "x.hitm", "--format", "json"],
    &["machine", "list"],
    &["machine", "show", "xeon-480", "--format", "json"],
    &["layout", "list", "-i", "x"],
    &["layout", "show", "options", "-i", "x"],
    &["layout", "show", "options", "-i", "x", "--format", "json"],
    &["layout", "diff", "x", "x", "options"],
    &[
        "layout",
        "advise",
        "root_domain",
        "-i",
        "linux-6.12",
        "-p",
        "x.csv",
        "-m",
        "xeon-480",
    ],
    &["sim", "x.toml", "--quick"],
];

/// A simulation of a moment.
pub(crate) const SCENARIO: &str = r#"
schema = 1
name = "five-for-four"
description = "Five FIFO threads on four CPUs"
source = "made up for this test"

[machine]
preset = "broadwell-4s"
cpus = 4

[[workload]]
kind = "rt-migrate-test"
loops = 2
"#;

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    fs::write(directory.join("x.toml"), SCENARIO).expect("a file in it");
    let source = programs::root().join("examples/counter_array.c");
    let program = programs::build(directory, "x", &source, &[]);
    programs::record(directory, &program, &["2000".to_owned()]);
    copy_profile(directory);
    for args in RESULTS {
        let written = run(directory, args);
        let said = String::from_utf8_lossy(&written.stderr);
        // A host with one CPU lacks something, which `hitm doctor` says.
        let expected: &[Option<i32>] = match args {
            ["doctor"] => &[Some(0), Some(3)],
            _ => &[Some(0)],
        };
        let code = written.status.code();
        assert!(expected.contains(&code), "{args:?}: {code:?}: {said}");
        assert!(!written.stdout.is_empty(), "{args:?}");
        for (script, reason) in [
            (r#"exec "$@" >&-"#, "standard output is closed"),
            (r#"exec "$@" >/dev/full"#, "No space left on device"),
            (r#"exec "$@" 1</dev/null"#, "Bad file descriptor"),
        ] {
            let output = run_by(directory, script, args);
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = format!("cannot write the result: {reason}");
            assert_eq!(output.status.code(), Some(2), "{args:?} {script}: {said}");
            assert!(said.contains(&expected), "{args:?} {script}: {said}");
        }
    }
}

/// Standard output belongs to the recorded program, in the state that it was in.
#[test]
fn a_recorded_program_finds_standard_output_as_it_was() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let program = ["sh", "-c", "echo x; echo $? >status; exit 5"];
    for script in [
        r#"exec "$@" >&-"#,
        r#"exec "$@" >/dev/full"#,
        r#"exec "$@""#,
    ] {
        let status = || fs::read_to_string(directory.join("status")).expect("it was written");
        let mut native = Command::new("sh");
        native.args(["-c", script, "sh"]).args(program);
        native
            .current_dir(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let code = native.status().expect("there is a shell").code();
        let expected = status();
        let recorded = run_by(
            directory,
            script,
            &[&["record", "--"], &program[..]].concat(),
        );
        assert_eq!(
            (recorded.status.code(), status()),
            (code, expected),
            "{script}"
        );
    }
}
