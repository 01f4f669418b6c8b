//! Figures of workloads: each declares its own, and counts them when a run has ended.

use hitm_base::{Clock, Cycles};

use super::metric::WorkloadResult;
use crate::kernel::Kernel;

/// A figure of a kind of workload, as it is declared: once, for runs, sweeps and documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Its name after the workload's: `frames_per_second`.
    pub id: &'static str,
    /// Its unit, in words.
    pub unit: &'static str,
    /// Its meaning, in one sentence without a full stop.
    pub description: &'static str,
}

/// Declares the figures of a kind of workload, and the list of them.
macro_rules! figures {
    ($list:ident { $($name:ident: $id:literal, $unit:literal, $description:literal;)* }) => {
        $(const $name: $crate::workload::figures::Figure = $crate::workload::figures::Figure {
            id: $id,
            unit: $unit,
            description: $description,
        };)*

        /// The figures of this kind of workload.
        pub(crate) const $list: &[$crate::workload::figures::Figure] = &[$($name),*];
    };
}

pub(crate) use figures;

/// The part of a run that figures are of.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    pub(crate) seconds: f64,
    pub(crate) clock: Clock,
    pub(crate) kernel: &'a Kernel,
    /// The end of the run.
    pub(crate) end: Cycles,
    /// Operations of the workload a second.
    pub(crate) per_second: f64,
}

impl Window<'_> {
    pub(crate) fn micros(&self, span: Cycles) -> f64 {
        self.clock.nanos(span).0 / 1e3
    }
}

/// Takes a figure and its value.
pub(crate) type Add<'a> = &'a mut dyn FnMut(Figure, f64);

/// A workload that runs.
pub(crate) trait Figures {
    /// Operations so far, of those that are counted.
    fn operations(&self) -> u64 {
        0
    }

    /// Adds the figures; returns results in the workload's own form.
    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult;
}
