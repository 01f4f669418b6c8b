//! `cargo xtask lint | ci | release`: what a merge needs, what a nightly run adds, and what a release needs.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::{deny, dist, fuzz, output, root, run, run_with_env, target, text, tidy};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Checks format, lints, documentation, libraries and the rules of [`tidy`].
pub fn lint() -> Result<()> {
    run("cargo", &["fmt", "--all", "--check"])?;
    clippy(&["--workspace", "--all-targets"])?;
    clippy(&["-p", "xtask", "--features", "bench"])?;
    clippy(&["-p", "xtask", "--features", "layout-check"])?;
    let doc = ["doc", "--workspace", "--no-deps", "--quiet"];
    run_with_env("cargo", &doc, &[("RUSTDOCFLAGS", "-D warnings")])?;
    deny::check_libraries()?;
    check_tidy()
}

/// Lints the fuzz targets, whose libraries are compiled apart: two minutes the first time.
fn lint_fuzz() -> Result<()> {
    let folder = target().join("fuzz");
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml", "--target-dir"];
    clippy(&[&fuzz[..], &[text(&folder)?]].concat())
}

/// Runs clippy, for which a warning is an error, with `args`.
fn clippy(args: &[&str]) -> Result<()> {
    let deny = ["--", "-D", "warnings"];
    run("cargo", &[&["clippy"], args, &deny[..]].concat())
}

/// Checks the rules that no compiler checks.
pub fn check_tidy() -> Result<()> {
    let problems = tidy::problems()?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    ensure!(problems.is_empty(), "{} tidy problems", problems.len());
    println!("tidy: {} checks hold", tidy::CHECKS.len());
    Ok(())
}

/// Runs [`lint`], advisories, the oldest compiler, all tests, and lints and a smoke run of the fuzz targets.
pub fn ci() -> Result<()> {
    lint()?;
    lint_fuzz()?;
    deny::check_advisories()?;
    check_oldest_rust()?;
    run("make", &["test"])?;
    fuzz::start(&["--smoke"])
}

/// Runs [`ci`] on a clean checkout with a dated change log, and builds what is published.
pub fn release() -> Result<()> {
    let changed = output("git", &["status", "--porcelain"])?;
    ensure!(changed.is_empty(), "uncommitted changes:\n{changed}");
    let path = root().join("CHANGELOG.md");
    let changelog = fs::read_to_string(&path).context("CHANGELOG.md")?;
    let date = release_date(&changelog, VERSION)?;
    ci()?;
    run("make", &["build"])?;
    for architecture in dist::ARCHITECTURES {
        run("scripts/wheel", &["--portable", architecture])?;
        dist::build(Some(architecture))?;
    }
    println!("{VERSION} of {date} is built: target/dist, target/wheels");
    Ok(())
}

/// Compiles with the oldest compiler that the manifest promises, where rustup has it.
fn check_oldest_rust() -> Result<()> {
    let toolchains = output("rustup", &["toolchain", "list"]).unwrap_or_default();
    let name = format!("{OLDEST_RUST}-");
    if !toolchains.lines().any(|line| line.starts_with(&name)) {
        println!("oldest compiler: NOT RUN: `rustup toolchain install {OLDEST_RUST}`");
        return Ok(());
    }
    let toolchain = format!("+{OLDEST_RUST}");
    run("cargo", &[&toolchain, "check", "--workspace"])
}

/// The date of the newest section, which must be the one of `version`: `## 0.1.0 (2026-01-31)`.
fn release_date<'t>(changelog: &'t str, version: &str) -> Result<&'t str> {
    let heading = changelog.lines().find_map(|line| line.strip_prefix("## "));
    let heading = heading.context("CHANGELOG.md has no section")?;
    let date = heading
        .strip_prefix(version)
        .and_then(|rest| rest.strip_prefix(" (")?.strip_suffix(')'));
    let is_digit = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    match date {
        Some(date) if date.len() == 10 && date.bytes().enumerate().all(is_digit) => Ok(date),
        _ => {
            bail!("CHANGELOG.md begins with \"{heading}\", expected \"{version} (YEAR-MONTH-DAY)\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_a_date() {
        let newest = |heading: &str| {
            let changelog =
                format!("# Changelog\n\n## {heading}\n\n- A.\n\n## 0.0.1 (2026-01-31)\n");
            release_date(&changelog, "0.1.0").map(str::to_owned)
        };
        assert_eq!(newest("0.1.0 (2026-02-01)").unwrap(), "2026-02-01");
        for wrong in [
            "Unreleased",
            "0.0.9 (2026-02-01)",
            "0.1.0",
            "0.1.0 (soon)",
            "0.1.0 (2026/02/01)",
        ] {
            let error = newest(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(release_date("# Changelog\n", "0.1.0").is_err());
    }
}
