//! Measuring on this host.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use hitm_bpf::{Filter, Wakeups, drop_capabilities};

use super::{Measured, RunDelay, WakeupReport};
use crate::cgroups::Hierarchy;
use crate::place::Stop;
use crate::procfs;

/// The tasks to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All.
    All,
    /// The threads of a process.
    Process(u32),
    /// The tasks of a cgroup with the cpu controller and of those below it.
    Cgroup(String),
}

/// Choice of tasks, time and means.
#[derive(Debug, Clone)]
pub struct Options {
    /// The tasks.
    pub target: Target,
    /// For how long at most.
    pub duration: Duration,
    /// Signals that end it earlier.
    pub stop: Stop,
    /// Never load BPF programs.
    pub counters_only: bool,
}

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("no process {0}")]
    NoProcess(u32),
    #[error("no cgroup {name:?}: {source}")]
    NoGroup { name: String, source: io::Error },
    #[error("cannot list tasks: {0}")]
    Tasks(io::Error),
    #[error(transparent)]
    Bpf(#[from] hitm_bpf::Error),
}

/// Measures wake-ups for `options.duration`, or until a signal comes. Where no BPF program works the kernel's sums of
/// run delays are all there is; the report has the reason.
///
/// # Errors
/// There are no such tasks, or the programs' tables cannot be read.
pub fn measure(options: &Options) -> Result<WakeupReport, Error> {
    let filter = filter(&options.target)?;
    let begin = Instant::now();
    let attached = match options.counters_only {
        true => Err("BPF was not wanted".to_owned()),
        false => Wakeups::attach(&filter).map_err(|error| error.to_string()),
    };
    let measured = match attached {
        Ok(programs) => {
            drop_capabilities()?;
            options.stop.sleep(options.duration);
            Measured::Wakeups(programs.read()?)
        }
        Err(reason) => Measured::RunDelays {
            reason,
            delays: run_delays(options)?,
        },
    };
    Ok(WakeupReport {
        duration_ns: u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
        measured,
    })
}

fn filter(target: &Target) -> Result<Filter, Error> {
    match target {
        Target::All => Ok(Filter::All),
        Target::Process(pid) => match procfs::threads(*pid) {
            Ok(_) => Ok(Filter::Processes(vec![*pid])),
            Err(_) => Err(Error::NoProcess(*pid)),
        },
        Target::Cgroup(name) => {
            let id = Hierarchy::find().and_then(|hierarchy| hierarchy.id(&hierarchy.folder(name)));
            id.map(Filter::Cgroup)
                .map_err(|source| no_group(name, source))
        }
    }
}

fn no_group(name: &str, source: io::Error) -> Error {
    Error::NoGroup {
        name: name.to_owned(),
        source,
    }
}

fn run_delays(options: &Options) -> Result<Vec<RunDelay>, Error> {
    let target = &options.target;
    let before: BTreeMap<u32, [u64; 2]> = schedstats(target)?;
    options.stop.sleep(options.duration);
    let mut delays: Vec<RunDelay> = schedstats(target)?
        .into_iter()
        .filter_map(|(tid, [delay, runs])| {
            let [delay_before, runs_before] = before.get(&tid).copied().unwrap_or_default();
            Some(RunDelay {
                tid,
                comm: procfs::comm(tid).ok()?,
                delay_ns: delay.saturating_sub(delay_before),
                runs: runs.saturating_sub(runs_before),
            })
        })
        .filter(|delay| delay.runs > 0 || delay.delay_ns > 0)
        .collect();
    delays.sort_by_key(|delay| (std::cmp::Reverse(delay.delay_ns), delay.tid));
    Ok(delays)
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
        Target::Process(pid) => procfs::threads(*pid).map_err(|_| Error::NoProcess(*pid)),
        Target::Cgroup(name) => {
            let hierarchy = Hierarchy::find().map_err(Error::Tasks)?;
            let wanted = hierarchy.id(&hierarchy.folder(name));
            let wanted = wanted.map_err(|source| no_group(name, source))?;
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
