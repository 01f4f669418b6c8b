//! Cost of showing and listing layouts, compared with pahole on the same file: the running kernel's
//! BTF, and a library with the DWARF of some thousand structures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::recording::{Used, run};
use crate::target;

/// The running kernel's types: about 5 MB.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// A structure with some hundred members.
const STRUCTURE: &str = "task_struct";

/// Structures of the file with DWARF.
const DWARF_STRUCTURES: usize = 5000;

/// CPU milliseconds of `hitm layout show` of one structure.
pub(super) fn show() -> Result<f64> {
    Ok(hitm(&["show", STRUCTURE], &btf()?)?.cpu_seconds * 1e3)
}

/// CPU milliseconds of pahole for the same structure.
pub(super) fn pahole_show() -> Result<f64> {
    Ok(pahole(&["-C", STRUCTURE], &btf()?)?.cpu_seconds * 1e3)
}

/// CPU milliseconds of `hitm layout list` of all structures.
pub(super) fn list() -> Result<f64> {
    Ok(hitm(&["list"], &btf()?)?.cpu_seconds * 1e3)
}

/// CPU milliseconds of pahole listing the sizes of all structures.
pub(super) fn pahole_list() -> Result<f64> {
    Ok(pahole(&["--sizes"], &btf()?)?.cpu_seconds * 1e3)
}

/// Peak memory of `hitm layout show`, in MiB.
pub(super) fn show_memory() -> Result<f64> {
    Ok(hitm(&["show", STRUCTURE], &btf()?)?.peak_mebibytes)
}

/// Peak memory of pahole for the same structure, in MiB.
pub(super) fn pahole_show_memory() -> Result<f64> {
    Ok(pahole(&["-C", STRUCTURE], &btf()?)?.peak_mebibytes)
}

/// Peak memory of `hitm layout list`, in MiB.
pub(super) fn list_memory() -> Result<f64> {
    Ok(hitm(&["list"], &btf()?)?.peak_mebibytes)
}

/// Peak memory of pahole listing the sizes of all structures, in MiB.
pub(super) fn pahole_list_memory() -> Result<f64> {
    Ok(pahole(&["--sizes"], &btf()?)?.peak_mebibytes)
}

/// CPU milliseconds of `hitm layout show` of the last structure of the file with DWARF.
pub(super) fn dwarf_show() -> Result<f64> {
    Ok(hitm(&["show", &last()], &dwarf()?)?.cpu_seconds * 1e3)
}

/// CPU milliseconds of pahole for the same structure.
pub(super) fn pahole_dwarf_show() -> Result<f64> {
    Ok(pahole(&["-F", "dwarf", "-C", &last()], &dwarf()?)?.cpu_seconds * 1e3)
}

/// CPU milliseconds of `hitm layout list` of the file with DWARF.
pub(super) fn dwarf_list() -> Result<f64> {
    Ok(hitm(&["list"], &dwarf()?)?.cpu_seconds * 1e3)
}

/// CPU milliseconds of pahole listing the sizes of its structures.
pub(super) fn pahole_dwarf_list() -> Result<f64> {
    Ok(pahole(&["-F", "dwarf", "--sizes"], &dwarf()?)?.cpu_seconds * 1e3)
}

/// Peak memory of `hitm layout show` of the last structure of the file with DWARF, in MiB.
pub(super) fn dwarf_show_memory() -> Result<f64> {
    Ok(hitm(&["show", &last()], &dwarf()?)?.peak_mebibytes)
}

/// Peak memory of pahole for the same structure, in MiB.
pub(super) fn pahole_dwarf_show_memory() -> Result<f64> {
    Ok(pahole(&["-F", "dwarf", "-C", &last()], &dwarf()?)?.peak_mebibytes)
}

/// Peak memory of `hitm layout list` of the file with DWARF, in MiB.
pub(super) fn dwarf_list_memory() -> Result<f64> {
    Ok(hitm(&["list"], &dwarf()?)?.peak_mebibytes)
}

/// Peak memory of pahole listing the sizes of its structures, in MiB.
pub(super) fn pahole_dwarf_list_memory() -> Result<f64> {
    Ok(pahole(&["-F", "dwarf", "--sizes"], &dwarf()?)?.peak_mebibytes)
}

fn hitm(args: &[&str], input: &Path) -> Result<Used> {
    let hitm = crate::hitm()?;
    run(Command::new(hitm)
        .arg("layout")
        .args(args)
        .arg("-i")
        .arg(input))
}

fn pahole(args: &[&str], input: &Path) -> Result<Used> {
    run(Command::new("pahole").args(args).arg(input))
}

/// A copy: reading from `/sys` costs the same for both, and is not part of their work.
fn btf() -> Result<PathBuf> {
    ensure!(
        Path::new(VMLINUX).exists(),
        "{VMLINUX} is missing on this host"
    );
    let copy = folder()?.join("vmlinux.btf");
    if !copy.exists() {
        std::fs::write(&copy, std::fs::read(VMLINUX)?)?;
    }
    Ok(copy)
}

fn folder() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn last() -> String {
    format!("s{}", DWARF_STRUCTURES - 1)
}

/// A library with structures that have a scalar, a pointer, an array, a bit-field, and the
/// structure before as a member where that keeps nesting shallow.
fn dwarf() -> Result<PathBuf> {
    let library = folder()?.join("structures.so");
    if library.exists() {
        return Ok(library);
    }
    let mut source = String::new();
    for number in 0..DWARF_STRUCTURES {
        let nested = match number % 8 {
            0 => String::new(),
            _ => format!("struct s{} inner;", number - 1),
        };
        writeln!(
            source,
            "struct s{number} {{ char a; struct s{number} *next; int count[{}]; unsigned low : 3, high : 7; {nested} }} v{number};",
            1 + number % 5
        )?;
    }
    let path = folder()?.join("structures.c");
    std::fs::write(&path, source)?;
    let mut cc = Command::new("cc");
    cc.args(["-g", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&path);
    ensure!(
        cc.status()?.success(),
        "{} does not compile",
        path.display()
    );
    Ok(library)
}
