//! Programs that make namespaces of processes: what runs inside is recorded, whatever pids it sees.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ends::outliving;
use crate::programs::{self, hitm, record_within, report, run_within, say_not_run};
use hitm_test::process::Command;

/// Does some work in two threads, by itself or in children that it starts as the init of a container does.
const WORKER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long counts[2];

static void *count(void *number)
{
	for (int i = 0; i < 30000; i++)
		__atomic_add_fetch(&counts[(long)number], 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void work(void)
{
	pthread_t threads[2];

	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, count, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
}

int main(int argc, char **argv)
{
	char *how = argc > 1 ? argv[1] : "";
	int status, sum = 0;

	if (!strcmp(how, "init")) {
		for (int i = 0; i < 3; i++) {
			if (fork())
				continue;
			work();
			if (i == 0)
				execl(argv[0], argv[0], (char *)0);
			_exit(i);
		}
		while (wait(&status) > 0)
			sum += WEXITSTATUS(status);
		return 20 + sum;
	}
	if (!strcmp(how, "killed")) {
		pid_t child = fork();

		if (!child)
			for (;;)
				work();
		usleep(300000);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		return WTERMSIG(status);
	}
	if (!strcmp(how, "forever"))
		for (;;)
			work();
	work();
	return 5;
}
"#;

/// The worker in a folder of its own; none where the host makes no namespaces for this user.
fn worker(test: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let made = run_within(Path::new("/"), &["unshare", "-p", "-f", "true"]);
    if !made.status.success() {
        say_not_run(test, &String::from_utf8_lossy(&made.stderr));
        return None;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("worker.c");
    fs::write(&source, WORKER).expect("a temporary file");
    let worker = programs::build(directory.path(), "worker", &source, &[]);
    Some((directory, worker))
}

fn record(directory: &Path, command: &[&str]) -> (Output, Value) {
    let args = [&["-o", "x.hitm", "--"], command].concat();
    let recorded = record_within(directory, &args);
    let said = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.code().is_some(), "{command:?}: {said}");
    (recorded, report(&directory.join("x.hitm")))
}

/// Instructions of each thread that counted, in ascending order.
fn counting(report: &Value) -> Vec<u64> {
    // 30,000 times three instructions, and what begins and ends a thread.
    const COUNTING: std::ops::Range<u64> = 90_000..100_000;
    let threads = report["threads"].as_array().expect("threads");
    let counts = threads.iter().map(|thread| &thread["instruction_count"]);
    let counts = counts.map(|count| count.as_u64().expect("a number"));
    let mut counts: Vec<u64> = counts.filter(|count| COUNTING.contains(count)).collect();
    counts.sort_unstable();
    counts
}

/// Whatever the namespaces are, all that runs inside is recorded: each thread with as many instructions as
/// outside.
#[test]
fn what_runs_in_a_namespace_is_recorded_as_it_is_outside() {
    let Some((directory, _)) = worker("namespaces of processes") else {
        return;
    };
    let directory = directory.path();
    let (plain, outside) = record(directory, &["./worker"]);
    assert_eq!(plain.status.code(), Some(5));
    let [one, other] = counting(&outside)[..] else {
        panic!("{outside:#}");
    };
    let inside = ["unshare", "-p", "-f"];
    let own_proc = ["unshare", "-p", "-f", "--mount-proc"];
    let without_proc = ["unshare", "-p", "-f", "-m", "sh", "-c"];
    let commands: [(&[&[&str]], i32, usize); 6] = [
        (&[&inside, &["./worker"]], 5, 1),
        (&[&inside, &["./worker", "init"]], 28, 4),
        (&[&inside, &inside, &["./worker", "init"]], 28, 4),
        (&[&own_proc, &["./worker"]], 5, 1),
        (&[&own_proc, &own_proc, &["./worker", "init"]], 28, 4),
        (
            &[&without_proc, &["umount -l /proc && exec ./worker"]],
            5,
            1,
        ),
    ];
    for (command, code, times) in commands {
        let command = command.concat();
        let (recorded, report) = record(directory, &command);
        assert_eq!(recorded.status.code(), Some(code), "{command:?}");
        assert_eq!(report["run"]["complete"], true, "{command:?}");
        let mut expected = [one, other].repeat(times);
        expected.sort_unstable();
        let counted = counting(&report);
        if command.contains(&"-m") {
            // Without /proc nothing tells where libraries are: the heap observer's own instructions count too.
            assert_eq!(counted.len(), expected.len(), "{report:#}");
        } else {
            assert_eq!(counted, expected, "{command:?}: {report:#}");
        }
        let notes = report["diagnostics"].to_string();
        assert!(!notes.contains("unrecorded"), "{command:?}: {notes}");
    }
    // A recorder whose own pids are not those of /proc.
    let hitm = hitm().to_str().expect("a path of this tree is UTF-8");
    let recorder = [hitm, "record", "-o", "x.hitm", "--", "./worker", "init"];
    let recorded = run_within(directory, &[&inside[..], &recorder].concat());
    assert_eq!(recorded.status.code(), Some(28), "{recorded:?}");
    assert_eq!(counting(&report(&directory.join("x.hitm"))).len(), 8);
}

#[test]
fn a_process_that_is_killed_in_a_namespace_is_waited_for_by_nobody() {
    let Some((directory, _)) = worker("a process that is killed in a namespace") else {
        return;
    };
    let inside = ["unshare", "-p", "-f", "./worker", "killed"];
    let (recorded, report) = record(directory.path(), &inside);
    assert_eq!(recorded.status.code(), Some(libc::SIGKILL));
    let processes = report["processes"].as_array().expect("several processes");
    let ends = processes.iter().map(|process| process["end"].to_string());
    let ends: Vec<String> = ends.collect();
    assert!(ends.iter().any(|end| end.contains("killed")), "{ends:?}");
}

/// Pids of processes whose command line has this text.
fn running(text: &str) -> Vec<libc::pid_t> {
    let folders = fs::read_dir("/proc").expect("proc(5)").flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    let runs = |pid: &libc::pid_t| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(runs).collect()
}

/// Even the first process of a namespace, which ignores SIGKILL from inside.
#[test]
fn what_runs_in_a_namespace_ends_with_its_recorder() {
    let Some((directory, worker)) = worker("the end of a recorder of namespaces") else {
        return;
    };
    let worker = worker.to_str().expect("a temporary path is UTF-8");
    let mut recorder = Command::new(hitm());
    recorder.args(["record", "-o", "x.hitm", "--", "unshare", "-p", "-f"]);
    recorder
        .args([worker, "forever"])
        .current_dir(directory.path());
    let recorder = recorder.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut recorder = recorder.expect("hitm starts");
    let began = Instant::now();
    let emulated = || {
        let own = recorder.id() as libc::pid_t;
        running(worker).into_iter().filter(move |pid| *pid != own)
    };
    // `unshare` and its child, which has become the worker.
    let (mut pids, file) = (Vec::new(), directory.path().join("x.hitm"));
    while pids.len() < 2 || fs::metadata(&file).map_or(0, |file| file.len()) < 20_000 {
        assert!(began.elapsed() < Duration::from_secs(120), "{pids:?}");
        std::thread::sleep(Duration::from_millis(20));
        pids = emulated().collect();
    }
    recorder.kill().expect("it runs");
    recorder.wait().expect("it is killed");
    assert_eq!(outliving(&pids, Duration::from_secs(10)), [0; 0]);
}

/// QEMU makes no namespace by clone, and none of users: that is said. A recording made inside is whole.
#[test]
fn what_qemu_refuses_is_said_and_a_recording_inside_is_whole() {
    let test = "recordings in and of bubblewrap";
    let sandbox = [
        "bwrap",
        "--unshare-all",
        "--bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ];
    let sandboxed =
        |directory: &Path, command: &[&str]| run_within(directory, &[&sandbox, command].concat());
    let made = sandboxed(Path::new("/"), &["true"]);
    if !made.status.success() {
        return say_not_run(test, &String::from_utf8_lossy(&made.stderr));
    }
    let Some((directory, _)) = worker(test) else {
        return;
    };
    let directory = directory.path();
    let hitm = hitm().to_str().expect("a path of this tree is UTF-8");
    let inside = [hitm, "record", "-o", "y.hitm", "--", "./worker", "init"];
    let inside = sandboxed(directory, &inside);
    assert_eq!(inside.status.code(), Some(28), "{inside:?}");
    assert_eq!(counting(&report(&directory.join("y.hitm"))).len(), 8);
    let refused = "QEMU refused a namespace";
    for outside in [&sandbox[..], &["unshare", "-U", "-r"]] {
        let (recorded, report) = record(directory, &[outside, &["./worker"]].concat());
        assert_eq!(recorded.status.code(), Some(1), "{recorded:?}");
        let said = String::from_utf8_lossy(&recorded.stderr);
        assert!(said.contains(refused), "{said}");
        let notes = report["diagnostics"].to_string();
        assert!(notes.contains(refused), "{notes}");
    }
}
