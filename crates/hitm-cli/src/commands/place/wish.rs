//! The lock and the threads that a placement is asked for.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hitm::live::{LiveTarget, is_live, read_recording};
use hitm_base::of_word;
use hitm_live::place::{
    Backend, Contention, Linux, Mounts, PlanOptions, contention_in, task_of, tasks_of_cgroup,
    tasks_of_process,
};
use hitm_live::procfs::TaskId;

/// The lock's name where neither the user nor a recording tells it.
const NAME_DEFAULT: &str = "a lock";

/// The lock and its threads.
#[derive(Debug, Args)]
pub(super) struct WishArgs {
    /// Share of its time for which a thread holds the lock: the lock keeps 1/U CPUs busy
    #[arg(long, value_name = "U", conflicts_with = "input")]
    pub(super) lock_share: Option<f64>,
    /// Take the lock, its share and its threads from a recording of `hitm live locks --record`
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The lock of the recording, or to watch, by a part of its class, name and object; by default the one that wastes
    /// most CPU time
    #[arg(long, value_name = "TEXT")]
    pub(super) lock: Option<String>,
    #[command(flatten)]
    tasks: TasksArgs,
    /// A name for the lock, for people
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// The means to use: cpuset-v2, cpuset-v1 or affinity; by default the first one that can be undone here
    #[arg(long, value_name = "NAME", value_parser = backend)]
    backend: Option<Backend>,
    /// Keep other threads off these CPUs meanwhile: by a partition of cgroup version 2 everybody, by a cpuset of
    /// version 1 those of the same cpuset
    #[arg(long)]
    keep_others_out: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct TasksArgs {
    /// These threads
    #[arg(short, long, value_name = "TID,...", value_delimiter = ',')]
    tids: Vec<u32>,
    /// All threads of a process, and those that it makes meanwhile
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// All threads of a cgroup's processes, and those that they make meanwhile; a folder, or its path in a hierarchy
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

fn backend(name: &str) -> Result<Backend, String> {
    let names = Backend::ALL.map(Backend::id).join(", ");
    of_word(&Backend::WORDS, name).ok_or_else(|| format!("expected one of {names}"))
}

impl WishArgs {
    /// The contention that is asked for, and how to plan for it.
    pub(super) fn contention(&self, mounts: &Mounts) -> Result<(Contention, PlanOptions)> {
        let mut contention = match (&self.input, self.lock_share) {
            (Some(input), _) => recorded(input, self.lock.as_deref())?,
            (None, Some(share)) => Contention {
                share,
                tasks: Vec::new(),
                name: NAME_DEFAULT.to_owned(),
            },
            (None, None) => bail!("--lock-share U or --input FILE is required"),
        };
        if self.input.is_none() && self.lock.is_some() {
            bail!("--lock names a lock of a recording: --input FILE is required");
        }
        match self.tasks.find(mounts)? {
            Some(tasks) => contention.tasks = tasks,
            None if self.input.is_none() => {
                bail!("the threads are required: --pid PID, --cgroup PATH or --tids TID,...")
            }
            None => {}
        }
        if let Some(name) = &self.name {
            contention.name.clone_from(name);
        }
        let is_whole = self.tasks.pid.is_some() || self.tasks.cgroup.is_some();
        Ok((contention, self.options(is_whole)))
    }

    pub(super) fn options(&self, is_whole: bool) -> PlanOptions {
        PlanOptions {
            is_whole,
            backend: self.backend,
            keeps_others_out: self.keep_others_out,
            ..PlanOptions::default()
        }
    }

    /// The processes to watch.
    pub(super) fn target(&self) -> Result<LiveTarget> {
        match (self.tasks.pid, &self.tasks.cgroup) {
            (Some(pid), _) => Ok(LiveTarget::Process(pid)),
            (None, Some(path)) => Ok(LiveTarget::Cgroup(path.clone())),
            (None, None) => {
                bail!("the processes to watch are required: --pid PID or --cgroup PATH")
            }
        }
    }
}

impl TasksArgs {
    /// The tasks; none where the user names none.
    fn find(&self, mounts: &Mounts) -> Result<Option<Vec<TaskId>>> {
        let tasks = match (self.pid, &self.cgroup, &self.tids[..]) {
            (Some(pid), ..) => tasks_of_process(&Linux, pid)?,
            (None, Some(cgroup), _) => tasks_of_cgroup(&Linux, mounts, cgroup)?,
            (None, None, []) => return Ok(None),
            (None, None, tids) => {
                let tasks = tids.iter().map(|tid| task_of(&Linux, *tid));
                tasks.collect::<Result<_, _>>()?
            }
        };
        Ok(Some(tasks))
    }
}

fn recorded(input: &std::path::Path, lock: Option<&str>) -> Result<Contention> {
    if input.is_file() && !is_live(input) {
        bail!(
            "{}: expected a recording of `hitm live locks --record`; it has the threads that run here",
            input.display()
        );
    }
    let recording = read_recording(input)?;
    contention_in(&recording, lock).with_context(|| input.display().to_string())
}
