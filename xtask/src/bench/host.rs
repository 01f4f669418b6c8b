//! Circumstances of a benchmark.

use std::{fmt, fs, thread};

use serde::{Deserialize, Serialize};

use crate::output;

/// Day, commit and host of a run; "unknown" where one cannot be found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    date: String,
    /// With a mark if the checkout differs from it, documents left out.
    commit: String,
    host: Host,
}

/// The kind of a host, and its compiler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Host {
    cpu: String,
    cpu_count: usize,
    kernel: String,
    rustc: String,
}

impl Run {
    /// The circumstances of now and here.
    pub(super) fn describe() -> Run {
        Run {
            date: first_line(output("date", &["-u", "+%F"]).ok()),
            commit: commit(),
            host: Host {
                cpu: cpu_model().unwrap_or_else(unknown),
                cpu_count: thread::available_parallelism().map_or(0, usize::from),
                kernel: first_line(output("uname", &["-sr"]).ok()),
                rustc: first_line(output("rustc", &["--version"]).ok()),
            },
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        write!(
            f,
            "{}, {} CPUs, {}, {}, {}, commit {}",
            host.cpu, host.cpu_count, host.kernel, host.rustc, self.date, self.commit
        )
    }
}

fn commit() -> String {
    let commit = first_line(output("git", &["rev-parse", "--short=12", "HEAD"]).ok());
    let changed = output(
        "git",
        &[
            "status",
            "--porcelain",
            "--untracked-files=no",
            "--",
            ":!docs",
        ],
    );
    match changed {
        Ok(changed) if changed.is_empty() => commit,
        _ => commit + "-dirty",
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
