//! Ends of threads: signals that come first, and a last thread that ends its process.

use std::path::{Path, PathBuf};

use hitm_test::process::Command;

use crate::programs::{build, hitm, report};

/// Thirty pairs of short threads under a profiler's timer, one expiry for each 300 us of CPU time. Each signal
/// that is pending when a thread asks for its end lets QEMU start that call again.
const PROFILED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static struct { volatile long a, b; } shared;
static volatile sig_atomic_t expiries;

static void expired(int signal) { expiries += signal != 0; }

static void *add(void *counter) {
    for (int i = 0; i < 3000; i++)
        __atomic_add_fetch((long *)counter, 1, __ATOMIC_SEQ_CST);
    return 0;
}

int main(void) {
    struct sigaction action = { .sa_handler = expired, .sa_flags = SA_RESTART };
    sigaction(SIGPROF, &action, 0);
    struct itimerval period = { { 0, 300 }, { 0, 300 } };
    setitimer(ITIMER_PROF, &period, 0);
    for (int i = 0; i < 30; i++) {
        pthread_t threads[2];
        pthread_create(&threads[0], 0, add, (void *)&shared.a);
        pthread_create(&threads[1], 0, add, (void *)&shared.b);
        pthread_join(threads[0], 0);
        pthread_join(threads[1], 0);
    }
    return 0;
}
"#;

/// The first thread leaves, and the last one takes the process with it.
const LAST_THREAD: &str = r#"
#include <pthread.h>

static volatile long shared;

static void *add(void *unused) {
    for (int i = 0; i < 3000; i++)
        __atomic_add_fetch(&shared, 1, __ATOMIC_SEQ_CST);
    return unused;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < 8; i++) {
        pthread_create(&thread, 0, add, 0);
        pthread_detach(thread);
    }
    pthread_exit(0);
}
"#;

fn built(directory: &Path, text: &str) -> PathBuf {
    let source = directory.join("program.c");
    std::fs::write(&source, text).expect("a temporary file");
    build(directory, "program", &source, &[])
}

/// Records the program; what `hitm` says, and the report.
fn recorded(program: &Path) -> (String, serde_json::Value) {
    let recording = program.with_extension("hitm");
    let mut record = Command::new(hitm());
    record
        .args(["record", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(program);
    let output = record.output().expect("hitm starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    (said, report(&recording))
}

/// Accesses of the program's counters.
fn counted(report: &serde_json::Value) -> u64 {
    let lines = report["lines"].as_array().expect("lines");
    let of_counters = lines
        .iter()
        .filter(|line| line.to_string().contains("shared"));
    of_counters
        .filter_map(|line| line["locked_count"].as_u64())
        .sum()
}

#[test]
fn a_signal_at_a_threads_end_ends_no_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = built(directory.path(), PROFILED);
    for _ in 0..3 {
        let (said, report) = recorded(&program);
        assert_eq!(report["run"]["complete"], true, "{said}");
        assert!(
            !said.contains("exec") && !said.contains("not recorded"),
            "{said}"
        );
        let count = counted(&report);
        // A few of the first additions were made while no other thread had the line.
        assert!((140_000..=180_000).contains(&count), "{count}: {said}");
    }
}

#[test]
fn the_end_of_the_last_thread_is_the_end_of_its_process() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (said, report) = recorded(&built(directory.path(), LAST_THREAD));
    assert_eq!(report["run"]["complete"], true);
    assert!(
        !said.contains("exec") && !said.contains("cut short"),
        "{said}"
    );
    assert!(counted(&report) > 20_000, "{report:#}");
}
