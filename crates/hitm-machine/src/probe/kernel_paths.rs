//! The kernel's fixed costs on this host, as far as a program can measure them: system call,
//! switch, interrupts between CPUs, idle states, timers.
//!
//! Each is a difference: a kernel path with the cost, less the same path without it. Work that
//! cannot be subtracted stays in it, so each is an upper bound, and its source says so.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::ProbeError;
use super::measure::spread;
use super::pin::{on_cpu, on_cpus};

/// Calls of a sample.
const CALLS: u32 = 1_000;
/// Wake-ups of a sample that sleeps: few, because each takes milliseconds.
const WAKES: u32 = 8;
/// Time after which an unanswered turn has failed.
static TURN_TIMEOUT: libc::timespec = libc::timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// ns of a system call that does nothing.
pub(super) fn syscall(cpu: u32, sample_count: usize) -> Result<Vec<f64>, ProbeError> {
    let sample = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: getppid takes no arguments and has no effect.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    on_cpu(cpu, || (0..sample_count).map(sample).collect())
}

/// A word that threads sleep on.
#[derive(Default)]
struct Futex(AtomicU32);

impl Futex {
    fn call(&self, operation: i32, value: u32) -> libc::c_long {
        // SAFETY: the word lives through the call, and so does the time that the kernel reads; the
        // operations are waits and wakes on it and nothing else.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                &raw const TURN_TIMEOUT,
            )
        }
    }

    /// Sleeps until the word has another value.
    fn wait_while(&self, value: u32) {
        while self.0.load(Ordering::Acquire) == value {
            self.call(libc::FUTEX_WAIT, value);
        }
    }

    fn set_and_wake(&self, value: u32) {
        self.0.store(value, Ordering::Release);
        self.call(libc::FUTEX_WAKE, 1);
    }
}

/// Median ns of a thread's work without a switch.
fn alone(cpu: u32, sample_count: usize, body: impl Fn() + Sync) -> Result<f64, ProbeError> {
    let rounds = CALLS / 4;
    let sample = |_| {
        let start = Instant::now();
        (0..rounds).for_each(|_| body());
        start.elapsed().as_nanos() as f64 / f64::from(rounds)
    };
    let samples = on_cpu(cpu, || (0..sample_count).map(sample).collect())?;
    Ok(spread(samples).median_ns)
}

/// ns of a switch between two threads of one CPU: half a round of two futexes, less the same calls
/// without a switch. It includes the wake-up and both passes through the scheduler.
pub(super) fn switch_by_futex(cpu: u32, sample_count: usize) -> Result<Vec<f64>, ProbeError> {
    let turn = Futex::default();
    let rounds = CALLS / 4;
    let both = on_cpus(&[cpu, cpu], |me| {
        let others = 1 - me as u32;
        let mut samples = Vec::with_capacity(sample_count);
        for _ in 0..sample_count {
            let start = Instant::now();
            for _ in 0..rounds {
                turn.wait_while(others);
                turn.set_and_wake(others);
            }
            samples.push(start.elapsed().as_nanos() as f64 / f64::from(2 * rounds));
        }
        samples
    })?;
    let word = Futex::default();
    let alone = alone(cpu, sample_count, || {
        word.call(libc::FUTEX_WAKE, 1);
        word.call(libc::FUTEX_WAIT, 1); // The value differs: returns at once.
    })?;
    Ok(less(both, alone))
}

/// The samples of the first thread, each without the time that the work takes alone.
fn less(both: Vec<Vec<f64>>, alone: f64) -> Vec<f64> {
    let rounds = both.into_iter().next().unwrap_or_default();
    let without = rounds.into_iter().map(|one| (one - alone).max(0.0));
    without.collect()
}

/// A pipe, closed at the end.
struct Pipe([libc::c_int; 2]);

