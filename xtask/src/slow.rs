//! The slowest tests: `cargo test` says how long all of a binary's take, and not which.
//!
//! Times are libtest's own. It prints them in unstable mode only, which its binaries take from an environment
//! variable; the compiler does not see it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::output;

/// Runs all tests and prints the slowest `count`, slowest first.
pub fn print_slowest(count: usize) -> Result<()> {
    let mut times = Vec::new();
    let mut failed = Vec::new();
    for (name, program) in programs()? {
        let folder = program.folder.as_path();
        let run = Command::new(&program.path)
            .args(["-Z", "unstable-options", "--report-time"])
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(folder)
            .output()
            .with_context(|| format!("cannot start {}", program.path.display()))?;
        let text = String::from_utf8_lossy(&run.stdout);
        if !run.status.success() {
            failed.push(format!("{name}\n{text}"));
        }
        times.extend(
            text.lines()
                .filter_map(time)
                .map(|(seconds, test)| (seconds, format!("{name}::{test}"))),
        );
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

/// A compiled binary of tests, and the folder in which cargo runs it.
struct Program {
    path: PathBuf,
    folder: PathBuf,
}

/// Compiles all tests; returns their binaries by crate.
fn programs() -> Result<Vec<(String, Program)>> {
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
            programs.push((name, Program { path, folder }));
        }
    }
    Ok(programs)
}

/// Seconds and name of a line `test NAME ... ok <1.234s>`.
fn time(line: &str) -> Option<(f64, &str)> {
    let (test, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (_, seconds) = rest.rsplit_once('<')?;
    Some((seconds.strip_suffix("s>")?.parse().ok()?, test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_libtest_s_lines() {
        assert_eq!(time("test a::b ... ok <1.250s>"), Some((1.25, "a::b")));
        assert_eq!(time("test a::b ... FAILED <0.001s>"), Some((0.001, "a::b")));
        assert_eq!(time("test result: ok. 3 passed; finished in 0.02s"), None);
        assert_eq!(time("running 3 tests"), None);
    }
}
