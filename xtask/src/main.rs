//! `cargo xtask ci | lint | tidy | bench`.

use std::process::ExitCode;

use anyhow::Result;
use xtask::{bench, run, run_with_env, tidy};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci             everything below but bench, and all tests
  lint           format, clippy, documentation, tidy
  tidy           the rules that no compiler checks
  bench [NAME]   benchmarks whose name contains NAME; results go to target/bench-results.jsonl
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["ci"] => lint().and_then(|()| run("cargo", &["test", "--workspace"])),
        ["lint"] => lint(),
        ["tidy"] => check_tidy(),
        ["bench"] => bench::start(""),
        ["bench", name] => bench::start(name),
        ["bench-here", name] => bench::run_here(name),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn lint() -> Result<()> {
    run("cargo", &["fmt", "--all", "--check"])?;
    let deny = ["--", "-D", "warnings"];
    let clippy = ["clippy", "--workspace", "--all-targets"];
    run("cargo", &[&clippy[..], &deny[..]].concat())?;
    let bench = ["clippy", "-p", "xtask", "--features", "bench"];
    run("cargo", &[&bench[..], &deny[..]].concat())?;
    let doc = ["doc", "--workspace", "--no-deps", "--quiet"];
    run_with_env("cargo", &doc, &[("RUSTDOCFLAGS", "-D warnings")])?;
    check_tidy()
}

fn check_tidy() -> Result<()> {
    let problems = tidy::problems()?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    anyhow::ensure!(problems.is_empty(), "{} tidy problems", problems.len());
    println!("tidy: {} checks hold", tidy::CHECKS.len());
    Ok(())
}
