//! Starting a program under the preloaded library.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::layout::{self, LIBRARY, WORD, header, thread};
use super::{Observation, ShimError};
use crate::clock::monotonic_ns;

/// The variable by which glibc's loader takes libraries to preload.
const PRELOAD: &str = "LD_PRELOAD";

/// Duration of the clock's measurement. Two readings are each good to 0.1 us or so: the rate is
/// good to 1 in 100,000.
const MEASURED: Duration = Duration::from_millis(20);

/// Bytes that are read of the region at once.
const READ_BYTES: usize = 1 << 20;

/// A region, ready for programs.
#[derive(Debug)]
pub struct Launch {
    region: File,
    library: PathBuf,
    clock: Clock,
}

/// The clock of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock {
    is_monotonic: bool,
    ticks: u64,
    nanos: u64,
}

impl Launch {
    /// Makes a region for the library in `directory` ([`library_directory`]). Takes 20 ms, to
    /// measure the clock.
    ///
    /// # Errors
    /// The library is not there, or the system refuses a memory file.
    pub fn prepare(directory: &Path) -> Result<Launch, ShimError> {
        let library = directory.join(LIBRARY);
        if !library.exists() {
            return Err(ShimError::NoLibrary {
                name: LIBRARY,
                directory: directory.to_path_buf(),
            });
        }
        if library
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| b": ".contains(byte))
        {
            return Err(ShimError::UnfitPath(library));
        }
        let clock = Clock::measure();
        let region = memory_file().map_err(|source| {
            ShimError::system("cannot make the lock observer's region", source)
        })?;
        let launch = Launch {
            region,
            library,
            clock,
        };
        launch.write_header().map_err(|source| {
            ShimError::system("cannot write the lock observer's region", source)
        })?;
        Ok(launch)
    }

    fn write_header(&self) -> io::Result<()> {
        let Clock {
            is_monotonic,
            ticks,
            nanos,
        } = self.clock;
        let words = [
            (header::MAGIC, layout::MAGIC),
            (header::VERSION, layout::VERSION),
            (header::LENGTH, layout::LENGTH as u64),
            (header::IS_MONOTONIC, u64::from(is_monotonic)),
            (header::TICKS, ticks),
            (header::TICKS_NANOS, nanos),
        ];
        for (index, word) in words {
            self.region
                .write_all_at(&word.to_ne_bytes(), (index * WORD) as u64)?;
        }
        Ok(())
    }

    /// Makes `command` load the library, behind all libraries that the environment preloads
    /// already. The region can be found while this process lives, also by descendants of the
    /// command.
    pub fn observe(&self, command: &mut Command) {
        command.env(PRELOAD, self.preload(std::env::var_os(PRELOAD).as_deref()));
        let (pid, fd) = (std::process::id(), self.region.as_raw_fd());
        command.env(layout::VARIABLE, format!("/proc/{pid}/fd/{fd}"));
    }

    fn preload(&self, others: Option<&OsStr>) -> OsString {
        let mut value = others.unwrap_or_default().as_bytes().to_vec();
        if !value.is_empty() {
            value.push(b':');
        }
        value.extend_from_slice(self.library.as_os_str().as_bytes());
        OsString::from_vec(value)
    }

    /// Reads the counts so far.
    ///
    /// # Errors
    /// The region cannot be read, or a program has overwritten it.
    pub fn read(&self) -> Result<Observation, ShimError> {
        read_region(&self.region, self.clock.now())
    }
}

