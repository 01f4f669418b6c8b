//! Arrivals of work at threads, as measured: when each job began, and how much CPU time it took.

use std::collections::BTreeMap;

use hitm_bpf::{Arrivals, Awake, Job, monotonic_ns};

use super::Rhythm;
use crate::procfs::{self, Stat};

/// Limit on jobs of all threads: 24 MiB.
const JOBS_MAX: usize = 1 << 20;

/// A time from waking up to the next sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The moment of waking, from the begin of the observation.
    pub at_ns: u64,
    /// The sleep before it.
    pub slept_ns: u64,
    /// The CPU time that it took.
    pub ran_ns: u64,
}

/// Rhythms of threads by number.
pub(super) type ByThread = BTreeMap<u32, Rhythm>;

/// Jobs of the threads of a group while they are observed.
#[derive(Debug)]
pub(super) struct Jobs {
    programs: Arrivals,
    by_thread: BTreeMap<u32, Vec<Job>>,
    /// CPU time of jobs that had begun before, up to the begin of the observation.
    before: BTreeMap<u32, u64>,
    count: usize,
    left_out: u64,
}

/// A group's work as it was seen.
#[derive(Debug, Default)]
pub(super) struct Traced {
    pub(super) by_thread: ByThread,
    /// Jobs that are missing.
    pub(super) lost: u64,
}

impl Jobs {
    /// Begins to observe the work of a group, whose threads are `tids`.
    pub(super) fn begin(
        cgroup: u64,
        tids: impl Iterator<Item = u32>,
    ) -> Result<Jobs, hitm_bpf::Error> {
        let since_ns = monotonic_ns();
        let awake = tids.filter(|tid| Stat::of(*tid).is_some_and(|stat| stat.state == 'R'));
        let awake = awake.filter_map(|tid| {
            let [ran_ns, ..] = procfs::schedstat(tid)?;
            Some(Awake {
                tid,
                since_ns,
                ran_ns,
            })
        });
        let awake: Vec<Awake> = awake.collect();
        Ok(Jobs {
            programs: Arrivals::attach(cgroup, &awake)?,
            by_thread: BTreeMap::new(),
            before: BTreeMap::new(),
            count: 0,
            left_out: 0,
        })
    }

    /// Collects what came since the last call.
    pub(super) fn drain(&mut self) {
        let (by_thread, count, left_out) =
            (&mut self.by_thread, &mut self.count, &mut self.left_out);
        self.programs.drain(|job| {
            if *count == JOBS_MAX {
                *left_out += 1;
                return;
            }
            *count += 1;
            by_thread.entry(job.tid).or_default().push(job);
        });
    }

    /// Drops the jobs up to now.
    pub(super) fn forget(&mut self) {
        self.drain();
        self.by_thread.clear();
        (self.count, self.left_out) = (0, 0);
        let awake = self.programs.awake().unwrap_or_default();
        self.before = awake.iter().map(|task| (task.tid, ran_of(task))).collect();
    }

    /// Ends the observation, which counts from `begun_ns`; unfinished jobs count with their time so
    /// far.
    pub(super) fn end(mut self, begun_ns: u64) -> Result<Traced, hitm_bpf::Error> {
        self.drain();
        let now = monotonic_ns();
        for task in self.programs.awake()? {
            let job = Job {
                woken_ns: task.since_ns,
                slept_ns: now,
                ran_ns: ran_of(&task),
                tid: task.tid,
                cpu: Stat::of(task.tid).map_or(0, |stat| stat.cpu.into()),
            };
            self.by_thread.entry(task.tid).or_default().push(job);
        }
        for (tid, jobs) in &mut self.by_thread {
            let before_ns = self.before.get(tid).copied().unwrap_or(0);
            leave_out(jobs, begun_ns, before_ns);
        }
        let by_thread = self.by_thread.into_iter();
        Ok(Traced {
            by_thread: by_thread
                .map(|(tid, jobs)| (tid, rhythm(&jobs, begun_ns)))
                .collect(),
            lost: self.left_out + self.programs.lost()?,
        })
    }
}

/// CPU time of an unfinished job so far.
fn ran_of(task: &Awake) -> u64 {
    let ran = procfs::schedstat(task.tid).map_or(0, |[ran, ..]| ran);
    ran.saturating_sub(task.ran_ns)
}

