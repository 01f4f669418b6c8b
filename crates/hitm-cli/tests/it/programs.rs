//! Real programs to record, and the `hitm` to record them with.

use hitm_test::process::Command;
use std::ffi::{CString, OsStr};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;

/// The program of this tree, with the recorder's libraries beside it.
pub(crate) fn hitm() -> &'static Path {
    static HITM: OnceLock<PathBuf> = OnceLock::new();
    HITM.get_or_init(|| hitm_test::program::built().join("hitm"))
}

/// The workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns true if the host has the compiler of this source: Go is optional.
pub(crate) fn has_compiler(source: &Path) -> bool {
    let is_go = source
        .extension()
        .is_some_and(|extension| extension == "go");
    !is_go || Command::new("go").arg("version").output().is_ok()
}

/// Builds a C, C++, Rust or Go program into `directory` as `name`.
pub(crate) fn build(directory: &Path, name: &str, source: &Path, defines: &[String]) -> PathBuf {
    let program = directory.join(name);
    let mut compiler = match source.extension().and_then(OsStr::to_str) {
        Some("rs") => {
            let mut rustc = Command::new("rustc");
            rustc.args(["--edition", "2024", "-O", "-g", "--crate-name"]);
            rustc.arg(source.file_stem().expect("a source file has a name"));
            rustc
        }
        Some("go") => {
            let mut go = Command::new("go");
            go.arg("build");
            go
        }
        kind => {
            let mut cc = Command::new(if kind == Some("cpp") { "c++" } else { "cc" });
            cc.args(["-O2", "-g", "-Wall", "-Wextra", "-pthread"]);
            cc.args(defines.iter().map(|define| format!("-D{define}")));
            cc
        }
    };
    let status = compiler
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status()
        .expect("the compiler starts");
    assert!(status.success(), "{} does not compile", source.display());
    program
}

/// Runs `hitm` with these arguments in `directory`.
pub(crate) fn run(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(hitm());
    command
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null());
    command.output().expect("hitm starts")
}

/// Runs a command in `directory`, which is killed after a time in which the slowest host makes a short
/// recording.
pub(crate) fn run_within(directory: &Path, command: &[&str]) -> Output {
    const SECONDS_MAX: &str = "240";
    let mut timeout = Command::new("timeout");
    timeout.args(["--signal=KILL", SECONDS_MAX]).args(command);
    timeout.current_dir(directory).stdin(Stdio::null());
    timeout.output().expect("timeout starts")
}

/// Runs `hitm record` with these arguments as [`run_within`] does.
pub(crate) fn record_within(directory: &Path, args: &[&str]) -> Output {
    let hitm = hitm().to_str().expect("a path of this tree is UTF-8");
    run_within(directory, &[&[hitm, "record"], args].concat())
}

/// Runs a command that must end by itself; returns its exit code and both of its outputs.
pub(crate) fn in_time(command: &mut Command) -> (Option<i32>, String) {
    let mut said = tempfile::tempfile().expect("a temporary file");
    let copy = || said.try_clone().expect("a descriptor");
    command.stdin(Stdio::null()).stdout(copy()).stderr(copy());
    let status = command.status().expect("the command starts");
    let mut text = String::new();
    said.rewind().expect("it is a file");
    said.read_to_string(&mut text).expect("hitm writes UTF-8");
    (status.code(), text)
}

/// Makes a FIFO.
pub(crate) fn fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path has no zero");
    // SAFETY: a system call with a string that lives.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Records `program` into `directory/NAME.hitm`; the recording must succeed.
pub(crate) fn record(directory: &Path, program: &Path, args: &[String]) -> PathBuf {
    record_as(directory, &[], program, args)
}

/// Like [`record`], with options of `hitm record`.
pub(crate) fn record_as(
    directory: &Path,
    options: &[&str],
    program: &Path,
    args: &[String],
) -> PathBuf {
    let recording = program.with_extension("hitm");
    let recording_text = recording.to_str().expect("a temporary path is UTF-8");
    let mut all = vec!["record", "-m", "broadwell-4s", "-o", recording_text];
    all.extend(options);
    all.push("--");
    all.push(program.to_str().expect("a temporary path is UTF-8"));
    all.extend(args.iter().map(String::as_str));
    let output = run(directory, &all);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm record fails: {error}");
    recording
}

/// Says that this host lacks what a test needs: past the harness, which keeps what passing tests print.
pub(crate) fn say_not_run(what: &str, why: &str) {
    let why = why.lines().next().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "NOT RUN: {what}: {why}");
}

/// The report of a recording as JSON.
/// The first screen of a report: 24 lines of 80 columns, with single spaces.
fn first_screen(recording: &Path) -> String {
    let recording = recording.to_str().expect("a temporary path is UTF-8");
    let output = run(
        Path::new("/"),
        &["report", "-i", recording, "--width", "80"],
    );
    let text = String::from_utf8(output.stdout).expect("a report is UTF-8");
    let lines: Vec<&str> = text.lines().take(24).collect();
    let words: Vec<&str> = lines
        .iter()
        .flat_map(|line| line.split_whitespace())
        .collect();
    words.join(" ")
}

/// Says what a reader of the first screen alone does not learn; empty if that is nothing.
pub(crate) fn not_on_first_screen(recording: &Path, wanted: &[String]) -> String {
    if wanted.is_empty() {
        return String::new();
    }
    let screen = first_screen(recording);
    let lacking = wanted.iter().filter(|part| !screen.contains(part.as_str()));
    match lacking.map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        lacking => format!("{lacking:?} are not on the first screen: {screen}"),
    }
}

/// The report of a recording.
pub(crate) fn report(recording: &Path) -> serde_json::Value {
    let recording = recording.to_str().expect("a temporary path is UTF-8");
    let output = run(
        Path::new("/"),
        &["report", "-i", recording, "--format", "json"],
    );
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm report fails: {error}");
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}
