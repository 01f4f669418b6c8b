//! `hitm place` on real threads: placed, put back, and put back after kills.

mod fight;
mod forged;
mod guarded;
mod load;
mod viewed;
mod watched;

use hitm_test::process::{Child, Command, wait_for};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use self::load::{Load, backends, cpus_of};
use crate::programs::say_not_run;

/// The longest time for anything that takes milliseconds on an idle host.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `hitm place` with its own folder of journals.
fn command(journals: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command
        .arg("place")
        .args(args)
        .arg("--journals")
        .arg(journals);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(journals: &Path, args: &[&str]) -> Output {
    command(journals, args).output().expect("hitm starts")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Journals that are there.
fn journals_in(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".journal")).count()
}

/// A load, the folder of the journals, and a placement of the load's whole process.
struct Trial {
    load: Load,
    journals: tempfile::TempDir,
    backend: &'static str,
}

impl Trial {
    fn new(backend: &'static str) -> Trial {
        Trial {
            load: Load::start(),
            journals: tempfile::tempdir().expect("a temporary directory"),
            backend,
        }
    }

    fn folder(&self) -> &Path {
        self.journals.path()
    }

    fn args<'a>(&'a self, pid: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
        let first = [
            "apply",
            "--lock-share",
            "1",
            "--backend",
            self.backend,
            "--pid",
            pid,
        ];
        [&first[..], rest].concat()
    }

    /// Starts a placement and waits until the threads are placed.
    fn place(&self, rest: &[&str]) -> Child {
        let pid = self.load.pid().to_string();
        let child = command(self.folder(), &self.args(&pid, rest)).spawn();
        let child = child.expect("hitm starts");
        self.wait_placed();
        child
    }

    fn wait_placed(&self) {
        wait_for("placed", || {
            self.load.tasks().iter().all(|tid| cpus_of(*tid).len() <= 1)
        });
    }

    fn check_undone(&self) {
        wait_for("undone", || self.load.difference().is_none());
        wait_for("no journal", || journals_in(self.folder()) == 0);
    }

    fn guard_of(&self, tool: u32) -> u32 {
        load::guard_of(tool).expect("a placement has a guard")
    }
}

impl Drop for Trial {
    /// A test that fails leaves nothing behind: its folder of journals goes away.
    fn drop(&mut self) {
        if journals_in(self.folder()) > 0 {
            let _ = run(self.folder(), &["undo"]);
        }
    }
}

