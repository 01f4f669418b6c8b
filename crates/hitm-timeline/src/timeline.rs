//! The kept part of a run, and its taking.

use std::ops::Range;

use hitm_base::{AccessOp, Clock, CpuId, Cycles, DataSource};

use crate::LeftOut;
use crate::holders::{Holders, Touch};
use crate::longest::Longest;
use crate::lost::Lost;

/// Limits of what is kept, by kind. At some 125 bytes a stall, 85 a run, 65 a use and 45 a wait in the
/// trace they add up to 62 MB, counters of 480 CPUs to 3 MB.
#[derive(Debug, Clone, Copy)]
struct Limits {
    stalls: usize,
    runs: usize,
    uses: usize,
    waits: usize,
}

const LIMITS: Limits = Limits {
    stalls: 350_000,
    runs: 100_000,
    uses: 100_000,
    waits: 100_000,
};

/// The machine and the program of a run.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Name of the run.
    pub name: String,
    /// Clock of the modelled CPUs.
    pub clock: Clock,
    /// CPUs of the machine.
    pub cpu_count: usize,
}

/// A thread as the trace shows it.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) name: String,
    /// Index of its process.
    pub(crate) process: usize,
    pub(crate) tid: u32,
    /// End of its last stall.
    busy_until: Cycles,
}

/// Names of what a run knows by number. Equal arguments have equal names.
pub trait Names {
    /// Name of the object and member at `addr`, of which `size` bytes are accessed.
    fn place(&self, addr: u64, size: u8) -> String;

    /// Name of the function of the instruction or place in the code `code`.
    fn function(&self, code: u64) -> String;
}

/// An access to a line, for [`Timeline::access`].
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// Number that [`Timeline::add_thread`] returned.
    pub thread: u32,
    /// CPU of the thread.
    pub cpu: CpuId,
    /// Time at which the thread issues it.
    pub start: Cycles,
    /// Time for which it holds the thread up.
    pub stall: Cycles,
    /// Part of the stall that other CPUs' use of the line caused.
    pub lost: Cycles,
    /// Part of the stall spent behind other CPUs' transfers of the line.
    pub queued: Cycles,
    /// Number of the line.
    pub line: u64,
    /// First byte accessed, for [`Names::place`].
    pub addr: u64,
    /// Bytes accessed, for [`Names::place`].
    pub size: u8,
    /// Instruction, for [`Names::function`].
    pub code: u64,
    /// Kind of access.
    pub op: AccessOp,
    /// Source of the data.
    pub source: DataSource,
}

/// A use of a lock that is over, for [`Timeline::lock_use`].
#[derive(Debug, Clone, Copy)]
pub struct Use {
    /// Number that [`Timeline::add_lock`] returned.
    pub lock: u32,
    /// The holder.
    pub thread: u32,
    /// From taking the lock to giving it back.
    pub start: Cycles,
    /// End of the use.
    pub end: Cycles,
    /// Set if the holder waited for the one before it.
    pub is_handed_over: bool,
}

/// Origin of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Giver {
    pub(crate) thread: u32,
    /// End of its last access to the line.
    pub(crate) at: Cycles,
    /// Number of the stall in which it got the line; 0 for none.
    pub(crate) stall: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Stall {
    pub(crate) thread: u32,
    pub(crate) start: Cycles,
    pub(crate) end: Cycles,
    pub(crate) queued: Cycles,
    pub(crate) addr: u64,
    pub(crate) code: u64,
    pub(crate) size: u8,
    pub(crate) op: AccessOp,
    pub(crate) source: DataSource,
    pub(crate) giver: Option<Giver>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) thread: u32,
    pub(crate) cpu: CpuId,
    pub(crate) start: Cycles,
    pub(crate) end: Cycles,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LockSpan {
    pub(crate) lock: u32,
    pub(crate) thread: u32,
    pub(crate) start: Cycles,
    pub(crate) end: Cycles,
    /// Number of the use from which the lock was handed over; 0 for none.
    pub(crate) giver: u64,
}

