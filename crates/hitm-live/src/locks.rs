//! Contended locks, judged by samples of running threads.
//!
//! A sample below a function that waits for a lock is time spent waiting. The function that called
//! for the lock holds it while it runs, so its other samples are time held. From both follow the
//! hold share and the bound of seed 003. `u = t / T`, where `t` is the time held and `T` the time
//! of a cycle without waiting. 1/u CPUs are of use, rounded up, and no number of threads is faster than
//! `1/u` times one.
//!
//! Sleeping waiters are not sampled, and need not be: `u` is a share of running time. The kernel's
//! tracepoints, where they were recorded, add the time slept. They also find spinners with
//! interrupts off, which have no samples: the pending sample comes when interrupts are enabled
//! again, under the holder of that moment.
//!
//! A sample in a loop of a program that waits for another thread's write is time spent waiting, too.
//!
//! A program's own lock is held by the thread that its word names: a clock asks for it (`holders`).

mod holders;
mod known;
mod site;
mod waits;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use hitm_policy::{cpus_of_use, hold_share};
use indexmap::IndexMap;

use crate::recording::{LiveObject, LiveRecording, LiveSample, LiveThread};
pub use holders::{HolderChain, LockHolders};
use known::Owner;
pub use known::{Class, is_library_wait};
use site::{At, Functions};

/// Waiting samples below which a lock is not shown: a share of fewer is meaningless.
pub const WAITING_MIN: u64 = 10;
/// Limit on the locks judged: each one scans all samples of its threads.
const LOCKS_MAX: usize = 512;
/// Takers and functions kept for each lock.
const CALLERS_MAX: usize = 5;

/// A lock that threads wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// The kind of lock.
    pub class: Class,
    /// Owner: the member's structure, or the function that takes the lock.
    pub name: String,
    /// File, process or address that it belongs to; empty when unknown.
    pub object: String,
    /// Threads that waited for it, longest first.
    pub threads: Vec<LockThread>,
    /// Nanoseconds that those threads held it, in all.
    pub held_ns: u64,
    /// Nanoseconds of CPU time that they waited for it.
    pub waited_ns: u64,
    /// Nanoseconds of CPU time that they spent otherwise.
    pub other_ns: u64,
    /// Samples that were not waiting: the base of the share.
    pub working_samples: u64,
    /// Waits by the kernel's tracepoints; none where they were not recorded.
    pub traced: Option<Traced>,
    /// Addresses of the words that its threads spun for.
    pub words: BTreeSet<u64>,
    /// Places of its holders while others waited; none where that was not recorded.
    pub holders: Option<LockHolders>,
    /// True if samples, or the word of a program's lock, show the holder.
    pub is_hold_known: bool,
    /// Callers, longest wait first.
    pub callers: Vec<LockCaller>,
}

/// A place that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockCaller {
    /// Functions from the one that takes the lock outwards.
    pub chain: String,
    /// Samples that waited there.
    pub samples: u64,
    /// Nanoseconds of its waits by the kernel's tracepoints.
    pub traced_ns: u64,
}

/// Waits for a lock by the kernel's tracepoints: all that slept, and all that spun for a mutex or a
/// spin lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traced {
    /// Their number.
    pub count: u64,
    /// Nanoseconds in all.
    pub wait_ns: u64,
    /// The longest wait.
    pub longest_ns: u64,
    /// Addresses of the locks, each once, in ascending order.
    pub addresses: BTreeSet<u64>,
}

/// A thread's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockThread {
    /// The thread that waited for the lock.
    pub thread: LiveThread,
    /// Nanoseconds that it held the lock while it ran.
    pub held_ns: u64,
    /// Nanoseconds of CPU time that it waited for the lock.
    pub waited_ns: u64,
}

impl Lock {
    /// Share of its working time that a thread holds the lock, `u`: 0 to 1.
    pub fn hold_share(&self) -> f64 {
        hold_share(self.held_ns as f64, self.other_ns as f64)
    }

    /// Its class, its name and its object, in words.
    pub fn title(&self) -> String {
        let (class, name, object) = (self.class.id(), &self.name, &self.object);
        match object.is_empty() {
            true => format!("{class} {name}"),
            false => format!("{class} {name} of {object}"),
        }
    }

    /// Time that threads waited, spinning or asleep. Tracepoints count a mutex's and a spinlock's
    /// spinners too, but of a rwsem only sleepers.
    pub fn waiting_ns(&self) -> u64 {
        let traced_ns = self.traced.as_ref().map_or(0, |traced| traced.wait_ns);
        match self.class {
            Class::Rwsem | Class::PercpuRwsem => self.waited_ns.saturating_add(traced_ns),
            _ => self.waited_ns.max(traced_ns),
        }
    }

