//! Observation of this host.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hitm_bpf::{
    Episode, ThrottleCounts, ThrottleEvent, Throttling, drop_capabilities, monotonic_ns,
};

use super::demand::{Demand, DemandMeter};
use super::{GroupRow, Observation, Source, ThrottleReport, episodes, still, trace_lines};
use crate::cgroups::{CpuStat, Hierarchy, Tree};
use crate::options::Options;
use crate::procfs;

/// The programs' buffer holds some 37,000 events: at this interval 700,000 a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which new groups get their names.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Errors of observing throttling.
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

/// Options with a group and its descendants as target; none for every group.
type OfGroup = Options<Option<String>>;

/// Observes throttling for `options.duration`, or until a signal comes. `trace` is called with each
/// line of the trace. Without a working BPF program the report has the kernel's counters alone, and
/// the reason.
///
/// # Errors
/// There is no hierarchy of groups, or no such group, or the programs' tables cannot be read.
pub fn observe(options: &OfGroup, trace: &mut dyn FnMut(&str)) -> Result<ThrottleReport, Error> {
    let attach = || options.programs(Throttling::attach);
    let mut windows = ThrottleWindows::with(options.target.as_deref(), attach)?;
    windows.watch(options.duration, &|| options.stop.is_requested(), trace);
    windows.end()
}

/// Observes throttling of a group like [`observe`], and the load of its threads.
///
/// # Errors
/// As [`observe`]; without a group there is no load.
pub fn observe_load(options: &OfGroup) -> Result<(ThrottleReport, Demand), Error> {
    let cgroup = options.target.as_deref().unwrap_or("/");
    let hierarchy = Hierarchy::find().map_err(Error::NoHierarchy)?;
    let group = group_id(&hierarchy, cgroup)?;
    let tree = hierarchy.scan().map_err(Error::NoHierarchy)?;
    // Its program is loaded before the capabilities for that are dropped.
    let mut meter = DemandMeter::new(&hierarchy, &tree, group, options.counters_only);
    let attach = || options.programs(Throttling::attach);
    let mut windows = ThrottleWindows::with(Some(cgroup), attach)?;
    meter.start();
    let meter = RefCell::new(meter);
    let is_over = || {
        meter.borrow_mut().look();
        options.stop.is_requested()
    };
    windows.watch(options.duration, &is_over, &mut |_| {});
    let report = windows.end()?;
    let own = report.groups.iter().find(|row| row.id == group);
    let timer_due_ns = own.and_then(|row| row.timer_due_ns);
    Ok((report, meter.into_inner().end(timer_due_ns)))
}

/// Throttling on this host in windows of time, one after the other.
#[derive(Debug)]
pub struct ThrottleWindows {
    hierarchy: Hierarchy,
    only: Option<u64>,
    /// The programs, or the reason why there are none.
    programs: Result<Throttling, String>,
    observation: Observation,
    start: Start,
}

/// Counters of the kernel and the programs at the start of a window.
#[derive(Debug)]
struct Start {
    at: Instant,
    stats: Stats,
    /// The kernel's sums, used when no program runs.
    delays: Delays,
    counts: ThrottleCounts,
}

impl ThrottleWindows {
    /// Begins the first window, of a group and its descendants or of all. The calling thread drops
    /// the capabilities that only loading programs needs.
    ///
    /// # Errors
    /// There is no hierarchy of groups, or no such group.
    pub fn open(cgroup: Option<&str>) -> Result<ThrottleWindows, Error> {
        ThrottleWindows::with(cgroup, || {
            Throttling::attach().map_err(|error| error.to_string())
        })
    }

