//! Locks of running processes in windows of time, one after the other.

use std::rc::Rc;
use std::time::{Duration, Instant};

use hitm_live::lock_waits::LockWaits;
use hitm_live::recording::LiveRecording;
use hitm_live::sampler::Sampler;

use super::collect::Collector;
use super::{
    LiveError, LiveTarget, Members, kernel_release, kernel_symbols, online_cpus, programs,
};

/// Samples and, where BPF programs work, waits of processes that run.
#[derive(Debug)]
pub struct LockWindows {
    sampler: Sampler,
    collector: Collector,
    waits: Option<LockWaits>,
    members: Members,
    cpu_count: u32,
    begun: Instant,
    /// The reason why sleeping waiters are not seen, if they are not.
    pub missing: Option<String>,
}

impl LockWindows {
    /// Starts to look at a target, `frequency` times a second on each CPU.
    ///
    /// # Errors
    /// The kernel allows no samples or hides its names, or the target is not there.
    pub fn open(target: &LiveTarget, frequency: u32) -> Result<LockWindows, LiveError> {
        let symbols = Rc::new(kernel_symbols()?);
        let (_, members) = super::members(target)?;
        let cpus = online_cpus()?;
        let sampler = Sampler::open(&members.target(), &cpus, frequency)?;
        let (waits, missing) = match LockWaits::attach(members.process()) {
            Ok(waits) => (Some(waits), None),
            Err(reason) => (None, Some(reason)),
        };
        Ok(LockWindows {
            sampler,
            collector: Collector::new(symbols, members.clone()).without_programs(),
            waits,
            members,
            cpu_count: cpus.len() as u32,
            begun: Instant::now(),
            missing,
        })
    }

    /// Takes samples for a time.
    pub fn sample(&mut self, time: Duration) {
        let collector = &mut self.collector;
        self.sampler
            .run(Some(time), |_| true, |record| collector.take(record));
    }

    /// Ends a window and begins the next one. Functions of programs are left out.
    pub fn end_window(&mut self) -> LiveRecording {
        if let Some(waits) = &mut self.waits {
            match waits.take() {
                Ok(waits) => self.collector.take_waits(&waits),
                Err(reason) => {
                    self.waits = None;
                    self.missing = Some(reason);
                }
            }
        }
        let mut window = self.collector.restart();
        window.kernel = kernel_release();
        window.cpu_count = self.cpu_count;
        window.period_ns = self.sampler.period_ns();
        window.duration_ns = self.begun.elapsed().as_nanos() as u64;
        self.begun = Instant::now();
        window
    }

    /// Returns true while a process of the target lives.
    pub fn has_processes(&self) -> bool {
        match &self.members {
            Members::All => true,
            Members::Processes(processes) => {
                let mut processes = processes.iter();
                processes.any(|pid| programs::is_alive(*pid))
            }
            Members::Cgroup(path) => !programs::in_cgroup(path).is_empty(),
        }
    }
}