/// The course of a run, as far as it is kept.
#[derive(Debug)]
pub struct Timeline {
    pub(crate) scene: Scene,
    pub(crate) processes: Vec<(u32, String)>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) locks: Vec<String>,
    /// Number of the last use of each lock.
    last_uses: Vec<u64>,
    pub(crate) stalls: Longest<Stall>,
    pub(crate) runs: Longest<Run>,
    pub(crate) uses: Longest<LockSpan>,
    pub(crate) waits: Longest<LockSpan>,
    pub(crate) lost: Lost,
    holders: Holders,
    /// Stalls whose line came from a CPU that is not known.
    pub(crate) unknown_givers: u64,
    /// Contended accesses that held nobody up.
    pub(crate) hidden: u64,
}

impl Timeline {
    /// A run of which nothing has happened yet.
    pub fn new(scene: Scene) -> Timeline {
        Timeline::limited(scene, LIMITS)
    }

    #[cfg(test)]
    pub(crate) fn small(scene: Scene, max: usize) -> Timeline {
        let limits = Limits {
            stalls: max,
            runs: max,
            uses: max,
            waits: max,
        };
        Timeline::limited(scene, limits)
    }

    fn limited(scene: Scene, limits: Limits) -> Timeline {
        Timeline {
            lost: Lost::new(scene.cpu_count),
            scene,
            processes: Vec::new(),
            threads: Vec::new(),
            locks: Vec::new(),
            last_uses: Vec::new(),
            stalls: Longest::new(limits.stalls),
            runs: Longest::new(limits.runs),
            uses: Longest::new(limits.uses),
            waits: Longest::new(limits.waits),
            holders: Holders::default(),
            unknown_givers: 0,
            hidden: 0,
        }
    }

    /// Adds a process, and returns its number. A `pid` of 0 is none that a system gave.
    pub fn add_process(&mut self, pid: u32, name: &str) -> usize {
        self.processes.push((pid, name.to_owned()));
        self.processes.len() - 1
    }

    /// Adds a thread of a process, and returns its number. A `tid` of 0 is none that a system gave.
    pub fn add_thread(&mut self, process: usize, tid: u32, name: &str) -> u32 {
        self.threads.push(Thread {
            name: name.to_owned(),
            process,
            tid,
            busy_until: Cycles::ZERO,
        });
        (self.threads.len() - 1) as u32
    }

    /// Adds a lock, and returns its number.
    pub fn add_lock(&mut self, name: &str) -> u32 {
        self.locks.push(name.to_owned());
        self.last_uses.push(0);
        (self.locks.len() - 1) as u32
    }

    /// Takes an access, in the order in which the line serves them. Contended ones that hold their thread
    /// up are stalls; of the others only the user of the line is noted.
    #[inline]
    pub fn access(&mut self, access: &Access) {
        self.take(access, access.op.is_write());
    }

    /// Like [`Timeline::access`], for runs that tell only who is granted a line: its CPU may write to it
    /// later without another access.
    #[inline]
    pub fn grant(&mut self, access: &Access) {
        self.take(access, true);
    }

    /// A thread was held up by older stores, whose lines were granted before.
    pub fn store_wait(&mut self, access: &Access) {
        if access.lost > Cycles::ZERO {
            self.push_stall(access, None);
        }
    }

    #[inline]
    fn take(&mut self, access: &Access, is_write: bool) {
        let is_contended = access.source.is_contention() || access.lost > Cycles::ZERO;
        let slot = self.holders.slot(access.line);
        let giver = slot.filter(|_| is_contended).and_then(|slot| {
            let is_hitm = access.source.is_hitm();
            self.holders.giver(slot, access.cpu, is_hitm)
        });
        let number = match is_contended {
            true => self.stall(access, giver),
            false => 0,
        };
        let touch = Touch {
            cpu: access.cpu,
            thread: access.thread,
            at: Cycles(access.start.0.saturating_add(access.stall.0)),
            stall: number,
        };
        if let Some(slot) = slot {
            self.holders.touch(slot, touch, is_write, is_contended);
        }
    }

    /// Returns the number of the stall, 0 when there is none.
    fn stall(&mut self, access: &Access, giver: Option<Touch>) -> u64 {
        if access.lost == Cycles::ZERO {
            self.hidden += 1;
            return 0;
        }
        self.unknown_givers += u64::from(giver.is_none());
        self.push_stall(access, giver)
    }

