//! Locks of running processes in windows of time, one after the other.

use std::time::{Duration, Instant};

use hitm_live::holders::Holders;
use hitm_live::recording::{LiveHolders, LiveRecording};
use hitm_live::sampler::Sampler;
use hitm_live::tracepoints::{Futexes, Growth, LockWait, Tracepoints};

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
    owned: Option<OwnedWords>,
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
            owned: OwnedWords::attach(target),
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
        let take = |record| {
            collector.take(symbols, record);
        };
        let owned = &mut self.owned;
        let goes_on = |_| {
            owned.as_mut().map(OwnedWords::drain);
            true
        };
        self.sampler.run(Some(time), goes_on, take);
    }

    /// Ends a window and begins the next one. Functions of programs are left out.
    pub fn end_window(&mut self) -> LiveRecording {
        let lost = self.take_waits().unwrap_or_else(|reason| {
            self.tracepoints = None;
            self.missing = Some(reason);
            None
        });
        let owned = self.take_owned().unwrap_or_else(|reason| {
            self.owned = None;
            self.missing = Some(reason);
            None
        });
        let mut window = self.collector.restart();
        window.target = self.target.text();
        window.layers.push(layers::text(&self.sampler));
        if self.tracepoints.is_some() {
            window.layers.push(layers::TRACEPOINTS.to_owned());
        }
        if owned.is_some() {
            let layers = [layers::OWNED_FUTEXES, layers::HOLDERS];
            window.layers.extend(layers.map(str::to_owned));
        }
        window.holders = owned;
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

    /// Adds the waits of this window for locks whose words name an owner, and returns the owners' times. Full tables in
    /// the kernel are replaced.
    fn take_owned(&mut self) -> Result<Option<LiveHolders>, String> {
        let Some(owned) = &mut self.owned else {
            return Ok(None);
        };
        let (holders, waits, is_full) = owned.end_window()?;
        self.collector.futexes(&waits);
        if is_full {
            self.owned = OwnedWords::attach(&self.target);
        }
        Ok(Some(holders))
    }

    /// Returns true while a process of the target lives.
    pub fn has_processes(&self) -> bool {
        match &self.members {
            Members::Cgroup(path) => !programs::in_cgroup(path).is_empty(),
            members => !members.have_ended(),
        }
    }
}

/// Sleeps for words of programs that name the owner of a lock, and the owners. Words of other forms are waited for by
/// idle threads, too, and nobody can be placed for them.
#[derive(Debug)]
struct OwnedWords {
    futexes: Futexes,
    growth: Growth,
    holders: Holders,
}

impl OwnedWords {
    /// None where no process or cgroup is named, or where BPF programs do not work.
    fn attach(target: &LiveTarget) -> Option<OwnedWords> {
        let waiters = target.waiters();
        Some(OwnedWords {
            futexes: Futexes::attach(&waiters).ok()?,
            growth: Growth::default(),
            holders: Holders::attach(&waiters).ok()?,
        })
    }

    fn drain(&mut self) {
        self.holders.drain();
    }

    /// Returns owners and waits since the last call, and true if a table is full.
    fn end_window(&mut self) -> Result<(LiveHolders, Vec<LockWait>, bool), String> {
        let holders = self.holders.end_window()?;
        let table = self.futexes.read()?;
        let is_full = table.counts.lost_begins > 0 || table.counts.lost_waits > 0;
        let mut waits = self.growth.since_last(table.waits);
        let named = holders.naming();
        waits.retain(|wait| named.contains(&(wait.pid, wait.lock)));
        Ok((holders, waits, is_full))
    }
}