/// Runs a test with each means that this host has; with none where there is one CPU only.
fn with_each(what: &str, test: impl Fn(Trial)) {
    if cpus_of(std::process::id()).len() < 2 {
        return say_not_run(what, "one CPU is no choice");
    }
    for backend in backends() {
        test(Trial::new(backend));
    }
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: a signal to a process that this test started.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

#[test]
fn threads_are_placed_for_a_time_and_put_back() {
    with_each("placement", |trial| {
        let pid = trial.load.pid().to_string();
        // On a busy host the time may be over before anybody looks at the masks: hitm says what it did.
        let output = run(trial.folder(), &trial.args(&pid, &["--for", "600ms"]));
        let said = text(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("\nplaced "), "{said}");
        assert!(said.contains("as they were"), "{said}");
        assert!(said.contains(trial.backend), "{said}");
        trial.check_undone();
    });
}

#[test]
fn others_of_the_same_cpuset_are_kept_out() {
    with_each("keeping others out", |trial| {
        if trial.backend != "cpuset-v1" {
            return;
        }
        // A cpuset of the test's own: this host's other threads are left in peace.
        let folder = format!("/sys/fs/cgroup/cpuset/test-place-{}", std::process::id());
        let folder = load::Folder::new(&folder);
        folder.take(trial.load.pid());
        let other = Load::start();
        folder.take(other.pid());
        let pid = trial.load.pid().to_string();
        let args = trial.args(&pid, &["--keep-others-out"]);
        let child = command(trial.folder(), &args).spawn().expect("hitm starts");
        trial.wait_placed();
        let placed = cpus_of(trial.load.pid());
        wait_for("the other is out", || {
            let cpus = cpus_of(other.pid());
            !cpus.is_empty() && cpus.iter().all(|cpu| !placed.contains(cpu))
        });
        kill(child.id(), libc::SIGKILL);
        child.wait_with_output().expect("it ends");
        wait_for("all are back", || {
            [&trial.load, &other]
                .iter()
                .all(|load| cpus_of(load.pid()).len() > 1)
        });
        wait_for("no journal", || journals_in(trial.folder()) == 0);
        drop((trial, other));
        folder.remove();
    });
}

#[test]
fn a_signal_ends_a_placement() {
    with_each("placement", |trial| {
        let child = trial.place(&[]);
        kill(child.id(), libc::SIGINT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        trial.check_undone();
    });
}

#[test]
fn the_guard_undoes_when_the_tool_is_killed() {
    with_each("placement", |trial| {
        let mut child = trial.place(&[]);
        let guard = trial.guard_of(child.id());
        // A terminal's signals do not concern it.
        kill(guard, libc::SIGINT);
        kill(guard, libc::SIGHUP);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        trial.check_undone();
        let left = crate::ends::outliving(&[guard as libc::pid_t], PATIENCE);
        assert!(left.is_empty(), "the guard runs on");
    });
}

#[test]
fn the_tool_starts_another_guard_when_its_guard_is_killed() {
    with_each("placement", |trial| {
        let child = trial.place(&[]);
        let first = trial.guard_of(child.id());
        kill(first, libc::SIGKILL);
        let tool = child.id();
        wait_for("another guard", || {
            load::guard_of(tool).is_some_and(|guard| guard != first)
        });
        assert!(trial.load.difference().is_some(), "still placed");
        kill(child.id(), libc::SIGTERM);
        let output = child.wait_with_output().expect("it ends");
        let said = text(&output);
        assert!(said.contains("the guard died 1 times"), "{said}");
        trial.check_undone();
    });
}

#[test]
fn the_next_start_undoes_when_both_are_killed() {
    with_each("placement", |trial| {
        let mut child = trial.place(&[]);
        load::kill_both(child.id(), trial.folder());
        child.wait().expect("it ends");
        wait_for("the guard's end", || {
            load::processes_of(trial.folder()).is_empty()
        });
        assert!(
            trial.load.difference().is_some(),
            "nobody was left to undo it"
        );
        let output = run(trial.folder(), &["status"]);
        let said = text(&output);
        assert!(said.contains("whose process and guard had died"), "{said}");
        assert!(said.contains("Nothing is placed."), "{said}");
        trial.check_undone();
    });
}

#[test]
fn a_look_at_the_host_undoes_what_the_dead_left_behind() {
    with_each("placement", |trial| {
        let mut child = trial.place(&[]);
        load::kill_both(child.id(), trial.folder());
        child.wait().expect("it ends");
        wait_for("the guard's end", || {
            load::processes_of(trial.folder()).is_empty()
        });
        let pid = std::process::id().to_string();
        let live = ["live", "wakeups", "--counters", "-d", "1ms", "--pid", &pid];
        let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
            .args(live)
            .arg("--journals")
            .arg(trial.folder())
            .output()
            .expect("hitm starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("whose process and guard had died"), "{said}");
        trial.check_undone();
    });
}

#[test]
fn a_placement_that_is_kept_is_shown_and_undone() {
    with_each("placement", |trial| {
        let pid = trial.load.pid().to_string();
        let output = run(
            trial.folder(),
            &trial.args(&pid, &["--keep", "--name", "\u{1b}[2Jx"]),
        );
        let said = text(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("keeps it until"), "{said}");
        trial.wait_placed();
        let shown = run(trial.folder(), &["status"]);
        assert!(text(&shown).contains("\\x1b[2Jx: CPUs"), "{}", text(&shown));
        let shown = run(trial.folder(), &["status", "--format", "json"]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let placement = &shown["placements"][0];
        assert_eq!(placement["backend"], trial.backend);
        assert_eq!(
            (&placement["has_guard"], &placement["has_tool"]),
            (&true.into(), &false.into())
        );
        // Its threads are another placement's.
        let again = run(trial.folder(), &trial.args(&pid, &[]));
        assert!(
            text(&again).contains("another placement has it"),
            "{}",
            text(&again)
        );
        let undone = run(trial.folder(), &["undo"]);
        assert!(text(&undone).contains("Undone: "), "{}", text(&undone));
        trial.check_undone();
    });
}

#[test]
fn a_guard_ends_with_the_tasks_that_it_keeps() {
    with_each("placement", |mut trial| {
        let pid = trial.load.pid().to_string();
        let output = run(
            trial.folder(),
            &trial.args(&pid, &["--keep", "--format", "json"]),
        );
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let guard = answer["guard"].as_u64().expect("a guard") as libc::pid_t;
        trial.load.end();
        let left = crate::ends::outliving(&[guard], PATIENCE);
        assert!(left.is_empty(), "the guard runs on");
        assert_eq!(journals_in(trial.folder()), 0);
    });
}

#[test]
fn a_proof_decides() {
    with_each("proof", |trial| {
        let pid = trial.load.pid().to_string();
        // A count that grows all the time, placed or not.
        let clock = "cut -d ' ' -f 1 /proc/uptime";
        let prove = |gain: &str| {
            let rest = [
                "--for",
                "1ms",
                "--prove-command",
                clock,
                "--prove-time",
                "100ms",
                "--prove-rounds",
                "2",
                "--min-gain",
                gain,
            ];
            run(trial.folder(), &trial.args(&pid, &rest))
        };
        let worse = prove("100000%");
        assert_eq!(worse.status.code(), Some(1), "{}", text(&worse));
        assert!(
            text(&worse).contains("the placement is undone"),
            "{}",
            text(&worse)
        );
        trial.check_undone();
        let better = prove("-99.9%");
        assert_eq!(better.status.code(), Some(0), "{}", text(&better));
        assert!(
            text(&better).contains("the placement stays"),
            "{}",
            text(&better)
        );
        trial.check_undone();
    });
}

#[test]
fn a_damaged_journal_is_told_with_its_line_and_stays() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("1-1.journal"), "0 hitm-place 1\n").expect("a file");
    let output = run(folder.path(), &["status"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("line 1: ") && said.contains("CRC-32C"),
        "{said}"
    );
    assert_eq!(journals_in(folder.path()), 1);
    assert_eq!(run(folder.path(), &["undo"]).status.code(), Some(2));
}

#[test]
fn a_journal_of_another_boot_is_dropped() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let head = [
        "hitm-place 1",
        "boot 00-11",
        "tool 1 1",
        "since 1",
        "backend affinity",
        "cpus 0",
        "name x",
    ];
    // This process's threads are not touched by it.
    let pid = std::process::id();
    let task = format!("task {pid} 1 {pid} bound 0");
    let lines = head.into_iter().chain([task.as_str()]);
    let lines = lines.map(|line| format!("{:08x} {line}\n", load::crc32c(line.as_bytes())));
    fs::write(folder.path().join("1-1.journal"), lines.collect::<String>()).expect("a file");
    let said = text(&run(folder.path(), &["status"]));
    assert!(said.contains("dropped 1 journals"), "{said}");
    assert_eq!(journals_in(folder.path()), 0);
}

#[test]
fn wrong_wishes_are_wrong_usage() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let pid = std::process::id().to_string();
    let check = |args: &[&str], expected: &str| {
        let output = run(folder.path(), args);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    };
    check(&["plan", "--lock-share", "2", "--pid", &pid], "at most 1");
    check(
        &["plan", "--lock-share", "nan", "--pid", &pid],
        "more than 0",
    );
    check(
        &["plan", "--lock-share", "1", "--tids", "4194305"],
        "no task has the number",
    );
    check(
        &["plan", "--lock-share", "1", "--pid", "4194305"],
        "no process",
    );
    check(
        &["plan", "--lock-share", "1", "--cgroup", "/no/such"],
        "neither the folder",
    );
    check(&["plan", "--lock-share", "1"], "required");
    check(
        &[
            "plan",
            "--lock-share",
            "1",
            "--pid",
            &pid,
            "--backend",
            "numad",
        ],
        "affinity",
    );
    check(
        &["apply", "--lock-share", "1", "--pid", &pid, "--for", "5"],
        "such as 500ms",
    );
    let guard = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .args([
            "place",
            "guard",
            "--journal",
            "/nowhere",
            "--descriptor",
            "77",
        ])
        .stdin(Stdio::null())
        .output();
    assert_eq!(guard.expect("hitm starts").status.code(), Some(2));
}

#[test]
fn a_folder_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), open).expect("it is ours");
    let output = run(folder.path(), &["status"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("others may write to it"),
        "{}",
        text(&output)
    );
}
