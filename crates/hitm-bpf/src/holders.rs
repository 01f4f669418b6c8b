//! Events from which the states of locks' holders are told.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::time::Instant;

use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::PerfEvent;
use aya::programs::perf_event::SoftwareEvent;

use crate::object::{Hook, Object, image};
use crate::{Error, Filter, comm, halves, words};

/// Flags of an event's kind, as in holders.bpf.c.
const IN_FAULT: u32 = 1 << 8;
const BY_CALL: u32 = 1 << 9;
const OWNER_IN_WORD: u32 = 1 << 10;
const HAS_OWNER: u32 = 1 << 11;
const WAITS_FOR_WORD: u32 = 1 << 12;
/// FUTEX_WAITERS of linux/futex.h: the word has its owner's number in the bits below `FUTEX_TID_MASK`.
const FUTEX_WAITERS: u32 = 1 << 31;
const FUTEX_TID_MASK: u32 = (1 << 30) - 1;
/// Period of the clock that asks who has locks: a prime number of microseconds, so that it keeps step with nothing.
const TICK_NS: u64 = 997_000;

/// Time that a thread ran, by a clock of each CPU. Only threads that have waited for a word or woken others are counted,
/// and no time in futex(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldTicks {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The word that named it as the owner of a lock; none for all of its time.
    pub word: Option<u64>,
    /// Ticks of the clock.
    pub count: u64,
}

/// Moment of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The thread leaves its CPU although it could go on.
    Preempted,
    /// The thread's group has used up its quota.
    Throttled,
    /// The thread goes to sleep: in a page fault, for a word of its process, or otherwise.
    Asleep {
        /// It is in a page fault.
        in_fault: bool,
        /// It waits for the event's word.
        waits: bool,
    },
    /// The thread gets a CPU.
    Runs,
    /// The thread wakes the other one.
    Wakes {
        /// It does so by a system call on the event's word, as the release of a lock does.
        releases: bool,
    },
    /// The thread waits for a lock of the kernel from now on.
    Begins {
        /// The lock's address.
        lock: u64,
        /// The number of the thread that has it; none where that cannot be known, zero where nobody has it.
        owner: Option<u32>,
        /// LCB_F_* of the kernel's tracepoint.
        flags: u32,
    },
    /// The thread has got a lock of the kernel.
    Ends {
        /// The lock's address.
        lock: u64,
    },
    /// The thread writes to a word that is watched.
    Writes {
        /// Minor page faults that it had so far; the number wraps.
        minor_faults: u32,
    },
}

/// The other thread of an event: the one that gets the CPU, or is woken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Other {
    /// Its number; zero for an idle CPU.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub comm: String,
}

/// An event of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderEvent {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub at_ns: u64,
    /// Moment.
    pub moment: Moment,
    /// The thread. It need not be observed where it wakes another one.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its number in its own PID namespace.
    pub virtual_tid: u32,
    /// Time that it had spent in minor page faults of its own instructions, on a CPU.
    pub minor_fault_ns: u64,
    /// Time that it had spent in major page faults, on a CPU.
    pub major_fault_ns: u64,
    /// The address of a word of the process: the one that the thread waits for, or had to do with last; where it wakes
    /// a thread of its process, the one that this waits for.
    pub word: Option<u64>,
    /// If the word could be read: the number of the owner of the lock there, in the PID namespace of its process. Zero
    /// for none. A word that is no lock's has any number.
    pub owner: Option<u32>,
    /// Of a thread that leaves its CPU: its CPU time since it got it, in nanoseconds.
    pub ran_ns: u64,
    /// The other thread, where there is one.
    pub other: Other,
}

/// Programs that observe holders of locks until this is dropped.
pub struct HolderEvents {
    object: Object,
    events: RingBuf<MapData>,
    /// Reason why page faults are not seen, if they are not.
    pub without_faults: Option<String>,
}

impl std::fmt::Debug for HolderEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HolderEvents").finish_non_exhaustive()
    }
}

