//! Observation of this host.

use std::time::{Duration, Instant};

use hitm_bpf::{Filter, Neighbours, drop_capabilities};

use super::report::{Names, NeighbourReport, Own};
use crate::cgroups::{Hierarchy, Tree};
use crate::containers::Containers;
use crate::place::Stop;
use crate::target::{Target, TargetError};

/// Interval at which new groups get their names.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Errors of observing neighbours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(
        "who runs while others wait is seen by BPF programs alone, which do not work here: {0}"
    )]
    NoPrograms(hitm_bpf::Error),
    #[error(transparent)]
    Bpf(#[from] hitm_bpf::Error),
}

impl Error {
    /// Returns true if something is missing on this host.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::NoPrograms(_))
    }
}

/// Observes who runs while the tasks of `target` wait for a CPU, for `duration` or until a signal comes.
///
/// # Errors
/// There are no such tasks, or no BPF program works here.
pub fn measure(target: &Target, duration: Duration, stop: Stop) -> Result<NeighbourReport, Error> {
    let hierarchy = Hierarchy::find().ok();
    let filter = target.filter()?;
    let own = own_of(target, &filter);
    let programs = Neighbours::attach(&filter).map_err(Error::NoPrograms)?;
    drop_capabilities()?;
    // The first program runs while the others are loaded, which may take a while.
    let before = programs.read()?;
    let begun = Instant::now();
    let mut tree = Tree::default();
    while begun.elapsed() < duration && !stop.is_requested() {
        let left = duration.saturating_sub(begun.elapsed());
        stop.sleep(left.min(SCAN_INTERVAL));
        // Groups come and go, and their names with them.
        if let Some(newer) = hierarchy.as_ref().and_then(|all| all.scan().ok()) {
            tree.merge(newer);
        }
    }
    let table = programs.read()?.since(&before);
    let containers = Containers::of_host();
    let names = Names {
        tree: &tree,
        containers: &containers,
    };
    let mut report = NeighbourReport::of(&table, own, &names);
    report.duration_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(report)
}

/// The tasks that count as the observed ones' own.
fn own_of(target: &Target, filter: &Filter) -> Own {
    match (target, filter) {
        (Target::Process(pid), _) => Own::Process(*pid),
        (_, Filter::Cgroup(id)) => Own::Below(*id),
        _ => Own::Group,
    }
}
