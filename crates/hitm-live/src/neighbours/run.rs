//! Observation of this host.

use std::io;
use std::time::{Duration, Instant};

use hitm_bpf::{Filter, Neighbours, drop_capabilities};

use super::report::{Names, NeighbourReport, Own};
use crate::cgroups::{Hierarchy, Tree};
use crate::containers::Containers;
use crate::place::Stop;
use crate::procfs;
use crate::wakeups::Target;

/// Interval at which new groups get their names.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Errors of observing neighbours.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("no process {0}")]
    NoProcess(u32),
    #[error("no cgroup {name:?}: {source}")]
    NoGroup { name: String, source: io::Error },
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
    let Chosen { filter, own } = choose(target, hierarchy.as_ref())?;
    let programs = Neighbours::attach(&filter).map_err(Error::NoPrograms)?;
    drop_capabilities()?;
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
    let table = programs.read()?;
    let containers = Containers::of_host();
    let names = Names {
        tree: &tree,
        containers: &containers,
    };
    let mut report = NeighbourReport::of(&table, own, &names);
    report.duration_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(report)
}

/// The tasks that are observed, and what counts as their own.
struct Chosen {
    filter: Filter,
    own: Own,
}

fn choose(target: &Target, hierarchy: Option<&Hierarchy>) -> Result<Chosen, Error> {
    let (filter, own) = match target {
        Target::All => (Filter::All, Own::Group),
        Target::Process(pid) => match procfs::threads(*pid) {
            Ok(_) => (Filter::Processes(vec![*pid]), Own::Process(*pid)),
            Err(_) => return Err(Error::NoProcess(*pid)),
        },
        Target::Cgroup(name) => {
            let id = match hierarchy {
                Some(all) => all.id(&all.folder(name)),
                None => Err(io::Error::other(
                    "no cgroup hierarchy with the cpu controller is mounted",
                )),
            };
            let id = id.map_err(|source| Error::NoGroup {
                name: name.clone(),
                source,
            })?;
            (Filter::Cgroup(id), Own::Below(id))
        }
    };
    Ok(Chosen { filter, own })
}
