//! Quantities of single CPUs: the mean of all and the largest, with its CPU. A storm of interrupts on
//! one CPU of hundreds is lost in a mean.

use hitm_base::{Clock, CpuId};

use crate::engine::RunTotals;
use crate::kernel::CpuLoad;

/// A quantity of CPUs, of the whole run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Its name.
    pub id: &'static str,
    /// Its unit, in words.
    pub unit: &'static str,
    /// The mean over the CPUs.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The CPU that has it, the first of several.
    pub cpu: CpuId,
}

impl Peak {
    fn of(id: &'static str, unit: &'static str, values: impl Iterator<Item = f64>) -> Option<Peak> {
        let values: Vec<f64> = values.collect();
        let mut peak = Peak {
            id,
            unit,
            mean: values.iter().sum::<f64>() / values.len() as f64,
            max: *values.first()?,
            cpu: CpuId(0),
        };
        for (cpu, value) in values.into_iter().enumerate() {
            if value > peak.max {
                (peak.max, peak.cpu) = (value, CpuId(cpu as u16));
            }
        }
        Some(peak)
    }
}

/// The quantities: time in interrupt handlers, interrupts received, waits for the run queue's lock.
pub(super) fn peaks(totals: &RunTotals, loads: &[CpuLoad], clock: Clock) -> Vec<Peak> {
    let end = totals.end.0.max(1) as f64;
    let seconds = clock.nanos(totals.end).0.max(1.0) / 1e9;
    let irq = totals.cpus.iter().map(|cpu| cpu.irq.0 as f64 * 100.0 / end);
    let ipis = loads.iter().map(|load| load.ipis as f64 / seconds);
    let waits = loads
        .iter()
        .map(|load| load.rq_lock_wait.0 as f64 * 100.0 / end);
    let peaks = [
        Peak::of("time.irq", "%", irq),
        Peak::of("sched.ipis_per_second", "1/s", ipis),
        Peak::of("sched.rq_lock_wait", "%", waits),
    ];
    peaks.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_names_its_cpu_and_none_has_no_peak() {
        let peak = Peak::of("x", "%", [1.0, 5.0, 0.0, 5.0, 4.0].into_iter());
        let expected = Peak {
            id: "x",
            unit: "%",
            mean: 3.0,
            max: 5.0,
            cpu: CpuId(1),
        };
        assert_eq!(peak, Some(expected));
        assert_eq!(Peak::of("x", "%", [].into_iter()), None);
    }
}
