//! A perf event and its ring of records (perf_event_open(2)).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Indices of words in the control page (`struct perf_event_mmap_page`): the kernel's write
/// position, and our read position.
const HEAD_WORD: usize = 1024 / 8;
const TAIL_WORD: usize = HEAD_WORD + 1;

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER5`, in words.
pub(crate) type Attributes = [u64; 14];

/// The first word of attributes: the event's type (`enum perf_type_id`), and their size.
pub(crate) const fn kind(kind: u64) -> u64 {
    kind | (size_of::<Attributes>() as u64) << 32
}

/// The event to open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) attributes: Attributes,
    /// Task that is looked at, or -1 for all of them.
    pub(crate) task: i32,
    /// CPU that is looked at, or -1 for all of them.
    pub(crate) cpu: i32,
}

impl Event {
    /// Opens it. The event ends with its last descriptor.
    ///
    /// # Errors
    /// That of perf_event_open(2): `PermissionDenied` where `perf_event_paranoid` forbids it.
    pub(crate) fn open(self) -> io::Result<File> {
        self.open_in(None)
    }

    /// Opens it in the group of a leader of the same task or CPU, with which it counts and stops.
    ///
    /// # Errors
    /// Those of [`Event::open`].
    pub(crate) fn open_in(self, leader: Option<&File>) -> io::Result<File> {
        const CLOSE_ON_EXEC: u64 = 8;
        const NO_GROUP: i32 = -1;
        // SAFETY: the kernel reads as many bytes as the attributes say, and they live through the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                self.attributes.as_ptr(),
                self.task,
                self.cpu,
                leader.map_or(NO_GROUP, |leader| leader.as_raw_fd()),
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call made this descriptor, so it has no other owner.
        Ok(unsafe { File::from_raw_fd(fd as i32) })
    }
}

/// The ring of an open event, which counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Ring {
    file: File,
    memory: *mut u8,
    page: usize,
    len: usize,
}

impl Ring {
    /// A ring of `len` bytes, a power of two of pages.
    ///
    /// # Errors
    /// That of mmap(2): `PermissionDenied` where RLIMIT_MEMLOCK and `perf_event_mlock_kb` forbid it.
    pub(crate) fn of(file: File, len: usize) -> io::Result<Ring> {
        // SAFETY: reads a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, whole) = (file.as_raw_fd(), page + len);
        // SAFETY: a new mapping of the event's own memory, which nothing else refers to.
        let memory = unsafe { libc::mmap(ptr::null_mut(), whole, access, libc::MAP_SHARED, fd, 0) };
        match memory == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Ring {
                file,
                memory: memory.cast(),
                page,
                len,
            }),
        }
    }

    /// The event.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the control page is longer than that, aligned, and lives as long as the ring; the kernel
        // reads and writes its words as we do.
        unsafe { &*self.memory.cast::<AtomicU64>().add(at) }
    }

    /// Bytes of records since the last call of [`Ring::read`].
    pub(crate) fn pending(&self) -> usize {
        let head = self.word(HEAD_WORD).load(Ordering::Acquire);
        let tail = self.word(TAIL_WORD).load(Ordering::Relaxed);
        head.wrapping_sub(tail) as usize
    }

    /// Appends the records since the last call, whole ones, and frees their room in the ring.
    pub(crate) fn read(&mut self, bytes: &mut Vec<u8>) {
        let head = self.word(HEAD_WORD).load(Ordering::Acquire);
        let tail = self.word(TAIL_WORD).load(Ordering::Relaxed);
        let length = (head.wrapping_sub(tail) as usize).min(self.len);
        let start = tail as usize % self.len;
        let first = length.min(self.len - start);
        for (from, length) in [(start, first), (0, length - first)] {
            // SAFETY: both pieces lie in the ring behind the control page; the kernel does not write to
            // them before the tail moves.
            let piece = unsafe {
                let piece = self.memory.add(self.page + from);
                std::slice::from_raw_parts(piece, length)
            };
            bytes.extend_from_slice(piece);
        }
        self.word(TAIL_WORD).store(head, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps what `open` mapped; no reference into it is left.
        unsafe { libc::munmap(self.memory.cast(), self.page + self.len) };
    }
}

// SAFETY: the memory belongs to this value alone on our side.
unsafe impl Send for Ring {}
