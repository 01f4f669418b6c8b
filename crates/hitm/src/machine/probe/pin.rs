//! Threads on chosen CPUs.

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use hitm_base::Topology;

use super::ProbeError;

/// CPUs that this process may run on, by the operating system's numbers.
pub(super) fn usable_cpus() -> BTreeSet<u32> {
    const WORDS: usize = Topology::CPUS_MAX / 64;
    let mut mask = [0u64; WORDS];
    // SAFETY: the kernel writes at most the given number of bytes into the array, which lives
    // through the call and for which every bit pattern is valid.
    let result =
        unsafe { libc::sched_getaffinity(0, mem::size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if result != 0 {
        return BTreeSet::new();
    }
    (0..Topology::CPUS_MAX)
        .filter(|cpu| mask[cpu / 64] >> (cpu % 64) & 1 == 1)
        .map(|cpu| cpu as u32)
        .collect()
}

/// Moves the calling thread to `cpu`.
fn pin(cpu: u32) -> Result<(), ProbeError> {
    const WORDS: usize = Topology::CPUS_MAX / 64;
    let mut mask = [0u64; WORDS];
    mask[cpu as usize / 64 % WORDS] |= 1 << (cpu % 64);
    // SAFETY: the kernel reads the given number of bytes of the array, which lives through the call.
    let result =
        unsafe { libc::sched_setaffinity(0, mem::size_of_val(&mask), mask.as_ptr().cast()) };
    if result == 0 {
        Ok(())
    } else {
        Err(ProbeError::Pin {
            cpu,
            source: io::Error::last_os_error(),
        })
    }
}

/// Runs `body` on `cpu`, in a thread of its own, so that the caller keeps its affinity.
pub(super) fn on_cpu<T: Send>(cpu: u32, body: impl Fn() -> T + Sync) -> Result<T, ProbeError> {
    let mut results = on_cpus(&[cpu], |_| body())?;
    Ok(results.remove(0))
}

/// Runs `body(0)`, `body(1)`... at once, each on its CPU; returns results in that order. Bodies
/// start only once every thread is on its CPU; when one cannot get there, none starts.
pub(super) fn on_cpus<T: Send>(
    cpus: &[u32],
    body: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, ProbeError> {
    let start = Barrier::new(cpus.len());
    let failed = AtomicBool::new(false);
    let (start, failed, body) = (&start, &failed, &body);
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(index, cpu)| {
                scope.spawn(move || {
                    let pinned = pin(*cpu);
                    failed.fetch_or(pinned.is_err(), Ordering::SeqCst);
                    start.wait();
                    pinned?;
                    Ok(if failed.load(Ordering::SeqCst) {
                        None
                    } else {
                        Some(body(index))
                    })
                })
            })
            .collect();
        let results: Vec<Result<Option<T>, ProbeError>> = threads
            .into_iter()
            .map(|thread| thread.join().expect("the measuring loops do not panic"))
            .collect();
        let done: Result<Vec<Option<T>>, ProbeError> = results.into_iter().collect();
        Ok(done?.into_iter().flatten().collect())
    })
}
