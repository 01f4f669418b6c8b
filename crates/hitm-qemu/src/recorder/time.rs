//! The modelled machine's time for the program: answers to its questions, and ends of its waits.

use std::ffi::{c_uint, c_void};

use hitm_base::Cycles;

use crate::allocators::with_registers;
use crate::clock::{self, Answer, Clock, Kind, timespec_of};
use crate::guest_memory;
use crate::link::WaitEnd;
use crate::parker::host_nanos;
use crate::timed::{Length, Question};
use crate::timers::{self, Now, Times};
use crate::vcpu::Vcpu;
use crate::waits::{self, Wait};

use super::Recorder;
use super::callbacks::recorder;

with_registers!(
    /// The instruction behind one that read the counter of time.
    counter_is_read,
    tell_counter
);

/// Puts the modelled machine's time into the guest's registers, counted in cycles.
unsafe extern "C" fn tell_counter(index: c_uint, _: *mut c_void, state: *mut u64) {
    let Some(recorder) = recorder() else { return };
    if let Some(counter) = &recorder.architecture.counter
        && let Some(count) = recorder.counter(index)
    {
        // SAFETY: the state is that of this callback; the instruction before has read the counter.
        unsafe { (counter.put)(state, count) };
    }
}

/// End of a wait at `futex` with this result.
pub(super) fn end_of_futex(futex: u64, result: i64) -> WaitEnd {
    match waits::end(result) {
        true => WaitEnd::Late,
        false => WaitEnd::of(futex, result),
    }
}

/// Starts the thread that lets the program's timers ring; false if there can be none.
fn start_ringer() -> bool {
    recorder().is_some_and(|recorder| timers::start_ringer(&recorder.link))
}

impl Recorder {
    /// The counter of time of the thread's CPU.
    fn counter(&self, index: c_uint) -> Option<u64> {
        let clock = self.link.clock()?;
        let now = match self.link.is_over() {
            true => self.link.latest(),
            false => self.link.now(self.vcpu(index)),
        };
        let skipped = self.link.skipped(host_nanos());
        let nanos = clock.read(Kind::Monotonic, Cycles::ZERO, Cycles::ZERO) + skipped;
        Some((clock.cycles(nanos) + now).0)
    }

    /// Leaves the answer to a call for the time.
    pub(super) fn answer_time(&self, vcpu: &mut Vcpu, number: i64, args: &[u64; 6]) {
        let Some(clock) = self.link.clock() else {
            return;
        };
        if let Some(question) = self.architecture.calls.question(number, args) {
            self.link.count_cpu(vcpu);
            let now = self.link.now(vcpu);
            self.answer_question(clock, question, now, vcpu.cpu_time(clock));
        }
    }

    /// Prepares a call about the program's timers.
    pub(super) fn begin_timers(&self, vcpu: &mut Vcpu, number: i64) {
        let clock = self.link.clock().filter(|_| !vcpu.is_paused());
        if let Some(clock) = clock.filter(|_| self.architecture.calls.is_of_timers(number)) {
            self.link.count_cpu(vcpu);
            let (now, cpu) = (self.link.now(vcpu), vcpu.cpu_time(clock));
            let skipped = self.link.skipped(host_nanos());
            let read = |kind| clock.read(kind, now, cpu);
            timers::begin(Now {
                thread: vcpu.slot,
                realtime: read(Kind::Realtime) + skipped,
                monotonic: read(Kind::Monotonic) + skipped,
                thread_cpu: read(Kind::ThreadCpu),
                process_cpu: read(Kind::ProcessCpu),
            });
        }
    }

