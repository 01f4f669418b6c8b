//! The project's own tools: [`tidy`] holds the rules that no compiler checks, [`mod@bench`]
//! measures, [`pgo`] builds with a profile, [`mod@fuzz`] runs the fuzz targets. [`slow`] finds slow tests, and
//! [`tasks`] says what changes take. [`deny`] checks
//! libraries, [`dist`] packs what a user installs, [`book`] builds the guide. [`check`] puts these
//! together for a merge and a release, and `layout_check` compares layouts with those of other tools.
//!
//! `cargo xtask tidy` and `cargo test -p xtask` run the same checks.

pub mod bench;
pub mod book;
pub mod check;
pub mod deny;
pub mod dist;
pub mod fuzz;
#[cfg(feature = "layout-check")]
pub mod layout_check;
pub mod pgo;
pub mod slow;
pub mod tasks;
pub mod tidy;
mod xz;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The root of the checkout: the directory above this crate.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask lies in the workspace")
        .to_path_buf()
}

/// Folder of cargo's output.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Path of the program, as `make build` built it.
pub fn hitm() -> Result<PathBuf> {
    let program = target().join("release/hitm");
    ensure!(
        program.exists(),
        "{} is missing: run `make build` first",
        program.display()
    );
    Ok(program)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path of target is not UTF-8")
}

/// Runs a command in the root and passes its output through; an error when it fails.
pub fn run(program: &str, args: &[&str]) -> Result<()> {
    run_with_env(program, args, &[])
}

/// Like [`run`], with environment variables.
pub fn run_with_env(program: &str, args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let shown = format!("{program} {}", args.join(" "));
    let status = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown} failed: {status}");
    }
    Ok(())
}

/// Returns the standard output of a command in the root, or an error when it fails.
pub fn output(program: &str, args: &[&str]) -> Result<String> {
    let bytes = output_bytes(program, args)?;
    String::from_utf8(bytes).with_context(|| format!("{program} did not print UTF-8"))
}

/// Like [`output`], for a command that may print any bytes.
pub fn output_bytes(program: &str, args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(args)
        .current_dir(root())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {} failed: {}", args.join(" "), error.trim());
    }
    Ok(output.stdout)
}
