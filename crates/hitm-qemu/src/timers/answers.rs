//! The C library's functions about timers, as QEMU calls them for the guest.
//!
//! The callback before a call leaves the thread's time. A call that QEMU makes for itself finds none and goes to the
//! host, and so does one about a timer that is not kept here.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_uint, c_void};

use libc::{itimerspec, itimerval, sigevent, timeval};

use super::ring::{clock_of, set_host, spec_of, value_of};
use super::{Change, Now, Rings, TIMERS, Timer, Times};
use crate::clock::{Kind, NANOS_PER_SECOND, nanos_of_timespec, nanos_of_timeval, put};
use crate::library::{fail, library};

thread_local! {
    /// The thread's time in its system call about timers.
    static NOW: Cell<Option<Now>> = const { Cell::new(None) };
    /// The timer that the call has changed.
    static CHANGE: Cell<Option<Change>> = const { Cell::new(None) };
}

/// Answers the thread's next calls about timers, at this time.
pub(crate) fn begin(now: Now) {
    NOW.set(Some(now));
}

/// The thread's system call has returned; what it has changed of timers that the recorder rings.
pub(crate) fn end() -> Option<Change> {
    NOW.set(None);
    CHANGE.take()
}

/// Lets QEMU ask for timers here; false if it cannot be made to.
pub(crate) fn install() -> bool {
    is_replaced()
}

