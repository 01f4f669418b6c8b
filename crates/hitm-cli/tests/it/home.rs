//! Threads that wait for one another stay on one CPU of the host, until the recording is over.

use std::fs;
use std::process::Stdio;

use hitm_test::process::{Command, wait_for};

use crate::programs::{build, hitm, say_not_run};
use crate::recording::{programs_of, signal};

/// Two threads that take turns at a mutex without end.
const TURNS: &str = r"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile long shared;

static void *take_turns(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		shared++;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, take_turns, 0);
	take_turns(0);
	return 0;
}
";

/// Names of a process's threads, and the CPUs of each as the kernel lists them.
fn threads(pid: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let texts = tasks.flatten().flatten().map(|task| {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        [read("comm"), read("status")]
    });
    let cpus = |status: &str| {
        let mut lines = status.lines();
        let cpus = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        cpus.unwrap_or_default().trim().to_owned()
    };
    let threads = texts.map(|[name, status]| (name.trim().to_owned(), cpus(&status)));
    threads.collect()
}

/// CPUs of threads that have one only.
fn homes(pid: u32) -> Vec<String> {
    let cpus = threads(pid).into_iter().map(|(_, cpus)| cpus);
    cpus.filter(|cpus| cpus.parse::<u32>().is_ok()).collect()
}

#[test]
fn threads_stay_with_the_engine_and_roam_when_the_recording_is_over() {
    if homes(std::process::id()).len() == threads(std::process::id()).len() {
        return say_not_run("roaming threads", "no second CPU");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("turns.c");
    fs::write(&source, TURNS).expect("a file in it");
    build(directory.path(), "turns", &source, &[]);
    let mut command = Command::new(hitm());
    command.args(["record", "--keep-running", "--", "./turns"]);
    command
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut recorder = command.spawn().expect("hitm starts");
    let mut program = 0;
    wait_for("two threads and the engine on one CPU", || {
        program = programs_of(&recorder).first().map_or(0, |pid| *pid as u32);
        let mut engine = threads(recorder.id()).into_iter();
        let engine = engine.find_map(|(name, cpus)| (name == "engine").then_some(cpus));
        let stay = homes(program);
        stay.len() == 2 && stay.iter().all(|home| Some(home) == engine.as_ref())
    });
    signal(&recorder, libc::SIGTERM);
    recorder.wait().expect("hitm ends");
    wait_for("threads that roam", || homes(program).is_empty());
    // SAFETY: a signal to a process that this test started.
    unsafe { libc::kill(program as libc::pid_t, libc::SIGKILL) };
}
