//! Time that threads wait for one another, in all ways to wait: for a line, spinning, asleep.
//!
//! The threads of the program do the same work under each kind of lock. What they need beyond that they have
//! waited, however the recorder finds it out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::programs;

/// Kinds of locks, the word that threads wait for, and how they do most of the time: who tries without pause to
/// write waits for its line.
const LOCKS: [(&str, &str, &str); 14] = [
    ("test_and_set", "word", "lines"),
    ("test_and_test_and_set", "word", "spinning"),
    ("back_off", "word", "lines"),
    ("compare_and_swap", "word", "lines"),
    ("yield", "word", "lines"),
    ("ticket", "serving", "spinning"),
    ("mcs", "tail", "spinning"),
    ("clh", "tail", "spinning"),
    ("flag", "turn", "spinning"),
    ("pthread_spin", "spinlock", "spinning"),
    ("pthread_mutex", "mutex", "asleep"),
    ("posix_semaphore", "semaphore", "asleep"),
    ("parking_lot", "parking", "asleep"),
    ("interpreter", "gil.free", "asleep"),
];

/// Turns of each thread.
const TURNS: f64 = 30.0;

/// Part of the whole, 0 to 1, that waiting may be off.
const TOLERANCE: f64 = 0.05;

fn report(directory: &Path, program: &Path, kind: &str) -> Value {
    programs::report(&programs::record(directory, program, &[kind.to_owned()]))
}

fn waits(directory: &Path) -> PathBuf {
    let source = directory.join("waits.c");
    fs::write(&source, include_str!("waits.c")).expect("a temporary file");
    programs::build(directory, "program", &source, &[])
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Each turn is the same work, all of it under the lock.
#[test]
fn a_report_says_how_long_a_lock_is_held() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let program = waits(directory);
    let without_lock = report(directory, &program, "work");
    let thread_cycles = number(&without_lock["threads"][1]["cycles"]);
    let turn_cycles = thread_cycles / TURNS;
    let recording = programs::record(directory, &program, &["pthread_mutex".to_owned()]);
    let recording = recording.to_str().expect("UTF-8");
    let output = programs::run(directory, &["report", "-i", recording]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut lines = text.lines();
    let held = lines
        .find_map(|line| line.strip_prefix("  Held   "))
        .unwrap_or("");
    let cycles = held.split(' ').next().map(|number| number.replace(',', ""));
    let cycles: f64 = cycles.and_then(|number| number.parse().ok()).unwrap_or(0.0);
    let error = (cycles / turn_cycles - 1.0).abs();
    assert!(
        error < TOLERANCE,
        "{turn_cycles} cycles of work a turn:\n{text}"
    );
}

#[test]
fn threads_wait_for_lines_spinning_and_asleep() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let program = waits(directory);
    let without_lock = report(directory, &program, "work");
    let work_cycles = number(&without_lock["totals"]["thread_cycles"]);
    for (kind, word, way) in LOCKS {
        let report = report(directory, &program, kind);
        let waiting = &report["waiting"];
        let whole = number(&waiting["whole_cycles"]);
        let lines = number(&report["totals"]["lost_cycles"]) / whole;
        let found = number(&waiting["run_share"]) + lines;
        let expected = 1.0 - work_cycles / whole;
        assert!(
            (found - expected).abs() < TOLERANCE,
            "{kind}: waiting {found:.3}, expected {expected:.3}: {waiting:#}"
        );
        if way != "lines" {
            let first = &waiting["rows"][0];
            let found = (&first["name"], &first["kind"]);
            assert_eq!(found, (&word.into(), &way.into()), "{kind}: {waiting:#}");
            // How much of the wait is for the lock's line depends on how the threads meet.
            let of_first = number(&first["run_share"]) + lines;
            assert!(of_first > expected - TOLERANCE, "{kind}: {waiting:#}");
        }
    }
}

#[test]
fn who_has_nothing_to_do_waits_for_no_lock() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let program = waits(directory);
    let of_pool = report(directory, &program, "pool");
    let rows = of_pool["waiting"]["rows"].as_array().expect("rows");
    assert!(
        rows.iter().all(|row| row["name"] != "pool.jobs"),
        "{rows:#?}"
    );
    let of_idle = report(directory, &program, "idle");
    assert_eq!(of_idle["waiting"]["asleep_cycles"], 0, "{of_idle:#}");
}
