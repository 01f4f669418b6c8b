//! Recordings that are turned on and off, and what a program and its user notice of one.

use hitm_test::process::{Child, Command, wait_for};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::programs::{hitm, report, run};
use crate::pty::Pty;
use crate::recording::{endless, programs_of, signal, ticks_of, wait_for_work};

/// Two threads that fight over one line after the other: a line of standard input sends them to the
/// next, and a line of output says that they are there.
const PHASES: &str = r#"
#include <pthread.h>
#include <stdio.h>

struct pair { volatile long of[2]; long rest[6]; };
struct pair before __attribute__((aligned(64)));
struct pair during __attribute__((aligned(64)));
struct pair after __attribute__((aligned(64)));
static struct pair *pairs[] = {&before, &during, &after};
static volatile int phase __attribute__((aligned(64)));
static volatile int done;

static void *work(void *which)
{
	while (!done)
		pairs[phase]->of[(long)which]++;
	return 0;
}

int main(void)
{
	pthread_t threads[2];

	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, work, (void *)i);
	setvbuf(stdout, 0, _IOLBF, 64);
	for (int byte; (byte = getchar()) != EOF;) {
		phase += byte == '\n';
		printf("%d\n", phase);
	}
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 7;
}
"#;

/// A thread with the least stack there is, which uses all but some of it and then allocates.
const SMALL: &str = r#"
#include <alloca.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static long used;

static void *work(void *unused)
{
	char *bytes = alloca(used);
	void *volatile block;

	memset(bytes, 1, used);
	block = malloc(100);
	free(block);
	return bytes[used / 2] == 1 && block ? unused : &used;
}

int main(int argc, char **argv)
{
	pthread_attr_t small;
	pthread_t thread;
	void *result;

	used = atol(argv[1]);
	pthread_attr_init(&small);
	if (pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN))
		return 2;
	if (pthread_create(&thread, &small, work, 0))
		return 3;
	pthread_join(thread, &result);
	return result ? 4 : 0;
}
"#;

fn build(directory: &Path, name: &str, text: &str) {
    let source = directory.join(format!("{name}.c"));
    fs::write(&source, text).expect("a temporary file");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-pthread", "-Wl,-z,now", "-o", name]);
    let status = compiler.arg(&source).current_dir(directory).status();
    assert!(status.expect("there is a C compiler").success());
}

fn make_fifo(path: &Path) -> File {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path");
    // SAFETY: a system call with a name that ends.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // Both ways, so that nobody waits for the other end.
    let mut options = File::options();
    options.read(true).write(true);
    options.open(path).expect("the FIFO is there")
}

/// A recording under control.
struct Controlled {
    child: Child,
    commands: File,
    answers: File,
}

impl Controlled {
    fn start(directory: &Path, options: &[&str], program: &[&str]) -> Controlled {
        let commands = make_fifo(&directory.join("commands"));
        let answers = make_fifo(&directory.join("answers"));
        let mut command = Command::new(hitm());
        command.args(["record", "-o", "x.hitm", "--control", "commands,answers"]);
        command.args(options).args(program).current_dir(directory);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Controlled {
            child: command.spawn().expect("hitm starts"),
            commands,
            answers,
        }
    }

    /// Gives a command and waits until it is obeyed.
    fn say(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("the FIFO takes it");
        let mut answer = [0; 4];
        self.answers.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"ack\n");
    }

    /// Lets the program work for a while: by the time that it has, whatever else the host does.
    fn work(&self) {
        let ticks = || {
            programs_of(&self.child)
                .into_iter()
                .map(ticks_of)
                .sum::<u64>()
        };
        let end = ticks() + 40;
        wait_for("work", || ticks() >= end);
    }

    /// Sends the program to its next phase, and waits until it is there.
    fn next_phase(&mut self) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(b"\n").expect("the program reads");
        let output = self.child.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut [0; 2]).expect("the program writes");
    }

    fn end(mut self) -> Output {
        drop(self.child.stdin.take());
        self.child.wait_with_output().expect("hitm ends")
    }
}

/// The objects with more than a few contended cycles.
fn objects(report: &Value) -> Vec<&str> {
    let lines = report["lines"].as_array().expect("lines");
    let names = lines
        .iter()
        .map(|line| line["name"].as_str().unwrap_or_default());
    names
        .filter(|name| ["before", "during", "after"].contains(name))
        .collect()
}

