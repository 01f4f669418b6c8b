//! Time: the CPU's counter where it runs at one rate, else CLOCK_MONOTONIC.

use crate::region;

/// The time now, in ticks.
#[inline]
pub(crate) fn now() -> u64 {
    if region::is_monotonic() {
        return nanos(libc::CLOCK_MONOTONIC);
    }
    counter()
}

/// Reads the counter once all earlier instructions are done, those under the lock included.
#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read the counter.
    unsafe {
        core::arch::asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nomem, nostack));
    }
    ticks
}

/// The time now, read without waiting for earlier instructions.
#[inline]
pub(crate) fn roughly_now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if !region::is_monotonic() {
        // SAFETY: Linux lets programs read the counter.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    now()
}

/// Time for which this thread has run, in ticks.
pub(crate) fn thread_ran() -> u64 {
    region::ticks_of(nanos(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the time in; it is safe in signal handlers.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
