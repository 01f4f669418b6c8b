//! What showing and listing layouts costs, on the running kernel's BTF, beside pahole on the same file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::recording::{Used, run, target};

/// The running kernel's types: about 5 MB.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// A structure with some hundred members.
const STRUCTURE: &str = "task_struct";

/// CPU milliseconds of `hitm layout show` of one structure.
pub(super) fn show() -> Result<f64> {
    Ok(hitm(&["show", STRUCTURE])?.cpu_seconds * 1e3)
}

/// CPU milliseconds of pahole for the same structure.
pub(super) fn pahole_show() -> Result<f64> {
    Ok(pahole(&["-C", STRUCTURE])?.cpu_seconds * 1e3)
}

/// CPU milliseconds of `hitm layout list` of all structures.
pub(super) fn list() -> Result<f64> {
    Ok(hitm(&["list"])?.cpu_seconds * 1e3)
}

/// CPU milliseconds of pahole listing the sizes of all structures.
pub(super) fn pahole_list() -> Result<f64> {
    Ok(pahole(&["--sizes"])?.cpu_seconds * 1e3)
}

/// Peak memory of `hitm layout list`, in MiB.
pub(super) fn list_memory() -> Result<f64> {
    Ok(hitm(&["list"])?.peak_mebibytes)
}

fn hitm(args: &[&str]) -> Result<Used> {
    let hitm = target().join("release/hitm");
    ensure!(
        hitm.exists(),
        "{} is missing: run `make build` first",
        hitm.display()
    );
    let input = input()?;
    run(Command::new(hitm)
        .arg("layout")
        .args(args)
        .arg("-i")
        .arg(input))
}

fn pahole(args: &[&str]) -> Result<Used> {
    let input = input()?;
    run(Command::new("pahole").args(args).arg(input))
}

/// A copy: reading from `/sys` costs the same for both, and is no work of theirs.
fn input() -> Result<PathBuf> {
    ensure!(
        Path::new(VMLINUX).exists(),
        "{VMLINUX} is missing on this host"
    );
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)?;
    let copy = folder.join("vmlinux.btf");
    if !copy.exists() {
        std::fs::write(&copy, std::fs::read(VMLINUX)?)?;
    }
    Ok(copy)
}
