//! Options that say what is looked at, and for how long.

use std::time::Duration;

use clap::Args;
use hitm::live::LiveTarget;
use hitm_live::target::Target;

use crate::commands::duration::duration;

/// Time without --duration, unless a program is started.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// The target of an observation.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    /// Look at this process and what it starts
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["cgroup", "command"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Look at the processes of this cgroup and of those below it
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    cgroup: Option<String>,
    /// For how long, as 10s, 500ms or 2m; until the program ends when one is started [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// A program to start and to look at, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

impl TargetArgs {
    /// The target; the whole system where none is given.
    pub(super) fn target(&self) -> LiveTarget {
        match (self.pid, &self.cgroup, &self.command[..]) {
            (Some(pid), _, _) => LiveTarget::Process(pid),
            (None, Some(path), _) => LiveTarget::Cgroup(path.clone()),
            (None, None, []) => LiveTarget::System,
            (None, None, command) => LiveTarget::Program(command.to_vec()),
        }
    }

    /// The time; none until the program ends.
    pub(super) fn duration(&self) -> Option<Duration> {
        let default = self.command.is_empty().then_some(DURATION_DEFAULT);
        self.duration.or(default)
    }

    /// The time of one look of several.
    pub(super) fn duration_of_look(&self) -> Duration {
        self.duration.unwrap_or(DURATION_DEFAULT)
    }
}

/// The tasks that BPF programs look at.
#[derive(Debug, Args)]
pub(super) struct TasksArgs {
    /// The threads of this process, instead of all
    #[arg(short, long, value_name = "PID", conflicts_with = "cgroup",
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// The tasks of this cgroup and of those below it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

impl TasksArgs {
    /// The tasks; all where none are chosen.
    pub(super) fn target(&self) -> Target {
        match (self.pid, &self.cgroup) {
            (Some(pid), _) => Target::Process(pid),
            (None, Some(path)) => Target::Cgroup(path.clone()),
            (None, None) => Target::All,
        }
    }
}
