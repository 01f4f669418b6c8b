//! The thread of each process that lets its timers ring, when the recorder says so.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

use hitm_base::Cycles;

use super::ring::{ring, set_host};
use super::{ANY_COUNTS_CPU, TIMERS, Timer, Times};
use crate::clock::Kind;
use crate::hidden_thread;
use crate::link::Link;

/// This process has the thread.
static HAS_RINGER: AtomicBool = AtomicBool::new(false);

/// Starts the thread if there is none; false if there can be none.
pub(crate) fn start_ringer(link: &'static Link) -> bool {
    if HAS_RINGER.swap(true, Ordering::Relaxed) {
        return true;
    }
    let argument = std::ptr::from_ref(link).cast_mut().cast();
    // SAFETY: the link lives as long as the process.
    let has_started = unsafe { hidden_thread::start(run, argument) };
    HAS_RINGER.store(has_started, Ordering::Relaxed);
    has_started
}

extern "C" fn run(link: *mut c_void) -> *mut c_void {
    // SAFETY: `start_ringer` passes one.
    let link = unsafe { &*link.cast_const().cast::<Link>() };
    link.each_timer(|number| {
        if let Some(timer) = Timer::of_number(number) {
            ring(timer);
        }
    });
    // Nobody tells any more when the program's time has come.
    lend(link, |_| true);
    std::ptr::null_mut()
}

/// Lets the host ring timers from here on: of all, those that are `chosen`. Returns them.
pub(crate) fn lend(link: &Link, chosen: impl Fn(Timer) -> bool) -> Vec<Timer> {
    let Some(clock) = link.clock() else {
        return Vec::new();
    };
    let timers = TIMERS.lock();
    let mut lent = Vec::new();
    for (timer, setting) in timers.settings.iter().filter(|(timer, _)| chosen(**timer)) {
        let now = match setting.clock {
            Kind::ThreadCpu => setting.ran,
            kind => clock.read(kind, link.latest(), Cycles::ZERO),
        };
        let times = setting.times(now);
        if times != Times::default() && set_host(*timer, times) {
            lent.push(*timer);
        }
    }
    lent
}

/// The process is a forked child: timers are not inherited, apart from descriptors.
pub(crate) fn forked() {
    HAS_RINGER.store(false, Ordering::Relaxed);
    ANY_COUNTS_CPU.store(false, Ordering::Relaxed);
    let is_inherited = |timer: &Timer| matches!(timer, Timer::Fd(_));
    TIMERS
        .lock()
        .settings
        .retain(|timer, _| is_inherited(timer));
}

/// Turns off what was lent: no other program has taken the process over.
pub(crate) fn take_back(lent: Vec<Timer>) {
    for timer in lent {
        set_host(timer, Times::default());
    }
}

/// Returns true for setitimer's timers, which a program that takes a process over keeps.
pub(crate) fn outlives_exec(timer: Timer) -> bool {
    matches!(timer, Timer::Interval(_))
}