/// Reads a region at time `now` of its clock.
pub(super) fn read_region(region: &File, now: u64) -> Result<Observation, ShimError> {
    let read = |bytes: &mut [u8], at: usize| {
        let read = region.read_exact_at(bytes, at as u64);
        read.map_err(|source| ShimError::system("cannot read the lock observer's region", source))
    };
    // The program runs meanwhile. References are read before their targets, because they were
    // written after them.
    let threads = layout::THREADS_AT..layout::POOL_AT;
    let mut bytes = vec![0; layout::POOL_AT];
    read(&mut bytes[threads.clone()], threads.start)?;
    let mut pool = [0; WORD];
    read(&mut pool, header::POOL * WORD)?;
    let pool = usize::try_from(u64::from_ne_bytes(pool)).unwrap_or(usize::MAX);
    let end = layout::POOL_AT.saturating_add(pool).min(layout::LENGTH);
    bytes.resize(end, 0);
    for at in (layout::POOL_AT..end).step_by(READ_BYTES) {
        let chunk_end = end.min(at + READ_BYTES);
        read(&mut bytes[at..chunk_end], at)?;
    }
    let tables = bytes[threads].to_vec();
    read(
        &mut bytes[layout::LOCKS_AT..layout::POOL_AT],
        layout::LOCKS_AT,
    )?;
    read(&mut bytes[..layout::LOCKS_AT], 0)?;
    // A thread that has got its table since may have one outside of the bytes that were read.
    for (at, record) in tables.chunks_exact(thread::WORDS * WORD).enumerate() {
        let table = thread::TABLE * WORD..(thread::TABLE + 1) * WORD;
        let at = layout::THREADS_AT + at * record.len();
        bytes[at + table.start..at + table.end].copy_from_slice(&record[table]);
    }
    Observation::parse(&bytes, now)
}

/// Folder of hitm's libraries: beside the program, or `../lib/hitm` as packages install them. Tests
/// run from a directory below.
pub fn library_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("/"));
    let mut candidates = ["", "../lib/hitm", ".."]
        .map(|path| beside.join(path))
        .into_iter();
    let found = candidates.find(|directory| directory.join(LIBRARY).exists());
    found.unwrap_or(beside.to_path_buf())
}

/// A memory file that cannot shrink, so that no access to a mapping of it faults.
fn memory_file() -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; the returned descriptor is new, so it has no other owner.
    let file = unsafe {
        let fd = libc::memfd_create(c"hitm-locks".as_ptr(), flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from(OwnedFd::from_raw_fd(fd))
    };
    file.set_len(layout::LENGTH as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: the descriptor is open; the call takes a number.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Clock {
    fn measure() -> Clock {
        if !has_steady_counter() {
            return Clock {
                is_monotonic: true,
                ticks: 1,
                nanos: 1,
            };
        }
        let (first_ticks, first_nanos) = (counter(), monotonic_ns());
        std::thread::sleep(MEASURED);
        let (ticks, nanos) = (counter(), monotonic_ns());
        Clock {
            is_monotonic: false,
            ticks: ticks.saturating_sub(first_ticks).max(1),
            nanos: nanos.saturating_sub(first_nanos).max(1),
        }
    }

    fn now(self) -> u64 {
        match self.is_monotonic {
            true => monotonic_ns(),
            false => counter(),
        }
    }
}

/// Returns true when the time-stamp counter runs at one rate in all states of the CPU: bit 8 of EDX of
/// CPUID's leaf 0x8000_0007.
#[cfg(target_arch = "x86_64")]
#[allow(
    unused_unsafe,
    reason = "the intrinsic is safe in newer versions of Rust"
)]
fn has_steady_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    const LAST: u32 = 0x8000_0000;
    const POWER: u32 = 0x8000_0007;
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid(LAST).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0 }
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: Linux lets programs read the counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The generic timer runs at one rate by definition.
#[cfg(target_arch = "aarch64")]
fn has_steady_counter() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read the counter.
    unsafe {
        std::arch::asm!("mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nomem, nostack));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_steady_counter() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_stays() {
        let launch = Launch {
            region: memory_file().unwrap(),
            library: PathBuf::from("/opt/hitm/libhitm_locks.so"),
            clock: Clock::measure(),
        };
        let preload = |others: Option<&str>| launch.preload(others.map(OsStr::new));
        assert_eq!(preload(None), "/opt/hitm/libhitm_locks.so");
        assert_eq!(preload(Some("")), "/opt/hitm/libhitm_locks.so");
        let both = preload(Some("/lib/a.so /lib/b.so"));
        assert_eq!(both, "/lib/a.so /lib/b.so:/opt/hitm/libhitm_locks.so");
    }

    #[test]
    fn a_fresh_region_holds_nothing() {
        let launch = Launch {
            region: memory_file().unwrap(),
            library: PathBuf::new(),
            clock: Clock::measure(),
        };
        launch.write_header().unwrap();
        let observation = launch.read().unwrap();
        assert_eq!(observation, Observation::default());
        let cut = launch.region.set_len(4096);
        assert!(cut.is_err(), "a program that maps the region could fault");
    }
}
