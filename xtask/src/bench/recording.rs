//! Cost of recording: CPU time and memory of a recorded program against the program alone.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{root, target};

/// Iterations of each of the program's two threads.
const ITERATIONS: &str = "10000000";

/// Resources of a process and those that it waited for.
pub(super) struct Used {
    pub(super) cpu_seconds: f64,
    pub(super) peak_mebibytes: f64,
    /// Context switches.
    pub(super) switches: f64,
}

/// CPU seconds of the program recorded with full pricing, `hitm record` included.
pub(super) fn recorded_cpu() -> Result<f64> {
    Ok(recorded()?.cpu_seconds)
}

/// CPU seconds of the program alone.
pub(super) fn native_cpu() -> Result<f64> {
    Ok(native()?.cpu_seconds)
}

/// Peak memory of the recorded program beyond that of the program alone.
pub(super) fn extra_memory() -> Result<f64> {
    Ok(recorded()?.peak_mebibytes - native()?.peak_mebibytes)
}

fn native() -> Result<Used> {
    run(Command::new(compiled("mixed")?).arg(ITERATIONS))
}

fn recorded() -> Result<Used> {
    let target = target();
    let hitm = crate::hitm()?;
    let mut command = Command::new(hitm);
    command
        .args(["record", "-o"])
        .arg(target.join("bench/mixed.hitm"))
        .arg("--");
    run(command.arg(compiled("mixed")?).arg(ITERATIONS))
}

/// A program of xtask/programs, built.
pub(super) fn compiled(name: &str) -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let program = folder.join(name);
    let source = root().join(format!("xtask/programs/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(source);
    ensure!(
        cc.status().context("cannot run cc")?.success(),
        "{name}.c does not compile"
    );
    Ok(program)
}

pub(super) fn run(command: &mut Command) -> Result<Used> {
    run_into(command, Stdio::null())
}

/// As [`run`], with its standard output kept.
pub(super) fn run_into(command: &mut Command, stdout: Stdio) -> Result<Used> {
    command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null());
    let child = command.spawn().context("cannot start the program")?;
    let mut status = 0;
    // SAFETY: the two results are plain memory; the child is ours, and no other thread waits for
    // it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let waited = libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage);
        ensure!(
            waited == child.id() as libc::pid_t,
            "cannot wait for the program"
        );
        usage
    };
    ensure!(status == 0, "the program failed with wait status {status}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Used {
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_mebibytes: usage.ru_maxrss as f64 / 1024.0,
        switches: (usage.ru_nvcsw + usage.ru_nivcsw) as f64,
    })
}