    /// A system call that may have been about timers has returned.
    pub(super) fn end_timers(&self, vcpu: &Vcpu) {
        let (Some(change), Some(clock)) = (timers::end(), self.link.clock()) else {
            return;
        };
        let Times { rest, interval } = change.times;
        if rest > 0 && !start_ringer() {
            timers::lend(&self.link, |timer| timer == change.timer);
        } else if !change.counts_cpu {
            let delay = (rest > 0).then(|| clock.cycles(rest));
            let interval = match interval {
                0 => Cycles::ZERO,
                interval => clock.cycles(interval),
            };
            self.link
                .set_timer(vcpu, change.timer.number(), delay, interval);
        }
    }

    /// The program has a timer from the one before it in this process.
    pub(super) fn keep_timer(&self, [next, interval]: [Cycles; 2]) {
        if let Some(clock) = self.link.clock() {
            let next = clock.read(Kind::Monotonic, next, Cycles::ZERO);
            timers::keep_interval(next, clock.nanos(interval));
            start_ringer();
        }
    }

    /// The same where nobody is recorded any more: time passes as the host's does.
    pub(super) fn answer_time_alone(&self, number: i64, args: &[u64; 6]) {
        if let Some(clock) = self.link.clock()
            && let Some(question) = self.architecture.calls.question(number, args)
        {
            let now = self.link.latest();
            self.answer_question(clock, question, now, now);
        }
    }

    fn answer_question(&self, clock: &Clock, question: Question, now: Cycles, cpu: Cycles) {
        let skipped = self.link.skipped(host_nanos());
        let read = |kind| match kind {
            Kind::Realtime | Kind::Monotonic => clock.read(kind, now, cpu) + skipped,
            Kind::ThreadCpu | Kind::ProcessCpu => clock.read(kind, now, cpu),
        };
        let (time, of_thread) = match question {
            Question::Clock(kind) => (kind, false),
            Question::Usage { of_thread } => (Kind::Monotonic, of_thread),
        };
        let used = match of_thread {
            true => Kind::ThreadCpu,
            false => Kind::ProcessCpu,
        };
        clock::answer(Answer {
            time: read(time),
            cpu: read(used),
        });
    }

    /// Prepares a wait that ends in virtual time; returns its length. None if it has no end, or the thread is not
    /// recorded now.
    pub(super) fn begin_wait(
        &'static self,
        vcpu: &Vcpu,
        number: i64,
        args: &[u64; 6],
    ) -> Option<Cycles> {
        let clock = self.link.clock().filter(|_| !vcpu.is_paused())?;
        let (kind, length) = self.architecture.calls.wait(number, args)?;
        let alarm = self.link.set_alarm(vcpu)?;
        let nanos = match length {
            Length::For(nanos) => nanos,
            Length::Until(kind, end) => {
                let now = self.link.now(vcpu);
                let now = clock.read(kind, now, now) + self.link.skipped(host_nanos());
                end.saturating_sub(now)
            }
        };
        waits::begin(Wait { kind, alarm });
        Some(clock.cycles(nanos))
    }

    /// A system call that may block has returned; tells what ended it.
    pub(super) fn end_wait(
        &self,
        vcpu: &Vcpu,
        number: i64,
        result: i64,
        args: &[u64; 6],
    ) -> WaitEnd {
        const INTERRUPTED: i64 = -(libc::EINTR as i64);
        clock::take_back();
        if result == INTERRUPTED {
            self.tell_rest(vcpu, number, args);
        }
        match waits::end(result) {
            true => WaitEnd::Late,
            false => WaitEnd::Other,
        }
    }

    /// Tells an interrupted sleep how much of its time is left.
    fn tell_rest(&self, vcpu: &Vcpu, number: i64, args: &[u64; 6]) {
        let (Some(clock), Some(length)) = (self.link.clock(), vcpu.wait_length) else {
            return;
        };
        if let Some(at) = self.architecture.calls.rest_at(number, args) {
            let passed = self.link.priced().saturating_sub(vcpu.local_clock(clock));
            let rest = timespec_of(clock.nanos(length.saturating_sub(passed)));
            guest_memory::write_words(at, &[rest.tv_sec as u64, rest.tv_nsec as u64]);
        }
    }
}
