//! The tasks that a layer looks at.

use std::io;

use hitm_bpf::Filter;

use crate::cgroups::Hierarchy;
use crate::procfs;

/// The tasks to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All tasks of the host.
    All,
    /// The threads of a process.
    Process(u32),
    /// Tasks of a cgroup with the cpu controller and of its descendants.
    Cgroup(String),
}

/// There are no such tasks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TargetError {
    #[error("no process {0}")]
    NoProcess(u32),
    #[error("no cgroup {name:?}: {source}")]
    NoGroup { name: String, source: io::Error },
}

impl Target {
    /// The same for BPF programs.
    ///
    /// # Errors
    /// There are no such tasks.
    pub fn filter(&self) -> Result<Filter, TargetError> {
        match self {
            Target::All => Ok(Filter::All),
            Target::Process(pid) => match procfs::threads(*pid) {
                Ok(_) => Ok(Filter::Processes(vec![*pid])),
                Err(_) => Err(TargetError::NoProcess(*pid)),
            },
            Target::Cgroup(name) => {
                let id =
                    Hierarchy::find().and_then(|hierarchy| hierarchy.id(&hierarchy.folder(name)));
                id.map(Filter::Cgroup)
                    .map_err(|source| TargetError::no_group(name, source))
            }
        }
    }
}

impl TargetError {
    pub(crate) fn no_group(name: &str, source: io::Error) -> TargetError {
        TargetError::NoGroup {
            name: name.to_owned(),
            source,
        }
    }
}
