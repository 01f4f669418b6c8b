//! The load of a group's threads: the run time of each between two sleeps, and the competition for
//! the CPUs.
//!
//! A BPF program sees each job, from waking up to the next sleep. Without it there are the kernel's
//! counters of each thread (schedstat, voluntary switches), as means. Time that is neither run nor
//! waited for a CPU is sleep, and throttled time is waited.

mod jobs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use hitm_bpf::monotonic_ns;

use crate::cgroups::{Hierarchy, Tree};
use crate::procfs::{self, Stat};
use crate::rivals::{OtherGroup, Rivals, Weight};
pub use jobs::Arrival;
use jobs::{ByThread, Jobs, Traced};

/// Sleep share in thousandths below which a thread counts as never sleeping: reading the counters
/// has that much noise.
const NO_SLEEP_PERMILLE: u64 = 5;

/// Threads of a group, and the rest of the host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// The time observed.
    pub duration_ns: u64,
    /// The group's weight.
    pub weight: Weight,
    /// Threads that ran or wanted to, in the order of their numbers.
    pub threads: Vec<ThreadDemand>,
    /// Sibling groups, in the order of their names: cgroups, autogroups, and single tasks of the
    /// root.
    pub others: Vec<OtherGroup>,
    /// Threads that began or ended meanwhile: their rhythm is unknown.
    pub left_out: u64,
    /// A moment at which the group's period timer was due, from the begin of the observation.
    pub timer_at_ns: Option<u64>,
    /// The reason why there are means alone; none where each job was seen.
    pub untraced: Option<String>,
}

impl Demand {
    /// Returns true if a thread's jobs are known one by one.
    pub fn is_traced(&self) -> bool {
        let mut threads = self.threads.iter();
        threads.any(|thread| matches!(thread.rhythm, Rhythm::Traced { .. }))
    }
}

/// A thread's load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadDemand {
    /// Its number.
    pub tid: u32,
    /// Its nice value.
    pub nice: i8,
    /// Time it ran.
    pub ran_ns: u64,
    /// Time it was ready and did not run, throttled time included.
    pub ready_ns: u64,
    /// The order of its runs and sleeps.
    pub rhythm: Rhythm,
}

/// The order of a thread's runs and sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rhythm {
    /// It never sleeps.
    Always,
    /// Mean lengths.
    Mean {
        /// CPU time between two sleeps.
        run_ns: u64,
        /// A sleep.
        sleep_ns: u64,
    },
    /// Each job as it was measured.
    Traced {
        /// The jobs in their order.
        jobs: Vec<Arrival>,
        /// Jobs begin at their moments, however long the ones before take. Else each begins after
        /// its sleep.
        is_timed: bool,
        /// The CPU on which nearly all of them ended.
        home: Option<u32>,
    },
}

impl ThreadDemand {
    /// Computes a thread's rhythm from its run time, ready time and voluntary switches within
    /// `duration_ns`, and its jobs where they were seen. None when it never wanted a CPU.
    fn of(
        tid: u32,
        [ran_ns, ready_ns, switches]: [u64; 3],
        duration_ns: u64,
        traced: Option<Rhythm>,
    ) -> Option<ThreadDemand> {
        if ran_ns + ready_ns == 0 {
            return None;
        }
        let slept_ns = duration_ns.saturating_sub(ran_ns + ready_ns);
        let never_sleeps = slept_ns.saturating_mul(1000) < duration_ns * NO_SLEEP_PERMILLE;
        let sleeps = switches.max(1);
        let rhythm = match traced {
            _ if never_sleeps => Rhythm::Always,
            Some(rhythm) => rhythm,
            None => Rhythm::Mean {
                run_ns: (ran_ns / sleeps).max(1),
                sleep_ns: slept_ns / sleeps,
            },
        };
        Some(ThreadDemand {
            tid,
            nice: 0,
            ran_ns,
            ready_ns,
            rhythm,
        })
    }
}

/// Run time, ready time and voluntary switches by thread.
type Sums = BTreeMap<u32, [u64; 3]>;

/// Measures the demand of a group and those below it.
#[derive(Debug)]
pub(super) struct DemandMeter {
    hierarchy: Hierarchy,
    folders: Vec<PathBuf>,
    begun: Instant,
    begun_ns: u64,
    before: Sums,
    /// Tasks that compete with the group.
    rivals: Rivals,
    /// The jobs, or the reason why they are not seen.
    jobs: Result<Jobs, String>,
}

