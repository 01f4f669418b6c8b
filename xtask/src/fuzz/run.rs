//! One process of libFuzzer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::options::Amount;
use crate::{output, root};

/// The longest input: builders make long files of short ones, which run fast.
const INPUT_LEN_MAX: usize = 1024;
/// Memory of a target and the sanitizer together, and seconds of one input.
const LIMITS: [&str; 2] = ["-rss_limit_mb=512", "-timeout=10"];
/// Executions and seconds in which the canary must be found.
const CANARY_LIMITS: [&str; 3] = ["-runs=20000000", "-max_total_time=300", "-max_len=512"];
/// Freed memory is kept from reuse, but not so much that it looks like a leak. Stack frames are not
/// kept: safe Rust cannot use one after its return, and it costs a fifth of the time.
const SANITIZER: (&str, &str) = (
    "ASAN_OPTIONS",
    "quarantine_size_mb=16:malloc_context_size=2:detect_odr_violation=0:detect_stack_use_after_return=0",
);
/// Inputs are chosen uniformly: weighing them by rare features takes longer than most inputs.
const CHOICE: &str = "-entropic=0";

/// A finding of a target.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) target: String,
    /// Its message, and the path of the input.
    pub(super) words: String,
    /// Executions until it was found.
    pub(super) executions: u64,
}

/// Result of a process.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) executions: u64,
    pub(super) seconds: f64,
    pub(super) finding: Option<Finding>,
}

/// Runs a target on its corpus, which grows.
pub(super) fn target(target: &str, amount: Amount) -> Result<Done> {
    let corpus = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("{}", corpus.display()))?;
    let mut args = vec![
        match amount {
            Amount::Seconds(seconds) => format!("-max_total_time={seconds}"),
            Amount::Executions(executions) => format!("-runs={executions}"),
        },
        format!("-max_len={INPUT_LEN_MAX}"),
    ];
    args.extend(LIMITS.map(str::to_owned));
    args.push(corpus.display().to_string());
    run(target, &args)
}

/// Searches for the canary from an empty corpus.
pub(super) fn canary(target: &str) -> Result<Option<Finding>> {
    let mut args: Vec<String> = CANARY_LIMITS.map(str::to_owned).to_vec();
    args.extend(LIMITS.map(str::to_owned));
    Ok(run(target, &args)?.finding)
}

/// The program that cargo-fuzz built.
fn program(target: &str) -> Result<PathBuf> {
    let version = output("rustc", &["+nightly", "-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say its host")?;
    let path = format!("fuzz/target/{host}/release/{target}");
    Ok(root().join(path))
}

fn run(target: &str, args: &[String]) -> Result<Done> {
    let artifacts = root().join("fuzz/artifacts").join(target);
    fs::create_dir_all(&artifacts).with_context(|| format!("{}", artifacts.display()))?;
    let program = program(target)?;
    let process = Command::new(&program)
        .args(args)
        .args(["-print_final_stats=1", CHOICE])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .env(SANITIZER.0, SANITIZER.1)
        .current_dir(root())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&process.stderr).into_owned();
    let executions = stat(&text, "stat::number_of_executed_units:");
    let rate = stat(&text, "stat::average_exec_per_sec:");
    let is_finding = !process.status.success() && !is_late_by_load(&program, &text);
    let finding = is_finding.then(|| Finding {
        target: target.to_owned(),
        words: words(&text),
        executions,
    });
    ensure!(
        executions > 0 || finding.is_some(),
        "{target} ran nothing:\n{text}"
    );
    let seconds = seconds(&text).unwrap_or(executions as f64 / rate.max(1) as f64);
    Ok(Done {
        executions,
        seconds,
        finding,
    })
}

/// Returns true if an input took too long only because of the host's other work. libFuzzer uses the
/// wall clock, and without that load the input is done in time.
fn is_late_by_load(program: &Path, text: &str) -> bool {
    let Some(input) = late_input(text) else {
        return false;
    };
    let again = Command::new(program)
        .args(LIMITS)
        .arg(input)
        .env(SANITIZER.0, SANITIZER.1)
        .current_dir(root())
        .output();
    again.is_ok_and(|again| again.status.success())
}

/// Finds the input that took too long, in libFuzzer's output.
fn late_input(text: &str) -> Option<&str> {
    let written = "Test unit written to ";
    let path = text.lines().find_map(|line| line.split_once(written))?.1;
    path.contains("/timeout-").then_some(path)
}

/// Finds a number in libFuzzer's final output.
fn stat(text: &str, name: &str) -> u64 {
    let line = text.lines().rev().find_map(|line| line.strip_prefix(name));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// The seconds in `Done 100 runs in 3 second(s)`.
fn seconds(text: &str) -> Option<f64> {
    let line = text.lines().rev().find(|line| line.starts_with("Done "))?;
    line.split(' ').nth(4)?.parse().ok()
}

/// Lines about the failure: the panic or the sanitizer's summary, and the path of the input.
fn words(text: &str) -> String {
    let marks = [
        "panicked at",
        "ERROR: ",
        "SUMMARY: ",
        "Test unit written to",
    ];
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if marks.iter().any(|mark| line.contains(mark)) {
            found.push(line.trim());
            if line.contains("panicked at") {
                found.extend(lines.next());
            }
        }
    }
    found.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "#2 INITED\nthread '<unnamed>' (7) panicked at a.rs:1:2:\nno such thing\n\
        ==7== ERROR: libFuzzer: deadly signal\nSUMMARY: libFuzzer: deadly signal\n\
        artifact_prefix='./'; Test unit written to ./crash-1\nDone 1000 runs in 3 second(s)\n\
        stat::number_of_executed_units: 1000\nstat::average_exec_per_sec:     333\n";

    #[test]
    fn an_input_that_took_too_long_is_known_from_one_that_fails() {
        assert_eq!(late_input(OUTPUT), None);
        let late = OUTPUT.replace("crash-1", "a/timeout-2");
        assert_eq!(late_input(&late), Some("./a/timeout-2"));
    }

    #[test]
    fn what_libfuzzer_prints_is_understood() {
        assert_eq!(stat(OUTPUT, "stat::number_of_executed_units:"), 1000);
        assert_eq!(stat("", "stat::number_of_executed_units:"), 0);
        assert_eq!(seconds(OUTPUT), Some(3.0));
        let words = words(OUTPUT);
        assert!(words.contains("a.rs:1:2:; no such thing; "), "{words}");
        assert!(words.ends_with("Test unit written to ./crash-1"), "{words}");
    }
}