/// Leaves out the CPU time of a job before the begin of the observation.
fn leave_out(jobs: &mut [Job], begun_ns: u64, before_ns: u64) {
    if let Some(first) = jobs.first_mut().filter(|job| job.woken_ns < begun_ns) {
        first.ran_ns = first.ran_ns.saturating_sub(before_ns);
    }
}

fn rhythm(jobs: &[Job], begun_ns: u64) -> Rhythm {
    let works = works(jobs, begun_ns);
    Rhythm::Traced {
        is_timed: is_timed(&works),
        home: home(jobs),
        jobs: works,
    }
}

/// The CPU on which nine of ten jobs ended.
fn home(jobs: &[Job]) -> Option<u32> {
    let mut counts = BTreeMap::new();
    for job in jobs {
        *counts.entry(job.cpu).or_insert(0) += 1;
    }
    let (cpu, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (count * 10 >= jobs.len() * 9).then_some(cpu)
}

fn works(jobs: &[Job], begun_ns: u64) -> Vec<Arrival> {
    let mut slept_since = begun_ns;
    let works = jobs.iter().map(|job| {
        let slept_ns = job.woken_ns.saturating_sub(slept_since);
        slept_since = job.slept_ns;
        Arrival {
            at_ns: job.woken_ns.saturating_sub(begun_ns),
            slept_ns,
            ran_ns: job.ran_ns,
        }
    });
    works.collect()
}

/// Returns true for a thread that wakes up by the clock: its wake-ups come in steadier intervals
/// than its sleeps are long. Else it sleeps for a time of its own after each job.
fn is_timed(works: &[Arrival]) -> bool {
    let intervals = works.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns);
    let sleeps = works.iter().skip(1).map(|work| work.slept_ns);
    spread(intervals) <= spread(sleeps)
}

/// Distance from the median that half of the lengths do not exceed.
fn spread(lengths: impl Iterator<Item = u64>) -> u64 {
    let lengths: Vec<u64> = lengths.collect();
    let middle = median(lengths.iter().copied());
    median(lengths.iter().map(|length| length.abs_diff(middle)))
}

fn median(lengths: impl Iterator<Item = u64>) -> u64 {
    let mut lengths: Vec<u64> = lengths.collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(woken_ns: u64, ran_ns: u64, cpu: u32) -> Job {
        Job {
            woken_ns,
            slept_ns: woken_ns + ran_ns,
            ran_ns,
            tid: 1,
            cpu,
        }
    }

    #[test]
    fn a_thread_stays_where_nine_of_ten_jobs_ended() {
        let on = |cpus: &[u32]| {
            let jobs: Vec<Job> = cpus.iter().map(|cpu| job(0, 1, *cpu)).collect();
            home(&jobs)
        };
        assert_eq!(on(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 0]), Some(1));
        assert_eq!(on(&[1, 1, 1, 1, 1, 1, 1, 1, 0, 0]), None);
        assert_eq!(on(&[]), None);
    }

    /// The simulated load is that of the time for which throttlings were counted.
    #[test]
    fn a_job_that_had_begun_before_counts_from_the_begin_on() {
        let mut jobs = [job(50, 80, 0), job(150, 30, 0)];
        leave_out(&mut jobs, 100, 60);
        assert_eq!(jobs.map(|job| job.ran_ns), [20, 30]);
        leave_out(&mut jobs[1..], 100, 60);
        assert_eq!(jobs[1].ran_ns, 30);
    }

    #[test]
    fn a_clock_wakes_in_steady_intervals_and_a_rest_is_steady_itself() {
        let jobs = |step: &dyn Fn(u64, u64) -> u64| {
            let mut at = 0;
            let jobs = [3, 9, 5, 7, 20].map(|ran| {
                let job = job(at, ran, 0);
                at = step(at, ran);
                job
            });
            works(&jobs, 0)
        };
        assert!(is_timed(&jobs(&|at, _| at + 100)));
        let rests = jobs(&|at, ran| at + ran + 30);
        assert!(!is_timed(&rests));
        assert_eq!(
            (rests[1].at_ns, rests[1].slept_ns, rests[1].ran_ns),
            (33, 30, 9)
        );
    }
}
