//! `hitm live lines --output`: looks as files in a directory.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use hitm_test::process::{Child, Command, wait_for};

use crate::programs::{build, hitm, root, say_not_run};

/// The end of a run that the kernel does not allow.
const MISSING: i32 = 3;

/// A program whose threads fight until it is killed.
struct Fight {
    program: Child,
    _directory: tempfile::TempDir,
}

impl Fight {
    fn start() -> Fight {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let source = root().join("examples/false_sharing.c");
        let program = build(directory.path(), "false_sharing", &source, &[]);
        let mut program = Command::new(program);
        program.arg("4000000000").stdin(Stdio::null());
        let program = program.stdout(Stdio::null()).spawn();
        Fight {
            program: program.expect("the program starts"),
            _directory: directory,
        }
    }

    fn end(&mut self) {
        self.program.kill().expect("it is killed");
        self.program.wait().expect("it ends");
    }
}

/// `hitm live lines` with these options, whose looks go to a directory.
fn lines(output: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(hitm());
    command.args(["live", "lines", "--output"]).arg(output);
    command.args(options).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns true if the kernel allowed it.
fn is_allowed(test: &str, output: &Output) -> bool {
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(MISSING) {
        say_not_run(test, error.trim());
        return false;
    }
    assert!(output.status.success(), "{error}");
    true
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn looks_are_taken_until_the_target_ends_and_the_newest_are_kept() {
    const TEST: &str = "looks_are_taken_until_the_target_ends_and_the_newest_are_kept";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = directory.path().join("looks");
    let mut fight = Fight::start();
    let pid = fight.program.id().to_string();
    let options = [
        "-p", &pid, "-d", "100ms", "--every", "1s", "--keep", "2", "--format", "json",
    ];
    let mut looks = lines(&output, &options).spawn().expect("hitm starts");
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut has_ended = false;
    wait_for("four looks", || {
        has_ended = looks.try_wait().expect("it is a child").is_some();
        if output.exists() {
            seen.extend(files(&output));
            seen.sort();
            seen.dedup();
        }
        let is_json = |path: &&PathBuf| path.extension().is_some_and(|own| own == "json");
        has_ended || seen.iter().filter(is_json).count() >= 4
    });
    fight.end();
    let ended = looks.wait_with_output().expect("hitm ends");
    if !is_allowed(TEST, &ended) {
        return;
    }
    assert!(!has_ended, "the target was there");
    let files = files(&output);
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.expect("a name");
        assert!(
            name.starts_with("lines-") && name.ends_with("Z.json"),
            "{name}"
        );
        let text = std::fs::read_to_string(&file).expect("a whole file");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(report["run"]["command"][0], format!("process {pid}"));
    }
}

#[test]
fn a_signal_ends_looks_that_go_on() {
    const TEST: &str = "a_signal_ends_looks_that_go_on";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut fight = Fight::start();
    let pid = fight.program.id().to_string();
    let options = [
        "-p", &pid, "-d", "100ms", "--every", "30s", "--format", "hitm",
    ];
    let mut looks = lines(directory.path(), &options)
        .spawn()
        .expect("hitm starts");
    wait_for("the first look", || {
        let is_whole = |path: &PathBuf| path.extension().is_some_and(|own| own == "hitm");
        looks.try_wait().expect("it is a child").is_some()
            || files(directory.path()).iter().any(is_whole)
    });
    // SAFETY: a system call with the number of a child that nobody has waited for.
    unsafe { libc::kill(looks.id() as i32, libc::SIGTERM) };
    let ended = looks.wait_with_output().expect("hitm ends");
    fight.end();
    if !is_allowed(TEST, &ended) {
        return;
    }
    let files = files(directory.path());
    let [file] = &files[..] else {
        panic!("{files:?}");
    };
    let mut report = Command::new(hitm());
    report.args(["report", "-i"]).arg(file);
    let report = report.output().expect("hitm starts");
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(text.starts_with("hitm live lines: process"), "{text}");
}

#[test]
fn without_a_time_between_looks_there_is_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = ["--", "sleep", "0.2"];
    let ended = lines(directory.path(), &options)
        .output()
        .expect("hitm starts");
    if is_allowed("without_a_time_between_looks_there_is_one", &ended) {
        // It found nothing, and says that it looked.
        let files = files(directory.path());
        let [file] = &files[..] else {
            panic!("{files:?}");
        };
        let bytes = std::fs::read(file).expect("a whole file");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        let error = String::from_utf8_lossy(&ended.stderr);
        assert!(error.contains("hitm: wrote "), "{error}");
    }
}

#[test]
fn what_cannot_be_is_refused_before_anybody_looks() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let refused = |output: &Path, options: &[&str]| {
        let options = [options, &["-p", "1"]].concat();
        let ended = lines(output, &options).output().expect("hitm starts");
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{error}");
        error
    };
    let error = refused(directory.path(), &["-d", "2s", "--every", "1s"]);
    assert!(error.contains("no less than --duration 2s"), "{error}");
    let error = refused(directory.path(), &["--every", "5s"]);
    assert!(error.contains("no less than --duration 10s"), "{error}");
    let error = refused(directory.path(), &["-d", "100ms", "--every", "500ms"]);
    assert!(error.contains("expected 1s or more"), "{error}");
    let error = refused(&file, &["-d", "1s"]);
    assert!(error.contains("cannot write to the directory"), "{error}");
    let error = refused(directory.path(), &["--format", "text"]);
    assert!(error.contains("expected --format"), "{error}");
    assert_eq!(files(directory.path()), [file], "nothing was written");
}
