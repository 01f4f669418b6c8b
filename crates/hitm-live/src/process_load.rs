//! A process's threads while they are observed: their times, their CPUs, and whoever competes with them.

use std::collections::BTreeMap;

use hitm_bpf::monotonic_ns;

use crate::cgroups::{Bandwidth, Hierarchy};
use crate::place::{CpuSet, affinity};
use crate::procfs::{self, Stat};
use crate::rivals::{RivalGroups, Rivals, Weight};

/// Threads that are kept.
const THREADS_MAX: usize = 1 << 14;

/// A thread, from the first look at it to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Nanoseconds between the two looks.
    pub seen_ns: u64,
    /// Nanoseconds in which it ran.
    pub ran_ns: u64,
    /// Nanoseconds in which it was ready and did not run, throttled time included.
    pub ready_ns: u64,
    /// CPUs that it may run on.
    pub allowed: CpuSet,
    /// Its nice value.
    pub nice: i8,
}

/// The load of a process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProcessLoad {
    /// The process.
    pub pid: u32,
    /// Its threads, by number.
    pub threads: BTreeMap<u32, ThreadTimes>,
    /// Path of its cgroup.
    pub group: String,
    /// The cgroup's weight.
    pub weight: Weight,
    /// The cgroup's quota; none without one.
    pub bandwidth: Option<Bandwidth>,
    /// Tasks that compete with it.
    pub rivals: RivalGroups,
}

/// A thread at its first look.
#[derive(Debug)]
struct Begun {
    at_ns: u64,
    ran_ns: u64,
    ready_ns: u64,
}

/// Measures the load of a process.
#[derive(Debug)]
pub struct ProcessMeter {
    hierarchy: Hierarchy,
    begun: BTreeMap<u32, Begun>,
    rivals: Rivals,
    load: ProcessLoad,
}

impl ProcessMeter {
    /// Begins to measure. None where the process has ended, or the host has no cgroups.
    pub fn begin(pid: u32) -> Option<ProcessMeter> {
        let hierarchy = Hierarchy::find().ok()?;
        let rivals = Rivals::of_process(&hierarchy, pid)?;
        let group = rivals.path().to_owned();
        let load = ProcessLoad {
            pid,
            weight: rivals.weight(),
            bandwidth: hierarchy.bandwidth(&hierarchy.folder(&group)),
            group,
            ..ProcessLoad::default()
        };
        let mut meter = ProcessMeter {
            hierarchy,
            begun: BTreeMap::new(),
            rivals,
            load,
        };
        meter.look();
        Some(meter)
    }

    /// Looks at the threads. Must be called some ten times a second: a thread that ends counts up to the last look.
    pub fn look(&mut self) {
        self.rivals.look();
        for tid in procfs::threads(self.load.pid).unwrap_or_default() {
            let Some([ran_ns, ready_ns, _]) = procfs::schedstat(tid) else {
                continue;
            };
            let at_ns = monotonic_ns();
            if !self.begun.contains_key(&tid) {
                let Ok(allowed) = affinity(tid) else {
                    continue;
                };
                if self.begun.len() == THREADS_MAX {
                    continue;
                }
                let begun = Begun {
                    at_ns,
                    ran_ns,
                    ready_ns,
                };
                self.begun.insert(tid, begun);
                let times = ThreadTimes {
                    seen_ns: 0,
                    ran_ns: 0,
                    ready_ns: 0,
                    allowed,
                    nice: Stat::of(tid).map_or(0, |stat| stat.nice),
                };
                self.load.threads.insert(tid, times);
            }
            if let (Some(begun), Some(times)) =
                (self.begun.get(&tid), self.load.threads.get_mut(&tid))
            {
                times.seen_ns = at_ns.saturating_sub(begun.at_ns);
                times.ran_ns = ran_ns.saturating_sub(begun.ran_ns);
                times.ready_ns = ready_ns.saturating_sub(begun.ready_ns);
            }
        }
        // A process may be moved while it is observed.
        let folder = self.hierarchy.folder(&self.load.group);
        self.load.bandwidth = self.hierarchy.bandwidth(&folder);
    }

    /// Ends the measurement and returns the load.
    pub fn end(self) -> ProcessLoad {
        ProcessLoad {
            rivals: self.rivals.end(),
            ..self.load
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_own_thread_is_measured() {
        let Some(mut meter) = ProcessMeter::begin(std::process::id()) else {
            return;
        };
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 50 {
            std::hint::spin_loop();
        }
        meter.look();
        let load = meter.end();
        // SAFETY: it takes nothing.
        let own = unsafe { libc::gettid() }.cast_unsigned();
        let times = &load.threads[&own];
        let parts = times.ran_ns + times.ready_ns;
        assert!(times.seen_ns >= 50_000_000, "{times:?}");
        assert!(parts > 0 && !times.allowed.is_empty(), "{times:?}");
        let own = format!("process {}", load.pid);
        let mut inside = load.rivals.inside.iter();
        assert!(inside.all(|rival| rival.name != own), "{:?}", load.rivals);
    }
}
