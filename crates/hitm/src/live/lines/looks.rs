//! Looks at one target, one after the other.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hitm_kernel::Walks;
use hitm_live::procfs::{self, Stat};

use super::super::{LiveTarget, maps};
use super::host::Host;
use super::kernel::LiveKernel;
use super::subject::Subject;
use super::told::{self, HostMachine};
use super::{Known, LinesConfig, LinesEnded, LinesError, LinesTarget, Watch};
use crate::live::LiveProgress;
use crate::record::Signals;

/// Time between two looks at whether the target is still there.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Processes of a host that are looked at in a window: those that use most CPU time. Assumed, 1 to 30: each has its
/// mappings and programs read.
const BUSIEST: usize = 8;

/// One who looks at a target, with what is known of this host.
#[derive(Debug)]
struct Looker {
    config: LinesConfig,
    machine: HostMachine,
    host: Host,
    subject: Subject,
    /// None when it is not looked at, and while it is.
    kernel: Option<LiveKernel>,
    is_first: bool,
}

impl Looker {
    fn begin(config: LinesConfig) -> Result<Looker, LinesError> {
        let file = hitm_machine::host()?;
        let machine = HostMachine {
            machine: file.resolve()?,
            toml: file.to_toml(),
        };
        let host = Host::find(&machine.machine.description);
        let kernel = config.has_kernel.then(|| LiveKernel::open(&config.walks));
        let kernel = kernel.transpose()?;
        let subject = Subject::begin(&config.target)?;
        hurry();
        Ok(Looker {
            config,
            machine,
            host,
            subject,
            kernel,
            is_first: true,
        })
    }

    fn look(
        &mut self,
        is_over: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(LiveProgress),
    ) -> Result<LinesEnded, LinesError> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let known = Known {
            host: self.host.clone(),
            kernel: self.kernel.take(),
        };
        let mut watch = match Watch::begin(&self.config, &mut self.subject, known) {
            Ok(watch) => watch,
            Err(error) => {
                if is_first {
                    self.subject.kill();
                }
                return Err(error);
            }
        };
        watch.run(self.config.duration, is_over, progress);
        let mut observed = watch.finish();
        let mut recording = Vec::new();
        told::write(&mut observed, &self.machine, &mut recording)?;
        self.kernel = observed.code.kernel.take();
        if let Some(kernel) = &mut self.kernel {
            kernel.forget();
        }
        Ok(LinesEnded {
            recording,
            exit_code: self.subject.exit_code,
        })
    }
}

/// A target that is looked at as often as wanted. While it lives, a signal ends looks and waits, not this process.
#[derive(Debug)]
pub struct LineLooks {
    signals: Signals,
    looker: Looker,
}

impl LineLooks {
    /// Finds the target, or starts its program.
    ///
    /// # Errors
    /// The target is not there, or this host has no model.
    pub fn begin(config: LinesConfig) -> Result<LineLooks, LinesError> {
        Ok(LineLooks {
            signals: Signals::catch(),
            looker: Looker::begin(config)?,
        })
    }

    /// Observes until the time is over, the threads end, or a signal comes.
    ///
    /// # Errors
    /// The kernel does not allow it, or no thread is there.
    pub fn look(
        &mut self,
        progress: &mut dyn FnMut(LiveProgress),
    ) -> Result<LinesEnded, LinesError> {
        let signals = &self.signals;
        self.looker.look(&|| signals.pending().is_some(), progress)
    }

    /// Waits until `time`. Returns false if a signal came or the target ended before.
    pub fn wait_until(&mut self, time: Instant) -> bool {
        while self.signals.pending().is_none() && self.looker.subject.is_there() {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(CHECK_EVERY));
        }
        false
    }

    /// Exit code of the program, if one was started and has ended.
    pub fn exit_code(&self) -> Option<u8> {
        self.looker.subject.exit_code
    }
}

/// Looks at one target after the other for a view, which catches signals itself.
#[derive(Debug)]
pub struct LineWindows {
    looker: Looker,
    /// CPU time of each process at the last look at a whole host, in clock ticks; none of other targets.
    ticks: Option<BTreeMap<u32, u64>>,
}

impl LineWindows {
    /// Finds the target: of a whole host the processes that use most CPU time, which others of this host may be in the
    /// next window. Samples are taken `frequency` times in a second of a thread's CPU time.
    ///
    /// # Errors
    /// This host has no model, or the target is not there.
    pub fn open(
        target: &LiveTarget,
        frequency: u32,
        window: Duration,
    ) -> Result<LineWindows, LinesError> {
        let is_host = *target == LiveTarget::System;
        let target = match is_host {
            true => LinesTarget::Processes(Vec::new()),
            false => LinesTarget::All(target.clone()),
        };
        let config = LinesConfig {
            target,
            has_kernel: false,
            walks: Walks::default(),
            duration: Some(window),
            frequency,
        };
        Ok(LineWindows {
            looker: Looker::begin(config)?,
            ticks: is_host.then(BTreeMap::new),
        })
    }

    /// Observes for a window, and returns the recording; none where no process used the CPU.
    ///
    /// # Errors
    /// The kernel does not allow it, or no thread is there.
    pub fn look(&mut self, is_over: &dyn Fn() -> bool) -> Result<Option<Vec<u8>>, LinesError> {
        if let Some(ticks) = &mut self.ticks {
            let busiest = busiest(ticks);
            if busiest.is_empty() {
                return Ok(None);
            }
            self.looker.config.target = LinesTarget::Processes(busiest);
            self.looker.subject = Subject::begin(&self.looker.config.target)?;
        }
        match self.looker.look(is_over, &mut |_| {}) {
            Ok(ended) => Ok(Some(ended.recording)),
            // They have ended in the meantime.
            Err(LinesError::NoThreads { .. }) if self.ticks.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Processes that used most CPU time since the last call, of those that may be looked at; at first since their start.
fn busiest(ticks: &mut BTreeMap<u32, u64>) -> Vec<u32> {
    let processes = procfs::processes().unwrap_or_default();
    let now = processes.into_iter().filter_map(|pid| {
        let stat = Stat::of(pid)?;
        (!stat.is_kernel).then_some((pid, stat.cpu_ticks))
    });
    let now: BTreeMap<u32, u64> = now.collect();
    let before = std::mem::replace(ticks, now);
    let used = ticks.iter().map(|(pid, ticks)| {
        let before = before.get(pid).copied().unwrap_or(0);
        (Reverse(ticks.saturating_sub(before)), *pid)
    });
    let mut used: Vec<(Reverse<u64>, u32)> = used.filter(|(used, _)| used.0 > 0).collect();
    used.sort_unstable();
    let pids = used.into_iter().map(|(_, pid)| pid);
    let others = pids.filter(|pid| *pid != std::process::id());
    // Who may trace a process may read its mappings.
    let readable = others.filter(|pid| !maps::areas(*pid).is_empty());
    readable.take(BUSIEST).collect()
}

/// Gets ahead of the threads that are looked at where that is allowed: with hundreds of them on few CPUs, rings would
/// fill before they are read. A program that was started has begun, and keeps the usual priority.
fn hurry() {
    const NICE: libc::c_int = -10;
    // SAFETY: a system call without memory. Where it is not allowed nothing changes.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}
