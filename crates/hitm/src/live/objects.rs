//! The object of a system call: the file behind its descriptor, or the futex at its address.
//!
//! The kernel gives samples the program's registers, and the first argument of a call is in one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use hitm_live::recording::LiveObject;
use rustc_hash::FxHashMap;

/// Descriptors that are remembered.
const DESCRIPTORS_MAX: usize = 65_536;
/// A descriptor is looked at again after that time: its number may be another file's.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// System calls whose first argument is a descriptor: the ends of their functions' names.
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

/// The kind of thing that a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    File,
    Futex,
}

/// The call that a function of the kernel is the entry of.
pub(super) fn call(function: &str) -> Option<Call> {
    let (_, name) = function.rsplit_once("sys_")?;
    match name {
        "futex" | "futex_wait" => Some(Call::Futex),
        name => OF_FILES.contains(&name).then_some(Call::File),
    }
}

/// Files that descriptors of processes stand for.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    known: FxHashMap<(u32, u64), (Instant, Option<LiveObject>)>,
}

impl Descriptors {
    pub(super) fn object(&mut self, call: Call, pid: u32, argument: u64) -> Option<LiveObject> {
        match call {
            Call::Futex => Some(LiveObject::Futex {
                pid,
                address: argument,
            }),
            Call::File => self.file(pid, argument),
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
        // Of a process that is gone the last answer holds.
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
