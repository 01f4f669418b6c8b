//! The memory that this process and the recorder share.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::ptr::NonNull;

use hitm_trace::ring::{Consumer, RingConfig};
use memmap2::MmapRaw;

use super::child;

/// Where the moves begin, behind the recording's header: the header's own limit and a page.
const MOVES_OFFSET: usize = (4 << 20) + 4096;
/// Bytes that the moves may take.
const MOVES_BYTES_MAX: usize = 16 << 20;
/// Where the ring begins.
const RING_OFFSET: usize = MOVES_OFFSET + MOVES_BYTES_MAX;

/// A shared region with the header written and an empty ring.
#[derive(Debug)]
pub(crate) struct Region {
    file: File,
    pub(crate) consumer: Consumer,
    /// Dropped after the consumer, which points into it.
    memory: MmapRaw,
}

impl Region {
    /// Makes a region; `header` is the encoded header of the recording.
    ///
    /// It is a memfd: it lies neither in /dev/shm nor in TMPDIR, has no name that could be left
    /// behind, and is gone with the last process that has it. The limits of files (ulimit -f) and of
    /// memory (ulimit -v) hold for it.
    pub(crate) fn create(header: &[u8]) -> io::Result<Region> {
        let config = RingConfig::DEFAULT;
        let len = RING_OFFSET + config.memory_len();
        // SAFETY: a plain system call; the name is for people who read /proc.
        let fd = unsafe { libc::memfd_create(c"hitm-ring".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(len as u64)?;
        // What the ring will use, at once: without it a host whose memory is full ends QEMU with
        // SIGBUS in the middle of a recording.
        // SAFETY: a plain system call on an open descriptor.
        let reserved =
            unsafe { libc::fallocate(fd, 0, RING_OFFSET as i64, config.memory_len() as i64) };
        if reserved != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = MmapRaw::map_raw(&file)?;
        let base = NonNull::new(memory.as_mut_ptr()).expect("a mapping is not at address 0");
        assert!(
            header.len() <= MOVES_OFFSET,
            "the header's length is limited by its format"
        );
        // SAFETY: the mapping is `len` bytes long, and nobody else uses it yet.
        let consumer = unsafe {
            base.as_ptr()
                .copy_from_nonoverlapping(header.as_ptr(), header.len());
            let ring = base.add(RING_OFFSET);
            Consumer::create(ring, len - RING_OFFSET, config, std::process::id())
        };
        let consumer = consumer.map_err(io::Error::other)?;
        Ok(Region {
            file,
            consumer,
            memory,
        })
    }

    /// Tells the recorder where members lie; it looks when the recording starts. The text is that of
    /// [`hitm_weave::Relocation`].
    pub(crate) fn write_moves(&mut self, text: &str) -> io::Result<()> {
        let length = (text.len() as u64).to_le_bytes();
        if length.len() + text.len() > MOVES_BYTES_MAX {
            return Err(io::Error::other("the moved objects have too many pieces"));
        }
        // SAFETY: both parts lie within the mapping, before the ring, and the recorder reads them only
        // after the machine was told to go on.
        unsafe {
            let moves = self.memory.as_mut_ptr().add(MOVES_OFFSET);
            moves.copy_from_nonoverlapping(length.as_ptr(), length.len());
            moves
                .add(length.len())
                .copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        Ok(())
    }

    /// Lets the process that `command` starts inherit the region.
    pub(crate) fn inherit(&self, command: &mut Command) {
        child::inherit(command, &self.file);
    }

    /// The arguments that tell the recorder where the ring is.
    pub(crate) fn plugin_arguments(&self) -> String {
        let fd = self.file.as_raw_fd();
        format!("fd={fd},ring_offset={RING_OFFSET},moves_offset={MOVES_OFFSET}")
    }
}
