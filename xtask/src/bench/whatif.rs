//! Cost of a replay, beside a report of the same recording: `xz` with four threads, whose heap
//! blocks are large and whose lines are many.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::recording::{Used, run};
use crate::{target, xz};

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

/// The recording, made once.
fn recording() -> Result<PathBuf> {
    let folder = target().join("bench");
    std::fs::create_dir_all(&folder).context("cannot create target/bench")?;
    let recording = folder.join("xz.hitm");
    if recording.exists() {
        return Ok(recording);
    }
    xz::record(&folder, INPUT_BYTES, "256KiB")
}
