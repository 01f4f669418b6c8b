//! The local pool: threads that each make one run at a time.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use hitm_sweep::result::RunResult;
use thiserror::Error as ThisError;

use super::points::Job;
use super::{EntryKind, Error, Store, Sweep};

/// The part of a plan that one of several drivers runs: every n-th run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the part, from 1.
    number: usize,
    /// Number of parts.
    count: usize,
}

/// A text that names no part.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("expected N/COUNT with N from 1 to COUNT, such as 3/16")]
pub struct PartError;

impl Part {
    /// The whole plan.
    pub const ALL: Part = Part {
        number: 1,
        count: 1,
    };

    pub(super) fn has(self, run: usize) -> bool {
        run % self.count == self.number - 1
    }
}

impl FromStr for Part {
    type Err = PartError;

    fn from_str(text: &str) -> Result<Part, PartError> {
        let (number, count) = text.split_once('/').ok_or(PartError)?;
        let (number, count) = (number.parse(), count.parse());
        match (number, count) {
            (Ok(number), Ok(count)) if (1..=count).contains(&number) => Ok(Part { number, count }),
            _ => Err(PartError),
        }
    }
}

/// The progress of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Runs done now.
    pub done: usize,
    /// Runs to do: those without a result.
    pub all: usize,
    /// Failed runs among those done.
    pub failed: usize,
}

/// Work of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Runs that had a result already.
    pub found: usize,
    /// Runs that were made.
    pub made: usize,
    /// Failed runs among those made.
    pub failed: usize,
}

impl Sweep {
    /// Makes the runs of a part that the store lacks, on `jobs` threads. `progress` is called after
    /// each, from any of them; when it returns false, no further run begins.
    ///
    /// # Errors
    /// A store that cannot be written, a recording that can no longer be read.
    pub fn run(
        &self,
        store: &Store,
        part: Part,
        jobs: NonZeroUsize,
        progress: &(dyn Fn(Progress) -> bool + Sync),
    ) -> Result<Totals, Error> {
        let is_run = |number: &usize| {
            part.has(*number) && matches!(self.entries[*number].kind, EntryKind::Run { .. })
        };
        let of_part = (0..self.entries.len()).filter(is_run).count();
        let missing = self.missing(store, part)?;
        let pool = Pool {
            sweep: self,
            store,
            missing: &missing,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            so_far: Mutex::new(Progress {
                all: missing.len(),
                ..Progress::default()
            }),
            progress,
        };
        let threads = jobs.get().min(missing.len());
        let results: Vec<Result<(), Error>> = thread::scope(|scope| {
            let work = || pool.work();
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        results.into_iter().collect::<Result<(), Error>>()?;
        let so_far = pool.so_far.into_inner().expect("no thread panicked");
        Ok(Totals {
            found: of_part - missing.len(),
            made: so_far.done,
            failed: so_far.failed,
        })
    }

    /// Makes one run, unless the store has it; true when it was made.
    ///
    /// # Errors
    /// As [`Sweep::run`].
    ///
    /// # Panics
    /// If there is no such run.
    pub fn run_one(&self, store: &Store, number: usize) -> Result<bool, Error> {
        let mut worker = Worker { job: None };
        let EntryKind::Run { name, .. } = self.entries[number].kind else {
            return Ok(false);
        };
        if store.get(name)?.is_some() {
            return Ok(false);
        }
        worker.make(self, store, number).map(|_| true)
    }
}

struct Pool<'a> {
    sweep: &'a Sweep,
    store: &'a Store,
    missing: &'a [usize],
    next: AtomicUsize,
    stopped: AtomicBool,
    so_far: Mutex<Progress>,
    progress: &'a (dyn Fn(Progress) -> bool + Sync),
}

impl Pool<'_> {
    /// Makes runs until none is left.
    fn work(&self) -> Result<(), Error> {
        let mut worker = Worker { job: None };
        while !self.stopped.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(number) = self.missing.get(index) else {
                return Ok(());
            };
            let made = worker.make(self.sweep, self.store, *number);
            if made.is_err() {
                self.stopped.store(true, Ordering::Relaxed);
            }
            let is_failed = made?;
            let now = {
                let mut so_far = self.so_far.lock().expect("no thread panicked");
                so_far.done += 1;
                so_far.failed += usize::from(is_failed);
                *so_far
            };
            if !(self.progress)(now) {
                self.stopped.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Keeps a thread's last point: its other seeds and variants come next.
struct Worker {
    job: Option<(u32, Box<dyn Job>)>,
}

impl Worker {
    /// Makes a run and stores its result; true when it failed.
    fn make(&mut self, sweep: &Sweep, store: &Store, number: usize) -> Result<bool, Error> {
        let entry = &sweep.entries[number];
        let EntryKind::Run { name, .. } = entry.kind else {
            return Ok(false);
        };
        store.note_start(name)?;
        let result = self.result(sweep, number)?;
        store.put(name, &result)?;
        Ok(matches!(result, RunResult::Failed(_)))
    }

    fn result(&mut self, sweep: &Sweep, number: usize) -> Result<RunResult, Error> {
        let entry = &sweep.entries[number];
        let place = sweep.plan.sources[0].1;
        // The plan's files were read before, so one of them has changed or vanished since.
        let gone = |message| Error::Named {
            origin: sweep.plan.origin.clone(),
            line: place.line,
            column: place.column,
            key: "the sources".to_owned(),
            message,
        };
        if self
            .job
            .as_ref()
            .is_none_or(|(point, _)| *point != entry.point)
        {
            let job = sweep.job(u64::from(entry.point)).map_err(gone)?;
            self.job = Some((entry.point, job));
        }
        let (_, job) = self.job.as_ref().expect("the point's job was made");
        job.run(usize::from(entry.variant), sweep.seed(entry))
            .map_err(gone)
    }
}

/// Makes a run and drops its result: only its cost is measured.
pub(super) fn try_run(sweep: &Sweep, number: usize) -> Result<(), Error> {
    Worker { job: None }.result(sweep, number).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_all_runs() {
        let part = |text: &str| text.parse::<Part>();
        let parts: Vec<Part> = (1..=3).map(|n| part(&format!("{n}/3")).unwrap()).collect();
        for run in 0..20 {
            assert_eq!(parts.iter().filter(|part| part.has(run)).count(), 1);
        }
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b", "-1/2"] {
            assert_eq!(part(wrong), Err(PartError), "{wrong}");
        }
    }
}
