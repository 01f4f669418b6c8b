//! Looks at one target, one after the other.

use std::thread;
use std::time::{Duration, Instant};

use super::host::Host;
use super::kernel::LiveKernel;
use super::subject::Subject;
use super::told::{self, HostMachine};
use super::{Known, LinesConfig, LinesEnded, LinesError, Watch};
use crate::live::LiveProgress;
use crate::record::Signals;

/// Time between two looks at whether the target is still there.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A target that is looked at as often as wanted. While it lives, a signal ends looks and waits, not this process.
#[derive(Debug)]
pub struct LineLooks {
    config: LinesConfig,
    signals: Signals,
    machine: HostMachine,
    host: Host,
    subject: Subject,
    /// None when it is not looked at, and while it is.
    kernel: Option<LiveKernel>,
    is_first: bool,
}

impl LineLooks {
    /// Finds the target, or starts its program.
    ///
    /// # Errors
    /// The target is not there, or this host has no model.
    pub fn begin(config: LinesConfig) -> Result<LineLooks, LinesError> {
        let signals = Signals::catch();
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
        Ok(LineLooks {
            config,
            signals,
            machine,
            host,
            subject,
            kernel,
            is_first: true,
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
        watch.run(self.config.duration, &self.signals, progress);
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

    /// Waits until `time`. Returns false if a signal came or the target ended before.
    pub fn wait_until(&mut self, time: Instant) -> bool {
        while self.signals.pending().is_none() && self.subject.is_there() {
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
        self.subject.exit_code
    }
}

/// Gets ahead of the threads that are looked at where that is allowed: with hundreds of them on few CPUs, rings would
/// fill before they are read. A program that was started has begun, and keeps the usual priority.
fn hurry() {
    const NICE: libc::c_int = -10;
    // SAFETY: a system call without memory. Where it is not allowed nothing changes.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}
