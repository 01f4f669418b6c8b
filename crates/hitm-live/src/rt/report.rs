//! A test that has run, and the quantities that are reported of it.

use hitm_base::rt_migrate::RtMigrate;
use hitm_fields::fields;

use super::late;

/// The CPUs of a thread in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The CPU of its first instruction behind the barrier.
    pub first_cpu: u32,
    /// The CPU at the end of its busy loop.
    pub last_cpu: u32,
}

fields! {
    /// A test that has run.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RtRun in rt_run {
        /// The samples, for rule and table.
        pub results: RtMigrate;
        /// By iteration and thread.
        pub places: Vec<Vec<Place>>;
        /// CPUs that the threads were allowed, in the order of their numbers.
        pub allowed: Vec<u32>;
        /// No iteration failed.
        passed => label "passed", |run| late(run).is_empty();
        /// Time for which each thread is busy.
        run_time_us => number "run time", |run| (run.results.config.run_time.0 / 1e3) as u64;
        /// Time by which a thread may start later than the next lower one.
        max_err_us => number "allowed error", |run| (run.results.config.max_err.0 / 1e3) as u64;
        /// The CPUs that the threads may use.
        cpus => number "CPUs", |run| run.allowed.clone();
    }
}

fields! {
    /// Starts of a thread, over all iterations.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ThreadStarts in thread_starts {
        /// Its priority.
        pub prio: u8 => number "prio";
        /// Its earliest start behind the barrier.
        pub start_min_us: Option<u64> => number "min";
        /// Its mean start.
        pub start_avg_us: Option<u64> => number "avg";
        /// Its latest start.
        pub start_max_us: Option<u64> => number "max";
    }
}

fields! {
    /// A thread in an iteration.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ThreadSample in thread_sample {
        /// Its start behind the barrier.
        pub start_us: u64 => number "start";
        /// The end of its busy loop.
        pub length_us: u64 => number "end";
        /// Passes of its busy loop.
        pub loops: u64 => number "loops";
        /// The CPU of its first instruction behind the barrier.
        pub first_cpu: u32 => number "first CPU";
        /// The CPU at the end of its busy loop.
        pub last_cpu: u32 => number "last CPU";
    }
}

impl RtRun {
    /// Starts of each thread.
    pub fn threads(&self) -> Vec<ThreadStarts> {
        let tasks = 0..self.results.config.tasks;
        tasks.map(|task| self.starts(task)).collect()
    }

    fn starts(&self, task: usize) -> ThreadStarts {
        let starts = self.results.iterations.iter();
        let starts: Vec<u64> = starts.map(|samples| samples[task].start_us).collect();
        let total: u64 = starts.iter().sum();
        ThreadStarts {
            prio: self.results.config.prio(task),
            start_min_us: starts.iter().min().copied(),
            start_avg_us: total.checked_div(starts.len() as u64),
            start_max_us: starts.iter().max().copied(),
        }
    }

    /// Threads of each iteration.
    pub fn samples(&self) -> Vec<Vec<ThreadSample>> {
        let iterations = self.results.iterations.iter().zip(&self.places);
        let samples = iterations.map(|(samples, places)| {
            let both = samples.iter().zip(places);
            both.map(|(sample, place)| ThreadSample {
                start_us: sample.start_us,
                length_us: sample.length_us,
                loops: sample.loops,
                first_cpu: place.first_cpu,
                last_cpu: place.last_cpu,
            })
            .collect()
        });
        samples.collect()
    }
}
