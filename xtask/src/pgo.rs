//! `cargo xtask pgo`: builds `hitm` with a profile of its own work.
//!
//! The first build counts the outcomes of each branch while it does hitm's usual work. The second
//! lays out its code by these counts (`rustc -Cprofile-use`) and optimises all crates as one. The
//! training runs differ from the benchmarks: every scenario, for a tenth of its time, and every
//! view of a recording. No result changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::{hitm, output, output_bytes, run, run_with_env, target, text, xz};

/// Bytes that `xz` compresses while it is recorded: some three million accesses.
const INPUT_BYTES: usize = 400_000;

/// Makes `target/release/hitm` anew.
pub fn build() -> Result<()> {
    let program = hitm()?;
    let merge = profdata()?;
    let folder = target().join("pgo");
    let counts = folder.join("counts");
    if counts.exists() {
        fs::remove_dir_all(&counts).context("cannot remove the counts of an earlier time")?;
    }
    fs::create_dir_all(&counts).context("cannot create target/pgo")?;
    say("recording of xz");
    let recording = xz::record(&folder, INPUT_BYTES, "64KiB")?;

    say("build that counts");
    let counting = compile(&folder, &format!("-Cprofile-generate={}", counts.display()))?;
    let copy = folder.join("hitm-counting");
    fs::copy(&counting, &copy).context("cannot copy the program that counts")?;
    work(&copy, &recording)?;
    let profile = folder.join("hitm.profdata");
    run(&merge, &["merge", "-o", text(&profile)?, text(&counts)?])?;

    say("build by the counts");
    let built = compile(&folder, &format!("-Cprofile-use={}", profile.display()))?;
    // Renamed, not overwritten: the program may be running.
    let beside = program.with_extension("new");
    fs::copy(&built, &beside).context("cannot copy the program that was built")?;
    fs::rename(&beside, &program).context("cannot replace the program")?;
    println!("{}", program.display());
    Ok(())
}

fn say(step: &str) {
    eprintln!("pgo: {step}");
}

/// Path of this compiler's tool that merges profiles.
fn profdata() -> Result<String> {
    let sysroot = output("rustc", &["--print", "sysroot"])?;
    let tool = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(host()?)
        .join("bin/llvm-profdata");
    ensure!(
        tool.exists(),
        "{} is missing; run: rustup component add llvm-tools",
        tool.display()
    );
    Ok(text(&tool)?.to_owned())
}

/// The compiler's name for this host.
fn host() -> Result<String> {
    let about = output("rustc", &["-vV"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Builds `hitm` in a folder of its own with one more flag; returns its path.
fn compile(folder: &Path, flag: &str) -> Result<PathBuf> {
    let host = host()?;
    // With a named target the flag does not apply to build scripts and macros.
    let args = [
        "build",
        "--release",
        "--package",
        "hitm-cli",
        "--target",
        &host,
    ];
    let args = [&args[..], &["--target-dir", text(folder)?]].concat();
    let whole = [
        ("CARGO_ENCODED_RUSTFLAGS", flag),
        ("CARGO_PROFILE_RELEASE_LTO", "fat"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ];
    run_with_env("cargo", &args, &whole)?;
    Ok(folder.join(host).join("release/hitm"))
}

/// Runs the usual work of `hitm`.
fn work(hitm: &Path, recording: &Path) -> Result<()> {
    let structures = recording.with_file_name("mixed");
    let compile = [
        "-g",
        "-pthread",
        "-o",
        text(&structures)?,
        "xtask/programs/mixed.c",
    ];
    run("cc", &compile)?;
    let recording = text(recording)?;
    let all: [&[&str]; 7] = [
        &["reproduce", "--quick"],
        &["report", "-i", recording],
        &["report", "-i", recording, "--format", "json"],
        &["whatif", "-i", recording, "-m", "xeon-480"],
        &["diff", recording, recording],
        &["layout", "list", "-i", text(&structures)?],
        &["machine", "show", "xeon-480"],
    ];
    for args in all {
        say(&format!("hitm {}", args.join(" ")));
        output_bytes(text(hitm)?, args)?;
    }
    Ok(())
}
