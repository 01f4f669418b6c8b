//! Threads on chosen CPUs.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ProbeError;
use crate::host_cpus;

/// Moves the calling thread to `cpu`.
fn pin(cpu: u32) -> Result<(), ProbeError> {
    host_cpus::run_on([cpu]).map_err(|source| ProbeError::Pin { cpu, source })
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
