//! A program whose threads fight for one lock: placed by a recording, and watched.

use hitm_test::process::{Child, Command, wait_for};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Instant;

use hitm_live::shim::Launch;
use serde_json::Value;

use super::{PATIENCE, command, cpus_of, journals_in, kill, load, run, text};
use crate::programs::{self, say_not_run};

/// Four threads write 32 MiB at a time to one file in memory, whose inode they hold nearly always. SIGUSR1 ends the
/// fight and begins it again.
const SOURCE: &str = "
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 32 << 20 };

static volatile sig_atomic_t is_calm;
static int file;

static void toggle(int signal)
{
	(void)signal;
	is_calm = !is_calm;
}

static void *fight(void *block)
{
	for (;;)
		if (is_calm)
			usleep(10000);
		else if (pwrite(file, block, BYTES, 0) < 0)
			_exit(1);
	return 0;
}

int main(void)
{
	char *block = calloc(1, BYTES);
	pthread_t thread;

	file = memfd_create(\"fight\", 0);
	signal(SIGUSR1, toggle);
	if (file < 0 || !block)
		return 1;
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, 0, fight, block);
	for (;;)
		pause();
}
";

fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let build = || {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let source = directory.path().join("fight.c");
        fs::write(&source, SOURCE).expect("a file in it");
        let program = programs::build(directory.path(), "fight", &source, &[]);
        (directory, program)
    };
    &PROGRAM.get_or_init(build).1
}

pub(super) struct Fight(Child);

impl Fight {
    pub(super) fn start() -> Fight {
        Fight::by(Command::new(program()))
    }

    /// Four threads that have a mutex for nearly all of their time.
    fn for_a_mutex(folder: &Path) -> Fight {
        let source = programs::root().join("crates/hitm-live/tests/programs/hold_share.c");
        let program = programs::build(folder, "hold_share", &source, &[]);
        let mut command = Command::new(program);
        command.args(["mutex", "4", "2000000", "1000", "120000"]);
        Fight::by(command)
    }

    fn by(mut command: Command) -> Fight {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Fight(command.spawn().expect("the program starts"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// CPUs of its threads, each different set once.
    fn cpus(&self) -> Vec<Vec<usize>> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid()));
        let tids = tasks.into_iter().flatten().flatten();
        let tids = tids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut cpus: Vec<Vec<usize>> = tids.map(cpus_of).collect();
        cpus.sort();
        cpus.dedup();
        cpus
    }

    /// Waits until a thread of it may run on fewer CPUs than its first one, which does not fight.
    fn wait_placed(&self) {
        wait_for("a placement", || self.cpus().len() == 2);
    }

    pub(super) fn is_everywhere(&self) -> bool {
        self.cpus() == [cpus_of(std::process::id())]
    }
}