impl DemandMeter {
    /// Prepares to measure the group of number `group`, with its jobs unless `counters_only` is set.
    pub(super) fn new(
        hierarchy: &Hierarchy,
        tree: &Tree,
        group: u64,
        counters_only: bool,
    ) -> DemandMeter {
        let below = tree
            .iter()
            .filter(|(id, _)| tree.upwards(*id).any(|above| above == group));
        let folders = below.map(|(_, own)| hierarchy.folder(&own.path)).collect();
        let path = tree.get(group).map_or("/", |own| &own.path);
        let mut meter = DemandMeter {
            hierarchy: hierarchy.clone(),
            folders,
            begun: Instant::now(),
            begun_ns: monotonic_ns(),
            before: Sums::new(),
            rivals: Rivals::of_group(hierarchy, path),
            jobs: Err("BPF was not wanted".to_owned()),
        };
        if !counters_only {
            let tids = meter.tids().into_iter();
            meter.jobs = Jobs::begin(group, tids).map_err(|error| error.to_string());
        }
        meter
    }

    /// Counts from now on.
    pub(super) fn start(&mut self) {
        if let Ok(jobs) = &mut self.jobs {
            jobs.forget();
        }
        (self.begun, self.begun_ns) = (Instant::now(), monotonic_ns());
        self.before = self.sums();
    }

    /// Collects jobs, and counts rivals; must be called some ten times a second.
    pub(super) fn look(&mut self) {
        if let Ok(jobs) = &mut self.jobs {
            jobs.drain();
        }
        self.rivals.look();
    }

    /// Ends the measurement and returns the load. `timer_due_ns` is a moment at which the group's
    /// period timer was due.
    pub(super) fn end(mut self, timer_due_ns: Option<u64>) -> Demand {
        let none = Err(String::new());
        let traced = std::mem::replace(&mut self.jobs, none);
        let traced =
            traced.and_then(|jobs| jobs.end(self.begun_ns).map_err(|error| error.to_string()));
        let (mut traced, untraced) = whole(traced);
        let duration_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let after = self.sums();
        let grown = |tid: &u32, now: &[u64; 3]| {
            let before = self.before.get(tid)?;
            let part = |index: usize| now[index].saturating_sub(before[index]);
            Some((*tid, [part(0), part(1), part(2)]))
        };
        let known: Vec<_> = after
            .iter()
            .filter_map(|(tid, now)| grown(tid, now))
            .collect();
        let left_out = (after.len() + self.before.len() - 2 * known.len()) as u64;
        let threads = known.into_iter();
        let threads = threads.filter_map(|(tid, sums)| {
            let own = traced.as_mut();
            let own = own.map(|all| all.remove(&tid).unwrap_or(NO_JOBS));
            let load = ThreadDemand::of(tid, sums, duration_ns, own)?;
            let nice = Stat::of(tid).map_or(0, |stat| stat.nice);
            Some(ThreadDemand { nice, ..load })
        });
        Demand {
            duration_ns,
            weight: self.rivals.weight(),
            threads: threads.collect(),
            others: self.rivals.end().others,
            left_out,
            timer_at_ns: timer_due_ns.map(|due| due.saturating_sub(self.begun_ns)),
            untraced,
        }
    }

    fn tids(&self) -> Vec<u32> {
        let tids = self.folders.iter();
        let tids = tids.filter_map(|folder| self.hierarchy.threads(folder).ok());
        tids.flatten().collect()
    }

    fn sums(&self) -> Sums {
        let sums = self.tids().into_iter().filter_map(|tid| {
            let [ran, ready, _] = procfs::schedstat(tid)?;
            Some((tid, [ran, ready, procfs::voluntary_switches(tid)?]))
        });
        sums.collect()
    }
}

/// The rhythm of a thread that nothing woke.
const NO_JOBS: Rhythm = Rhythm::Traced {
    jobs: Vec::new(),
    is_timed: true,
    home: None,
};

/// The jobs if none is missing, else the reason why there are means alone.
fn whole(traced: Result<Traced, String>) -> (Option<ByThread>, Option<String>) {
    match traced {
        Ok(traced) if traced.lost == 0 => (Some(traced.by_thread), None),
        Ok(traced) => {
            let reason = format!("{} jobs did not fit", traced.lost);
            (None, Some(reason))
        }
        Err(reason) => (None, Some(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_hog_never_sleeps_and_others_have_a_rhythm() {
        // 400 ms run and 599 ms throttled in a second.
        let hog = ThreadDemand::of(7, [400 * MS, 599 * MS, 3], 1000 * MS, None).unwrap();
        assert_eq!(hog.rhythm, Rhythm::Always);
        // 100 times 2 ms, 50 ms of waiting, the rest asleep.
        let sleeper = ThreadDemand::of(8, [200 * MS, 50 * MS, 100], 1000 * MS, None).unwrap();
        let mean = Rhythm::Mean {
            run_ns: 2 * MS,
            sleep_ns: 7_500_000,
        };
        assert_eq!(sleeper.rhythm, mean);
        assert_eq!(ThreadDemand::of(9, [0, 0, 1], 1000 * MS, None), None);
    }
}
