//! Cached symbols, types and code of recorded kernels, by build id.

use std::io;
use std::path::{Path, PathBuf};

use hitm_files::input_file::{self, NamedBy};
use hitm_files::ours;
use hitm_files::output_file::{self, Durability};
use hitm_layout::Bytes;

/// Name of the mapping of a kernel's image in a recording.
pub const KERNEL_PATH: &str = "[kernel]";

/// Folders of ours on the way to a kernel's files: its own, `kernel-names` and the cache.
const FOLDERS: usize = 3;

/// The kept files of one kernel.
#[derive(Debug)]
pub struct KernelFiles {
    directory: PathBuf,
}

impl KernelFiles {
    /// Files of the kernel with this build id.
    pub fn of(build_id: &[u8]) -> KernelFiles {
        let name: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        KernelFiles {
            directory: crate::cache::default_cache()
                .join("kernel-names")
                .join(name),
        }
    }

    /// Keeps the symbols and the types, unless they are kept already.
    pub fn keep(&self, kallsyms: &[u8], btf: &[u8]) -> io::Result<()> {
        if self.btf_path().is_some_and(|path| path.exists()) {
            return Ok(());
        }
        // The types last: they say that both are there.
        self.write("kallsyms", kallsyms)?;
        self.write("btf", btf)
    }

    /// Returns true if the kernel's code is kept.
    pub fn has_code(&self) -> bool {
        self.check(false).is_ok() && self.directory.join("code").exists()
    }

    /// Keeps the code of the image as it ran, from its first byte on.
    pub fn keep_code(&self, code: &[u8]) -> io::Result<()> {
        self.write("code", code)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.check(true)?;
        let path = self.directory.join(name);
        Ok(output_file::write_shared(&path, bytes, Durability::OnDisk)?)
    }

    /// Makes sure that the folders are this user's alone: names of a recording come from them.
    fn check(&self, makes: bool) -> io::Result<()> {
        let mut folders: Vec<&Path> = self.directory.ancestors().take(FOLDERS).collect();
        folders.reverse();
        folders
            .into_iter()
            .try_for_each(|folder| ours::private_folder(folder, makes))
    }

    /// The list of symbols.
    pub(crate) fn kallsyms(&self) -> io::Result<Bytes> {
        self.check(false)?;
        input_file::bytes(&self.directory.join("kallsyms"), NamedBy::Input)
    }

    /// The types.
    pub(crate) fn btf(&self) -> io::Result<Bytes> {
        self.check(false)?;
        input_file::bytes(&self.directory.join("btf"), NamedBy::Input)
    }

    /// The code of the image.
    pub(crate) fn code(&self) -> io::Result<Bytes> {
        self.check(false)?;
        input_file::bytes(&self.directory.join("code"), NamedBy::Input)
    }

    /// Path of the types, if they are kept.
    pub(crate) fn btf_path(&self) -> Option<PathBuf> {
        self.check(false).ok()?;
        Some(self.directory.join("btf"))
    }
}

/// The build id in a kernel's notes (`/sys/kernel/notes`): the note of type 3 of "GNU".
pub fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = notes;
    while rest.len() >= 12 {
        let field = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap_or_default());
        let (name_size, size, kind) = (field(0) as usize, field(4) as usize, field(8));
        let name_end = 12usize.checked_add(name_size.checked_next_multiple_of(4)?)?;
        let end = name_end.checked_add(size.checked_next_multiple_of(4)?)?;
        let name = rest.get(12..12usize.checked_add(name_size)?)?;
        if kind == 3 && name == b"GNU\0" {
            return rest.get(name_end..name_end + size).map(<[u8]>::to_vec);
        }
        rest = rest.get(end..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut notes = vec![];
        let mut note = |name: &[u8], kind: u32, text: &[u8]| {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((text.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.resize(notes.len().next_multiple_of(4), 0);
            notes.extend(text);
            notes.resize(notes.len().next_multiple_of(4), 0);
        };
        note(b"Linux\0", 257, &[0]);
        note(b"GNU\0", 3, &[0xab, 0xcd, 0xef]);
        assert_eq!(build_id(&notes), Some(vec![0xab, 0xcd, 0xef]));
        assert_eq!(build_id(&notes[..20]), None);
        assert_eq!(build_id(&[0xff; 12]), None);
    }
}