impl Drop for Fight {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test where this host has samples, several CPUs and BPF, which sees sleeping waiters.
pub(super) fn here(what: &str, needs_bpf: bool) -> bool {
    if cpus_of(std::process::id()).len() < 2 {
        say_not_run(what, "one CPU is no choice");
        return false;
    }
    let doctor = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .arg("doctor")
        .output();
    let doctor = text(&doctor.expect("hitm starts"));
    let works = |subject: &str| {
        let mut lines = doctor.lines();
        lines.any(|line| line.starts_with("ok") && line.contains(subject))
    };
    let missing = [("sample locks", true), ("observe throttling", needs_bpf)];
    let missing = missing
        .into_iter()
        .find(|(subject, is_needed)| *is_needed && !works(subject));
    if let Some((subject, _)) = missing {
        say_not_run(what, &format!("hitm doctor misses: {subject}"));
        return false;
    }
    true
}

fn hitm(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.args(args).stdin(Stdio::null());
    command
}

#[test]
fn a_recording_tells_the_lock_its_share_and_its_threads() {
    if !here("placing by a recording", true) {
        return;
    }
    let fight = Fight::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("locks.json");
    let file = file.to_str().expect("UTF-8");
    let pid = fight.pid().to_string();
    let record = ["live", "locks", "-p", &pid, "-d", "2s", "--record", file];
    let recorded = hitm(&record).output().expect("hitm starts");
    assert!(recorded.status.success(), "{}", text(&recorded));
    let plan = |args: &[&str]| {
        let first = ["plan", "--format", "json", "-i", file];
        run(folder.path(), &[&first[..], args].concat())
    };
    let output = plan(&[]);
    let said = text(&output);
    let planned: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let share = planned["lock_share"].as_f64().expect("a share");
    assert!(share > 0.8, "{said}");
    let name = planned["name"].as_str().expect("a name");
    assert!(name.starts_with("rwsem "), "{said}");
    // Threads that never fight are not bound to the lock.
    let tasks = planned["tasks"].as_array().expect("tasks");
    let tids: Vec<u64> = tasks
        .iter()
        .filter_map(|task| task["tid"].as_u64())
        .collect();
    assert!((2..=4).contains(&tids.len()), "{said}");
    assert!(!tids.contains(&u64::from(fight.pid())), "{said}");
    assert_eq!(plan(&["--lock", "rwsem"]).status.code(), Some(0));
    let other = plan(&["--lock", "no such lock"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other).contains(name), "{}", text(&other));
    // The threads have ended: nothing is left to place.
    drop(fight);
    let ended = plan(&[]);
    assert!(
        text(&ended).contains("no thread is left"),
        "{}",
        text(&ended)
    );
}

#[test]
fn other_files_are_no_recordings_of_locks() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let check = |args: &[&str], expected: &str| {
        let output = run(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(expected), "{}", text(&output));
    };
    let file = folder.path().join("other");
    fs::write(&file, "{\"hitm_live\":2}").expect("a file");
    let file = file.to_str().expect("UTF-8");
    check(&["plan", "-i", file], "hitm live locks --record");
    check(&["plan", "-i", "/no/such"], "/no/such");
    check(&["plan", "--lock-share", "1", "-i", file], "cannot be used");
    check(&["plan", "--pid", "1"], "--input FILE is required");
    check(
        &["plan", "--lock-share", "1", "--lock", "x", "--pid", "1"],
        "--input FILE is required",
    );
    check(&["apply", "--watch"], "--pid PID or --cgroup PATH");
    check(&["apply", "--watch", "--pid", "4194305"], "no process");
    check(
        &["apply", "--watch", "--pid", "1", "--keep"],
        "cannot be used",
    );
}

/// A watch of the fight, by masks: the means with the least rights.
fn watch(journals: &Path, fight: &Fight, rest: &[&str]) -> Child {
    let pid = fight.pid().to_string();
    let args = [
        "apply",
        "--watch",
        "--pid",
        &pid,
        "--backend",
        "affinity",
        "--window",
        "500ms",
    ];
    let child = command(journals, &[&args[..], rest].concat()).spawn();
    child.expect("hitm starts")
}

/// Reads lines until one has a text.
fn wait_line(output: &mut impl BufRead, expected: &str) {
    let begun = Instant::now();
    let mut line = String::new();
    while !line.contains(expected) {
        assert!(begun.elapsed() < PATIENCE, "no {expected:?}: {line}");
        line.clear();
        let read = output.read_line(&mut line).expect("UTF-8");
        assert!(read > 0, "it ended without {expected:?}");
    }
}

#[test]
fn a_watch_places_releases_and_ends_with_its_process() {
    if !here("watching", true) {
        return;
    }
    let fight = Fight::start();
    let journals = tempfile::tempdir().expect("a temporary directory");
    let mut child = watch(journals.path(), &fight, &[]);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    wait_line(&mut output, ": held ");
    fight.wait_placed();
    assert_eq!(journals_in(journals.path()), 1);
    kill(fight.pid(), libc::SIGUSR1);
    wait_line(&mut output, "calm, released rwsem ");
    assert!(fight.is_everywhere(), "{:?}", fight.cpus());
    assert_eq!(journals_in(journals.path()), 0);
    kill(fight.pid(), libc::SIGUSR1);
    wait_line(&mut output, ": held ");
    drop(fight);
    wait_line(&mut output, "ended; nothing was placed");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert_eq!(journals_in(journals.path()), 0);
}

