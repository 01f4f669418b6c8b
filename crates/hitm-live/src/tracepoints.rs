//! Waits for locks of the kernel, as its tracepoints tell of them: `hitm-bpf` counts, this says of whom.

mod growth;

use hitm_bpf::{Filter, LockWaits};
pub use hitm_bpf::{LockWait, LockWaitCounts, LockWaitTable};

use crate::cgroups::Hierarchy;
pub use growth::Growth;

/// The tasks whose waits count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiters {
    /// Everybody's.
    All,
    /// Those of these processes and of what they start from now on.
    Processes(Vec<u32>),
    /// Those of a cgroup and of those below it: a path from a hierarchy's root.
    Cgroup(String),
}

/// Waits are counted while this lives.
#[derive(Debug)]
pub struct Tracepoints {
    programs: LockWaits,
    takes_others: bool,
}

impl Tracepoints {
    /// Starts to count.
    ///
    /// # Errors
    /// BPF programs do not work here: the reason.
    pub fn attach(waiters: &Waiters) -> Result<Tracepoints, String> {
        let filter = match waiters {
            Waiters::All => Filter::All,
            Waiters::Processes(processes) => Filter::Processes(processes.clone()),
            Waiters::Cgroup(path) => cgroup(path).map_or(Filter::All, Filter::Cgroup),
        };
        let takes_others = filter == Filter::All && *waiters != Waiters::All;
        let programs = LockWaits::attach(&filter).map_err(|error| error.to_string())?;
        Ok(Tracepoints {
            programs,
            takes_others,
        })
    }

    /// Returns true if the waits of others are among those that are read: programs know cgroups of the unified
    /// hierarchy and of the one with the cpu controller alone.
    pub fn takes_others(&self) -> bool {
        self.takes_others
    }

    /// All waits so far.
    ///
    /// # Errors
    /// The tables cannot be read: the reason.
    pub fn read(&self) -> Result<LockWaitTable, String> {
        self.programs.read().map_err(|error| error.to_string())
    }
}

/// Gives up the capabilities of the calling thread that loading programs and opening clocks needs. Reading goes on
/// without them, and they cannot be had back.
///
/// # Errors
/// The kernel refuses: the reason.
pub fn drop_capabilities() -> Result<(), String> {
    hitm_bpf::drop_capabilities().map_err(|error| error.to_string())
}

/// The number of a cgroup that programs know.
fn cgroup(path: &str) -> Option<u64> {
    let hierarchy = Hierarchy::find().ok()?;
    hierarchy.id(&hierarchy.folder(path)).ok()
}
