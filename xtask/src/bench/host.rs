//! Description of the host of a benchmark.

use std::{fmt, fs, thread};

use serde::Serialize;

use crate::output;

/// Host, compiler and commit; "unknown" where one cannot be found out.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Host {
    cpu: String,
    cpu_count: usize,
    kernel: String,
    rustc: String,
    commit: String,
    /// The checkout differs from the commit.
    modified: bool,
}

impl Host {
    pub(super) fn describe() -> Host {
        let status = output("git", &["status", "--porcelain", "--untracked-files=no"]);
        Host {
            cpu: cpu_model().unwrap_or_else(unknown),
            cpu_count: thread::available_parallelism().map_or(0, usize::from),
            kernel: first_line(output("uname", &["-sr"]).ok()),
            rustc: first_line(output("rustc", &["--version"]).ok()),
            commit: first_line(output("git", &["rev-parse", "--short=12", "HEAD"]).ok()),
            modified: status.map_or(true, |status| !status.is_empty()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modified = if self.modified { " (modified)" } else { "" };
        write!(
            f,
            "{}, {} CPUs, {}, {}, commit {}{modified}",
            self.cpu, self.cpu_count, self.kernel, self.rustc, self.commit
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn first_line(text: Option<String>) -> String {
    text.and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_else(unknown)
}

fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    // x86 says "model name", Arm "CPU part".
    let line = info
        .lines()
        .find(|line| line.starts_with("model name") || line.starts_with("CPU part"))?;
    let (_, value) = line.split_once(':')?;
    Some(value.trim().to_owned())
}