impl HolderEvents {
    /// Starts to observe the tasks of `filter`, and of processes that they start from now on.
    ///
    /// # Errors
    /// The programs cannot be loaded or attached here.
    pub fn attach(filter: &Filter) -> Result<HolderEvents, Error> {
        let number = |call: u64| call.to_ne_bytes().to_vec();
        let constants = [
            ("futex_call", number(libc::SYS_futex.unsigned_abs())),
            // include/uapi/asm-generic/unistd.h; the numbers are the same on all machines.
            ("futex_wake_call", number(454)),
            ("futex_wait_call", number(455)),
            ("reader", std::process::id().to_ne_bytes().to_vec()),
        ];
        let mut object = Object::open_filtered(image::HOLDERS, filter, &constants)?;
        object.follow_children(filter)?;
        object.attach("holders_exit", Hook::Typed("sched_process_exit"))?;
        let faults = attach_faults(&mut object);
        let clock = Hook::Counted(SoftwareEvent::CpuClock, TICK_NS);
        object.attach("holders_tick", clock)?;
        object.load_alone("holders_write", PerfEvent::load)?;
        object.attach("holders_end", Hook::Typed("contention_end"))?;
        object.attach("holders_begin", Hook::Typed("contention_begin"))?;
        object.attach("holders_waking", Hook::Typed("sched_waking"))?;
        object.attach("holders_switch", Hook::Typed("sched_switch"))?;
        let events = RingBuf::try_from(object.take_map("events")?)?;
        let without_faults = faults.err().map(|error| error.to_string());
        Ok(HolderEvents {
            object,
            events,
            without_faults,
        })
    }

    /// Passes the events since the last call to `take`, almost in the order of their times. Must be called some ten
    /// times a second.
    pub fn drain(&mut self, mut take: impl FnMut(HolderEvent)) {
        while let Some(bytes) = self.events.next() {
            let mut words = words(&bytes);
            let event = std::array::from_fn(|_| words.next().unwrap_or_default());
            if let Some(event) = decoded(&event) {
                take(event);
            }
        }
    }

    /// Period of the clock that counts [`HeldTicks`].
    pub const TICK_NS: u64 = TICK_NS;

    /// Takes the ticks since the last call out of the kernel's table, in ascending order.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn take_ticks(&mut self) -> Result<Vec<HeldTicks>, Error> {
        let mut table: HashMap<_, [u64; 2], u64> =
            HashMap::try_from(self.object.map_mut("ticks")?)?;
        let rows: Result<Vec<_>, _> = table.iter().collect();
        let rows = rows?;
        let mut ticks = Vec::with_capacity(rows.len());
        for (key, count) in rows {
            // What is counted from now on has a row of its own.
            table.remove(&key)?;
            let [word, thread] = key;
            let (tid, pid) = halves(thread);
            let word = (word != 0).then_some(word);
            ticks.push(HeldTicks {
                pid,
                tid,
                word,
                count,
            });
        }
        ticks.sort_unstable();
        Ok(ticks)
    }

    /// Tells of each count of a perf event of a thread, as [`Moment::Writes`].
    ///
    /// # Errors
    /// That of `PERF_EVENT_IOC_SET_BPF`.
    pub fn tell_of(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        const SET_BPF: libc::c_ulong = 0x4004_2408;
        let program = self.object.loaded::<PerfEvent>("holders_write");
        let program = program.map_err(io::Error::other)?;
        let own = program.fd().map_err(io::Error::other)?;
        let own = own.as_fd().as_raw_fd();
        // SAFETY: the request takes the number of a descriptor, which outlives the call.
        match unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF as _, own) } {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the number of events that are missing: the ring was full, or threads found no room.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn lost(&self) -> Result<u64, Error> {
        let lost: [u64; 4] = self.object.counts()?;
        Ok(lost.into_iter().sum())
    }
}

/// Machines other than x86-64 may have no tracepoint of page faults.
fn attach_faults(object: &mut Object) -> Result<(), Error> {
    object.attach("holders_signal", Hook::Typed("signal_generate"))?;
    object.attach(
        "holders_minor",
        Hook::Counted(SoftwareEvent::PageFaultsMin, 1),
    )?;
    object.attach(
        "holders_major",
        Hook::Counted(SoftwareEvent::PageFaultsMaj, 1),
    )?;
    object.attach("holders_fault", Hook::Typed("page_fault_user"))?;
    let way_ns = way_of_faults(object)?;
    let mut ways: Array<_, u64> = Array::try_from(object.map_mut("ways")?)?;
    ways.set(0, way_ns, 0)?;
    Ok(())
}

/// Measures the part of a page fault that is not between the programs: the way into the kernel and back, and the
/// programs themselves. Median of the rounds, in nanoseconds.
fn way_of_faults(object: &Object) -> Result<u64, Error> {
    const ROUNDS: usize = 31;
    // SAFETY: it takes nothing.
    let own = unsafe { libc::gettid() }.cast_unsigned();
    let threads: HashMap<_, u32, [u64; 6]> = HashMap::try_from(object.map("threads")?)?;
    let timed = || {
        let minor_ns = threads.get(&own, 0).map(|[_, minor_ns, ..]| minor_ns);
        minor_ns.unwrap_or(0)
    };
    let mut ways = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let Some(fresh) = Fresh::new() else {
            return Ok(0);
        };
        let (before, begun) = (timed(), Instant::now());
        fresh.touch();
        let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        ways.push(took.saturating_sub(timed() - before) / Fresh::PAGES as u64);
    }
    ways.sort_unstable();
    Ok(ways[ROUNDS / 2])
}