    fn with(
        cgroup: Option<&str>,
        attach: impl FnOnce() -> Result<Throttling, String>,
    ) -> Result<ThrottleWindows, Error> {
        let hierarchy = Hierarchy::find().map_err(Error::NoHierarchy)?;
        let only = cgroup.map(|name| group_id(&hierarchy, name)).transpose()?;
        let tree = hierarchy.scan().map_err(Error::NoHierarchy)?;
        let mut observation = Observation::new(tree, only);
        let programs = attach();
        let start = Start::now(&hierarchy, observation.tree(), &programs);
        observation.begin_at(monotonic_ns(), moments(&start.stats));
        if programs.is_ok() {
            drop_capabilities()?;
        }
        Ok(ThrottleWindows {
            hierarchy,
            only,
            programs,
            observation,
            start,
        })
    }

    /// Collects the programs' events for a time, or until `is_over`. `trace` is called with each
    /// line of the trace.
    pub fn watch(
        &mut self,
        time: Duration,
        is_over: &dyn Fn() -> bool,
        trace: &mut dyn FnMut(&str),
    ) {
        let begin = Instant::now();
        let mut scanned = begin;
        while begin.elapsed() < time && !is_over() {
            std::thread::sleep(INTERVAL.min(time.saturating_sub(begin.elapsed())));
            let Ok(programs) = &mut self.programs else {
                continue;
            };
            drain(programs, &mut self.observation, trace);
            // Groups that were made meanwhile; once more at the end, for those throttled since.
            if self.observation.has_unknown() && scanned.elapsed() >= SCAN_INTERVAL {
                self.observation.add_groups(&self.hierarchy);
                scanned = Instant::now();
            }
        }
    }

    /// Ends a window and begins the next one. An episode counts in the window in which it ends.
    ///
    /// # Errors
    /// The programs' tables cannot be read.
    pub fn end_window(&mut self) -> Result<ThrottleReport, Error> {
        let tree = self.observation.tree().clone();
        let begun = Observation::new(tree, self.only);
        let observation = std::mem::replace(&mut self.observation, begun);
        let report = self.report(observation, false)?;
        self.observation.add_groups(&self.hierarchy);
        self.start = Start::now(&self.hierarchy, self.observation.tree(), &self.programs);
        Ok(report)
    }

    /// Ends the last window. Unfinished episodes count with their time so far.
    fn end(mut self) -> Result<ThrottleReport, Error> {
        let none = Observation::new(Tree::default(), None);
        let observation = std::mem::replace(&mut self.observation, none);
        self.report(observation, true)
    }

    /// Takes the events up to `end_ns` that the programs have still, those of queues up to the moment at which `stats`
    /// were read. Returns the episodes that had not ended at `end_ns`.
    fn take_rest(
        &mut self,
        observation: &mut Observation,
        end_ns: u64,
        stats: &Stats,
    ) -> Result<Vec<Episode>, Error> {
        let Ok(programs) = &mut self.programs else {
            return Ok(Vec::new());
        };
        let mut open = programs.unfinished()?;
        programs.drain(|event| {
            // It was open when the table was read, and has ended since.
            if let ThrottleEvent::Episode(ended) = &event {
                open.retain(|open| (open.tid, open.out_ns) != (ended.tid, ended.out_ns));
            }
            let end_ns = match &event {
                ThrottleEvent::Queue(time) => stats.get(&time.cgroup).map_or(end_ns, |(at, _)| *at),
                _ => end_ns,
            };
            if let Some(event) = episodes::cut_after(event, end_ns) {
                observation.take(&event);
            }
        });
        open.retain(|open| open.out_ns < end_ns);
        Ok(open)
    }

