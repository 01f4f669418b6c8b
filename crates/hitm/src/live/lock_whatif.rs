//! A spin lock's measured load under another setting, in the simulator.
//!
//! The threads take the lock one use after the other, with mean times: under it, in its page faults, outside of it.
//! [`fit`] has them from samples, from watched writes to the word, and from counters of the kernel. Whoever competes
//! with the threads has as many tasks as were runnable. docs/live.md lists what is not modelled.

mod fit;
mod kernel;
mod run;

use hitm_base::Machine;
use hitm_live::cgroups::Bandwidth;
use hitm_live::fault_costs::FaultCosts;
use hitm_live::lines::Calibration;
use hitm_live::place::CpuSet;
use hitm_live::process_load::ProcessLoad;
use hitm_live::recording::LiveRecording;
pub use hitm_sim::kernel::Preemption;
use hitm_sim::kernel::Throttling;
use rayon::prelude::*;
use thiserror::Error;

use super::whatif::{Deviation, DeviationOf, WhatIfError, throttling_here};
pub use fit::{LockInputs, LockThreadInput, Unfit};
use hitm_machine as machine;
pub use kernel::KernelHere;
use run::{Draw, Simulation, Use};

/// Least part of the threads' CPU time of which a deviation is a share. Assumed 0.1 (0.05 to 0.2).
const SPINNING_LEAST: f64 = 0.1;

/// Seeds with the mean times, of whose figures the mean is shown.
const SEEDS: u64 = 3;
/// Directions in which times may be off at once, in their errors: of the hold, and outside of it.
const CORNERS: [[f64; 2]; 4] = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]];

/// Figures of a lock, in the simulator or on this host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockRun {
    /// Times a second that a thread takes the lock.
    pub takes_per_s: f64,
    /// Part of the threads' CPU time in which they wait.
    pub spinning: f64,
    /// Parts of the waiting: the holder runs, is in a page fault, has no CPU that it wants, and else.
    pub states: [f64; 4],
}

/// A change of the setting; what is left out is as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LockChange {
    /// The change in words.
    pub text: String,
    /// The preemption model.
    pub preemption: Option<Preemption>,
    /// Time by which the slice of a holder is extended, in nanoseconds.
    pub slice_extension_ns: Option<u64>,
    /// Fresh memory is of huge pages.
    pub huge_pages: bool,
    /// The quota.
    pub bandwidth: Option<Bandwidth>,
    /// CPUs of the threads.
    pub place: Option<CpuSet>,
}

/// A setting of the kernel and of the threads.
#[derive(Debug, Clone, PartialEq)]
struct LockSetting {
    preemption: Preemption,
    hz: u32,
    throttling: Throttling,
    slice_extension_ns: Option<u64>,
    huge_pages: bool,
    bandwidth: Option<Bandwidth>,
    place: Option<CpuSet>,
}

/// A value, and the least and the most of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean of the seeds with the mean times.
    pub mean: f64,
    /// The least of all runs.
    pub least: f64,
    /// The most of all runs.
    pub most: f64,
}

/// Figures under a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct LockAnswer {
    /// The setting in words.
    pub label: String,
    /// Means of the seeds.
    pub run: LockRun,
    /// Times a second that a thread takes the lock; none where it was measured.
    pub takes_per_s: Option<Interval>,
    /// Gain in those over the lock as it is, as a part of them: run by run.
    pub gain: Option<Interval>,
}

/// The answers of a what-if.
#[derive(Debug, Clone, PartialEq)]
pub struct LockWhatIf {
    /// The inputs, or the reason why there are none.
    pub inputs: Result<LockInputs, Unfit>,
    /// The kernel of this host.
    pub kernel: KernelHere,
    /// Measured, simulated as it is, and simulated with changes.
    pub rows: Vec<LockAnswer>,
    /// The reason why no change was simulated, where the inputs are known.
    pub refused: Option<Deviation>,
    /// Changes that cannot be simulated, with the reason.
    pub refused_changes: Vec<(String, Refusal)>,
}

impl LockWhatIf {
    /// Returns true if anything was refused.
    pub fn has_refused(&self) -> bool {
        self.inputs.is_err() || self.refused.is_some() || !self.refused_changes.is_empty()
    }
}