/// Memory that nobody has touched yet, in small pages.
struct Fresh(*mut libc::c_void);

impl Fresh {
    const PAGES: usize = 64;
    /// Smallest page of all machines.
    const PAGE: usize = 4096;
    const LENGTH: usize = Fresh::PAGES * Fresh::PAGE;

    fn new() -> Option<Fresh> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, which is unmapped once.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), Fresh::LENGTH, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping that was made; a refusal changes nothing.
        unsafe { libc::madvise(memory, Fresh::LENGTH, libc::MADV_NOHUGEPAGE) };
        Some(Fresh(memory))
    }

    fn touch(&self) {
        for page in 0..Fresh::PAGES {
            // SAFETY: a byte of the mapping, which nobody else has.
            unsafe {
                let byte = self.0.cast::<u8>().add(page * Fresh::PAGE);
                byte.write_volatile(1);
            }
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made.
        unsafe { libc::munmap(self.0, Fresh::LENGTH) };
    }
}

/// Decodes `struct event` of holders.bpf.c.
fn decoded(event: &[u64; 11]) -> Option<HolderEvent> {
    let [
        at_ns,
        lock,
        minor_fault_ns,
        major_fault_ns,
        kind_tid,
        process,
        words,
        other,
        first_name,
        last_name,
        ran_ns,
    ] = *event;
    let ((kind, tid), (pid, virtual_tid)) = (halves(kind_tid), halves(process));
    let ((value, owner), (other_tid, other_pid)) = (halves(words), halves(other));
    let has = |flag| kind & flag != 0;
    let moment = match kind & 0xff {
        0 => Moment::Preempted,
        1 => Moment::Throttled,
        2 => Moment::Asleep {
            in_fault: has(IN_FAULT),
            waits: has(WAITS_FOR_WORD),
        },
        3 => Moment::Runs,
        4 => Moment::Wakes {
            releases: has(BY_CALL),
        },
        5 => Moment::Begins {
            lock,
            owner: has(HAS_OWNER).then_some(owner),
            flags: value,
        },
        6 => Moment::Ends { lock },
        7 => Moment::Writes {
            minor_faults: value,
        },
        _ => return None,
    };
    let in_word = has(OWNER_IN_WORD) || value & FUTEX_WAITERS != 0;
    let owner = if in_word {
        value & FUTEX_TID_MASK
    } else {
        owner
    };
    Some(HolderEvent {
        at_ns,
        moment,
        tid,
        pid,
        virtual_tid,
        minor_fault_ns,
        major_fault_ns,
        word: (lock != 0 && kind & 0xff < 5).then_some(lock),
        owner: has(HAS_OWNER).then_some(owner),
        ran_ns,
        other: Other {
            tid: other_tid,
            pid: other_pid,
            comm: comm([first_name, last_name]),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    #[test]
    fn the_owner_is_in_the_word_or_behind_it() {
        let kind = 2 | HAS_OWNER;
        let event = |kind, value| {
            let comm = u64::from_le_bytes(*b"hog\0\0\0\0\0");
            let words = [1, 0x40, 2, 3, pair(kind, 7), pair(6, 5)];
            let rest = [pair(value, 9), pair(8, 4), comm, 0, 3];
            decoded(&[&words[..], &rest].concat().try_into().unwrap()).unwrap()
        };
        let owner = |kind, value| event(kind, value).owner;
        assert_eq!(owner(kind, 2), Some(9));
        assert_eq!(owner(kind, FUTEX_WAITERS | 5), Some(5));
        assert_eq!(owner(kind | OWNER_IN_WORD, 5), Some(5));
        assert_eq!(owner(2, 2), None);
        let seen = event(kind | IN_FAULT, 2);
        assert_eq!((seen.tid, seen.pid, seen.virtual_tid), (7, 6, 5));
        assert_eq!(seen.ran_ns, 3);
        assert_eq!(
            (seen.other.tid, seen.other.pid, seen.other.comm.as_str()),
            (8, 4, "hog")
        );
        let moment = Moment::Asleep {
            in_fault: true,
            waits: false,
        };
        assert_eq!((seen.moment, seen.word), (moment, Some(0x40)));
    }
}
