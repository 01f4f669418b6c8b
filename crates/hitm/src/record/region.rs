//! The memory that this process and the recorder share.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::ptr::NonNull;

use hitm_trace::ring::{Consumer, Producer, RingConfig};
use hitm_weave::board::{BOARD_LEN, Board, Futex, board_len};
use memmap2::{MmapOptions, MmapRaw};

use super::{child, descriptor};

/// Offset of the moves, behind the recording's header: the header's own limit and a page.
const MOVES_OFFSET: usize = (4 << 20) + 4096;
/// Bytes that the moves may take.
const MOVES_BYTES_MAX: usize = 16 << 20;
/// Offset of the ring.
const RING_OFFSET: usize = MOVES_OFFSET + MOVES_BYTES_MAX;
/// Offset of the guard's mutex, a page before the board.
const GUARD_OFFSET: usize = (RING_OFFSET + RingConfig::DEFAULT.memory_len()).next_multiple_of(4096);
/// Offset of the board of programs.
const BOARD_OFFSET: usize = GUARD_OFFSET + 4096;
/// Threads for which the board has room at first.
const THREADS_AT_FIRST: usize = 128;

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
        let ring_end = RING_OFFSET + RingConfig::DEFAULT.memory_len();
        Region::with_len(header, ring_end, ring_end)
    }

    /// Makes a region with a board, through which programs are recorded.
    pub(crate) fn create_with_board(header: &[u8]) -> io::Result<Region> {
        let len = BOARD_OFFSET + board_len(THREADS_AT_FIRST);
        Region::with_len(header, len, BOARD_OFFSET + BOARD_LEN)
    }

    /// `len` bytes of memory behind `address_bytes` of addresses.
    fn with_len(header: &[u8], len: usize, address_bytes: usize) -> io::Result<Region> {
        let config = RingConfig::DEFAULT;
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
            unsafe { libc::fallocate(fd, 0, RING_OFFSET as i64, (len - RING_OFFSET) as i64) };
        if reserved != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = MmapOptions::new().len(address_bytes).map_raw(&file)?;
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
            Consumer::create(ring, config.memory_len(), config, std::process::id())
        };
        let consumer = consumer.map_err(io::Error::other)?;
        Ok(Region {
            file,
            consumer,
            memory,
        })
    }

    /// The ring's other end, for this process's own engine.
    pub(crate) fn producer(&self) -> io::Result<Producer> {
        let ring = self.at(RING_OFFSET);
        let len = RingConfig::DEFAULT.memory_len();
        // SAFETY: within the mapping, which outlives the engine's thread.
        let producer = unsafe { Producer::attach(ring, len, std::process::id()) };
        producer.map_err(io::Error::other)
    }

    /// The board, with room for some threads, and what makes more.
    pub(crate) fn board(&self, futex: Futex) -> io::Result<(Board, Backing)> {
        // No two recordings of a host have one inode at a time.
        let recording = self.file.metadata()?.ino() as u32;
        // SAFETY: the region was made with a board, is zeroed, and outlives the engine's thread.
        let board =
            unsafe { Board::create(self.at(BOARD_OFFSET), recording, THREADS_AT_FIRST, futex) };
        let file = self.file.try_clone()?;
        Ok((board, Backing { file }))
    }

    /// The memory of the guard's mutex.
    pub(crate) fn guard(&self) -> NonNull<u8> {
        self.at(GUARD_OFFSET)
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        let base = NonNull::new(self.memory.as_mut_ptr()).expect("a mapping is not at address 0");
        // SAFETY: all offsets lie within the mapping.
        unsafe { base.add(offset) }
    }

    /// Returns the path at which another process of this user can open the memory.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Leaves a text for the recorder, which looks when the recording starts: where members lie
    /// ([`hitm_weave::Relocation`]), or what it needs to start QEMU.
    pub(crate) fn write_text(&mut self, text: &str) -> io::Result<()> {
        let length = (text.len() as u64).to_le_bytes();
        if length.len() + text.len() > MOVES_BYTES_MAX {
            return Err(io::Error::other("the moved objects have too many pieces"));
        }
        // SAFETY: both parts lie within the mapping, before the ring, and the recorder reads them only
        // after the machine was told to continue.
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

    /// Like [`Region::plugin_arguments`], for a program, without the descriptor.
    pub(crate) fn board_arguments(&self) -> String {
        format!("board_offset={BOARD_OFFSET},ring_offset={RING_OFFSET},moves_offset={MOVES_OFFSET}")
    }

    /// The descriptor of the memory, which [`Region::inherit`] leaves open.
    pub(crate) fn descriptor(&self) -> String {
        format!("fd={}", self.file.as_raw_fd())
    }
}

/// The memory behind a board.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
}

impl Backing {
    /// Sends the memory by the socket that the process `pid` has as `fd`; false if Linux does not let it.
    pub(crate) fn send(&self, pid: u32, fd: RawFd) -> bool {
        descriptor::send(&self.file, pid, fd).is_ok()
    }

    /// Makes room for so many threads; false if there is none.
    pub(crate) fn grow(&self, threads: usize) -> bool {
        let len = (BOARD_OFFSET + board_len(threads)) as i64;
        // SAFETY: a plain system call on an open descriptor.
        unsafe { libc::fallocate(self.file.as_raw_fd(), 0, 0, len) == 0 }
    }
}
