//! Measurement on this host.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use hitm_bpf::{Filter, WakeupTable, Wakeups, drop_capabilities};

use super::{Measured, RunDelay, WakeupReport, growth};
use crate::cgroups::Hierarchy;
use crate::options::Options;
use crate::procfs;
use crate::target::{Target, TargetError};

/// Errors of measuring wake-ups.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot list tasks: {0}")]
    Tasks(io::Error),
    #[error(transparent)]
    Bpf(#[from] hitm_bpf::Error),
}

/// Measures wake-ups for `options.duration`, or until a signal comes. Without a working BPF program
/// the report has the kernel's sums of run delays alone, and the reason.
///
/// # Errors
/// There are no such tasks, or the programs' tables cannot be read.
pub fn measure(options: &Options<Target>) -> Result<WakeupReport, Error> {
    let attach = |filter: &Filter| options.programs(|| Wakeups::attach(filter));
    let mut windows = WakeupWindows::with(&options.target, attach)?;
    if windows.programs.is_ok() {
        drop_capabilities()?;
    }
    options.stop.sleep(options.duration);
    windows.end_window()
}

/// Wake-ups on this host in windows of time, one after the other.
#[derive(Debug)]
pub struct WakeupWindows {
    target: Target,
    filter: Filter,
    /// The programs and their table when the window began, or the reason why there are none.
    programs: Result<(Wakeups, WakeupTable), String>,
    /// The kernel's sums, used when no program runs.
    delays: BTreeMap<u32, [u64; 2]>,
    begun: Instant,
}

impl WakeupWindows {
    /// Begins the first window.
    ///
    /// # Errors
    /// There are no such tasks.
    pub fn open(target: &Target) -> Result<WakeupWindows, Error> {
        WakeupWindows::with(target, |filter| {
            Wakeups::attach(filter).map_err(|error| error.to_string())
        })
    }

    fn with(
        target: &Target,
        attach: impl FnOnce(&Filter) -> Result<Wakeups, String>,
    ) -> Result<WakeupWindows, Error> {
        let filter = target.filter()?;
        let programs = attach(&filter).map(|programs| (programs, WakeupTable::default()));
        let delays = match &programs {
            Ok(_) => BTreeMap::new(),
            Err(_) => schedstats(target)?,
        };
        Ok(WakeupWindows {
            target: target.clone(),
            filter,
            programs,
            delays,
            begun: Instant::now(),
        })
    }

    /// Ends a window and begins the next one. Full tables in the kernel are replaced, if this
    /// thread may still load programs.
    ///
    /// # Errors
    /// The tables cannot be read, or the tasks have ended.
    pub fn end_window(&mut self) -> Result<WakeupReport, Error> {
        let measured = match &mut self.programs {
            Ok((programs, before)) => {
                let table = programs.read()?;
                let grown = growth::since(&table, before);
                let is_full = grown.lost_wakes > 0 || grown.lost_tasks > 0;
                *before = table;
                if is_full && let Ok(anew) = Wakeups::attach(&self.filter) {
                    self.programs = Ok((anew, WakeupTable::default()));
                }
                Measured::Wakeups(grown)
            }
            Err(reason) => {
                let now = schedstats(&self.target)?;
                let delays = run_delays(&self.delays, &now);
                self.delays = now;
                Measured::RunDelays {
                    reason: reason.clone(),
                    delays,
                }
            }
        };
        let duration_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.begun = Instant::now();
        Ok(WakeupReport {
            duration_ns,
            measured,
        })
    }
}

/// Ended threads are left out; new ones grew from zero.
fn run_delays(before: &BTreeMap<u32, [u64; 2]>, now: &BTreeMap<u32, [u64; 2]>) -> Vec<RunDelay> {
    let grown = now.iter().filter_map(|(tid, [delay, runs])| {
        let [delay_before, runs_before] = before.get(tid).copied().unwrap_or_default();
        let (run_delay_ns, runs) = (
            delay.saturating_sub(delay_before),
            runs.saturating_sub(runs_before),
        );
        (runs > 0 || run_delay_ns > 0).then_some((*tid, run_delay_ns, runs))
    });
    let mut delays: Vec<RunDelay> = grown
        .filter_map(|(tid, run_delay_ns, runs)| {
            Some(RunDelay {
                tid,
                comm: procfs::comm(tid).ok()?,
                run_delay_ns,
                runs,
            })
        })
        .collect();
    delays.sort_by_key(|delay| (std::cmp::Reverse(delay.run_delay_ns), delay.tid));
    delays
}

/// Run delay and number of runs of each task.
fn schedstats(target: &Target) -> Result<BTreeMap<u32, [u64; 2]>, Error> {
    let tids = tids(target)?;
    let stats = tids
        .into_iter()
        .filter_map(|tid| Some((tid, procfs::run_delays(tid)?)));
    Ok(stats.collect())
}

fn tids(target: &Target) -> Result<Vec<u32>, Error> {
    match target {
        Target::All => {
            let processes = procfs::processes().map_err(Error::Tasks)?;
            let threads = processes
                .into_iter()
                .filter_map(|pid| procfs::threads(pid).ok());
            Ok(threads.flatten().collect())
        }
        Target::Process(pid) => {
            procfs::threads(*pid).map_err(|_| TargetError::NoProcess(*pid).into())
        }
        Target::Cgroup(name) => {
            let hierarchy = Hierarchy::find().map_err(Error::Tasks)?;
            let wanted = hierarchy.id(&hierarchy.folder(name));
            let wanted = wanted.map_err(|source| TargetError::no_group(name, source))?;
            let tree = hierarchy.scan().map_err(Error::Tasks)?;
            let below = tree
                .iter()
                .filter(|(id, _)| tree.upwards(*id).any(|above| above == wanted));
            let threads = below
                .filter_map(|(_, group)| hierarchy.threads(&hierarchy.folder(&group.path)).ok());
            Ok(threads.flatten().collect())
        }
    }
}