library! {
    NOW.get() => Now;
    SETITIMER = "setitimer" as setitimer:
        fn(which: c_int, new: *const itimerval, old: *mut itimerval) -> c_int, set_interval;
    GETITIMER = "getitimer" as getitimer: fn(which: c_int, old: *mut itimerval) -> c_int,
        |now, which, old| { put(old, value_of(times_of(Timer::Interval(which), &now).unwrap_or_default())); 0 };
    ALARM = "alarm" as alarm: fn(seconds: c_uint) -> c_uint, set_alarm;
    TIMER_CREATE = "timer_create" as timer_create:
        fn(clock: c_int, event: *mut sigevent, id: *mut *mut c_void) -> c_int, create;
    TIMER_DELETE = "timer_delete" as timer_delete: fn(id: *mut c_void) -> c_int, delete;
    TIMER_SETTIME = "timer_settime" as timer_settime:
        fn(id: *mut c_void, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int,
        |now, id, flags, new, old| set_by_spec(&now, posix(id), flags, new, old);
    TIMER_GETTIME = "timer_gettime" as timer_gettime: fn(id: *mut c_void, old: *mut itimerspec) -> c_int,
        |now, id, old| match times_of(posix(id), &now) {
            Some(times) => { put(old, spec_of(times)); 0 }
            None => host(libc::SYS_timer_gettime, [id.addr(), old.expose_provenance(), 0, 0]) as c_int,
        };
    TIMERFD_CREATE = "timerfd_create" as timerfd_create: fn(clock: c_int, flags: c_int) -> c_int, create_fd;
    TIMERFD_SETTIME = "timerfd_settime" as timerfd_settime:
        fn(fd: c_int, flags: c_int, new: *const itimerspec, old: *mut itimerspec) -> c_int,
        |now, fd, flags, new, old| set_by_spec(&now, Timer::Fd(fd), flags, new, old);
    TIMERFD_GETTIME = "timerfd_gettime" as timerfd_gettime: fn(fd: c_int, old: *mut itimerspec) -> c_int,
        |now, fd, old| match times_of(Timer::Fd(fd), &now) {
            Some(times) => { put(old, spec_of(times)); 0 }
            None => host(libc::SYS_timerfd_gettime, [fd as usize, old.expose_provenance(), 0, 0]) as c_int,
        };
}

/// A system call of the host's, its error in `errno`.
fn host(number: c_long, [a1, a2, a3, a4]: [usize; 4]) -> c_long {
    // SAFETY: the arguments are QEMU's.
    unsafe { libc::syscall(number, a1, a2, a3, a4) }
}

/// The C library's timers of signals are the kernel's numbers.
fn posix(id: *mut c_void) -> Timer {
    Timer::Posix(id.addr() as u32)
}

fn times_of(timer: Timer, now: &Now) -> Option<Times> {
    TIMERS.lock().times(timer, now)
}

/// Sets a timer; its times before.
fn set(now: &Now, timer: Timer, clock: Kind, rings: Rings) -> Times {
    let mut timers = TIMERS.lock();
    let before = timers.set(timer, clock, rings, now);
    let rest = match rings.next {
        0 => 0,
        next => next.saturating_sub(now.of(clock)).max(1),
    };
    let interval = rings.interval;
    CHANGE.set(Some(Change {
        timer,
        times: Times { rest, interval },
        counts_cpu: clock.counts_cpu(),
    }));
    before
}

/// The time of `clock` at which a timer rings that was set to `value`: 0 if that turns it off.
fn next_of(value: u64, is_absolute: bool, clock: Kind, now: &Now) -> u64 {
    match (value, is_absolute) {
        (0, _) | (_, true) => value,
        (_, false) => now.of(clock) + value,
    }
}

/// setitimer(2). The kernel takes no new value for zeros.
fn set_interval(now: Now, which: c_int, new: *const itimerval, old: *mut itimerval) -> c_int {
    let clock = match which {
        libc::ITIMER_REAL => Kind::Monotonic,
        libc::ITIMER_VIRTUAL | libc::ITIMER_PROF => Kind::ProcessCpu,
        _ => return fail(libc::EINVAL),
    };
    // SAFETY: QEMU's own memory, or none.
    let new = unsafe { new.as_ref() };
    let nanos =
        |value: fn(&itimerval) -> timeval| new.map_or(Some(0), |new| nanos_of_timeval(value(new)));
    let (Some(value), Some(interval)) = (nanos(|new| new.it_value), nanos(|new| new.it_interval))
    else {
        return fail(libc::EINVAL);
    };
    let next = next_of(value, false, clock, &now);
    put(
        old,
        value_of(set(
            &now,
            Timer::Interval(which),
            clock,
            Rings { next, interval },
        )),
    );
    0
}

/// alarm(2): the seconds that were left, rounded, but not to 0.
fn set_alarm(now: Now, seconds: c_uint) -> c_uint {
    let value = u64::from(seconds) * NANOS_PER_SECOND;
    let next = next_of(value, false, Kind::Monotonic, &now);
    let real = Timer::Interval(libc::ITIMER_REAL);
    let before = set(&now, real, Kind::Monotonic, Rings { next, interval: 0 }).rest;
    let seconds = (before + NANOS_PER_SECOND / 2) / NANOS_PER_SECOND;
    (seconds as c_uint).max(u32::from(before > 0))
}

/// timer_create(2). The host's timer follows a clock that always runs: it is only set to the next moment.
fn create(now: Now, clock: c_int, event: *mut sigevent, id: *mut *mut c_void) -> c_int {
    let kind = Kind::of(clock);
    let of_host = match kind {
        Some(_) => libc::CLOCK_MONOTONIC,
        None => clock,
    };
    let mut number: c_int = 0;
    let place = (&raw mut number).expose_provenance();
    let args = [of_host as usize, event.expose_provenance(), place, 0];
    if host(libc::SYS_timer_create, args) < 0 {
        return -1;
    }
    put(id, std::ptr::without_provenance_mut(number as usize));
    if let Some(kind) = kind {
        let timer = Timer::Posix(number as u32);
        let mut timers = TIMERS.lock();
        timers.settings.remove(&timer);
        timers.set(timer, kind, Rings::NEVER, &now);
    }
    0
}

fn delete(now: Now, id: *mut c_void) -> c_int {
    if times_of(posix(id), &now).is_some() {
        set(&now, posix(id), Kind::Monotonic, Rings::NEVER);
        TIMERS.lock().settings.remove(&posix(id));
    }
    host(libc::SYS_timer_delete, [id.addr(), 0, 0, 0]) as c_int
}

/// A number that was another timer's may be a new one's.
fn create_fd(now: Now, clock: c_int, flags: c_int) -> c_int {
    let fd = host(
        libc::SYS_timerfd_create,
        [clock as usize, flags as usize, 0, 0],
    ) as c_int;
    if times_of(Timer::Fd(fd), &now).is_some() {
        set(&now, Timer::Fd(fd), Kind::Monotonic, Rings::NEVER);
    }
    fd
}

/// timer_settime(2) and timerfd_settime(2).
fn set_by_spec(
    now: &Now,
    timer: Timer,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    const { assert!(libc::TFD_TIMER_ABSTIME == libc::TIMER_ABSTIME) };
    let (clock, number) = match timer {
        Timer::Fd(fd) => (clock_of(fd).and_then(Kind::of), libc::SYS_timerfd_settime),
        _ => {
            let known = TIMERS.lock();
            let clock = known.settings.get(&timer).map(|setting| setting.clock);
            (clock, libc::SYS_timer_settime)
        }
    };
    match (clock, read(new), timer) {
        (Some(_), None, Timer::Posix(_)) => fail(libc::EINVAL),
        // What a descriptor has counted is forgotten, as always.
        (Some(clock), Some((value, interval)), _)
            if matches!(timer, Timer::Posix(_)) || set_host(timer, Times::default()) =>
        {
            let next = next_of(value, flags & libc::TIMER_ABSTIME != 0, clock, now);
            let before = set(now, timer, clock, Rings { next, interval });
            put(old, spec_of(before));
            0
        }
        _ => {
            let id = timer.number() as u32 as usize;
            let (new, old) = (new.expose_provenance(), old.expose_provenance());
            host(number, [id, flags as usize, new, old]) as c_int
        }
    }
}

/// Value and interval in nanoseconds; none where they are no times.
fn read(new: *const itimerspec) -> Option<(u64, u64)> {
    // SAFETY: QEMU's own memory, or none.
    let new = unsafe { new.as_ref()? };
    Some((
        nanos_of_timespec(new.it_value)?,
        nanos_of_timespec(new.it_interval)?,
    ))
}
