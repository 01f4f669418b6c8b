//! Observing this host.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hitm_bpf::{Throttling, drop_capabilities, monotonic_ns};

use super::{GroupRow, Observation, Source, ThrottleReport, trace_lines};
use crate::cgroups::{CpuStat, Hierarchy, Tree};
use crate::place::Stop;
use crate::procfs;

/// The programs' buffer holds some 37,000 events: at this interval 700,000 a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// New groups get their names at this interval.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Choice of groups, time and means.
#[derive(Debug, Clone)]
pub struct Options {
    /// A group and those below it; every group otherwise.
    pub cgroup: Option<String>,
    /// For how long at most.
    pub duration: Duration,
    /// Signals that end it earlier.
    pub stop: Stop,
    /// Never load BPF programs.
    pub counters_only: bool,
}

/// The reason why there is nothing to report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("no groups with a quota can be observed: {0}")]
    NoHierarchy(io::Error),
    #[error("no cgroup {name:?} below {root}: {source}", root = root.display())]
    NoGroup {
        name: String,
        root: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Bpf(#[from] hitm_bpf::Error),
}

/// Observes throttling for `options.duration`, or until a signal comes. `trace` is called with each line of the trace.
/// Where no BPF program works the kernel's counters are all there is; the report has the reason.
///
/// # Errors
/// There is no hierarchy of groups, or no such group, or the programs' tables cannot be read.
pub fn observe(options: &Options, trace: &mut dyn FnMut(&str)) -> Result<ThrottleReport, Error> {
    let hierarchy = Hierarchy::find().map_err(Error::NoHierarchy)?;
    let only = options
        .cgroup
        .as_deref()
        .map(|name| group_id(&hierarchy, name))
        .transpose()?;
    let tree = hierarchy.scan().map_err(Error::NoHierarchy)?;
    let observation = Observation::new(tree, only);
    if options.counters_only {
        return Ok(counters(
            &hierarchy,
            observation,
            options,
            "BPF was not wanted",
        ));
    }
    match Throttling::attach() {
        Ok(programs) => {
            drop_capabilities()?;
            watch(&hierarchy, programs, observation, options, trace)
        }
        Err(reason) => Ok(counters(
            &hierarchy,
            observation,
            options,
            &reason.to_string(),
        )),
    }
}

impl Observation {
    /// Reads the tree again. Without it groups that were made meanwhile keep their numbers for names.
    fn add_groups(&mut self, hierarchy: &Hierarchy) {
        if let Ok(tree) = hierarchy.scan() {
            self.merge_tree(tree);
        }
    }
}

fn group_id(hierarchy: &Hierarchy, name: &str) -> Result<u64, Error> {
    let folder = hierarchy.folder(name);
    hierarchy.id(&folder).map_err(|source| Error::NoGroup {
        name: name.to_owned(),
        root: hierarchy.root().to_owned(),
        source,
    })
}

fn watch(
    hierarchy: &Hierarchy,
    mut programs: Throttling,
    mut observation: Observation,
    options: &Options,
    trace: &mut dyn FnMut(&str),
) -> Result<ThrottleReport, Error> {
    let before = stats(hierarchy, observation.tree());
    let begin = Instant::now();
    let mut scanned = begin;
    while begin.elapsed() < options.duration && !options.stop.is_requested() {
        let left = options.duration.saturating_sub(begin.elapsed());
        std::thread::sleep(INTERVAL.min(left));
        drain(&mut programs, &mut observation, trace);
        // Groups that were made meanwhile; at the end once more, for those that are throttled since.
        if observation.has_unknown() && scanned.elapsed() >= SCAN_INTERVAL {
            observation.add_groups(hierarchy);
            scanned = Instant::now();
        }
    }
    observation.add_groups(hierarchy);
    let open = programs.open_episodes()?;
    let end_ns = monotonic_ns();
    let grown = growth(&before, &stats(hierarchy, observation.tree()));
    let mut report = observation.finish(&open, end_ns, &grown);
    report.source = Source::Bpf {
        is_asynchronous: programs.is_asynchronous(),
    };
    report.duration_ns = nanos(begin.elapsed());
    report.counts = programs.counts()?;
    Ok(report)
}

/// Takes what the programs saw.
fn drain(programs: &mut Throttling, observation: &mut Observation, trace: &mut dyn FnMut(&str)) {
    programs.drain(|event| {
        for line in trace_lines(&event, observation.tree())
            .into_iter()
            .flatten()
        {
            trace(&line);
        }
        observation.take(&event);
    });
}

/// Without BPF programs: what the kernel counts by itself.
fn counters(
    hierarchy: &Hierarchy,
    observation: Observation,
    options: &Options,
    reason: &str,
) -> ThrottleReport {
    let tree = observation.tree().clone();
    let before = stats(hierarchy, &tree);
    let delays_before = run_delays(hierarchy, &tree);
    let begin = Instant::now();
    options.stop.sleep(options.duration);
    let grown = growth(&before, &stats(hierarchy, &tree));
    let delays = run_delays(hierarchy, &tree);
    let mut report = observation.finish(&[], 0, &grown);
    report.source = Source::Counters(reason.to_owned());
    report.duration_ns = nanos(begin.elapsed());
    for group in &mut report.groups {
        group.run_delay_ns = Some(run_delay(group, &tree, &delays_before, &delays));
    }
    report
}

/// The growth of run delays of the threads below a group. A thread that came meanwhile grew from zero.
fn run_delay(group: &GroupRow, tree: &Tree, before: &Delays, after: &Delays) -> u64 {
    let grown = after.iter().filter_map(|(tid, (cgroup, delay))| {
        let is_below = tree.upwards(*cgroup).any(|id| id == group.id);
        let earlier = before.get(tid).map_or(0, |(_, delay)| *delay);
        is_below.then(|| delay.saturating_sub(earlier))
    });
    grown.sum()
}

/// By thread: the number of its group, and for how long it waited for a CPU although it could run.
type Delays = BTreeMap<u32, (u64, u64)>;

fn run_delays(hierarchy: &Hierarchy, tree: &Tree) -> Delays {
    let mut delays = Delays::new();
    for (id, group) in tree.iter().filter(|(id, _)| tree.limited(*id).is_some()) {
        let folder = hierarchy.folder(&group.path);
        for tid in hierarchy.threads(&folder).unwrap_or_default() {
            if let Some([delay, _]) = procfs::run_delays(tid) {
                delays.insert(tid, (id, delay));
            }
        }
    }
    delays
}

/// Counters of the groups that have a quota.
fn stats(hierarchy: &Hierarchy, tree: &Tree) -> BTreeMap<u64, CpuStat> {
    let limited = tree.iter().filter(|(_, group)| group.bandwidth.is_some());
    let stats = limited.filter_map(|(id, group)| {
        let stat = hierarchy.stat(&hierarchy.folder(&group.path)).ok()?;
        Some((id, stat))
    });
    stats.collect()
}

fn growth(
    before: &BTreeMap<u64, CpuStat>,
    after: &BTreeMap<u64, CpuStat>,
) -> BTreeMap<u64, CpuStat> {
    let grown = after.iter().map(|(id, stat)| {
        let earlier = before.get(id).copied().unwrap_or_default();
        (*id, stat.since(earlier))
    });
    grown.collect()
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
