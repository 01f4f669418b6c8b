//! The perf events behind clocks and watches (perf_event_open(2)).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;

use super::{CALLERS_MAX, WORD_BYTES, WatchedAccess, record, registers};
use crate::sampler::ring::{Attributes, Event, Ring, kind};

/// Code in which events count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// In programs.
    Programs,
    /// In programs and in the kernel.
    Both,
    /// In the kernel.
    Kernel,
}

/// Bearer of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whom {
    /// A thread, on all CPUs.
    Thread(u32),
    /// A CPU, with all threads.
    Cpu(u32),
}

/// Type of events of the kernel's own.
const SOFTWARE: u64 = 1;
/// Flag of events that do not count before they are told to.
const DISABLED: u64 = 1;

impl Sight {
    /// Flags of `struct perf_event_attr`: exclude_hv and use_clockid, and those that leave code out.
    const fn flags(self) -> u64 {
        const ALL: u64 = 1 << 6 | 1 << 25;
        const EXCLUDE_USER: u64 = 1 << 4;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
        ALL | match self {
            Sight::Programs => EXCLUDE_KERNEL | EXCLUDE_CALLCHAIN_KERNEL,
            Sight::Both => 0,
            Sight::Kernel => EXCLUDE_USER,
        }
    }

    /// Attributes of an event of this kind that takes a sample each `period`.
    fn attributes(self, of: u64, period: u64) -> Attributes {
        let mut words = [0; 14];
        words[0] = kind(of);
        words[2] = period;
        words[5] = self.flags();
        match self {
            Sight::Programs => {
                words[3] = record::OF_PROGRAMS;
                words[10] = registers::MASK;
            }
            // Those of the interrupted code, wherever it was.
            Sight::Both | Sight::Kernel => {
                words[3] = record::OF_ALL_CODE;
                words[12] = registers::MASK;
            }
        }
        words[11] = (libc::CLOCK_MONOTONIC as u64) << 32;
        words[13] = u64::from(CALLERS_MAX) << 32;
        words
    }

    /// Opens a clock that does not tick yet.
    pub(super) fn clock(self, whom: Whom, period_ns: u64) -> io::Result<File> {
        const EXCLUDE_IDLE: u64 = 1 << 7;
        let mut attributes = self.attributes(SOFTWARE, period_ns);
        attributes[5] |= EXCLUDE_IDLE | DISABLED;
        whom.open(attributes)
    }

    /// Opens the leader of a group of watches, which count while it is enabled. It counts nothing itself.
    pub(super) fn leader(self, whom: Whom) -> io::Result<File> {
        const DUMMY: u64 = 9;
        let mut attributes = self.attributes(SOFTWARE, 0);
        attributes[1] = DUMMY;
        attributes[5] |= DISABLED;
        whom.open(attributes)
    }

    /// Opens a watch of a word in a group.
    pub(super) fn watch_in(
        self,
        leader: &File,
        whom: Whom,
        address: u64,
        access: WatchedAccess,
    ) -> io::Result<File> {
        let attributes = self.of_watch([address, WORD_BYTES], access);
        whom.event(attributes).open_in(Some(leader))
    }

    /// Opens a watch of a word that does not count yet.
    pub(super) fn watch(self, whom: Whom, address: u64, access: WatchedAccess) -> io::Result<File> {
        self.watch_bytes(whom, [address, WORD_BYTES], access)
    }

    /// Opens a watch of an address and the bytes there: 1, 2, 4 or 8 of them, aligned.
    pub(super) fn watch_bytes(
        self,
        whom: Whom,
        word: [u64; 2],
        access: WatchedAccess,
    ) -> io::Result<File> {
        let mut attributes = self.of_watch(word, access);
        attributes[5] |= DISABLED;
        whom.open(attributes)
    }

    fn of_watch(self, [address, bytes]: [u64; 2], access: WatchedAccess) -> Attributes {
        const BREAKPOINT: u64 = 5;
        const EVERY_HIT: u64 = 1;
        let kind = match access {
            WatchedAccess::Write => 2,
            WatchedAccess::Any => 3,
        };
        let mut attributes = self.attributes(BREAKPOINT, EVERY_HIT);
        attributes[4] = TOTAL_TIME_ENABLED;
        attributes[6] = kind << 32;
        attributes[7] = address;
        attributes[8] = bytes;
        attributes
    }
}

impl Whom {
    pub(super) fn open(self, attributes: Attributes) -> io::Result<File> {
        self.event(attributes).open()
    }

    const fn event(self, attributes: Attributes) -> Event {
        let (task, cpu) = match self {
            Whom::Thread(tid) => (tid as i32, -1),
            Whom::Cpu(cpu) => (-1, cpu as i32),
        };
        Event {
            attributes,
            task,
            cpu,
        }
    }
}

/// Puts an event's records into a ring of the same thread or CPU.
pub(super) fn output_to(event: &File, ring: &Ring) -> io::Result<()> {
    ioctl(event, SET_OUTPUT, ring.file().as_raw_fd() as libc::c_ulong)
}

/// Lets an event count, up to `hits_max`. One whose leader does not count is given the hits, and its thread is not
/// disturbed.
pub(super) fn arm(event: &File, hits_max: u32) {
    // The thread may have ended.
    let _ = ioctl(event, REFRESH, hits_max.into());
}

/// Lets an event count, or ends its counting.
pub(super) fn enable(event: &File, counts: bool) {
    let request = if counts { ENABLE } else { DISABLE };
    let _ = ioctl(event, request, 0);
}

/// Time for which a watch has counted: of a thread's, that for which the thread ran.
pub(super) fn counted_ns(event: &File) -> io::Result<u64> {
    let mut values = [[0; 8]; 2];
    let mut event = event;
    event.read_exact(values.as_flattened_mut())?;
    Ok(u64::from_ne_bytes(values[1]))
}

/// `PERF_FORMAT_TOTAL_TIME_ENABLED`: a read gives the time behind the count.
const TOTAL_TIME_ENABLED: u64 = 1;

/// `PERF_EVENT_IOC_*`.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const REFRESH: libc::c_ulong = 0x2402;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const ID: libc::c_ulong = 0x8008_2407;

fn ioctl(event: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: these requests take a number.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The number that an event's records have.
pub(super) fn id_of(event: &File) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes eight bytes to the given place.
    match unsafe { libc::ioctl(event.as_raw_fd(), ID as _, &raw mut id) } {
        0.. => Ok(id),
        _ => Err(io::Error::last_os_error()),
    }
}