/// The reason why a change cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing to compare with.
    #[error("the preemption model of this kernel is not known: debugfs is not mounted")]
    Preemption,
    /// There are no page faults.
    #[error("no page faults were seen under the lock")]
    NoFaults,
    /// The kernel gives none.
    #[error("this kernel gives no huge pages")]
    NoHugePages,
    /// They are huge already.
    #[error("page faults under the lock take as long as those of huge pages")]
    AlreadyHuge,
    /// CPUs that this host does not have.
    #[error("this host has CPUs 0 to {last}")]
    Place {
        /// The last CPU.
        last: usize,
    },
}

/// Simulates a spin lock's load under changes of the setting, on a model of this host. A sampled recording and the
/// load of the process are of the same time.
///
/// # Errors
/// This host cannot be read, or the simulator refuses a setting.
pub fn lock_what_if(
    recording: &LiveRecording,
    load: &ProcessLoad,
    changes: &[LockChange],
) -> Result<LockWhatIf, WhatIfError> {
    let calibration = Calibration::measure().map_or(Calibration::ASSUMED, |found| found.figures);
    let costs = FaultCosts::measure();
    let kernel = KernelHere::read();
    let inputs = fit::fit(recording, load, calibration.hit_ns, costs);
    let mut answer = LockWhatIf {
        inputs,
        kernel,
        rows: Vec::new(),
        refused: None,
        refused_changes: Vec::new(),
    };
    if let Ok(inputs) = answer.inputs.clone() {
        let wrong = |error: String| WhatIfError::Machine(error);
        let file = machine::host().map_err(|error| wrong(error.to_string()))?;
        let machine = file.resolve().map_err(|error| wrong(error.to_string()))?;
        answer.simulate(&machine, &inputs, changes)?;
    }
    Ok(answer)
}

impl LockWhatIf {
    fn simulate(
        &mut self,
        machine: &Machine,
        inputs: &LockInputs,
        changes: &[LockChange],
    ) -> Result<(), WhatIfError> {
        let present = LockSetting {
            preemption: self.kernel.preemption.unwrap_or(KernelHere::ASSUMED),
            hz: self.kernel.hz,
            throttling: throttling_here(),
            slice_extension_ns: None,
            huge_pages: false,
            bandwidth: inputs.bandwidth,
            place: None,
        };
        let simulation = Simulation { machine, inputs };
        let observed = Use {
            hold_ns: inputs.hold_ns,
            fault_ns: inputs.observed_fault_ns,
            outside_ns: inputs.outside_ns,
        };
        let seen = runs(&simulation, &present, observed)?;
        self.rows.push(measured(inputs.measured));
        self.rows.push(answered("simulated, observed", &seen, None));
        let deviation = deviation(&self.rows[1].run, &inputs.measured);
        if deviation.is_beyond() {
            self.refused = Some(deviation);
            return Ok(());
        }
        let usual = Use {
            hold_ns: inputs.hold_ns - inputs.watch_ns,
            fault_ns: inputs.fault_ns,
            outside_ns: inputs.outside_ns,
        };
        let as_it_is = runs(&simulation, &present, usual)?;
        self.rows
            .push(answered("simulated, as it is", &as_it_is, None));
        for change in changes {
            if let Some(refusal) = refusal(change, inputs, &self.kernel, machine) {
                self.refused_changes.push((change.text.clone(), refusal));
                continue;
            }
            let (setting, times) = change.applied(&present, usual, inputs);
            let asked = runs(&simulation, &setting, times)?;
            let label = format!("simulated, {}", change.text);
            self.rows.push(answered(&label, &asked, Some(&as_it_is)));
        }
        Ok(())
    }
}

impl LockChange {
    fn applied(
        &self,
        present: &LockSetting,
        times: Use,
        inputs: &LockInputs,
    ) -> (LockSetting, Use) {
        let setting = LockSetting {
            preemption: self.preemption.unwrap_or(present.preemption),
            slice_extension_ns: self.slice_extension_ns,
            huge_pages: self.huge_pages,
            bandwidth: self.bandwidth.or(present.bandwidth),
            place: self.place.clone(),
            ..present.clone()
        };
        let huge_ns = inputs.huge_fault_ns.filter(|_| self.huge_pages);
        let times = Use {
            fault_ns: huge_ns.unwrap_or(times.fault_ns),
            ..times
        };
        (setting, times)
    }
}

