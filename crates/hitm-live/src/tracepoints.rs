//! Waits for locks of the kernel, by its tracepoints: `hitm-bpf` counts, this module selects the
//! tasks.

mod growth;

use hitm_bpf::{Filter, FutexWaits, LockWaits};
pub use hitm_bpf::{LockWait, LockWaitCounts, LockWaitTable};

use crate::cgroups::Hierarchy;
pub use growth::Growth;

/// Tasks whose waits are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiters {
    /// All tasks.
    All,
    /// Tasks of these processes and of their later descendants.
    Processes(Vec<u32>),
    /// Tasks of a cgroup and its descendants: a path from a hierarchy's root.
    Cgroup(String),
}

impl Waiters {
    /// Filter of the programs: all tasks where they do not know the cgroup.
    pub(crate) fn filter(&self) -> Filter {
        match self {
            Waiters::All => Filter::All,
            Waiters::Processes(processes) => Filter::Processes(processes.clone()),
            Waiters::Cgroup(path) => cgroup(path).map_or(Filter::All, Filter::Cgroup),
        }
    }
}

/// Counts waits while it lives.
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
        let filter = waiters.filter();
        let takes_others = filter == Filter::All && *waiters != Waiters::All;
        let programs = LockWaits::attach(&filter).map_err(|error| error.to_string())?;
        Ok(Tracepoints {
            programs,
            takes_others,
        })
    }

    /// Returns true if other tasks' waits are counted too: programs know only cgroups of the
    /// unified hierarchy and of the one with the cpu controller.
    pub fn takes_others(&self) -> bool {
        self.takes_others
    }

    /// Returns all waits so far.
    ///
    /// # Errors
    /// The tables cannot be read: the reason.
    pub fn read(&self) -> Result<LockWaitTable, String> {
        self.programs.read().map_err(|error| error.to_string())
    }
}

/// Counts waits in futex(2) while it lives.
#[derive(Debug)]
pub struct Futexes(FutexWaits);

impl Futexes {
    /// Starts to count.
    ///
    /// # Errors
    /// The reason: BPF programs do not work here, or no processes were named.
    pub fn attach(waiters: &Waiters) -> Result<Futexes, String> {
        let filter = waiters.filter();
        if filter == Filter::All {
            let reason = "idle threads of all programs would fill their table: name a process or a cgroup that has the cpu controller";
            return Err(reason.to_owned());
        }
        let programs = FutexWaits::attach(&filter).map_err(|error| error.to_string())?;
        Ok(Futexes(programs))
    }

    /// Returns all waits so far: `lock` is the address of the word in its process, `stack` the
    /// program's.
    ///
    /// # Errors
    /// The tables cannot be read: the reason.
    pub fn read(&self) -> Result<LockWaitTable, String> {
        self.0.read().map_err(|error| error.to_string())
    }
}

/// Drops the calling thread's capabilities that loading programs and opening clocks needs. Reading
/// continues without them, and they cannot be regained.
///
/// # Errors
/// The kernel refuses: the reason.
pub fn drop_capabilities() -> Result<(), String> {
    hitm_bpf::drop_capabilities().map_err(|error| error.to_string())
}

/// Number of a cgroup, if programs know it.
fn cgroup(path: &str) -> Option<u64> {
    let hierarchy = Hierarchy::find().ok()?;
    hierarchy.id(&hierarchy.folder(path)).ok()
}
