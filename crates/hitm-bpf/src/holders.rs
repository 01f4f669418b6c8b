//! Events from which the states of locks' holders are told.

use aya::maps::{MapData, RingBuf};
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
    /// Where the word could be read: the number of the owner of the lock there, in the PID namespace of its process. Zero
    /// for none. A word that is no lock's has any number.
    pub owner: Option<u32>,
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
        ];
        let mut object = Object::open_filtered_with(image::HOLDERS, filter, &constants, &[])?;
        object.follow_children(filter)?;
        object.attach("holders_exit", Hook::Typed("sched_process_exit"))?;
        let faults = attach_faults(&mut object);
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

    /// Returns the number of events that are missing: the ring was full, or threads found no room.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn lost(&self) -> Result<u64, Error> {
        let [lost_events, lost_threads, lost_processes] = self.object.counts()?;
        Ok(lost_events + lost_threads + lost_processes)
    }
}

/// Machines other than x86-64 may have no tracepoint of page faults.
fn attach_faults(object: &mut Object) -> Result<(), Error> {
    object.attach("holders_signal", Hook::Typed("signal_generate"))?;
    object.attach("holders_minor", Hook::Counted(SoftwareEvent::PageFaultsMin))?;
    object.attach("holders_major", Hook::Counted(SoftwareEvent::PageFaultsMaj))?;
    object.attach("holders_fault", Hook::Typed("page_fault_user"))
}

/// Decodes `struct event` of holders.bpf.c.
fn decoded(event: &[u64; 10]) -> Option<HolderEvent> {
    let [
        at_ns,
        lock,
        minor_fault_ns,
        major_fault_ns,
        kind_tid,
        process,
        words,
        other,
        name @ ..,
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
        other: Other {
            tid: other_tid,
            pid: other_pid,
            comm: comm(name),
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
            let rest = [pair(value, 9), pair(8, 4), comm, 0];
            decoded(&[&words[..], &rest].concat().try_into().unwrap()).unwrap()
        };
        let owner = |kind, value| event(kind, value).owner;
        assert_eq!(owner(kind, 2), Some(9));
        assert_eq!(owner(kind, FUTEX_WAITERS | 5), Some(5));
        assert_eq!(owner(kind | OWNER_IN_WORD, 5), Some(5));
        assert_eq!(owner(2, 2), None);
        let seen = event(kind | IN_FAULT, 2);
        assert_eq!((seen.tid, seen.pid, seen.virtual_tid), (7, 6, 5));
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
