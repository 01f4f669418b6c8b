//! A counter that all threads increment: recorded times beside published ones.
//!
//! Published (perfbook, CodeSamples/count data) are 8x Xeon 8176 with a thread for each of CPUs 0 to N - 1. The
//! threads may run on any of them, and look each millisecond if they may begin.

use std::fs;

use crate::programs;

/// CPUs, and published nanoseconds of an increment of each thread.
const PUBLISHED: [(usize, f64); 2] = [(28, 624.0), (112, 3206.0)];

/// Clock of the preset.
const GHZ: f64 = 2.8;

#[test]
fn recorded_increments_take_as_long_as_published_ones() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = directory.join("increments.c");
    fs::write(&source, include_str!("increments.c")).expect("a temporary file");
    let program = programs::build(directory, "increments", &source, &[]);
    for (threads, published_ns) in PUBLISHED {
        let (cpus, count) = (format!("0-{}", threads - 1), threads.to_string());
        let record = ["record", "-m", "xeon8176-8s", "-o", "i.hitm"];
        let program = program.to_str().expect("a temporary path is UTF-8");
        let args = ["--", program, "counter", &count, "100"];
        let output = programs::run(
            directory,
            &[&record[..], &["--cpus", &cpus], &args].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        let report = programs::report(&directory.join("i.hitm"));
        let lines = report["lines"].as_array().expect("lines");
        let is_counter = |line: &&serde_json::Value| line["name"] == "counter";
        let counter = lines.iter().find(is_counter).expect("the counter's line");
        let cycles = counter["load_latency_cycles_mean"].as_f64();
        let ns = cycles.expect("a mean") / GHZ;
        assert!(
            (0.75..=1.25).contains(&(ns / published_ns)),
            "{threads} threads: {ns:.0} ns for {published_ns} published"
        );
    }
}
