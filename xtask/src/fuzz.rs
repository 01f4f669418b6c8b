//! `cargo xtask fuzz`: builds the fuzz targets, proves by a canary that they find faults, and runs
//! them for a time or a number of executions.
//!
//! Executions are added up by commit and target in `target/fuzz-results.jsonl`, so that a long run
//! may be stopped and started again.

mod options;
mod results;
mod run;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::{output, root, run_with_env};
use options::{Amount, Options};
use results::{Results, Row};
use run::Finding;

/// The target that fails on purpose.
const CANARY: &str = "canary";
/// Targets that run side by side.
const WORKERS: usize = 2;
/// Executions after which a result is written: the most that a stopped run loses.
const PIECE: u64 = 250_000;

/// Runs `cargo xtask fuzz` with these arguments.
pub fn start(args: &[&str]) -> Result<()> {
    let known = targets()?;
    let options = Options::parse(args, &known)?;
    if let Some(missing) = missing_tool() {
        println!("fuzz: NOT RUN: {missing}");
        return Ok(());
    }
    build(options.amount)?;
    find_canary()?;
    let commit = commit()?;
    let mut results = Results::load(&commit)?;
    let findings = run_all(&options, &mut results)?;
    print!("{}", results.table(&options.targets));
    for finding in &findings {
        println!("{}: {}", finding.target, finding.words);
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(())
}

/// Names of the targets that should find nothing.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.extend(name.filter(|name| *name != CANARY).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// A tool that is missing for building targets, with the command that installs it.
fn missing_tool() -> Option<&'static str> {
    if output("rustc", &["+nightly", "--version"]).is_err() {
        return Some("no nightly toolchain (rustup toolchain install nightly)");
    }
    if output("cargo", &["fuzz", "--version"]).is_err() {
        return Some("no cargo-fuzz (cargo install cargo-fuzz --locked)");
    }
    None
}

/// AddressSanitizer, where Rust has it for this host.
fn sanitizer() -> &'static str {
    let has_it = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if has_it { "address" } else { "none" }
}

/// Builds the targets. A long run skips guidance by compared values: it costs a third of the time,
/// and builders turn any byte into a choice.
fn build(amount: Amount) -> Result<()> {
    let mut args = vec![
        "+nightly",
        "fuzz",
        "build",
        "-O",
        "--sanitizer",
        sanitizer(),
    ];
    if matches!(amount, Amount::Executions(_)) {
        args.push("--no-trace-compares");
    }
    run_with_env("cargo", &args, &[])?;
    if root().join("fuzz/corpus").is_dir() {
        return Ok(());
    }
    let args = [
        "+nightly",
        "run",
        "--quiet",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--bin",
        "seed_corpus",
    ];
    run_with_env("cargo", &args, &[])
}

/// Commit, with a mark if uncommitted changes were built.
fn commit() -> Result<String> {
    let mut commit = output("git", &["rev-parse", "--short=12", "HEAD"])?
        .trim()
        .to_owned();
    let changed = output(
        "git",
        &[
            "status",
            "--porcelain",
            "--",
            "crates",
            "fuzz",
            "Cargo.lock",
        ],
    )?;
    if !changed.trim().is_empty() {
        commit.push_str("-dirty");
    }
    Ok(commit)
}

/// Fails unless the canary is found: otherwise the other targets' silence means nothing.
fn find_canary() -> Result<()> {
    let finding = run::canary(CANARY)?;
    let Some(finding) = finding else {
        bail!("the canary was not found: the targets do not reach what they should");
    };
    ensure!(
        finding.words.contains("the canary"),
        "the canary fails in another way: {}",
        finding.words
    );
    println!(
        "the canary was found after {} executions",
        finding.executions
    );
    Ok(())
}

/// Runs the targets, two at a time. Returns what they found.
fn run_all(options: &Options, results: &mut Results) -> Result<Vec<Finding>> {
    let queue: Mutex<VecDeque<&String>> = Mutex::new(options.targets.iter().collect());
    let results = Mutex::new(results);
    let findings = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let next = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some(target) = next else { return Ok(()) };
            if let Some(finding) = run_one(target, options.amount, &results)? {
                let mut findings = findings.lock().unwrap_or_else(PoisonError::into_inner);
                findings.push(finding);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => bail!("a worker failed"),
            })
    })?;
    Ok(findings
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

/// Runs one target, piece by piece, until its amount is done or it finds something.
fn run_one(target: &str, amount: Amount, results: &Mutex<&mut Results>) -> Result<Option<Finding>> {
    loop {
        let results_now = || results.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = match amount {
            Amount::Seconds(_) => amount,
            Amount::Executions(wanted) => {
                let left = wanted.saturating_sub(results_now().executions(target));
                if left == 0 {
                    return Ok(None);
                }
                Amount::Executions(left.min(PIECE))
            }
        };
        let done = run::target(target, piece)?;
        let found = u64::from(done.finding.is_some());
        results_now().add(Row {
            target: target.to_owned(),
            executions: done.executions,
            seconds: done.seconds,
            findings: found,
            sanitizer: sanitizer().to_owned(),
        })?;
        if done.finding.is_some() || matches!(amount, Amount::Seconds(_)) {
            return Ok(done.finding);
        }
    }
}
