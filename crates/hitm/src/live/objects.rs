//! The object of a system call: the file behind its descriptor, or the futex at its address.
//!
//! Samples have the program's registers, one of which holds the first argument of a call.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use hitm_live::recording::LiveObject;
use rustc_hash::FxHashMap;

/// Limit on cached descriptors.
const DESCRIPTORS_MAX: usize = 65_536;
/// Lifetime of a cached descriptor: its number may become another file's.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// System calls whose first argument is a descriptor: the suffixes of their functions' names.
const OF_FILES: &[&str] = &[
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "lseek",
    "getdents64",
    "fadvise64",
    "sendfile64",
    "copy_file_range",
    "fstat",
    "newfstat",
];

/// Kind of object that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    File,
    Futex,
}

/// System call that a function of the kernel is the entry of.
pub(super) fn call(function: &str) -> Option<Call> {
    let (_, name) = function.rsplit_once("sys_")?;
    match name {
        "futex" | "futex_wait" => Some(Call::Futex),
        name => OF_FILES.contains(&name).then_some(Call::File),
    }
}

/// Files behind descriptors of processes.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    known: FxHashMap<(u32, u64), (Instant, Option<LiveObject>)>,
}

impl Descriptors {
    pub(super) fn object(&mut self, call: Call, pid: u32, argument: u64) -> Option<LiveObject> {
        match call {
            Call::Futex => Some(Descriptors::futex(pid, argument)),
            Call::File => self.file(pid, argument),
        }
    }

    /// Futex word at an address of a process, without its name yet.
    pub(super) fn futex(pid: u32, address: u64) -> LiveObject {
        LiveObject::Futex {
            pid,
            address,
            name: String::new(),
        }
    }

    fn file(&mut self, pid: u32, descriptor: u64) -> Option<LiveObject> {
        let now = Instant::now();
        if let Some((since, object)) = self.known.get(&(pid, descriptor))
            && now - *since < KEPT_FOR
        {
            return object.clone();
        }
        if self.known.len() >= DESCRIPTORS_MAX {
            self.known.clear();
        }
        let found = look(pid, descriptor);
        // For a process that has ended the last result holds.
        let last = self.known.remove(&(pid, descriptor));
        let object = found.or(last.and_then(|(_, object)| object));
        self.known.insert((pid, descriptor), (now, object.clone()));
        object
    }
}

fn look(pid: u32, descriptor: u64) -> Option<LiveObject> {
    let link = format!("/proc/{pid}/fd/{descriptor}");
    let path = fs::read_link(&link).ok()?;
    let metadata = fs::metadata(&link).ok()?;
    let device = metadata.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    Some(LiveObject::File {
        inode: format!("{major}:{minor}:{}", metadata.ino()),
        path: path.to_string_lossy().into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn entries_of_calls() {
        assert_eq!(call("__x64_sys_pwrite64"), Some(Call::File));
        assert_eq!(call("ksys_write"), Some(Call::File));
        assert_eq!(call("__arm64_sys_futex"), Some(Call::Futex));
        assert_eq!(call("__x64_sys_mmap"), None);
        assert_eq!(call("vfs_write"), None);
    }

    #[test]
    fn a_descriptor_is_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let descriptor = file.as_file().as_raw_fd() as u64;
        let mut descriptors = Descriptors::default();
        let found = descriptors.object(Call::File, std::process::id(), descriptor);
        let Some(LiveObject::File { inode, path }) = found else {
            panic!("{found:?}");
        };
        assert_eq!(path, file.path().to_string_lossy());
        let number = file.path().metadata().unwrap().ino().to_string();
        assert!(inode.ends_with(&format!(":{number}")), "{inode}");
    }
}
