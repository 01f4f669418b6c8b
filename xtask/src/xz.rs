//! A recording of `xz` with four threads: heap blocks are large and lines are many.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{hitm, output_bytes, text};

/// Records in `folder` with the built `hitm`. `xz` compresses `input_bytes` from the start of
/// `hitm` itself, as typical machine code, in blocks of `block_size`.
pub(crate) fn record(folder: &Path, input_bytes: usize, block_size: &str) -> Result<PathBuf> {
    let program = hitm()?;
    let (input, recording) = (folder.join("xz.in"), folder.join("xz.hitm"));
    let bytes = fs::read(&program).context("cannot read the program")?;
    fs::write(&input, &bytes[..input_bytes.min(bytes.len())])
        .with_context(|| format!("cannot write {}", input.display()))?;
    let block_size = format!("--block-size={block_size}");
    let machine = ["record", "-m", "broadwell-4s"];
    let file = ["-o", text(&recording)?, "--"];
    let xz = ["xz", "-T4", &block_size, "-1", "-k", "-c", text(&input)?];
    output_bytes(text(&program)?, &[&machine[..], &file, &xz].concat())?;
    Ok(recording)
}
