//! Programs of several processes: all of them are recorded, and what they share is one memory.

use hitm_test::process::{Command, below, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use hitm_base::Cycles;
use hitm_trace::{BlockEncoder, End, EndReason, Header, Record, Totals, TraceWriter};
use serde_json::Value;

use crate::ends::{OUTLIVES_MAX, outliving};
use crate::programs::{self, hitm, report, run};

/// Does some work, or has it done by another process.
const TREE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	char *how = argv[1];

	if (!strcmp(how, "work")) {
		for (volatile long left = atol(argv[2]); left > 0; left--)
			;
		return 0;
	}
	if (!strcmp(how, "closed"))
		for (int fd = 3; fd < 256; fd++)
			close(fd);
	if (!strcmp(how, "spawn")) {
		char *args[] = {argv[0], "work", argv[2], 0};
		pid_t pid;
		int status;

		if (posix_spawn(&pid, argv[0], 0, 0, args, environ))
			return 9;
		waitpid(pid, &status, 0);
		return WEXITSTATUS(status) + 3;
	}
	if (!strcmp(how, "system")) {
		char line[4096];

		snprintf(line, sizeof(line), "%s work %s", argv[0], argv[2]);
		return system(line) + 4;
	}
	if (!strcmp(how, "daemon")) {
		if (fork())
			return 5;
		setsid();
		if (fork())
			_exit(0);
	}
	execl(argv[0], argv[0], "work", argv[2], (char *)0);
	return 8;
}
"#;

/// Instructions of the least work that is asked for.
const WORK: u64 = 1_000_000;

fn build(directory: &Path, name: &str, text: &str, options: &[&str]) -> PathBuf {
    let source = directory.join(format!("{name}.c"));
    fs::write(&source, text).expect("a temporary file");
    let program = directory.join(name);
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-g", "-pthread", "-o"]);
    compiler.arg(&program).arg(&source).args(options);
    let status = compiler.status().expect("there is a C compiler");
    assert!(status.success(), "{name} compiles");
    program
}

/// Records a command into `x.hitm`.
fn record(directory: &Path, options: &[&str], command: &[&str]) -> Output {
    let mut recorder = Command::new(hitm());
    recorder.args(["record", "-o", "x.hitm"]).args(options);
    recorder.arg("--").args(command).current_dir(directory);
    // A make in the program would take itself for one that the make of these tests started, and say where it works.
    recorder.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    recorder.output().expect("hitm starts")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// The programs that worked: names of their files, and how each ended.
fn workers(report: &Value) -> Vec<(String, String)> {
    let processes = report["processes"].as_array().expect("several processes");
    let worked = processes
        .iter()
        .filter(|process| process["instruction_count"].as_u64() >= Some(WORK));
    let named = worked.map(|process| {
        let program = Path::new(text(&process["program"])).file_name();
        let name = program.expect("a file").to_string_lossy().into_owned();
        (name, text(&process["end"]).to_owned())
    });
    named.collect()
}

/// Whatever way a program is started in, it is in the recording, and the exit status is the native one.
#[test]
fn every_way_to_start_a_program_is_followed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    build(directory.path(), "tree", TREE, &[]);
    build(directory.path(), "fixed", TREE, &["-static"]);
    let script = directory.path().join("script");
    fs::write(&script, "#!/bin/sh\nexec ./tree work $1\n").expect("a temporary file");
    make_runnable(&script);
    let commands: [(&[&str], &str); 8] = [
        (&["./tree", "exec", "400000"], "tree"),
        (&["./tree", "closed", "400000"], "tree"),
        (&["./tree", "spawn", "400000"], "tree"),
        (&["./tree", "system", "400000"], "tree"),
        (&["./tree", "daemon", "400000"], "tree"),
        (&["./script", "400000"], "tree"),
        (&["env", "-i", "./fixed", "closed", "400000"], "fixed"),
        (
            &["sh", "-c", "(./fixed spawn 400000); ./tree work 1; exit 6"],
            "fixed",
        ),
    ];
    for (command, worker) in commands {
        let native = Command::new(command[0])
            .args(&command[1..])
            .current_dir(directory.path())
            .output()
            .expect("the command runs");
        let recorded = record(directory.path(), &[], command);
        let said = String::from_utf8_lossy(&recorded.stderr);
        assert_eq!(
            recorded.status.code(),
            native.status.code(),
            "{command:?}: {said}"
        );
        let report = report(&directory.path().join("x.hitm"));
        assert_eq!(report["run"]["complete"], true, "{command:?}");
        let expected = [(worker.to_owned(), "exit 0".to_owned())];
        assert_eq!(workers(&report), expected, "{command:?}");
    }
}