fn refusal(
    change: &LockChange,
    inputs: &LockInputs,
    kernel: &KernelHere,
    machine: &Machine,
) -> Option<Refusal> {
    if change.preemption.is_some() && kernel.preemption.is_none() {
        return Some(Refusal::Preemption);
    }
    let last = machine.topology.cpu_count().saturating_sub(1);
    let is_here = |cpu: u16| usize::from(cpu) <= last;
    if change
        .place
        .as_ref()
        .is_some_and(|cpus| !cpus.iter().all(is_here))
    {
        return Some(Refusal::Place { last });
    }
    if !change.huge_pages {
        return None;
    }
    match inputs.huge_fault_ns {
        _ if inputs.faults == 0.0 => Some(Refusal::NoFaults),
        None => Some(Refusal::NoHugePages),
        Some(huge_ns) if inputs.fault_ns > huge_ns / 2.0 => Some(Refusal::AlreadyHuge),
        Some(_) => None,
    }
}

/// Runs with each seed, then those with times that are off.
fn runs(
    simulation: &Simulation<'_>,
    setting: &LockSetting,
    times: Use,
) -> Result<Vec<LockRun>, WhatIfError> {
    let times = simulation.without_own_costs(setting, times)?;
    let seeds = (1..=SEEDS).map(|seed| Draw {
        seed,
        hold: 0.0,
        outside: 0.0,
    });
    let corners = CORNERS.iter().map(|[hold, outside]| Draw {
        seed: 1,
        hold: *hold,
        outside: *outside,
    });
    let draws: Vec<Draw> = seeds.chain(corners).collect();
    let runs = draws.into_par_iter();
    let runs = runs.map(|draw| simulation.run(setting, times, draw));
    Ok(runs.collect::<Result<Vec<LockRun>, _>>()?)
}

fn measured(run: LockRun) -> LockAnswer {
    LockAnswer {
        label: "measured".to_owned(),
        run,
        takes_per_s: None,
        gain: None,
    }
}

fn answered(label: &str, runs: &[LockRun], base: Option<&[LockRun]>) -> LockAnswer {
    let takes: Vec<f64> = runs.iter().map(|run| run.takes_per_s).collect();
    let gains = base.map(|base| {
        let pairs = takes.iter().zip(base);
        let gains =
            pairs.map(|(takes, base)| takes / base.takes_per_s.max(f64::MIN_POSITIVE) - 1.0);
        gains.collect::<Vec<f64>>()
    });
    LockAnswer {
        label: label.to_owned(),
        run: mean(&runs[..SEEDS as usize]),
        takes_per_s: Some(Interval::of(&takes)),
        gain: gains.map(|gains| Interval::of(&gains)),
    }
}

impl Interval {
    /// Of the values of all runs, the first of which are those of the seeds.
    fn of(values: &[f64]) -> Interval {
        let seeds = &values[..SEEDS as usize];
        Interval {
            mean: seeds.iter().sum::<f64>() / seeds.len() as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

fn mean(runs: &[LockRun]) -> LockRun {
    let mean = |of: &dyn Fn(&LockRun) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    LockRun {
        takes_per_s: mean(&|run| run.takes_per_s),
        spinning: mean(&|run| run.spinning),
        states: std::array::from_fn(|state| mean(&|run| run.states[state])),
    }
}

/// The figure in which the simulated lock is furthest from the measured one.
fn deviation(simulated: &LockRun, measured: &LockRun) -> Deviation {
    let takes = simulated.takes_per_s / measured.takes_per_s.max(f64::MIN_POSITIVE) - 1.0;
    let least = measured.spinning.max(SPINNING_LEAST);
    let spinning = (simulated.spinning - measured.spinning) / least;
    match takes.abs() >= spinning.abs() {
        true => Deviation {
            figure: "rate of takes",
            share: takes,
            of: DeviationOf::Measured,
        },
        false => Deviation {
            figure: "share of CPU time spent spinning",
            share: spinning,
            of: DeviationOf::Measured,
        },
    }
}
