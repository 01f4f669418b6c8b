//! `cargo xtask layout-check`: layouts of two kernels against two independent readings.
//!
//! For the running kernel's BTF and for that of Debian's kernel (downloaded with apt, nothing is
//! installed) it takes root_domain, cpupri, rq, task_struct and 2000 further structures, and compares
//!
//! 1. the text of `hitm layout show` with pahole's, where pahole reads the structure: every name,
//!    offset, size, bit, hole, cache-line boundary and total. Types' names and inferred alignments are
//!    left out: docs/formats/layout.md says why;
//! 2. the layouts with what a C compiler measures (`offsetof`, `sizeof`, bits set) in the
//!    header that `bpftool btf dump` writes;
//! 3. the C of `hitm layout show --format c` of some with the compiler: it asserts its own offsets.
//!
//! It needs pahole and bpftool, and fails when anything differs.

mod compiled;
mod kernel;
mod notation;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hitm_layout::structs::ShowOptions;
use hitm_layout::{BtfFile, Bytes};
use hitm_report::layouts::layout_text;

use crate::target;

/// Structures that are always compared.
const NAMED: [&str; 4] = ["root_domain", "cpupri", "rq", "task_struct"];

/// Number of other structures.
const PICKED: usize = 2000;

/// One in so many is written as C, too: each costs a run of the compiler.
const AS_C_EVERY: usize = 20;

/// The seed of the choice.
const SEED: u64 = 0x6869_746d;

/// Differences that are printed of each kind.
const PRINTED: usize = 20;

/// Counts of comparisons.
#[derive(Default)]
struct Counts {
    by_pahole: usize,
    lines: usize,
    unlisted_by_pahole: usize,
    pointed_at: usize,
    compiled: usize,
    members: usize,
    bit_fields: usize,
    as_c: usize,
    differences: Vec<String>,
}

/// Compares both kernels.
pub fn run_here() -> Result<()> {
    for (tool, package) in [
        ("pahole", "pahole"),
        ("bpftool", "bpftool"),
        ("objcopy", "binutils"),
    ] {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .output()?;
        ensure!(
            found.status.success(),
            "{tool} is missing: apt-get install {package}"
        );
    }
    let work = target().join("layout-check");
    std::fs::create_dir_all(&work).context("cannot create target/layout-check")?;
    let mut difference_count = 0;
    let mut kernels = Vec::new();
    match kernel::running(&work)? {
        Some(running) => kernels.push(running),
        None => println!(
            "{} is missing: this kernel is not compared",
            kernel::VMLINUX
        ),
    }
    kernels.push(kernel::debian(&work)?);
    for kernel in &kernels {
        let counts = compare(kernel, &work)?;
        report(kernel, &counts);
        difference_count += counts.differences.len();
    }
    println!("{difference_count} differences");
    ensure!(difference_count == 0, "{difference_count} differences");
    Ok(())
}

fn report(kernel: &kernel::Kernel, counts: &Counts) {
    println!("{}", kernel.name);
    println!(
        "  pahole: {} structures, {} lines compared; left out: {} that its listing does not have, {} with a \
         pointer to a structure without a name, which it writes in full",
        counts.by_pahole, counts.lines, counts.unlisted_by_pahole, counts.pointed_at
    );
    println!(
        "  bpftool and cc: {} structures, {} members, {} bit-fields",
        counts.compiled, counts.members, counts.bit_fields
    );
    println!("  written as C and compiled: {} structures", counts.as_c);
    for difference in counts.differences.iter().take(PRINTED) {
        println!("  {difference}");
    }
}

fn compare(kernel: &kernel::Kernel, work: &Path) -> Result<Counts> {
    let bytes = std::fs::read(&kernel.source)?;
    let mut file = BtfFile::parse(Bytes::from(bytes), None, &kernel.name)?;
    let names = choose(&file)?;
    let mut counts = Counts::default();
    by_pahole(kernel, &mut file, &names, &mut counts)?;
    compiled::compare(kernel, &mut file, &names, work, &mut counts)?;
    for name in names
        .iter()
        .step_by(AS_C_EVERY)
        .chain(names[..NAMED.len()].iter())
    {
        compiled::as_c(&mut file, name, work, &mut counts)?;
    }
    Ok(counts)
}

/// Names of structures and unions that are defined once, in an order that the seed makes. Those
/// that are always compared come first.
fn choose(file: &BtfFile) -> Result<Vec<String>> {
    let mut count_by_name: BTreeMap<String, usize> = BTreeMap::new();
    for definition in file.definitions() {
        *count_by_name.entry(definition.name).or_default() += 1;
    }
    let once = |name: &&str| count_by_name.get(*name) == Some(&1);
    for name in NAMED {
        ensure!(once(&name), "struct {name} is not defined exactly once");
    }
    let mut others: Vec<(u64, &str)> = count_by_name
        .iter()
        .filter(|(name, count)| **count == 1 && !NAMED.contains(&name.as_str()))
        .map(|(name, _)| (mixed(name), name.as_str()))
        .collect();
    others.sort_unstable();
    let picked = others.into_iter().take(PICKED).map(|(_, name)| name);
    Ok(NAMED.into_iter().chain(picked).map(str::to_owned).collect())
}

/// A number that looks like chance and is the same on every machine (FNV-1a, then mixed).
fn mixed(name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ SEED, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    (hash ^ (hash >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Compares the text of each structure with pahole's.
fn by_pahole(
    kernel: &kernel::Kernel,
    file: &mut BtfFile,
    names: &[String],
    counts: &mut Counts,
) -> Result<()> {
    // pahole complains about unknown kinds, and continues.
    let output = Command::new("pahole")
        .arg("-F")
        .arg("btf")
        .arg(&kernel.raw)
        .output()?;
    ensure!(
        !output.stdout.is_empty(),
        "pahole prints nothing of {}",
        kernel.raw.display()
    );
    let theirs = notation::split(&String::from_utf8_lossy(&output.stdout));
    let options = ShowOptions {
        line_size: 64,
        expand: false,
    };
    for name in names {
        let layout = file.struct_layout(name)?;
        let ours = layout_text(file.types(), &layout, name, &options);
        let ours = notation::split(&ours);
        let Some((key, ours)) = ours.first_key_value() else {
            bail!("nothing is shown of {name}");
        };
        let Some(theirs) = theirs.get(key) else {
            counts.unlisted_by_pahole += 1;
            continue;
        };
        if notation::has_pointed_at(theirs) {
            counts.pointed_at += 1;
            continue;
        }
        counts.by_pahole += 1;
        counts.lines += theirs.len();
        if let Some(difference) = notation::first_difference(theirs, ours) {
            counts.differences.push(format!("{key}: {difference}"));
        }
    }
    Ok(())
}
