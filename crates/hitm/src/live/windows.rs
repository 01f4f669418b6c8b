//! Locks of running processes in windows of time, one after the other.

use std::time::{Duration, Instant};

use hitm_live::recording::LiveRecording;
use hitm_live::sampler::Sampler;
use hitm_live::tracepoints::{Growth, Tracepoints};

use super::collect::Collector;
use super::{
    LiveError, LiveTarget, Members, kernel_release, kernel_symbols, layers, online_cpus, programs,
};
use hitm_kernel::KernelSymbols;

/// Samples and, where BPF programs work, waits of running processes.
#[derive(Debug)]
pub struct LockWindows {
    symbols: KernelSymbols,
    sampler: Sampler,
    collector: Collector,
    tracepoints: Option<(Tracepoints, Growth)>,
    target: LiveTarget,
    members: Members,
    cpu_count: u32,
    begun: Instant,
    /// Reason why sleeping waiters are not observed, if they are not.
    pub missing: Option<String>,
}

impl LockWindows {
    /// Starts to sample a target, `frequency` times a second on each CPU.
    ///
    /// # Errors
    /// The kernel allows no samples or hides its names, or the target does not exist.
    pub fn open(target: &LiveTarget, frequency: u32) -> Result<LockWindows, LiveError> {
        let symbols = kernel_symbols()?;
        let (_, members) = super::members(target, None)?;
        let cpus = online_cpus()?;
        let sampler = Sampler::open(&members.target(), &cpus, frequency)?;
        let (tracepoints, missing) = match Tracepoints::attach(&target.waiters()) {
            Ok(tracepoints) => (Some((tracepoints, Growth::default())), None),
            Err(reason) => (None, Some(reason)),
        };
        Ok(LockWindows {
            symbols,
            sampler,
            collector: Collector::new(members.clone()).without_programs(),
            tracepoints,
            target: target.clone(),
            members,
            cpu_count: cpus.len() as u32,
            begun: Instant::now(),
            missing,
        })
    }

    /// Takes samples for a time.
    pub fn sample(&mut self, time: Duration) {
        let (collector, symbols) = (&mut self.collector, &self.symbols);
        let take = |record| collector.take(symbols, record);
        self.sampler.run(Some(time), |_| true, take);
    }

    /// Ends a window and begins the next one. Functions of programs are left out.
    pub fn end_window(&mut self) -> LiveRecording {
        let lost = self.take_waits().unwrap_or_else(|reason| {
            self.tracepoints = None;
            self.missing = Some(reason);
            None
        });
        let mut window = self.collector.restart();
        window.target = self.target.text();
        window.layers.push(layers::text(&self.sampler));
        if self.tracepoints.is_some() {
            window.layers.push(layers::TRACEPOINTS.to_owned());
        }
        let missing = self.missing.iter();
        let missing = missing.map(|reason| format!("tracepoints of locks: {reason}"));
        window.missing = missing.chain(lost).collect();
        window.lost_count += self.sampler.threads_left_out;
        window.kernel = kernel_release();
        window.cpu_count = self.cpu_count;
        window.period_ns = self.sampler.period_ns();
        window.duration_ns = self.begun.elapsed().as_nanos() as u64;
        self.begun = Instant::now();
        window
    }

    /// Adds the waits of this window, and returns those that did not fit. Full tables in the kernel
    /// are replaced.
    fn take_waits(&mut self) -> Result<Option<String>, String> {
        let Some((tracepoints, growth)) = &mut self.tracepoints else {
            return Ok(None);
        };
        let table = tracepoints.read()?;
        let is_filtered = !tracepoints.takes_others();
        let waits = growth.since_last(table.waits);
        let lost_here = self.collector.waits(&self.symbols, &waits, is_filtered);
        let lost = layers::losses(table.counts, lost_here);
        if table.counts.lost_begins > 0 || table.counts.lost_waits > 0 {
            let anew = Tracepoints::attach(&self.target.waiters())?;
            self.tracepoints = Some((anew, Growth::default()));
        }
        Ok(lost)
    }

    /// Returns true while a process of the target lives.
    pub fn has_processes(&self) -> bool {
        match &self.members {
            Members::Cgroup(path) => !programs::in_cgroup(path).is_empty(),
            members => !members.have_ended(),
        }
    }
}
