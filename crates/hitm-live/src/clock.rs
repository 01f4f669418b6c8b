//! The clock that perf events, locks and threads of this host have their times from.

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    time_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    time_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    time_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn time_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the time in.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
