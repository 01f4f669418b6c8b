//! What a replay costs, beside a report of the same recording: `xz` with four threads, whose heap
//! blocks are large and whose lines are many.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::recording::{Used, run};
use crate::target;

/// Bytes that `xz` compresses: some ten million records.
const INPUT_BYTES: usize = 1_500_000;

/// CPU seconds of `hitm whatif` without a change.
pub(super) fn whatif_cpu() -> Result<f64> {
    Ok(hitm("whatif")?.cpu_seconds)
}

/// CPU seconds of `hitm report`.
pub(super) fn report_cpu() -> Result<f64> {
    Ok(hitm("report")?.cpu_seconds)
}

fn hitm(verb: &str) -> Result<Used> {
    let recording = recording()?;
    run(Command::new(crate::hitm()?)
        .arg(verb)
        .arg("-i")
        .arg(recording))
}

/// The recording, made once. What is compressed is the start of `hitm` itself: machine code, as
/// good as any.
fn recording() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let recording = folder.join("xz.hitm");
    if recording.exists() {
        return Ok(recording);
    }
    let input = folder.join("xz.in");
    let bytes = std::fs::read(crate::hitm()?)?;
    std::fs::write(&input, &bytes[..INPUT_BYTES.min(bytes.len())])?;
    let mut record = Command::new(crate::hitm()?);
    record.args(["record", "-m", "broadwell-4s", "-o"]);
    record.arg(&recording);
    record.args(["--", "xz", "-T4", "--block-size=256KiB", "-1", "-k", "-c"]);
    run(record.arg(&input))?;
    Ok(recording)
}