impl Pipe {
    fn new() -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two numbers into the array, which lives through the call.
        match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
            0 => Ok(Pipe(ends)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn write(&self) {
        // SAFETY: the kernel reads one byte, which lives through the call.
        unsafe { libc::write(self.0[1], [0u8].as_ptr().cast(), 1) };
    }

    fn read(&self) {
        let mut byte = [0u8];
        // SAFETY: the kernel writes at most one byte, which lives through the call.
        unsafe { libc::read(self.0[0], byte.as_mut_ptr().cast(), 1) };
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.0 {
            // SAFETY: the descriptors are this pipe's and used no more.
            unsafe { libc::close(end) };
        }
    }
}

/// Like [`switch_by_futex`], by two pipes. None where the process may open no more files.
pub(super) fn switch_by_pipe(
    cpu: u32,
    sample_count: usize,
) -> Result<Option<Vec<f64>>, ProbeError> {
    let (Ok(to), Ok(back)) = (Pipe::new(), Pipe::new()) else {
        return Ok(None);
    };
    let rounds = CALLS / 4;
    let both = on_cpus(&[cpu, cpu], |me| {
        let mut samples = Vec::with_capacity(sample_count);
        for _ in 0..sample_count {
            let start = Instant::now();
            for _ in 0..rounds {
                if me == 0 {
                    to.write();
                    back.read();
                } else {
                    to.read();
                    back.write();
                }
            }
            samples.push(start.elapsed().as_nanos() as f64 / f64::from(2 * rounds));
        }
        samples
    })?;
    let alone = alone(cpu, sample_count, || {
        to.write();
        to.read();
    })?;
    Ok(Some(less(both, alone)))
}

/// ns of a memory barrier on all CPUs that run this process: an interrupt to the other CPU, which
/// spins, and its answer. None where the kernel has no such call.
pub(super) fn interrupt(
    cpus: [u32; 2],
    sample_count: usize,
) -> Result<Option<Vec<f64>>, ProbeError> {
    let membarrier = |command: libc::c_int| {
        // SAFETY: the call orders memory accesses and has no other effect on this process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    const REGISTER: libc::c_int = 1 << 4; // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
    const EXPEDITED: libc::c_int = 1 << 3; // MEMBARRIER_CMD_PRIVATE_EXPEDITED
    if !membarrier(REGISTER) {
        return Ok(None);
    }
    let done = AtomicU32::new(0);
    let both = on_cpus(&cpus, |me| {
        if me == 1 {
            while done.load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            return Vec::new();
        }
        let rounds = CALLS / 10;
        let sample = |_| {
            let start = Instant::now();
            for _ in 0..rounds {
                membarrier(EXPEDITED);
            }
            start.elapsed().as_nanos() as f64 / f64::from(rounds)
        };
        let samples = (0..sample_count).map(sample).collect();
        done.store(1, Ordering::Release);
        samples
    })?;
    Ok(both.into_iter().next())
}

/// ns from a wake-up to the first instruction of a thread on another CPU that was idle for about
/// `idle`.
pub(super) fn wake_of_idle(
    cpus: [u32; 2],
    idle: Duration,
    sample_count: usize,
) -> Result<Vec<f64>, ProbeError> {
    let word = Futex::default();
    let woken_at = AtomicU64::new(0);
    let turn = Barrier::new(2);
    let epoch = Instant::now();
    let now = || epoch.elapsed().as_nanos() as u64;
    let both = on_cpus(&cpus, |me| {
        let mut samples = Vec::new();
        for number in 1..=sample_count as u32 * WAKES {
            turn.wait();
            if me == 1 {
                word.wait_while(number - 1);
                woken_at.store(now(), Ordering::Release);
            } else {
                // The sleeper needs time to fall asleep. This CPU spins meanwhile, so as not to go
                // idle itself.
                let begin = Instant::now();
                while begin.elapsed() < idle + Duration::from_micros(50) {
                    std::hint::spin_loop();
                }
                let start = now();
                word.set_and_wake(number);
                while woken_at.load(Ordering::Acquire) < start {
                    std::hint::spin_loop();
                }
                let woken = woken_at.load(Ordering::Acquire);
                samples.push((woken - start) as f64);
            }
        }
        samples
    })?;
    Ok(both.into_iter().next().unwrap_or_default())
}

/// ns by which a timed sleep ends late, on a CPU that is idle meanwhile.
pub(super) fn timer_lateness(cpu: u32, sample_count: usize) -> Result<Vec<f64>, ProbeError> {
    const SLEEP_NS: i64 = 200_000;
    let clock = || {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes the time, which lives through the call.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    on_cpu(cpu, || {
        // SAFETY: changes how late timers of this thread may be, and nothing else.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        let sample = |_| {
            let at = clock() + SLEEP_NS;
            let until = libc::timespec {
                tv_sec: (at / 1_000_000_000) as libc::time_t,
                tv_nsec: (at % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: the kernel reads the time, which lives through the call, and writes nothing.
            unsafe {
                libc::clock_nanosleep(
                    libc::CLOCK_MONOTONIC,
                    libc::TIMER_ABSTIME,
                    &raw const until,
                    std::ptr::null_mut(),
                )
            };
            (clock() - at).max(0) as f64
        };
        (0..sample_count * WAKES as usize).map(sample).collect()
    })
}
