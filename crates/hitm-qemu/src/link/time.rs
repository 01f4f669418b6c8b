//! The time of the modelled machine, and timers in it.

use std::sync::atomic::{AtomicU32, Ordering};

use hitm_base::Cycles;
use hitm_weave::board::{Message, Request};

use super::{Link, timed};
use crate::clock::{self, Clock};
use crate::timers;
use crate::vcpu::Vcpu;

impl Link {
    /// Clock of the programs, when they live in the modelled machine's time.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Virtual time for the thread, no earlier than any that a program has read.
    pub(crate) fn now(&self, vcpu: &Vcpu) -> Cycles {
        let own = self.clock.as_ref().map(|clock| vcpu.local_clock(clock));
        self.port.note_seen(own.unwrap_or(vcpu.clock))
    }

    /// The latest virtual time that is known.
    pub(crate) fn latest(&self) -> Cycles {
        self.port.note_seen(self.port.now())
    }

    /// Virtual time up to which everything is priced.
    pub(crate) fn priced(&self) -> Cycles {
        self.port.now()
    }

    /// Nanoseconds for which programs ran unrecorded, at the host's time.
    pub(crate) fn skipped(&self, host_nanos: u64) -> u64 {
        self.port.skipped_nanos(host_nanos)
    }

    /// The word that becomes 1 when the time of the thread's next wait is over.
    pub(crate) fn set_alarm(&self, vcpu: &Vcpu) -> Option<&AtomicU32> {
        let alarm = self.port.alarm(vcpu.channel?);
        alarm.store(0, Ordering::SeqCst);
        Some(alarm)
    }

    /// Adds what the thread has run to its process's time.
    pub(crate) fn count_cpu(&self, vcpu: &mut Vcpu) {
        if let Some(clock) = &self.clock {
            let run = vcpu.cpu_time(clock);
            clock.add_cpu(run.saturating_sub(vcpu.counted_cpu));
            vcpu.counted_cpu = vcpu.counted_cpu.max(run);
            timers::count_cpu(vcpu.slot, || {
                let read = |kind| clock.read(kind, run, run);
                (read(clock::Kind::ThreadCpu), read(clock::Kind::ProcessCpu))
            });
        }
    }

    /// A timer of the process rings after `delay`, then each `interval`; no delay turns it off.
    pub(crate) fn set_timer(
        &self,
        vcpu: &Vcpu,
        timer: u64,
        delay: Option<Cycles>,
        interval: Cycles,
    ) {
        let next = delay.map(|delay| self.now(vcpu) + delay);
        let [is_set, next] = timed(next);
        let args = [timer, is_set, next, interval.0];
        self.say(vcpu, Request::SetTimer, &args, &[]);
    }

    /// Calls `ring` for each timer of the process that rings, at its time, until the recording is over.
    pub(crate) fn each_timer(&self, ring: impl Fn(u64)) {
        // SAFETY: a plain system call.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        let Some(channel) = self.port.claim(self.name(), tid) else {
            return;
        };
        let question = Message::new(Request::NextTimer, &[]);
        let next = || self.port.ask(channel, question);
        while let Some([timer, ..]) = next().filter(|answer| answer[0] != u64::MAX) {
            ring(timer);
        }
    }
}