/// Its word names the owner, so that windows of the watch have its share.
#[test]
fn a_watch_places_the_threads_of_a_programs_own_lock() {
    if !here("watching", true) {
        return;
    }
    let journals = tempfile::tempdir().expect("a temporary directory");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let fight = Fight::for_a_mutex(folder.path());
    let mut child = watch(journals.path(), &fight, &[]);
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    wait_line(&mut output, "futex word of mutex");
    fight.wait_placed();
    drop(fight);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(journals_in(journals.path()), 0);
}

#[test]
fn a_watch_that_ends_leaves_nothing_behind() {
    if !here("watching", true) {
        return;
    }
    let fight = Fight::start();
    let journals = tempfile::tempdir().expect("a temporary directory");
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let child = watch(journals.path(), &fight, &["--format", "json"]);
        fight.wait_placed();
        kill(child.id(), signal);
        let output = child.wait_with_output().expect("it ends");
        if signal == libc::SIGINT {
            let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let changes = answer["changes"].as_array().expect("changes");
            let is_placed = |change: &Value| change["change"] == "placed";
            assert!(changes.iter().any(is_placed), "{answer}");
            assert_eq!(answer["undone"]["problems"], serde_json::json!([]));
        }
        wait_for("everything as before", || fight.is_everywhere());
        wait_for("no journal", || journals_in(journals.path()) == 0);
    }
}

#[test]
fn a_watch_that_dies_with_its_guard_is_undone_by_the_next_start() {
    if !here("watching", true) {
        return;
    }
    let fight = Fight::start();
    let journals = tempfile::tempdir().expect("a temporary directory");
    let mut child = watch(journals.path(), &fight, &[]);
    fight.wait_placed();
    load::kill_both(child.id(), journals.path());
    child.wait().expect("it ends");
    wait_for("the guard's end", || {
        load::processes_of(journals.path()).is_empty()
    });
    assert!(!fight.is_everywhere(), "nobody was left to undo it");
    let said = text(&run(journals.path(), &["status"]));
    assert!(said.contains("whose process and guard had died"), "{said}");
    assert!(fight.is_everywhere(), "{:?}", fight.cpus());
    assert_eq!(journals_in(journals.path()), 0);
}

#[test]
fn acquisitions_of_locks_prove_a_placement() {
    if cpus_of(std::process::id()).len() < 2 {
        return say_not_run("proof by acquisitions", "one CPU is no choice");
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let loads = programs::root().join("guest/loads.c");
    let loads = programs::build(folder.path(), "loads", &loads, &[]);
    let start = |launch: Option<&Launch>| {
        let mut command = Command::new(&loads);
        command.args(["mutex", "--threads", "3", "--seconds", "600"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(launch) = launch {
            launch.observe(&mut command);
        }
        Fight(command.spawn().expect("the load starts"))
    };
    let prove = |load: &Fight, gain: &str| {
        let pid = load.pid().to_string();
        let lock = ["apply", "--lock-share", "1", "--pid", &pid, "--for", "1ms"];
        let proof = ["--prove", "lock-acquisitions", "--min-gain", gain];
        let rounds = ["--prove-rounds", "1", "--prove-time", "300ms"];
        let means = ["--backend", "affinity"];
        run(
            folder.path(),
            &[&lock[..], &proof, &rounds, &means].concat(),
        )
    };
    let launch = Launch::prepare(hitm_test::program::built()).expect("the library is there");
    let load = start(Some(&launch));
    wait_for("locks", || {
        let seen = launch.read().expect("a region").locks;
        seen.iter().any(|lock| lock.acquisitions > 100)
    });
    let better = prove(&load, "-99.9%");
    let said = text(&better);
    assert_eq!(better.status.code(), Some(0), "{said}");
    assert!(
        said.contains("Proof by lock-acquisitions, a second"),
        "{said}"
    );
    assert_eq!(prove(&load, "1000000%").status.code(), Some(1));
    assert!(load.is_everywhere(), "{:?}", load.cpus());
    // Nobody counts its locks.
    let other = prove(&start(None), "-99.9%");
    assert_eq!(other.status.code(), Some(3));
    assert!(text(&other).contains("preloaded"), "{}", text(&other));
}
