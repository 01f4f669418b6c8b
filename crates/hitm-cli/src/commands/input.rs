//! The recording that a command reads, named as perf's users name it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hitm_files::input_file::{self, NamedBy};

/// The recording that is written and read where none is named.
pub(super) const DEFAULT: &str = "hitm.data";

/// The recording of a command: behind `-i`, or alone.
#[derive(Debug, Args)]
pub(crate) struct InputArg {
    /// The recording to read, with or without -i [default: hitm.data]
    #[arg(short, long, value_name = "FILE", conflicts_with = "recording")]
    input: Option<PathBuf>,
    /// The same as -i
    #[arg(value_name = "RECORDING")]
    recording: Option<PathBuf>,
}

impl InputArg {
    /// The path of the recording.
    pub(super) fn path(&self) -> &Path {
        self.named().unwrap_or(Path::new(DEFAULT))
    }

    /// Fails where nothing is named and there is no recording with the default's name, and for a program.
    pub(super) fn check(&self) -> Result<()> {
        check(self.named())
    }

    fn named(&self) -> Option<&Path> {
        self.input.as_deref().or(self.recording.as_deref())
    }
}

fn check(named: Option<&Path>) -> Result<()> {
    let path = named.unwrap_or(Path::new(DEFAULT));
    if named.is_none() && !path.exists() {
        bail!("there is no {DEFAULT} in this folder: record first, with `hitm record PROGRAM`");
    }
    if is_program(path) {
        let shown = path.display();
        bail!(
            "{shown} is a program, expected a recording: record it first, with `hitm record {shown}`"
        );
    }
    Ok(())
}

/// Returns true for an ELF file. What is not a plain file is not read: it would be gone.
fn is_program(path: &Path) -> bool {
    let mut magic = [0; 4];
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    is_file
        && input_file::open(path, NamedBy::User)
            .is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_no_recording() {
        let own = std::env::current_exe().expect("a test is a program");
        let said = check(Some(&own))
            .expect_err("it is no recording")
            .to_string();
        assert!(
            said.contains("is a program, expected a recording: record it first"),
            "{said}"
        );
        let other = Path::new("no such recording");
        assert!(check(Some(other)).is_ok(), "its reader complains");
    }
}
