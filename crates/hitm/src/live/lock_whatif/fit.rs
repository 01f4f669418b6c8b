//! Inputs of the simulator from what was measured of a spin lock.

use hitm_live::cgroups::Bandwidth;
use hitm_live::fault_costs::FaultCosts;
use hitm_live::locks::Lock;
use hitm_live::place::CpuSet;
use hitm_live::process_load::{ProcessLoad, ThreadTimes};
use hitm_live::recording::{HolderTimes, LiveHeld, LiveHolds, LiveRecording};
use hitm_live::rivals::{RivalGroups, Weight};
use thiserror::Error;

use super::LockRun;

/// Fewest holds whose mean is worth something. Assumed 50 (20 to 200): their error is a seventh at most where they vary
/// as much as their mean.
const HOLDS_MIN: u64 = 50;
/// Largest part of a hold that the watch of the word may have in it.
const WATCH_MAX: f64 = 0.25;
/// Largest part of the waiting in which holders may sleep for another lock.
const CHAIN_MAX: f64 = 0.05;
/// Time asleep, as a part of all, below which threads do not sleep: counters have that much noise.
const SLEEP_MIN: f64 = 0.02;
/// Part of a hold that the rest of a cycle may be short of before the measurements contradict each other.
const SHORT_MAX: f64 = 0.25;

/// The reason why what was measured does not fix the inputs.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Unfit {
    /// There is no such lock.
    #[error("no thread of process {pid} spins for a lock; other locks are not simulated")]
    NoSpinLock {
        /// The process.
        pid: u32,
    },
    /// The word is not known.
    #[error("the word of the lock that is spun for is not known")]
    NoWord,
    /// Others are not seen.
    #[error(
        "fewer than two threads of the process were there all the time and waited for the lock"
    )]
    FewThreads,
    /// Threads come and go.
    #[error("threads that wait for the lock begin and end meanwhile")]
    Unsteady,
    /// Nothing watched the word, or it tells nothing.
    #[error(
        "{holds} holds were seen from taking to release, of which at least {HOLDS_MIN} are needed"
    )]
    FewHolds {
        /// Holds that were seen.
        holds: u64,
    },
    /// A watched write takes too long beside a hold.
    #[error(
        "a hold takes {hold_ns} ns, of which a watched write alone may be {hit_ns}: too short to be timed"
    )]
    ShortHolds {
        /// Mean hold.
        hold_ns: u64,
        /// Watched write.
        hit_ns: u64,
    },
    /// Another lock decides.
    #[error("holders sleep for another lock in {percent} % of the waiting")]
    Chain {
        /// Part of the waiting.
        percent: u64,
    },
    /// Holds and CPU time contradict each other.
    #[error(
        "{takes} takes a second of {hold_ns} ns each do not fit into the threads' CPU time outside of waiting"
    )]
    Contradiction {
        /// Takes a second.
        takes: u64,
        /// CPU time of a hold.
        hold_ns: u64,
    },
}

/// A thread that takes the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockThreadInput {
    /// CPUs that it may run on.
    pub allowed: CpuSet,
    /// Its nice value.
    pub nice: i8,
}

/// Inputs of the simulator. Times are of one use of the lock, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct LockInputs {
    /// The lock in words.
    pub title: String,
    /// Its threads.
    pub threads: Vec<LockThreadInput>,
    /// Time that the holder runs, without page faults.
    pub hold_ns: f64,
    /// Part of it that the watch of the word adds.
    pub watch_ns: f64,
    /// Page faults under the lock.
    pub faults: f64,
    /// Cost of one of them while it is observed.
    pub observed_fault_ns: f64,
    /// Cost of one of them otherwise.
    pub fault_ns: f64,
    /// Cost of a huge one; none where this kernel gives no huge pages.
    pub huge_fault_ns: Option<f64>,
    /// Sleep under the lock.
    pub asleep_ns: f64,
    /// CPU time outside of it.
    pub outside_ns: f64,
    /// Sleep outside of it.
    pub think_ns: f64,
    /// Two standard errors of the time held, as a part of it.
    pub hold_error: f64,
    /// Two standard errors of the CPU time outside.
    pub outside_error_ns: f64,
    /// True if the threads compete in a group of their own.
    pub has_group: bool,
    /// Its weight.
    pub weight: Weight,
    /// Its quota.
    pub bandwidth: Option<Bandwidth>,
    /// Tasks that compete with the threads.
    pub rivals: RivalGroups,
    /// Measured figures.
    pub measured: LockRun,
}

