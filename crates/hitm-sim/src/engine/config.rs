//! Configuration of a run, its header, and its errors.

use std::fmt;

use hitm_base::{Cycles, Machine};
use hitm_coherence::directory::Capacity;
use thiserror::Error;

/// Changes whenever the same scenario and seed may give other numbers.
pub const MODEL_VERSION: u32 = 8;

/// Cycles that a CPU may run ahead of the earliest event of the others.
///
/// Below the delay of the fastest invalidation between cores no CPU can see the difference. On the
/// presets a hand-over within a last-level cache takes 70 cycles and more, and 50 leave room for
/// its clean part. Between two threads of a core, whose L1 is shared, an access may come up to 50
/// cycles too early. Larger windows gain speed and lose exactness.
pub const RUN_AHEAD: Cycles = Cycles(50);

/// Configuration of an engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The machine that is simulated.
    pub machine: Machine,
    /// Sizes of the caches: real or unlimited. The user part of a workload is not simulated access
    /// by access, so [`Capacity::Infinite`] is the honest choice for kernel lines: nothing here
    /// would evict them as user data does.
    pub capacity: Capacity,
    /// The seed of all random streams.
    pub seed: u64,
    /// Hash of the scenario, for the header.
    pub scenario_hash: u64,
    /// Virtual time at which the run ends.
    pub end: Cycles,
    /// The run fails beyond so many events: accesses and suspensions together.
    pub events_max: u64,
    /// The names of functions by [`super::Site`].
    pub sites: &'static [&'static str],
}

#[cfg(test)]
impl EngineConfig {
    /// For tests of where objects lie, in which nothing runs.
    pub(crate) fn at_rest(preset: &str) -> EngineConfig {
        let text = hitm_base::machine::preset(preset).unwrap();
        EngineConfig {
            machine: Machine::from_toml(text, preset).unwrap(),
            capacity: Capacity::Infinite,
            seed: 1,
            scenario_hash: 0,
            end: Cycles(1),
            events_max: 1,
            sites: &["test"],
        }
    }
}

/// Identity of a run: enough to repeat it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHeader {
    /// [`MODEL_VERSION`].
    pub model_version: u32,
    /// Name of the machine.
    pub machine: String,
    /// CPUs of the machine.
    pub cpu_count: usize,
    /// Seed of all random streams.
    pub seed: u64,
    /// Hash of the scenario.
    pub scenario_hash: u64,
}

impl fmt::Display for RunHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "model {} machine {} ({} CPUs) seed {} scenario {:016x}",
            self.model_version, self.machine, self.cpu_count, self.seed, self.scenario_hash
        )
    }
}

/// Errors of making and running a simulation.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimError {
    /// The cap on events was reached: the scenario is too large for it, or runs in circles.
    #[error(
        "more than {max} events by {at} cycles of virtual time: raise the cap or shorten the run"
    )]
    TooManyEvents {
        /// The cap.
        max: u64,
        /// Virtual time reached.
        at: Cycles,
    },
    /// A layout does not describe what the model needs.
    #[error("layout of struct {type_name}: {problem}")]
    Layout {
        /// The struct.
        type_name: String,
        /// Description of the fault.
        problem: String,
    },
    /// The workload asks for something that cannot be.
    #[error("{0}")]
    Workload(String),
}
