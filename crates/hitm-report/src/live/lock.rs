//! A live recording without its samples; a lock, its callers and its threads.

use hitm_fields::fields;
use hitm_live::locks::{Lock, LockCaller, LockThread, Traced};

fields! {
    /// The target.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LiveRun in live_run {
        /// Whom was looked at.
        pub target: String => label "target";
        /// The kernel's release.
        pub kernel: String => known label "kernel";
        /// Sources of the figures.
        pub layers: Vec<String> => words "layers";
        /// Layers that were not used, and why.
        pub missing: Vec<String> => words "missing";
        /// CPUs that were online.
        pub cpu_count: u32 => count "CPUs";
        /// Time from the first sample to the last.
        pub duration_ns: u64 => nanos "time";
        /// CPU time for which a sample stands.
        pub period_ns: u64 => nanos "period";
        /// Samples of running threads.
        pub sample_count: u64 => count "samples";
        /// Samples that found no room, and threads that were not followed.
        pub lost_count: u64 => count "lost";
        /// Locks that are not shown, since at most 512 are: those that were waited for least.
        pub left_out_count: usize => count "left out";
        /// Locks that are not shown: those with waits in fewer than 10 samples, and with less sleep than these stand for.
        pub few_count: usize => count "few";
        /// Words at which threads of programs slept for something other than a lock: work, or the end of a thread. They are not shown.
        pub idle_count: usize => count "idle";
    }
}

fields! {
    /// A lock, and the time that shares are of.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LockView in live_lock {
        /// The judgement.
        pub lock: Lock;
        /// Kind of lock: rwsem, mutex, spinlock, rwlock, rtmutex, percpu_rwsem of the kernel; futex, pthread_spinlock, spin_loop of a program.
        class => label "class", |view| view.lock.class.id();
        /// Whose member it is, or the function that takes it.
        name => name "lock", |view| view.lock.name;
        /// The inode with a path, the process or the address that it belongs to.
        object => known name "of", |view| view.lock.object;
        /// Threads that waited for it.
        thread_count => count "threads", |view| view.lock.threads.len();
        /// CPUs that its waiters kept from other work: waited_ns over the run's time.
        wasted_cpus => decimal "CPUs lost", |view| view.wasted_cpus();
        /// CPU time that its threads spent waiting for it.
        waited_ns => nanos "waited", |view| view.lock.waited_ns;
        /// waited_ns as a part of its threads' CPU time.
        waited_share => share "waited", |view| view.share(view.lock.waited_ns);
        /// Time for which its threads held it, as a part of their CPU time.
        held_share => share "held", |view| view.held(view.share(view.lock.held_ns));
        /// Time for which its threads held it, as a part of their CPU time without waiting.
        hold_share => share "u", |view| view.held(view.lock.hold_share());
        /// The standard error of hold_share, by the number of samples.
        hold_share_error => share "+-", |view| view.held(view.lock.hold_share_error());
        /// CPUs of use to its threads: 1/u - 0.05, rounded up.
        needed_cpus => count "CPUs of use", |view| {
            limiting(view.lock.needed_cpus(), view.cpu_count, view.lock.threads.len())
        };
        /// Speed of all threads at most, as a multiple of that of one: 1/u.
        bound => decimal "bound", |view| view.lock.bound();
        /// Waits that the kernel's tracepoints saw: all but those that only spun for a rwsem; of a futex, all of it.
        wait_count => count "waits", |view| view.lock.traced.as_ref().map(|traced| traced.count);
        /// Time of those waits in all, spinning and asleep.
        wait_ns => nanos "waits", |view| view.lock.traced.as_ref().map(|traced| traced.wait_ns);
        /// The longest of those waits.
        longest_ns => nanos "longest", |view| view.lock.traced.as_ref().map(|traced| traced.longest_ns);
        /// Time for which its waiters slept: wait_ns, without waited_ns where waiters spin in it.
        slept_ns => nanos "slept", |view| view.lock.slept_ns();
        /// Addresses that those waits were for: several where locks of one name cannot be told apart.
        addresses => words "at", |view| view.lock.traced.as_ref().map(addresses);
        /// Time of the host.
        pub duration_ns: u64;
        /// CPUs of the host.
        pub cpu_count: u32;
    }
}

/// CPUs that a lock can keep busy, unless it limits neither its threads nor the host.
pub(super) fn limiting(
    needed: Option<usize>,
    cpu_count: u32,
    thread_count: usize,
) -> Option<usize> {
    needed.filter(|needed| *needed <= thread_count.max(cpu_count as usize))
}

/// Addresses that waits were for.
fn addresses(traced: &Traced) -> Vec<String> {
    let texts = traced.addresses.iter();
    texts.map(|address| format!("{address:#x}")).collect()
}

impl LockView {
    /// A share of time for which it is held; missing where nobody outside the program can tell.
    fn held(&self, share: f64) -> Option<f64> {
        self.lock.is_hold_known.then_some(share)
    }

    fn cpu_ns(&self) -> u64 {
        self.lock.waited_ns + self.lock.held_ns + self.lock.other_ns
    }

    fn share(&self, part_ns: u64) -> f64 {
        part_ns as f64 / self.cpu_ns().max(1) as f64
    }

    /// Its waiters' sleep as a part of the run's time: more than 1 where several sleep at once.
    pub(super) fn slept_share(&self) -> f64 {
        self.lock.slept_ns().unwrap_or(0) as f64 / self.duration_ns.max(1) as f64
    }

    /// CPUs that its waiters keep from other work.
    fn wasted_cpus(&self) -> f64 {
        self.lock.waited_ns as f64 / self.duration_ns.max(1) as f64
    }
}

fields! {
    /// Of a caller.
    pub live_caller for LockCaller {
        /// Functions from the one that takes the lock outwards.
        chain => name "called by";
        /// Samples that waited there.
        waiting_samples => count "samples", |caller| caller.samples;
        /// Time of the waits there that the kernel's tracepoints saw.
        wait_ns => nanos "waits", |caller| caller.traced_ns;
    }
}

fields! {
    /// Of a thread of a lock.
    pub live_thread for LockThread {
        /// Its process.
        pid => number "pid", |part| part.thread.pid;
        /// Its number.
        tid => number "tid", |part| part.thread.tid;
        /// Its name.
        comm => name "thread", |part| part.thread.comm;
        /// Time for which it held the lock while it ran.
        held_ns => nanos "held";
        /// CPU time that it spent waiting for the lock.
        waited_ns => nanos "waited";
    }
}