/// Fits the inputs to what was measured. A watched write takes `hit_ns`.
///
/// # Errors
/// The measurements do not fix them.
pub(super) fn fit(
    recording: &LiveRecording,
    load: &ProcessLoad,
    hit_ns: u64,
    costs: Option<FaultCosts>,
) -> Result<LockInputs, Unfit> {
    let judged = hitm_live::locks::judge(recording);
    let is_own = |lock: &&Lock| {
        let first = lock.threads.first();
        lock.class.is_spun_for() && first.is_some_and(|part| part.thread.pid == load.pid)
    };
    let lock = judged.locks.iter().find(is_own);
    let lock = lock.ok_or(Unfit::NoSpinLock { pid: load.pid })?;
    let seen = Seen::of(recording, lock, load)?;
    seen.check(hit_ns)?;
    let takes_per_s = seen.takes_per_s();
    let hold = seen.hold_ns();
    let cycle = seen.cycle(hold)?;
    let think_ns = seen.think_ns();
    let holds = &seen.holds;
    let of_hold = |ns: u64| ns as f64 / holds.holds as f64;
    let faults = of_hold(holds.minor_faults);
    let observed_fault_ns = holds.minor_fault_ns as f64 / holds.minor_faults.max(1) as f64;
    let small_ns = costs.map_or(f64::MAX, |costs| costs.small_ns as f64);
    let watch_ns = (hit_ns as f64).min(of_hold(holds.running_ns));
    Ok(LockInputs {
        title: lock.title(),
        threads: seen.threads(),
        // Times of faults that are not counted are the holder's own.
        hold_ns: match faults > 0.0 {
            true => of_hold(holds.running_ns),
            false => of_hold(holds.running_ns + holds.minor_fault_ns),
        },
        watch_ns,
        faults,
        observed_fault_ns,
        fault_ns: observed_fault_ns.min(small_ns),
        huge_fault_ns: costs.and_then(|costs| Some(costs.huge_ns? as f64)),
        asleep_ns: of_hold(holds.asleep_ns + holds.major_fault_ns),
        outside_ns: cycle.outside_ns,
        think_ns,
        hold_error: seen.hold_error(),
        outside_error_ns: cycle.error_ns,
        has_group: load.group != "/" || hitm_live::procfs::autogroup(load.pid).is_some(),
        weight: load.weight,
        bandwidth: load.bandwidth,
        rivals: load.rivals.clone(),
        measured: LockRun {
            takes_per_s,
            spinning: seen.spun_ns / (seen.spun_ns + seen.worked_ns).max(1.0),
            states: states(&seen.times),
        },
    })
}

/// Parts of the waiting: holder running, in a page fault, without a CPU that it wants, and else.
fn states(times: &HolderTimes) -> [f64; 4] {
    let parts = [
        times.running_ns,
        times.minor_fault_ns + times.major_fault_ns,
        times.preempted_ns + times.throttled_ns,
        times.asleep_ns + times.waking_ns,
    ];
    let known: u64 = parts.iter().sum();
    parts.map(|ns| ns as f64 / known.max(1) as f64)
}

/// Figures of a lock and of its threads.
struct Seen<'a> {
    lock: &'a Lock,
    threads: Vec<&'a ThreadTimes>,
    holds: LiveHolds,
    times: HolderTimes,
    chain_ns: u64,
    /// Nanoseconds for which the threads were there.
    active_ns: f64,
    /// CPU time of the threads in which they waited, and the rest.
    spun_ns: f64,
    worked_ns: f64,
    period_ns: f64,
}

/// CPU time of a use of the lock beside waiting and holding.
struct Cycle {
    outside_ns: f64,
    error_ns: f64,
}

