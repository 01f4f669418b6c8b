//! The host's clocks, as programs that live in the modelled machine's time begin with them.

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(super) fn host_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` in nanoseconds.
pub(super) fn host_realtime_nanos() -> u64 {
    nanos_of(libc::CLOCK_REALTIME)
}

fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to `time`.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