    fn push_stall(&mut self, access: &Access, giver: Option<Touch>) -> u64 {
        self.lost.add(access.cpu, access.start, access.lost);
        let thread = &mut self.threads[access.thread as usize];
        // Overlapped loads end together; the later one waits from the end of the earlier one.
        let end = Cycles(access.start.0.saturating_add(access.lost.0));
        let start = access.start.max(thread.busy_until).min(end);
        thread.busy_until = thread.busy_until.max(end);
        let giver = giver.filter(|giver| giver.thread != access.thread);
        let giver = giver.map(|giver| Giver {
            thread: giver.thread,
            at: giver.at.min(end),
            stall: giver.stall,
        });
        let stall = Stall {
            thread: access.thread,
            start,
            end,
            queued: access.queued,
            addr: access.addr,
            code: access.code,
            size: access.size,
            op: access.op,
            source: access.source,
            giver,
        };
        self.stalls.push(end - start, stall)
    }

    /// A thread ran on a CPU.
    pub fn run(&mut self, thread: u32, cpu: CpuId, span: Range<Cycles>) {
        if !span.is_empty() {
            let run = Run {
                thread,
                cpu,
                start: span.start,
                end: span.end,
            };
            self.runs.push(span.end - span.start, run);
        }
    }

    /// A thread waited for a lock.
    pub fn lock_wait(&mut self, lock: u32, thread: u32, span: Range<Cycles>) {
        if !span.is_empty() {
            let wait = LockSpan {
                lock,
                thread,
                start: span.start,
                end: span.end,
                giver: 0,
            };
            self.waits.push(span.end - span.start, wait);
        }
    }

    /// A thread held a lock, and has given it back. Uses of a lock come in their order.
    pub fn lock_use(&mut self, used: &Use) {
        let last = &mut self.last_uses[used.lock as usize];
        let span = LockSpan {
            lock: used.lock,
            thread: used.thread,
            start: used.start,
            end: used.end.max(used.start),
            giver: if used.is_handed_over { *last } else { 0 },
        };
        *last = self.uses.push(span.end - span.start, span);
    }

    /// Returns cycles lost by all contended accesses so far, kept or not.
    pub fn lost_cycles(&self) -> u64 {
        let sums = self.lost.sum();
        sums.iter().fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// Accesses whose line has no known users, because too many lines are in use.
    pub(crate) fn forgotten(&self) -> u64 {
        self.holders.forgotten
    }
}

/// Contents of a written trace, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Stalls on contended lines.
    pub stalls: LeftOut,
    /// Spans for which a thread had a CPU. Each is a slice of the thread and one of the CPU.
    pub runs: LeftOut,
    /// Uses of locks.
    pub uses: LeftOut,
    /// Waits for locks.
    pub waits: LeftOut,
    /// Hand-overs of lines that have an arrow.
    pub line_arrows: u64,
    /// Hand-overs of lines without one: the giver's access does not end a nanosecond before the taker's.
    pub line_arrows_missing: u64,
    /// Hand-overs of locks that have an arrow.
    pub lock_arrows: u64,
    /// Hand-overs of locks without one: the giver's use was left out, or ends in the same nanosecond.
    pub lock_arrows_missing: u64,
    /// Contended accesses whose line's last user is not known: they have no arrow.
    pub unknown_givers: u64,
    /// Contended accesses that held nobody up: they are no slices.
    pub hidden: u64,
    /// Accesses to lines beyond those whose users are remembered.
    pub forgotten: u64,
    /// Runs and waits that were cut to fit in others, or left out for it.
    pub cut: u64,
    /// Samples of counters.
    pub counter_samples: u64,
    /// Cycles lost by all contended accesses.
    pub lost_cycles: u64,
    /// Slices written: begins with their ends.
    pub slices: u64,
    /// Instants written.
    pub instants: u64,
    /// Tracks of slices and counters, and the groups that hold them.
    pub tracks: u64,
    /// Bytes written.
    pub bytes: u64,
}
