//! Processes that already run under the preloaded library.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;

use hitm_files::ours::open_regular;

use super::launch::read_region;
use super::layout::VARIABLE;
use super::{LockKind, Observation, ShimError};

/// The library's region in a process that another program started under it.
#[derive(Debug)]
pub struct Attached {
    region: File,
}

impl Attached {
    /// Finds the region of a process by its environment; `None` when it runs without the library.
    /// The region belongs to the program that started the process.
    ///
    /// # Errors
    /// The environment cannot be read, or the region is gone.
    pub fn find(pid: u32) -> Result<Option<Attached>, ShimError> {
        let path = format!("/proc/{pid}/environ");
        let environment = fs::read(&path)
            .map_err(|source| ShimError::system(format!("cannot read {path}"), source))?;
        let Some(path) = region_in(&environment) else {
            return Ok(None);
        };
        // A program may write anything into its environment.
        let opened = open_regular(&path, OpenOptions::new().read(true));
        let region = opened.map_err(|source| {
            ShimError::system(format!("cannot open the region of process {pid}"), source)
        })?;
        Ok(Some(Attached { region }))
    }

    /// Acquisitions of all locks by these processes so far.
    ///
    /// # Errors
    /// The region cannot be read, or holds something else.
    pub fn acquisitions(&self, pids: &[u32]) -> Result<u64, ShimError> {
        Ok(acquisitions(&read_region(&self.region, 0)?, pids))
    }
}

/// Path in the library's variable: a descriptor of another process, and nothing else.
fn region_in(environment: &[u8]) -> Option<PathBuf> {
    let variables = environment.split(|byte| *byte == 0);
    let text = variables.filter_map(|variable| std::str::from_utf8(variable).ok());
    let path = text
        .filter_map(|variable| variable.strip_prefix(VARIABLE)?.strip_prefix('='))
        .next()?;
    let (pid, descriptor) = path.strip_prefix("/proc/")?.split_once("/fd/")?;
    let pid: u32 = pid.parse().ok()?;
    let descriptor: u32 = descriptor.parse().ok()?;
    Some(PathBuf::from(format!("/proc/{pid}/fd/{descriptor}")))
}

/// Sums acquisitions; waits for conditions are none.
fn acquisitions(observation: &Observation, pids: &[u32]) -> u64 {
    let locks = observation.locks.iter();
    let locks = locks.filter(|lock| lock.kind != LockKind::Condition);
    let wanted = locks.filter(|lock| {
        let process = observation.processes.get(lock.process);
        process.is_some_and(|process| pids.contains(&process.pid))
    });
    wanted.fold(0, |sum, lock| sum.saturating_add(lock.acquisitions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_descriptor_of_a_process() {
        let of = |value: &str| region_in(format!("A=1\0{VARIABLE}={value}\0B=2\0").as_bytes());
        assert_eq!(of("/proc/7/fd/3"), Some(PathBuf::from("/proc/7/fd/3")));
        for wrong in ["", "/etc/shadow", "/proc/7/fd/../mem", "/proc/7/fd/3/x"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(region_in(b"A=1\0"), None);
    }
}