    /// Standard error of [`Self::hold_share`], for independent samples.
    pub fn hold_share_error(&self) -> f64 {
        let share = self.hold_share();
        (share * (1.0 - share) / self.working_samples.max(1) as f64).sqrt()
    }

    /// Number of CPUs that are of use to its threads. None when no holder was sampled.
    pub fn needed_cpus(&self) -> Option<usize> {
        let share = self.hold_share();
        (share > 0.0).then(|| cpus_of_use(share))
    }

    /// Nanoseconds that its waiters slept: the tracepoints' time, less the CPU time of samples. A
    /// rwsem's and a percpu_rwsem's tracepoints begin when the spinning ends; waiters of spin locks
    /// never sleep. None where no tracepoints were recorded.
    pub fn slept_ns(&self) -> Option<u64> {
        let traced_ns = self.traced.as_ref()?.wait_ns;
        Some(match self.class {
            Class::Rwsem | Class::PercpuRwsem => traced_ns,
            Class::Mutex | Class::Rtmutex | Class::Futex => {
                traced_ns.saturating_sub(self.waited_ns)
            }
            Class::Spinlock | Class::Rwlock | Class::PthreadSpinlock | Class::SpinLoop => 0,
        })
    }

    /// Limit on the speed of any number of threads, as a multiple of one: `1/u`.
    pub fn bound(&self) -> Option<f64> {
        let share = self.hold_share();
        (share > 0.0).then(|| 1.0 / share)
    }
}

/// The locks of a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judged {
    /// Most wasted CPU time first.
    pub locks: Vec<Lock>,
    /// Locks beyond the limit, with the shortest waits.
    pub left_out_count: usize,
    /// Locks with fewer than [`WAITING_MIN`] waiting samples, and less sleep than those stand for.
    pub few_count: usize,
    /// Words at which threads of programs waited for something other than a lock.
    pub idle_count: usize,
}