/// A build runs many programs at once, and makes what it makes natively.
#[test]
fn a_parallel_build_is_recorded_as_a_whole() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let makefile = "all: a.o b.o c.o\n\t@cat a.o b.o c.o | wc -l\n%.o: %.x\n\t@sort -r $< > $@\n";
    fs::write(directory.path().join("Makefile"), makefile).expect("a temporary file");
    for name in ["a.x", "b.x", "c.x"] {
        fs::write(directory.path().join(name), "1\n3\n2\n").expect("a temporary file");
    }
    let recorded = record(directory.path(), &[], &["make", "-j4"]);
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "9\n");
    let report = report(&directory.path().join("x.hitm"));
    let processes = report["processes"].as_array().expect("several processes");
    let count = |name: &str| {
        let ends = processes.iter().map(|process| text(&process["program"]));
        ends.filter(|program| program.ends_with(name)).count()
    };
    assert_eq!((count("/sort"), count("/cat"), count("/wc")), (3, 1, 1));
    let pids: Vec<u64> = processes
        .iter()
        .filter_map(|one| one["pid"].as_u64())
        .collect();
    assert!(pids.len() > 5 && pids.iter().all(|pid| *pid > 0));
}

/// Children that are not to be followed run, and are counted.
#[test]
fn one_process_alone_is_recorded_on_demand() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = "for i in 1 2 3; do (echo child $i); done; echo end";
    let recorded = record(directory.path(), &["--follow", "no"], &["sh", "-c", script]);
    let said = String::from_utf8_lossy(&recorded.stdout);
    assert_eq!(said, "child 1\nchild 2\nchild 3\nend\n");
    let report = report(&directory.path().join("x.hitm"));
    assert!(report["processes"].is_null(), "there is one only");
    let notes = report["diagnostics"].to_string();
    assert!(
        notes.contains("3 forked child processes were not recorded"),
        "{notes}"
    );
}

/// A 32-bit program for Linux that ends with status 7.
fn small_program() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const CODE: [u8; 12] = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let len = 84 + CODE.len() as u32;
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend([2, 0, 3, 0, 1, 0, 0, 0]);
    for word in [BASE + 84, 52, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [1, 0, BASE, BASE, len, len, 5, 4096] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(CODE);
    bytes
}

/// A program that no emulator of the recording runs, runs as it would, and is named.
#[test]
fn a_program_that_is_not_followed_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let small = directory.path().join("small");
    fs::write(&small, small_program()).expect("a temporary file");
    make_runnable(&small);
    if Command::new(&small)
        .status()
        .map(|status| status.code())
        .ok()
        != Some(Some(7))
    {
        return programs::say_not_run("32-bit programs", "this kernel runs none");
    }
    let recorded = record(
        directory.path(),
        &[],
        &["sh", "-c", "./small; ./small; echo $?"],
    );
    assert_eq!(String::from_utf8_lossy(&recorded.stdout), "7\n");
    let said = String::from_utf8_lossy(&recorded.stderr);
    let expected = "./small ran unrecorded 2 times (another architecture)";
    assert!(said.contains(expected), "{said}");
    let notes = report(&directory.path().join("x.hitm"))["diagnostics"].to_string();
    assert!(notes.contains("./small ran unrecorded, 2 times"), "{notes}");
}

fn make_runnable(path: &Path) {
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).expect("a temporary file");
}

/// Four workers, each on its own member of one structure, as threads or as processes.
const SHARING: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

struct counters {
	struct { volatile long count; char pad[PAD]; } of[4];
} __attribute__((aligned(64)));

struct shared {
	atomic_int ready;
	char apart[252];
	struct counters counters;
} *shared;

static void *work(void *number)
{
	atomic_fetch_add(&shared->ready, 1);
	while (atomic_load(&shared->ready) < 4)
		;
	for (int i = 0; i < 20000; i++)
		shared->counters.of[(long)number].count++;
	return 0;
}

