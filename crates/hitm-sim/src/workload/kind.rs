//! Kinds of workloads: what each says of itself, once, for scenarios, sweeps, documents and fuzzers.
//!
//! A kind is a file of this folder, with a [`Kind`] and a type that is a [`Program`], and a line of the
//! list in `mod.rs`.

use std::rc::Rc;

use hitm_base::Topology;

use super::WorkloadKind;
use super::figures::{Figure, Figures};
use super::placed::CpuChoice;
use crate::engine::SimError;
use crate::kernel::Policy;
use crate::scenario::ScenarioError;
use crate::scenario::check::Check;
use crate::scenario::products::Product;
use crate::scenario::reader::Table;
use crate::scenario::start::Start;

/// A kind of workload, as scenario files name it.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// The `kind` of a `[[workload]]`.
    pub name: &'static str,
    /// The name of a workload that states none: what its metrics begin with.
    pub default_name: &'static str,
    /// Reads its keys.
    pub(crate) read: fn(&Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError>,
    /// The figures that a run of it may have.
    pub figures: &'static [&'static [Figure]],
    /// True if it ends the run, so that a scenario needs no duration.
    pub ends: bool,
    /// Valid keys for generators of scenarios, a line each: `cpus = 4 | 8`. These it needs.
    pub needed: &'static str,
    /// As above: keys that it may have.
    pub optional: &'static str,
}

/// A program with its options, as a scenario states them, before it is known on which machine it runs.
pub(crate) trait Program {
    /// The kind that it was read as, or another one of the same figures.
    fn kind(&self) -> &'static Kind;

    /// Makes its tasks.
    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError>;

    /// CPUs that its threads may run on, where the scenario has the choice.
    fn cpus(&self) -> Option<&CpuChoice> {
        None
    }

    /// The policy of threads that may be put into a `[[group]]`.
    fn grouped(&self) -> Option<Policy> {
        None
    }

    /// Tasks that it begins with.
    fn tasks(&self, topology: &Topology) -> Product {
        let threads = |choice: &CpuChoice| choice.thread_count(topology);
        let threads = self.cpus().map_or(0, threads);
        Product::new("threads", &[("threads", threads)])
    }

    /// Queues of its own groups: each group has one on each CPU.
    fn queues(&self, _topology: &Topology) -> Option<Product> {
        None
    }

    /// Bytes of the messages in its pipes.
    fn bytes_in_pipes(&self) -> Option<Product> {
        None
    }

    /// Fails when it cannot be on this machine.
    fn check(&self, check: &Check<'_>) -> Result<(), ScenarioError> {
        match self.cpus() {
            Some(choice) => check.choice(choice),
            None => Ok(()),
        }
    }

    /// Loads that are a variant each, in wake-ups a second and CPU; none where it has one load.
    fn loads(&self) -> &[u64] {
        &[]
    }

    /// Leaves out nine of ten iterations, for a quick look.
    fn shorten(&mut self) {}
}

/// Declares the programs of scenarios, and the kinds that each is read as.
macro_rules! kinds {
    ($($variant:ident($program:ty): $($kind:path),+;)+) => {
        /// The program of a workload, with its options.
        #[derive(Debug, Clone, PartialEq)]
        pub enum WorkloadKind {
            $(
                #[doc = concat!("`", stringify!($program), "`.")]
                $variant($program),
            )+
        }

        /// All kinds, by the names that scenarios give them.
        pub(crate) const KINDS: &[(&str, &$crate::workload::kind::Kind)] =
            &[$($(($kind.name, &$kind)),+),+];

        impl WorkloadKind {
            pub(crate) fn program(&self) -> &dyn $crate::workload::kind::Program {
                match self {
                    $(WorkloadKind::$variant(program) => program,)+
                }
            }

            pub(crate) fn program_mut(&mut self) -> &mut dyn $crate::workload::kind::Program {
                match self {
                    $(WorkloadKind::$variant(program) => program,)+
                }
            }
        }
    };
}

pub(super) use kinds;