/// Judges the locks of a recording.
pub fn judge(recording: &LiveRecording) -> Judged {
    let functions = Functions::of(recording);
    let mut groups: IndexMap<Key, Group> = IndexMap::new();
    for sample in &recording.samples {
        let Some(Waited { key, taker }) = Waited::of(&functions, sample) else {
            continue;
        };
        let group = groups.entry(key).or_default();
        group.takers.insert(taker);
        group.words.extend(functions.word(sample.object));
        *group.waited.entry(sample.thread).or_default() += sample.count;
        if recording.stacks[sample.stack as usize].spins {
            group.spun_samples += sample.count;
        }
        let chain = functions.chain(sample.stack, taker);
        group.callers.entry(chain).or_default().0 += sample.count;
    }
    waits::add(&functions, &mut groups);
    let least_ns = WAITING_MIN.saturating_mul(recording.period_ns);
    let seen_count = groups.len();
    groups.retain(|_, group| {
        group.waiting_samples() >= WAITING_MIN || group.traced_ns() >= least_ns.max(1)
    });
    let few_count = seen_count - groups.len();
    let left_out_count = groups.len().saturating_sub(LOCKS_MAX);
    groups.sort_by_cached_key(|_, group| Reverse((group.waiting_samples(), group.traced_ns())));
    groups.truncate(LOCKS_MAX);
    let owners = holders::Owners::of(recording);
    let locks = groups.into_iter().map(|(key, group)| {
        let spun_ns = group.spun_samples * recording.period_ns;
        let mut lock = lock(&functions, key, group);
        owners.count(&mut lock, spun_ns);
        lock
    });
    let mut locks: Vec<Lock> = locks.collect();
    let slept = |lock: &Lock| lock.traced.as_ref().map_or(0, |traced| traced.wait_ns);
    locks.sort_by(|a, b| {
        let order = b.waited_ns.cmp(&a.waited_ns);
        let order = order.then_with(|| slept(b).cmp(&slept(a)));
        order.then_with(|| (&a.name, &a.object).cmp(&(&b.name, &b.object)))
    });
    holders::add(recording, &mut locks);
    Judged {
        locks,
        left_out_count,
        few_count,
        idle_count: functions.idle_count(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    class: Class,
    name: String,
    object: String,
}

/// The lock that a sample waits for.
struct Waited {
    key: Key,
    /// Function that called for it.
    taker: u32,
}

impl Waited {
    fn of(functions: &Functions<'_>, sample: &LiveSample) -> Option<Waited> {
        let At { class, taker, .. } = functions.waiting(sample.stack)?;
        if functions.is_idle(sample.object) {
            return None;
        }
        // Who spins for a word that others sleep for waits for the same lock.
        let class = match class.is_spun_for() && functions.is_slept_for(sample.object) {
            true => Class::Futex,
            false => class,
        };
        let (name, owner) = known::lock_of(class, functions.name(taker));
        let object = object(functions, owner, sample.thread, sample.object);
        Some(Waited {
            key: Key {
                class,
                name,
                object,
            },
            taker,
        })
    }
}

#[derive(Debug, Default)]
struct Group {
    /// Functions that called for the lock.
    takers: BTreeSet<u32>,
    /// Waiting samples of each thread.
    waited: IndexMap<u32, u64>,
    /// Those of them in loops of the program.
    spun_samples: u64,
    /// Samples and traced nanoseconds of each chain.
    callers: IndexMap<String, (u64, u64)>,
    traced: Option<Traced>,
    /// Words that threads spun for.
    words: BTreeSet<u64>,
    /// Only the lock's address is known.
    is_by_address: bool,
}

impl Group {
    fn waiting_samples(&self) -> u64 {
        self.waited.values().sum()
    }

    fn traced_ns(&self) -> u64 {
        self.traced.as_ref().map_or(0, |traced| traced.wait_ns)
    }
}

fn lock(functions: &Functions<'_>, key: Key, group: Group) -> Lock {
    let recording = functions.recording();
    let (mut held, mut other) = (IndexMap::<u32, u64>::new(), 0);
    for sample in &recording.samples {
        if !group.waited.contains_key(&sample.thread) || functions.is_cut(sample.stack) {
            continue;
        }
        if Waited::of(functions, sample).is_some_and(|waited| waited.key == key) {
            continue;
        }
        let is_held = functions.holds(sample.stack, &group.takers) && {
            // A file's lock is held in calls about that file. No call tells which lock an address
            // is.
            let taker = group.takers.first().copied().unwrap_or_default();
            let (_, owner) = known::lock_of(key.class, functions.name(taker));
            group.is_by_address
                || object(functions, owner, sample.thread, sample.object) == key.object
        };
        match is_held {
            true => *held.entry(sample.thread).or_default() += sample.count,
            false => other += sample.count,
        }
    }
    let time = |count: u64| count * recording.period_ns;
    let threads = group.waited.iter().map(|(thread, waited)| LockThread {
        thread: recording.threads[*thread as usize].clone(),
        held_ns: time(held.get(thread).copied().unwrap_or_default()),
        waited_ns: time(*waited),
    });
    let mut threads: Vec<LockThread> = threads.collect();
    threads.sort_by_key(|part| (u64::MAX - part.waited_ns, part.thread.tid));
    let held: u64 = held.values().sum();
    let mut lock = Lock {
        class: key.class,
        name: key.name,
        object: key.object,
        waited_ns: threads.iter().map(|part| part.waited_ns).sum(),
        threads,
        held_ns: time(held),
        other_ns: time(other),
        working_samples: held + other,
        traced: group.traced,
        words: group.words,
        holders: None,
        is_hold_known: key.class.is_of_kernel(),
        callers: callers(group.callers),
    };
    waits::move_unseen_spinning(&mut lock);
    lock
}

/// Callers with the longest wait, first by samples: those count CPU time.
fn callers(counts: IndexMap<String, (u64, u64)>) -> Vec<LockCaller> {
    let callers = counts.into_iter();
    let callers = callers.map(|(chain, (samples, traced_ns))| LockCaller {
        chain,
        samples,
        traced_ns,
    });
    let mut callers: Vec<LockCaller> = callers.collect();
    let waits = |caller: &LockCaller| (caller.samples, caller.traced_ns);
    callers.sort_by(|a, b| waits(b).cmp(&waits(a)).then_with(|| a.chain.cmp(&b.chain)));
    callers.truncate(CALLERS_MAX);
    callers
}

/// Describes the owner of a lock; empty when it is unknown.
fn object(functions: &Functions<'_>, owner: Owner, thread: u32, object: Option<u32>) -> String {
    let objects = &functions.recording().objects;
    let object = object.map(|object| &objects[object as usize]);
    match (owner, object) {
        (Owner::Word, Some(LiveObject::Futex { address, name, .. })) => {
            let gap = if name.is_empty() { "" } else { " " };
            format!("{name}{gap}{address:#x} of {}", functions.process(thread))
        }
        (Owner::Process | Owner::Word, _) => functions.process(thread),
        (Owner::File, Some(LiveObject::File { inode, path })) => format!("inode {inode} {path}"),
        (Owner::File | Owner::Unknown, _) => String::new(),
    }
}

#[cfg(test)]
mod tests;