impl Seen<'_> {
    fn of<'a>(
        recording: &LiveRecording,
        lock: &'a Lock,
        load: &'a ProcessLoad,
    ) -> Result<Seen<'a>, Unfit> {
        let mut words = lock.words.iter();
        let (Some(word), None) = (words.next(), words.next()) else {
            return Err(Unfit::NoWord);
        };
        let threads = lock.threads.iter();
        let threads = threads.filter_map(|part| load.threads.get(&part.thread.tid));
        let threads: Vec<&ThreadTimes> = threads.collect();
        let seen_ns = threads.iter().map(|times| times.seen_ns);
        let active_ns = seen_ns.clone().max().unwrap_or(0);
        if threads.len() < 2 {
            return Err(Unfit::FewThreads);
        }
        if seen_ns.min().is_some_and(|least| least < active_ns / 2) {
            return Err(Unfit::Unsteady);
        }
        let held = recording.holders.iter().flat_map(|all| &all.locks);
        let is_it = |held: &&LiveHeld| (held.pid, held.lock) == (load.pid, *word);
        let held = held.into_iter().find(is_it);
        let holds = held.and_then(|held| held.holds).unwrap_or_default();
        let chain = held.map_or(&[][..], |held| &held.chain);
        Ok(Seen {
            lock,
            threads,
            holds,
            times: held.map(|held| held.times).unwrap_or_default(),
            chain_ns: chain.iter().map(|next| next.ns).sum(),
            active_ns: active_ns as f64,
            spun_ns: lock.waited_ns as f64,
            worked_ns: (lock.other_ns + lock.held_ns) as f64,
            period_ns: recording.period_ns as f64,
        })
    }

    fn check(&self, hit_ns: u64) -> Result<(), Unfit> {
        let holds = &self.holds;
        if holds.holds < HOLDS_MIN || holds.watched_ns == 0 {
            return Err(Unfit::FewHolds { holds: holds.holds });
        }
        let hold_ns = self.hold_ns() as u64;
        if hit_ns as f64 > hold_ns as f64 * WATCH_MAX {
            return Err(Unfit::ShortHolds { hold_ns, hit_ns });
        }
        let chain = self.chain_ns as f64 / self.times.all_ns().max(1) as f64;
        match chain > CHAIN_MAX {
            true => Err(Unfit::Chain {
                percent: (chain * 100.0).round() as u64,
            }),
            false => Ok(()),
        }
    }

    fn takes_per_s(&self) -> f64 {
        self.holds.takes as f64 * 1e9 / self.holds.watched_ns as f64
    }

    /// Takes in all the time.
    fn takes(&self) -> f64 {
        self.takes_per_s() * self.active_ns / 1e9
    }

    /// CPU time of a hold.
    fn hold_ns(&self) -> f64 {
        (self.holds.running_ns + self.holds.minor_fault_ns) as f64 / self.holds.holds as f64
    }

    /// Two standard errors of the mean hold, as a part of it.
    fn hold_error(&self) -> f64 {
        let count = self.holds.holds as f64;
        let mean_us = self.hold_ns() / 1e3;
        let variance = self.holds.ran_us_squares as f64 / count - mean_us * mean_us;
        2.0 * (variance.max(0.0) / count).sqrt() / mean_us.max(1e-3)
    }

    /// The CPU time outside of waiting that holds leave. Its error is that of samples and of takes, which come as
    /// independent events at worst.
    fn cycle(&self, hold_ns: f64) -> Result<Cycle, Unfit> {
        let takes = self.takes();
        let worked_ns = self.worked_ns / takes;
        let outside_ns = worked_ns - hold_ns;
        if outside_ns < -SHORT_MAX * hold_ns {
            return Err(Unfit::Contradiction {
                takes: self.takes_per_s() as u64,
                hold_ns: hold_ns as u64,
            });
        }
        let samples = (self.spun_ns + self.worked_ns) / self.period_ns.max(1.0);
        let share = self.worked_ns / (self.spun_ns + self.worked_ns).max(1.0);
        let of_samples = ((1.0 - share) / (share * samples).max(1.0)).sqrt();
        let of_takes = 1.0 / (self.holds.takes.max(1) as f64).sqrt();
        let of_hold = self.hold_error() / 2.0 * hold_ns / worked_ns.max(1.0);
        let error = (of_samples.powi(2) + of_takes.powi(2) + of_hold.powi(2)).sqrt();
        Ok(Cycle {
            outside_ns: outside_ns.max(0.0),
            error_ns: 2.0 * error * worked_ns,
        })
    }

    /// Sleep outside of the lock: all that is not under it.
    fn think_ns(&self) -> f64 {
        let all_ns: u64 = self.threads.iter().map(|times| times.seen_ns).sum();
        let awake = self
            .threads
            .iter()
            .map(|times| times.ran_ns + times.ready_ns);
        let slept_ns = all_ns.saturating_sub(awake.sum()) as f64;
        if slept_ns < SLEEP_MIN * all_ns as f64 {
            return 0.0;
        }
        let held = (self.holds.asleep_ns + self.holds.major_fault_ns) as f64;
        (slept_ns / self.takes() - held / self.holds.holds as f64).max(0.0)
    }

    fn threads(&self) -> Vec<LockThreadInput> {
        debug_assert!(
            self.threads.len() <= self.lock.threads.len(),
            "a part of them"
        );
        let threads = self.threads.iter();
        let threads = threads.map(|times| LockThreadInput {
            allowed: times.allowed.clone(),
            nice: times.nice,
        });
        threads.collect()
    }
}
