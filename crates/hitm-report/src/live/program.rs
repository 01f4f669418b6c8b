//! A program's own locks, and their quantities.

use std::cmp::Reverse;

use hitm_fields::fields;
use hitm_live::shim::{CallSite, LockKind, LockUse, Observation, Process};

use super::lock::limiting;

fields! {
    /// A program as a preloaded library saw it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProgramLocks in live_program {
        /// Without its locks.
        seen: Observation;
        /// Programs that loaded the library: the one that was started, and those that it ran.
        program_count => count "programs", |program| program.seen.losses.loaded;
        /// Processes that used a lock.
        process_count => count "processes", |program| program.seen.processes.len();
        /// Threads that used a lock.
        thread_count => count "threads", |program| {
            let users = program.seen.threads.iter().map(|thread| thread.users);
            users.fold(0, u64::saturating_add)
        };
        /// Acquisitions of all locks, and waits for conditions.
        acquisition_count => count "acquired", |program| program.sum(|lock| lock.used.acquisitions);
        /// Acquisitions and other operations that found no room in the library's tables.
        lost_count => count "lost", |program| {
            let losses = program.seen.losses;
            losses.acquisitions.saturating_add(losses.operations)
        };
        /// Holds that another thread than the holder ended: their times are not known.
        stale_count => count "stale", |program| program.seen.losses.stale_holds;
        /// Processes, threads and files of code that found no room.
        left_out_count => count "left out", |program| {
            let losses = program.seen.losses;
            let threads = losses.processes.saturating_add(losses.threads);
            threads.saturating_add(losses.modules)
        };
        /// Those that were waited for longest first, conditions last.
        pub locks: Vec<ProgramLock>;
    }
}

fields! {
    /// A lock of a program, or a condition.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ProgramLock in live_program_lock {
        /// Everything that was seen of it.
        pub used: LockUse;
        /// Kind of lock: mutex, rwlock by its readers or its writers, spinlock; or condition.
        kind => label "kind", |lock| lock.used.kind.id();
        /// Its address in the process.
        address => address "address", |lock| format!("{:#x}", lock.used.address);
        /// The variable that it is or lies in, where it is one of the file whose code takes it.
        variable => known label "variable", |lock| lock.used.variable.as_deref().unwrap_or_default();
        /// The process that it is in.
        pub process: Process;
        /// CPUs of the host.
        pub cpu_count: u32;
        /// The process.
        pid => number "pid", |lock| lock.process.pid;
        /// The process's name.
        comm => label "process", |lock| lock.process.comm;
        /// The call by which it was taken first: function and line, file and address, or address.
        call_site => name "lock of", |lock| site(&lock.used.call_site);
        /// The call that waited longest.
        wait_site => label "waited at", |lock| lock.used.wait_site.as_ref().map(site);
        /// Threads that took it.
        thread_count => count "threads", |lock| lock.used.thread_count;
        /// Acquisitions; of a condition, waits.
        acquisition_count => count "acquired", |lock| lock.used.acquisitions;
        /// Acquisitions that had to wait.
        contended_count => count "contended", |lock| lock.used.contended;
        /// contended_count as a part of acquisition_count.
        contended_share => share "contended", |lock| {
            let used = &lock.used;
            used.contended as f64 / used.acquisitions.max(1) as f64
        };
        /// Attempts that gave up: of trylock, and by timeout.
        refused_count => count "refused", |lock| lock.used.refused;
        /// Signals and broadcasts of a condition.
        signal_count => count "signals", |lock| lock.used.signals;
        /// Acquisitions by another thread than the one before.
        handover_count => count "handed over", |lock| lock.used.handovers;
        /// Time that its threads waited for it.
        wait_ns => nanos "waited", |lock| lock.used.wait_ns;
        /// The longest wait.
        wait_longest_ns => nanos "longest", |lock| lock.used.wait_max_ns;
        /// Time for which it was held, sleep and preemption included.
        held_ns => nanos "held", |lock| lock.used.held_ns;
        /// The longest hold.
        held_longest_ns => nanos "longest", |lock| lock.used.held_max_ns;
        /// Share of its running time for which a thread holds it while it is contended; none when it never was.
        hold_share => share "u", |lock| lock.used.hold_share();
        /// The same share over all time, contended or not.
        hold_share_all => share "u of all", |lock| lock.used.hold_share_all();
        /// CPUs of use to its threads: 1/u - 0.05, rounded up.
        needed_cpus => count "CPUs of use", |lock| {
            limiting(lock.used.needed_cpus(), lock.cpu_count, lock.used.thread_count as usize)
        };
        /// Speed of all threads at most, as a multiple of that of one: 1/u.
        bound => decimal "bound", |lock| lock.used.bound();
    }
}

impl ProgramLock {
    /// Returns true if a thread had to wait for it.
    pub(super) fn is_contended(&self) -> bool {
        !self.is_condition() && self.used.contended > 0
    }

    /// Returns true for a condition: a wait for it is no contention.
    pub(super) fn is_condition(&self) -> bool {
        self.used.kind == LockKind::Condition
    }
}

impl ProgramLocks {
    /// Puts the locks in order.
    pub(super) fn of(seen: &Observation, cpu_count: u32) -> ProgramLocks {
        let locks = seen.locks.iter().map(|used| ProgramLock {
            used: used.clone(),
            process: seen.processes[used.process].clone(),
            cpu_count,
        });
        let mut locks: Vec<ProgramLock> = locks.collect();
        // Equal ones stay in the order of process, address and kind.
        locks.sort_by_key(|lock| {
            let used = &lock.used;
            let waits = (used.wait_ns, used.contended, used.acquisitions);
            (lock.is_condition(), Reverse(waits))
        });
        let seen = Observation {
            locks: Vec::new(),
            ..seen.clone()
        };
        ProgramLocks { seen, locks }
    }

    fn sum(&self, of: impl Fn(&ProgramLock) -> u64) -> u64 {
        self.locks.iter().map(of).fold(0, u64::saturating_add)
    }
}

fn site(site: &CallSite) -> String {
    match (&site.name, &site.module) {
        (Some(name), _) => name.clone(),
        (None, Some(module)) => format!("{}+{:#x}", module.path, module.offset),
        (None, None) => format!("{:#x}", site.address),
    }
}