static void *map(const char *how)
{
	int fd = -1;

	if (!strcmp(how, "threads"))
		return aligned_alloc(256, 4096);
	if (!strcmp(how, "sysv"))
		return shmat(shmget(IPC_PRIVATE, 4096, 0600), 0, 0);
	if (!strcmp(how, "file")) {
		fd = open("./memory", O_RDWR | O_CREAT, 0600);
	} else if (!strcmp(how, "memfd")) {
		fd = memfd_create("counters", 0);
	} else {
		return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	}
	if (ftruncate(fd, 4096))
		return 0;
	return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

int main(int argc, char **argv)
{
	pthread_t threads[4];

	shared = map(argv[1]);
	memset(shared, 0, sizeof(*shared));
	for (long i = 1; i < 4; i++)
		if (!strcmp(argv[1], "threads"))
			pthread_create(&threads[i], 0, work, (void *)i);
		else if (!fork()) {
			work((void *)i);
			_exit(0);
		}
	work(0);
	for (int i = 1; i < 4; i++)
		if (!strcmp(argv[1], "threads"))
			pthread_join(threads[i], 0);
		else
			wait(0);
	return 0;
}
"#;

/// Cycles lost by false sharing, and the line's name.
fn false_sharing(directory: &Path, program: &str, how: &str) -> (f64, String) {
    let recorded = record(directory, &[], &[program, how]);
    assert!(recorded.status.success(), "{how}");
    let report = report(&directory.join("x.hitm"));
    let lines = report["lines"].as_array().expect("a list");
    let line = lines.iter().find(|line| line["verdict"] == "false-sharing");
    line.map_or((0.0, String::new()), |line| {
        let lost = line["lost_cycles"].as_f64().expect("a number");
        let origin = line["objects"][0]["origin"].as_str().unwrap_or_default();
        (lost, format!("{} of {origin}", text(&line["name"])))
    })
}

#[test]
fn processes_share_lines_as_threads_do() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    build(directory.path(), "packed", SHARING, &["-DPAD=8"]);
    build(directory.path(), "padded", SHARING, &["-DPAD=120"]);
    let (threads, _) = false_sharing(directory.path(), "./packed", "threads");
    assert!(threads > 1e6, "{threads}");
    for how in ["anonymous", "file", "memfd", "sysv"] {
        let (lost, name) = false_sharing(directory.path(), "./packed", how);
        assert!(
            (lost / threads - 1.0).abs() < 0.05,
            "{how}: {lost} and {threads}"
        );
        let expected = match how {
            "file" => "memory",
            "memfd" => "memfd:counters",
            "sysv" => "SYSV",
            _ => "",
        };
        assert!(name.contains(expected), "{how}: {name}");
        let (lost, _) = false_sharing(directory.path(), "./padded", how);
        assert!(lost < threads / 100.0, "{how}: {lost}");
    }
}

/// Whatever the recorder dies of, none of eight processes lives on.
#[test]
fn no_process_outlives_a_killed_recorder() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = "for i in 1 2 3 4 5 6 7; do (while :; do :; done) & done; while :; do :; done";
    for delay_ms in [0, 700] {
        let mut recorder = Command::new(hitm());
        recorder.args(["record", "-o", "x.hitm", "--", "sh", "-c", script]);
        recorder.current_dir(directory.path()).stdout(Stdio::null());
        let mut recorder = recorder.stderr(Stdio::null()).spawn().expect("hitm starts");
        // Its own child, the shell, and the seven that this one starts.
        wait_for("eight processes", || below(recorder.id()).len() >= 8);
        std::thread::sleep(Duration::from_millis(delay_ms));
        let pids: Vec<_> = below(recorder.id())
            .into_iter()
            .map(|pid| pid as libc::pid_t)
            .collect();
        recorder.kill().expect("it runs");
        recorder.wait().expect("it is gone");
        assert_eq!(outliving(&pids, OUTLIVES_MAX), [0; 0]);
        let report = report(&directory.path().join("x.hitm"));
        assert_eq!(report["run"]["complete"], false);
    }
}

/// A report of no instruction says so, and a gate over it fails.
#[test]
fn nothing_is_no_clean_bill() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let machine = hitm_base::machine::preset("broadwell-4s").expect("a preset");
    let header = Header {
        machine_toml: machine.to_owned(),
        ..hitm_test::recording::header()
    };
    let mut encoder = BlockEncoder::new(vec![0; 4096]);
    let end = End {
        time: Cycles::ZERO,
        reason: EndReason::Exited { status: 0 },
        totals: Totals::default(),
    };
    encoder.push(&Record::End(end)).expect("there is room");
    let mut writer = TraceWriter::new(Vec::new(), &header).expect("memory takes it");
    let written = writer.write_block(encoder.meta(), encoder.bytes());
    written.expect("memory takes it");
    let bytes = writer.finish().expect("memory takes it");
    fs::write(directory.path().join("x.hitm"), bytes).expect("a temporary file");
    let said = report(&directory.path().join("x.hitm"))["diagnostics"].to_string();
    assert!(said.contains("nothing was recorded"), "{said}");
    let args = ["report", "-i", "x.hitm", "--fail-on", "false-sharing"];
    let gate = run(directory.path(), &args);
    assert_eq!(gate.status.code(), Some(1));
    let said = String::from_utf8_lossy(&gate.stderr);
    assert!(said.contains("a gate over nothing"), "{said}");
}
