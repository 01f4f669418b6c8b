//! The guest's file system: an archive that the kernel unpacks into memory.
//!
//! Format: cpio in its "newc" form (Documentation/driver-api/early-userspace/buffer-format.rst of
//! Linux 6.12). An entry is a header of 110 characters, the name with a final zero byte, padding to
//! four bytes, the data, padding to four bytes. The entry `TRAILER!!!` ends the archive.

use std::collections::BTreeSet;

/// Mode of a directory.
const DIRECTORY: u32 = 0o040_755;
/// Mode of a program.
const PROGRAM: u32 = 0o100_755;
/// Mode of a symbolic link.
const LINK: u32 = 0o120_777;
/// Mode of any other file.
const FILE: u32 = 0o100_644;

/// An archive under construction.
#[derive(Debug, Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    entry_count: u32,
    /// Paths that the archive has.
    paths: BTreeSet<String>,
}

impl Initramfs {
    /// Adds a directory and its parents. Paths begin at the root, without a slash.
    pub(super) fn add_directory(&mut self, path: &str) {
        let slashes = path.match_indices('/').map(|(at, _)| at);
        for end in slashes.chain([path.len()]) {
            let directory = &path[..end];
            if !directory.is_empty() {
                self.add(directory, DIRECTORY, &[]);
            }
        }
    }

    /// Adds a program, unless the archive has the path already.
    pub(super) fn add_program(&mut self, path: &str, bytes: &[u8]) {
        self.add_inside(path, PROGRAM, bytes);
    }

    /// Adds a file, unless the archive has the path already.
    pub(super) fn add_file(&mut self, path: &str, bytes: &[u8]) {
        self.add_inside(path, FILE, bytes);
    }

    /// Adds a link to an absolute path, unless the archive has the path already.
    pub(super) fn add_link(&mut self, path: &str, target: &str) {
        self.add_inside(path, LINK, target.as_bytes());
    }

    /// Returns the finished archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// Adds an entry and its parent directories.
    fn add_inside(&mut self, path: &str, mode: u32, data: &[u8]) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.add_directory(parent);
        }
        self.add(path, mode, data);
    }

    fn add(&mut self, name: &str, mode: u32, data: &[u8]) {
        if !self.paths.insert(name.to_owned()) {
            return;
        }
        self.entry_count += 1;
        let size = u32::try_from(data.len()).expect("no file of a guest reaches 4 GiB");
        let name_size = name.len() as u32 + 1;
        // inode, mode, user, group, links, time, size, device and its device twice, name, checksum
        let fields = [
            self.entry_count,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_each_path_once_and_a_trailer() {
        let mut archive = Initramfs::default();
        archive.add_program("hitm/bin/a", b"xyz");
        archive.add_file("hitm/bin/b", b"");
        archive.add_link("hitm/bin/c", "/usr/bin/c");
        archive.add_file("hitm/bin/b", b"again");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<&str> = text
            .split("070701")
            .skip(1)
            .map(|entry| entry[104..].split('\0').next().unwrap_or(""))
            .collect();
        assert_eq!(
            names,
            [
                "hitm",
                "hitm/bin",
                "hitm/bin/a",
                "hitm/bin/b",
                "hitm/bin/c",
                "TRAILER!!!"
            ]
        );
        // Mode of the program: an ordinary file that may be executed.
        assert!(text.contains("000081ED"));
    }
}
