//! The slowest tests: `cargo test` says how long all of a binary's take, and not which.
//!
//! libtest prints times in unstable mode only. One test at a time prints a line when it ends, and the time since
//! the line before is its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::output;

/// Runs all tests one after the other and prints the slowest `count`, slowest first.
pub fn print_slowest(count: usize) -> Result<()> {
    let mut times = Vec::new();
    let mut failed = Vec::new();
    for program in programs()? {
        let name = &program.name;
        for test in run(&program)? {
            if !test.passed {
                failed.push(format!("{name}: {}", test.name));
            }
            times.push((test.seconds, format!("{name}: {}", test.name)));
        }
    }
    times.sort_by(|one, other| other.0.total_cmp(&one.0));
    let sum: f64 = times.iter().map(|(seconds, _)| seconds).sum();
    println!("{sum:8.1} s  all {} tests", times.len());
    for (seconds, test) in times.iter().take(count) {
        println!("{seconds:8.1} s  {test}");
    }
    ensure!(failed.is_empty(), "tests failed:\n{}", failed.join("\n"));
    Ok(())
}

struct Test {
    name: String,
    seconds: f64,
    passed: bool,
}

/// Runs the tests of a binary as cargo does, one at a time.
fn run(program: &Program) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    let mut begun = Instant::now();
    let mut running = Command::new(&program.path)
        .arg("--test-threads=1")
        .current_dir(&program.folder)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.path.display()))?;
    let printed = running.stdout.take().context("it has a pipe")?;
    for line in BufReader::new(printed).lines() {
        let line = line.context("libtest prints UTF-8")?;
        let ended = Instant::now();
        if let Some((name, result)) = result(&line) {
            tests.push(Test {
                name: name.to_owned(),
                seconds: (ended - begun).as_secs_f64(),
                passed: result == "ok",
            });
        }
        begun = ended;
    }
    running.wait()?;
    Ok(tests)
}

/// A compiled binary of tests, and the folder in which cargo runs it.
struct Program {
    /// Its crate.
    name: String,
    path: PathBuf,
    folder: PathBuf,
}

/// Compiles all tests.
fn programs() -> Result<Vec<Program>> {
    let build = [
        "test",
        "--workspace",
        "--no-run",
        "--message-format",
        "json",
    ];
    let messages = output("cargo", &build)?;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("cargo writes JSON")?;
        let is_test = message["profile"]["test"] == true;
        let text = |value: &Value| value.as_str().map(Path::new).map(Path::to_path_buf);
        let (path, manifest) = (
            text(&message["executable"]),
            text(&message["manifest_path"]),
        );
        if let (true, Some(path), Some(manifest)) = (is_test, path, manifest) {
            let folder = manifest
                .parent()
                .context("a manifest lies in a folder")?
                .to_path_buf();
            let name = folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            programs.push(Program { name, path, folder });
        }
    }
    Ok(programs)
}

/// Name and result of a line `test NAME ... ok`.
fn result(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_libtest_s_lines() {
        assert_eq!(result("test a::b ... ok"), Some(("a::b", "ok")));
        assert_eq!(result("test a::b ... FAILED"), Some(("a::b", "FAILED")));
        assert_eq!(result("test result: ok. 3 passed; finished in 0.02s"), None);
        assert_eq!(result("running 3 tests"), None);
    }
}
