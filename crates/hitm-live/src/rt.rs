//! `rt-migrate-test` on this host: do real-time threads of higher priority wait for lower ones?
//!
//! The rule and the table are [`hitm_base::rt_migrate`]'s. This module has the threads, SCHED_FIFO
//! at rising priorities behind a barrier that a parent of still higher priority opens. [`late`]
//! lists the CPUs on which late threads could have run.
//!
//! Source: rt-tests, src/rt-migrate-test/rt-migrate-test.c. Unlike there, memory is not locked: the
//! first, unmeasured pass touches stacks and code.

mod late;
mod report;
mod threads;

use std::io;
use std::time::Duration;

use hitm_base::rt_migrate::RtMigrateConfig;
use thiserror::Error;

use crate::place::affinity;

pub use late::{CpuChoice, Late, cpu_choice, late, late_thread};
pub use report::{Place, RtRun, ThreadSample, ThreadStarts, rt_run, thread_sample, thread_starts};

/// The most threads of a test: those of the simulated one.
pub const TASKS_MAX: usize = 4096;

/// The highest priority of a first thread: its successors and the parent need one each.
pub const BASE_PRIO_MAX: u8 = 97;

/// Errors of the test.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RtError {
    /// An option out of its range.
    #[error("{option} is {value}, expected {expected}")]
    Option {
        /// The option, as typed.
        option: &'static str,
        /// Its value.
        value: String,
        /// The values that are allowed.
        expected: &'static str,
    },
    /// The kernel refuses real-time priorities.
    #[error(
        "the kernel refuses SCHED_FIFO at priority {prio}: {source}; it takes root, CAP_SYS_NICE or \
         RLIMIT_RTPRIO of {prio} (`ulimit -r`), and in a cgroup v1 a cpu.rt_runtime_us above 0"
    )]
    NoPriority {
        /// The priority.
        prio: u8,
        /// The system's answer.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start thread {task} of {tasks}: {source}")]
    NoThread {
        /// Number of the thread.
        task: usize,
        /// All threads of the test.
        tasks: usize,
        /// The system's answer.
        source: io::Error,
    },
}

/// CPUs that this process may use, in the order of their numbers.
pub fn allowed_cpus() -> Vec<u32> {
    // SAFETY: a plain system call.
    let own = unsafe { libc::gettid() };
    let cpus = affinity(own as u32).unwrap_or_default();
    cpus.iter().map(u32::from).collect()
}

/// Runs the test for `config.loops` iterations, or until `duration` is over.
///
/// # Errors
/// An option is out of its range, the kernel refuses real-time priorities, or threads.
pub fn run(config: RtMigrateConfig, duration: Option<Duration>) -> Result<RtRun, RtError> {
    check(&config)?;
    threads::run(config, duration)
}

fn check(config: &RtMigrateConfig) -> Result<(), RtError> {
    let refused = |option, value: String, expected| {
        Err(RtError::Option {
            option,
            value,
            expected,
        })
    };
    if !(1..=TASKS_MAX).contains(&config.tasks) {
        return refused("NR_TASKS", config.tasks.to_string(), "1 to 4096");
    }
    if !(1..=BASE_PRIO_MAX).contains(&config.base_prio) {
        return refused("--prio", config.base_prio.to_string(), "1 to 97");
    }
    if config.loops == 0 {
        return refused("--loops", "0".to_owned(), "1 or more");
    }
    Ok(())
}

#[cfg(test)]
#[path = "rt/tests/samples.rs"]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_refused() {
        let config = RtMigrateConfig::new(2);
        let refused = |config: RtMigrateConfig| run(config, None).unwrap_err().to_string();
        let none = RtMigrateConfig { tasks: 0, ..config };
        assert_eq!(refused(none), "NR_TASKS is 0, expected 1 to 4096");
        let high = RtMigrateConfig {
            base_prio: 98,
            ..config
        };
        assert_eq!(refused(high), "--prio is 98, expected 1 to 97");
        let never = RtMigrateConfig { loops: 0, ..config };
        assert_eq!(refused(never), "--loops is 0, expected 1 or more");
    }

    #[test]
    fn this_test_may_use_a_cpu() {
        assert!(!allowed_cpus().is_empty());
    }
}
