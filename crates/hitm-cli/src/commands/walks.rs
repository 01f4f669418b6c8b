//! `--walks`: how objects of a kernel are found, beside the table that comes with hitm.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use hitm::vm::Walks;
use hitm_files::input_file::NamedBy;
use hitm_files::text_file;
use hitm_recording::user_folder;

/// The file of a user, below the folder for configurations.
const OF_USER: &str = "hitm/walks.toml";
/// Largest file that is read: the one that comes with hitm has 8 KiB.
const BYTES_MAX: u64 = 1 << 20;

/// Tables of walks.
#[derive(Debug, Clone, Args)]
pub(crate) struct WalksArgs {
    /// A file that says where a kernel's objects are and of which types, before those that hitm knows
    /// (docs/models/vm.md); ~/.config/hitm/walks.toml is read in any case. May be given several times
    #[arg(long, value_name = "FILE")]
    walks: Vec<PathBuf>,
}

impl WalksArgs {
    /// The walks of these files, the last one first, and of the user's own.
    ///
    /// # Errors
    /// A file cannot be read, or has a mistake.
    pub(crate) fn read(&self) -> Result<Walks> {
        let mut walks = Walks::default();
        for path in self.walks.iter().rev() {
            walks = walks.and(read(path, NamedBy::User)?);
        }
        let of_user = user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join(OF_USER));
        Ok(match of_user.filter(|path| path.exists()) {
            Some(path) => walks.and(read(&path, NamedBy::Input)?),
            None => walks,
        })
    }
}

fn read(path: &Path, named_by: NamedBy) -> Result<Walks> {
    let text = text_file::read_named(path, named_by, BYTES_MAX, "a file of walks")?;
    Walks::parse(&text).map_err(|error| anyhow!("{}:{error}", path.display()))
}