#[test]
fn only_what_happens_between_enable_and_disable_is_recorded() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    build(directory, "phases", PHASES);
    let mut recording = Controlled::start(directory, &["--delay", "-1"], &["./phases"]);
    wait_for_work(&recording.child);
    recording.next_phase();
    recording.work();
    recording.say("enable");
    recording.work();
    recording.say("disable");
    recording.work();
    recording.next_phase();
    recording.work();
    recording.say("ping");
    writeln!(recording.commands, "snapshot").expect("the FIFO takes it");
    recording.say("ping");
    let output = recording.end();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(
        said.contains("1 lines of --control were no commands"),
        "{said}"
    );
    let report = report(&directory.join("x.hitm"));
    assert_eq!(report["run"]["complete"], true);
    assert_eq!(objects(&report), ["during"]);
    let share = report["lines"][0]["run_share"].as_f64();
    assert!(
        share > Some(0.3),
        "the line is most of what was recorded: {share:?}, {:#}",
        report["run"]
    );
}

#[test]
fn a_recording_is_turned_off_and_on_again_and_stopped() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    build(directory, "phases", PHASES);
    let mut recording = Controlled::start(directory, &[], &["./phases"]);
    wait_for_work(&recording.child);
    recording.say("disable");
    recording.work();
    recording.next_phase();
    recording.work();
    recording.next_phase();
    recording.say("start");
    recording.work();
    recording.say("stop");
    // The end of its input is another reason for which the program ends.
    let _input = recording.child.stdin.take();
    let output = recording.end();
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM));
    let report = report(&directory.join("x.hitm"));
    assert_eq!(report["run"]["complete"], true);
    let mut names = objects(&report);
    names.sort_unstable();
    assert_eq!(names, ["after", "before"]);
}

/// The time of a recording counts from its own beginning.
#[test]
fn a_delay_comes_before_the_duration() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let begun = Instant::now();
    let mut command = endless(directory, &["-D", "1500ms", "--duration", "1500ms"]);
    let output = command.output().expect("hitm starts");
    assert_eq!(output.status.code(), Some(128 + libc::SIGTERM));
    assert!(begun.elapsed() >= Duration::from_secs(3));
    let report = report(&directory.join("killed.hitm"));
    assert_eq!(report["run"]["complete"], true);
    assert_eq!(report["lines"][0]["verdict"], "false-sharing");
}

/// A program that ends before its recording begins: the file says that there is nothing in it.
#[test]
fn a_delay_longer_than_the_program_records_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let args = ["record", "-o", "x.hitm", "-D", "10m", "sh", "-c", "exit 3"];
    let output = run(directory, &args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let report = run(directory, &["report", "-i", "x.hitm"]);
    let said = String::from_utf8_lossy(&report.stderr).into_owned()
        + &String::from_utf8_lossy(&report.stdout);
    assert!(said.contains("nothing was recorded"), "{said}");
}

#[test]
fn a_control_that_cannot_work_is_wrong_usage() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    fs::write(directory.join("file"), "stop\n").expect("a temporary file");
    for (options, expected) in [
        (&["--delay", "-1"][..], "--delay -1 needs --control"),
        (&["--control", "file"], "cannot take commands from file"),
        (
            &["--control", "missing"],
            "cannot take commands from missing",
        ),
        (&["--control", ",x"], "expected FIFO or FIFO,FIFO"),
    ] {
        let args = [&["record", "-o", "x.hitm"][..], options, &["true"]].concat();
        let output = run(directory, &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!directory.join("x.hitm").exists(), "nothing is written");
    }
}

/// The observer of allocations takes nothing of a thread's stack that the thread could miss.
#[test]
fn a_thread_with_the_least_stack_has_it_for_itself() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    build(directory, "small", SMALL);
    let works = |command: &mut Command, used: u32| {
        command.arg(used.to_string()).current_dir(directory);
        command.output().expect("it starts").status.success()
    };
    // As much as it can use without hitm, to 64 bytes.
    let (mut most, mut too_much) = (64, 64 << 10);
    while too_much - most > 64 {
        let middle = (most + too_much) / 2;
        match works(&mut Command::new("./small"), middle) {
            true => most = middle,
            false => too_much = middle,
        }
    }
    assert!(most > 4096, "{most}");
    // QEMU has signal frames and thread storage like the kernel's and the C library's.
    const SLACK: u32 = 768;
    let mut recorder = Command::new(hitm());
    recorder.args(["record", "-o", "x.hitm", "./small"]);
    assert!(works(&mut recorder, most - SLACK), "{most}");
}

/// A standard output that is a terminal as well belongs to the program: a line now and then, no
/// bar.
#[test]
fn a_recording_tells_how_far_it_is_on_the_programs_own_terminal() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = endless(directory.path(), &[]);
    let mut pty = Pty::start(&mut command, ratatui::layout::Size::new(100, 20));
    pty.wait_for("hitm: recording: ");
    signal(&pty.child, libc::SIGTERM);
    assert_eq!(pty.end().code(), Some(128 + libc::SIGTERM));
}
