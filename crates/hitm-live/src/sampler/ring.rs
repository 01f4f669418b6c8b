//! A perf event and its ring of records.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a ring: 50 ms of samples with forty callers at 999 Hz take a sixth.
const RING_BYTES: usize = 128 << 10;
/// Indices of words in the control page (`struct perf_event_mmap_page`): the kernel's write
/// position, and our read position.
const HEAD_WORD: usize = 1024 / 8;
const TAIL_WORD: usize = HEAD_WORD + 1;

/// The event to open: a clock of CPU time, which takes samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// Nanoseconds between samples.
    pub(super) period_ns: u64,
    /// Task whose time is sampled, or -1 for all of them.
    pub(super) task: i32,
    /// CPU that is sampled, or -1 for all of them.
    pub(super) cpu: i32,
}

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER5`, in words.
type Attributes = [u64; 14];

impl Event {
    fn attributes(self) -> Attributes {
        const SOFTWARE: u64 = 1;
        const SIZE: u64 = size_of::<Attributes>() as u64;
        // IP, TID, TIME, CALLCHAIN, CPU, REGS_USER.
        const SAMPLE: u64 = 1 | 2 | 4 | 32 | 128 | 4096;
        // exclude_hv, exclude_idle, comm, task.
        const FLAGS: u64 = 1 << 6 | 1 << 7 | 1 << 9 | 1 << 13;
        // DI on x86-64, x0 on arm64: the first argument of a system call.
        const ARGUMENT: u64 = if cfg!(target_arch = "aarch64") {
            1
        } else {
            1 << 5
        };
        let mut words = [0; 14];
        words[0] = SOFTWARE | SIZE << 32;
        words[2] = self.period_ns;
        words[3] = SAMPLE;
        words[5] = FLAGS;
        words[10] = ARGUMENT;
        words
    }
}

/// An open event, which counts until it is dropped.
#[derive(Debug)]
pub(super) struct Ring {
    /// The event ends with its last descriptor.
    _file: File,
    memory: *mut u8,
    page: usize,
}

impl Ring {
    /// # Errors
    /// That of perf_event_open(2) or mmap(2): `PermissionDenied` where `perf_event_paranoid` forbids it.
    pub(super) fn open(event: Event) -> io::Result<Ring> {
        const CLOSE_ON_EXEC: u64 = 8;
        let attributes = event.attributes();
        // SAFETY: the kernel reads as many bytes as the attributes say, and they live through the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                event.task,
                event.cpu,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call made this descriptor, so it has no other owner.
        let file = unsafe { File::from_raw_fd(fd as i32) };
        // SAFETY: reads a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        let length = page + RING_BYTES;
        // SAFETY: a new mapping of the event's own memory, which nothing else refers to.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0) };
        match memory == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(Ring {
                _file: file,
                memory: memory.cast(),
                page,
            }),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the control page is longer than that, aligned, and lives as long as the ring; the kernel
        // reads and writes its words as we do.
        unsafe { &*self.memory.cast::<AtomicU64>().add(at) }
    }

    /// Appends the records since the last call, whole ones, and frees their room in the ring.
    pub(super) fn read(&mut self, bytes: &mut Vec<u8>) {
        let head = self.word(HEAD_WORD).load(Ordering::Acquire);
        let tail = self.word(TAIL_WORD).load(Ordering::Relaxed);
        let length = (head.wrapping_sub(tail) as usize).min(RING_BYTES);
        let start = tail as usize % RING_BYTES;
        let first = length.min(RING_BYTES - start);
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
        unsafe { libc::munmap(self.memory.cast(), self.page + RING_BYTES) };
    }
}

// SAFETY: the memory belongs to this value alone on our side.
unsafe impl Send for Ring {}