    fn report(
        &mut self,
        mut observation: Observation,
        counts_open: bool,
    ) -> Result<ThrottleReport, Error> {
        observation.add_groups(&self.hierarchy);
        let tree = observation.tree().clone();
        let end_ns = monotonic_ns();
        let stats = stats(&self.hierarchy, &tree);
        let grown = growth(&self.start.stats, &stats);
        let open = match counts_open {
            true => self.take_rest(&mut observation, end_ns, &stats)?,
            false => match &self.programs {
                Ok(programs) => programs.unfinished()?,
                Err(_) => Vec::new(),
            },
        };
        let throttled_still = still(&open);
        let cut = if counts_open { open } else { Vec::new() };
        let mut report = observation.finish(&cut, end_ns, &grown);
        report.throttled_still = throttled_still;
        report.duration_ns = nanos(self.start.at.elapsed());
        match &self.programs {
            Ok(programs) => {
                let is_asynchronous = programs.is_asynchronous();
                report.source = Source::Bpf { is_asynchronous };
                report.counts = since(programs.counts()?, &self.start.counts);
            }
            Err(reason) => {
                report.source = Source::Counters(reason.clone());
                let delays = run_delays(&self.hierarchy, &tree);
                for group in &mut report.groups {
                    let delay = run_delay(group, &tree, &self.start.delays, &delays);
                    group.run_delay_ns = Some(delay);
                }
            }
        }
        Ok(report)
    }
}

impl Start {
    fn now(hierarchy: &Hierarchy, tree: &Tree, programs: &Result<Throttling, String>) -> Start {
        let (counts, delays) = match programs {
            Ok(programs) => (programs.counts().unwrap_or_default(), Delays::new()),
            Err(_) => (ThrottleCounts::default(), run_delays(hierarchy, tree)),
        };
        Start {
            at: Instant::now(),
            stats: stats(hierarchy, tree),
            delays,
            counts,
        }
    }
}

fn since(now: ThrottleCounts, before: &ThrottleCounts) -> ThrottleCounts {
    ThrottleCounts {
        episodes: now.episodes.saturating_sub(before.episodes),
        timers: now.timers.saturating_sub(before.timers),
        handlers: now.handlers.saturating_sub(before.handlers),
        lost_events: now.lost_events.saturating_sub(before.lost_events),
        lost_tasks: now.lost_tasks.saturating_sub(before.lost_tasks),
        not_followed: now.not_followed.saturating_sub(before.not_followed),
        unseen_ends: now.unseen_ends.saturating_sub(before.unseen_ends),
        refused: now.refused.saturating_sub(before.refused),
    }
}

impl Observation {
    /// Reads the tree again. Otherwise new groups keep their numbers for names.
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

/// Collects the programs' events.
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

/// Growth of run delays of the threads below a group. A thread that began meanwhile grew from zero.
fn run_delay(group: &GroupRow, tree: &Tree, before: &Delays, after: &Delays) -> u64 {
    let grown = after.iter().filter_map(|(tid, (cgroup, delay))| {
        let is_below = tree.upwards(*cgroup).any(|id| id == group.id);
        let earlier = before.get(tid).map_or(0, |(_, delay)| *delay);
        is_below.then(|| delay.saturating_sub(earlier))
    });
    grown.sum()
}

/// By thread: the number of its group, and the time that it was ready without a CPU.
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

/// By group: the moment at which its counters were read, by CLOCK_MONOTONIC, and they.
type Stats = BTreeMap<u64, (u64, CpuStat)>;

/// Counters of the groups that have a quota.
fn stats(hierarchy: &Hierarchy, tree: &Tree) -> Stats {
    let limited = tree.iter().filter(|(_, group)| group.bandwidth.is_some());
    let stats = limited.filter_map(|(id, group)| {
        let stat = hierarchy.stat(&hierarchy.folder(&group.path)).ok()?;
        Some((id, (monotonic_ns(), stat)))
    });
    stats.collect()
}

fn moments(stats: &Stats) -> BTreeMap<u64, u64> {
    stats.iter().map(|(id, (at, _))| (*id, *at)).collect()
}

fn growth(before: &Stats, after: &Stats) -> BTreeMap<u64, CpuStat> {
    let grown = after.iter().map(|(id, (_, stat))| {
        let earlier = before.get(id).map(|(_, stat)| *stat).unwrap_or_default();
        (*id, stat.since(earlier))
    });
    grown.collect()
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
