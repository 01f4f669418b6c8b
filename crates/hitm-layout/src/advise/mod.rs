//! The advisor: where the members of a structure should lie, given who touches them.
//!
//! [`Demand`] puts a [`crate::profile::Profile`] on a machine, and prices a line that holds given members
//! ([`LineCost`]). [`advise`] partitions the members into lines so that the sum is least, for each number of lines. It answers a [`Candidate`] for each that is
//! worth its lines, and those that need no search ([`Plan`]). `docs/models/advisor.md` derives the cost and
//! says how far it is from a replay, which decides where there is a recording.
//!
//! Invariants: every candidate has the members of the subject, each once, none overlapping, each at
//! a multiple of its alignment. Pinned members and the frozen prefix are where the options put
//! them. The cost of a candidate is [`Demand::weigh_layout`] of it. Same input, same candidates.
//!
//! Not modelled: members that nothing in the profile touches are taken to be free of cost wherever
//! they are; they fill the cheapest lines first.

mod arrange;
mod atoms;
mod bins;
mod demand;
mod drafts;
mod exact;
mod line;
mod local;
mod plain;
mod prices;
mod quiet;
mod reason;
mod subject;
#[cfg(test)]
mod tests;
mod weighed;
mod work;

use std::collections::BTreeMap;

use hitm_base::CpuId;
use thiserror::Error;

pub use demand::Demand;
pub use line::{FOOTPRINT_PERIOD, HIDDEN_WEIGHT, LineCost};
pub use plain::Plan;
pub use prices::{Prices, Toll};
pub use reason::{Habits, Move, Reason};
pub use subject::{Opening, Subject, SubjectMember, path_in_types};
pub use weighed::{LineReport, Weighed};

use crate::layout_file::FileStruct;
use bins::{Weigher, spot_places};
use drafts::Drafting;
use exact::Assignment;
use quiet::Quiet;
use weighed::base_of;
use work::Work;

/// The most candidates that are answered.
pub const CANDIDATES_MAX: usize = 5;

/// The most steps that a search takes.
///
/// Chosen for an answer within 10 seconds. A step takes 5 to 12 ns on a virtual machine, as
/// measured with the profiles of `docs/models/advisor.md`. So all of them take 2 to 5 seconds. More
/// steps make the answer for hundreds of members better by a few percent.
pub const STEPS_MAX: u64 = 400_000_000;

/// Constraints on the advice, and limits of the search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The most lines that the structure may take.
    pub max_lines: Option<u64>,
    /// Members that must be at an offset.
    pub pins: Vec<(String, u64)>,
    /// Members that must stay in one line, next to each other.
    pub keep_together: Vec<Vec<String>>,
    /// Members that begin before this byte stay where they are.
    pub frozen_prefix: u64,
    /// For the search when there are many members.
    pub seed: u64,
    /// The most steps that the search takes; [`STEPS_MAX`] when none.
    pub steps_max: Option<u64>,
}

impl Options {
    /// Returns true if every layout is allowed.
    pub fn is_free(&self) -> bool {
        self.max_lines.is_none()
            && self.pins.is_empty()
            && self.keep_together.is_empty()
            && self.frozen_prefix == 0
    }
}

/// Reason for which there is no advice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The profile is of a larger machine.
    #[error("the profile has CPU {}, machine {machine} has {cpu_count} CPUs", cpu.0)]
    UnknownCpu {
        /// The CPU that the profile names.
        cpu: CpuId,
        /// CPUs that the machine has.
        cpu_count: usize,
        /// Name of the machine.
        machine: String,
    },
    /// No such structure.
    #[error("no structure {name}")]
    NoSuchType {
        /// The name that the caller gave.
        name: String,
    },
    /// The profile, or a constraint, names a member that is not there.
    #[error("{name} has no member {member}")]
    NoSuchMember {
        /// The structure.
        name: String,
        /// The path.
        member: String,
    },
    /// A structure whose members cannot be moved one by one.
    #[error(
        "{name}: member {member} overlaps others or is a base: its members cannot be moved one by one"
    )]
    NotMovable {
        /// The structure.
        name: String,
        /// The member that overlaps others or is a base.
        member: String,
    },
    /// A constraint that cannot be met.
    #[error("{what}: {why}")]
    BadConstraint {
        /// The constraint.
        what: String,
        /// Reason why it cannot be met.
        why: String,
    },
    /// No layout has as few lines.
    #[error("no layout of {name} takes at most {max} lines: the smallest found takes {least}")]
    TooFewLines {
        /// The structure.
        name: String,
        /// The limit.
        max: u64,
        /// The fewest lines that a layout takes.
        least: u64,
    },
}

/// A layout to be tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its idea.
    pub plan: Plan,
    /// The structure with its members rearranged.
    pub layout: FileStruct,
    /// Its cost, by line and in all.
    pub weighed: Weighed,
    /// Moves of members with their reasons, the largest gain first.
    pub moves: Vec<Move>,
    /// Least cost of a layout with these constraints and as many hot lines, in cycles. It is exact
    /// when up to 12 atoms are distributed, an estimate beyond. None for a layout that was not searched.
    pub bound_cycles: Option<f64>,
}

impl Candidate {
    /// Returns the part of its cost that exceeds the bound, as a share. 0 is proof that none is
    /// better, since the estimate stays below what was found.
    pub fn gap(&self) -> Option<f64> {
        let cost = self.weighed.cost.cycles();
        let apart = cost - self.bound_cycles?;
        // The bound is in thousandths of a cycle: what is less is rounding.
        Some(if apart <= 1.0 { 0.0 } else { apart / cost })
    }
}

/// The advisor's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Cycles of own work of all cores in the profile's period.
    pub work_cycles: f64,
    /// Accesses in the profile's period.
    pub access_count: f64,
    /// The layout as it is.
    pub original: Weighed,
    /// Better ones by the model: from few lines to many, each cheaper than those before it; may be empty.
    pub candidates: Vec<Candidate>,
    /// Those that need no search, by their plans, whatever the model says of them. None is a candidate too.
    pub plain: Vec<Candidate>,
    /// Search that found it.
    pub search: Search,
}

/// Extent of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// Atoms that the profile touches and that may move.
    pub atoms: usize,
    /// The most used of them: those that were partitioned exactly. With all of them, every candidate
    /// is the best with as many hot lines.
    pub exact_atoms: usize,
    /// Steps taken.
    pub steps: u64,
    /// The limit on them.
    pub steps_max: u64,
    /// True if the limit ended it before it had tried all that it would have.
    pub is_limited: bool,
}

impl Search {
    /// Returns true if candidates are the best with as many hot lines, and not the best found.
    pub fn is_exact(&self) -> bool {
        self.atoms == self.exact_atoms
    }
}

/// Places of the profile's paths in the structure as it is.
#[derive(Clone, Copy)]
pub struct Located<'l> {
    /// Offset and size of a path.
    pub locate: &'l dyn Fn(&str) -> Option<(u64, u64)>,
    /// Addresses of instances, where they are known.
    pub bases: &'l BTreeMap<u32, u64>,
    /// True for a recording: it lacks accesses to lines that one thread uses alone, or that all only read.
    pub is_partial: bool,
}

impl std::fmt::Debug for Located<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Located")
            .field("bases", &self.bases)
            .finish_non_exhaustive()
    }
}

/// Looks for better layouts of `subject`. `progress` gets the steps taken and the most that there can
/// be.
pub fn advise(
    subject: &Subject,
    demand: &Demand,
    located: Located<'_>,
    options: &Options,
    progress: &dyn Fn(u64, u64),
) -> Result<Advice, AdviseError> {
    let no_member = |member| subject.no_member(member);
    let atoms = atoms::atoms(subject, options)?;
    let places = spot_places(demand, subject, &atoms, located.locate).map_err(no_member)?;
    let steps_max = options.steps_max.unwrap_or(STEPS_MAX);
    let work = Work::new(steps_max, progress);
    let mut weigher = Weigher::new(demand, &atoms, &places, &work);
    if located.is_partial {
        weigher.quiet = Quiet::find(&weigher, &|instance| base_of(instance, located.bases));
    }
    let old = demand.by_path(located.locate).map_err(no_member)?;
    let original = demand
        .weigh_layout(subject.size_bytes, located.bases, &|path| {
            old.get(path).copied()
        })
        .map_err(no_member)?;
    work.spend(original.steps);
    let drafting = Drafting {
        weigher: &weigher,
        subject,
        options,
        bases: located.bases,
        old: &old,
        now_cycles: original.cost.cycles(),
    };
    // The answers are weighed in the end.
    let answers = original.steps.saturating_mul(CANDIDATES_MAX as u64);
    let steps = work.left() - answers.min(work.left() / 2);
    let exact_atoms = exact::atoms_within(&weigher, steps / 2);
    let found = solutions(&weigher, exact_atoms, options.seed, steps);
    let mut candidates = drafting.searched(found)?;
    let mut plain = drafting.plain(&mut candidates)?;
    drafting.explain(candidates.iter_mut().chain(&mut plain).collect());
    Ok(Advice {
        work_cycles: demand.work,
        access_count: demand.accesses,
        candidates,
        plain,
        original,
        search: Search {
            atoms: weigher.hot.len(),
            exact_atoms,
            steps: work.spent(),
            steps_max,
            is_limited: work.is_cut(),
        },
    })
}

/// Assignments for growing numbers of lines, each with what is possible at least, in thousandths of a
/// cycle.
fn solutions(
    weigher: &Weigher<'_>,
    exact_atoms: usize,
    seed: u64,
    steps: u64,
) -> Vec<(Assignment, u64)> {
    if weigher.hot.len() == exact_atoms {
        let exact = exact::partitions(weigher, &weigher.hot)
            .into_iter()
            .flatten();
        return exact.map(|found| (found.clone(), found.cost)).collect();
    }
    // A quarter is left for the reasons.
    let until = weigher.work.spent() + steps / 4 * 3;
    local::partitions_of_many(weigher, exact_atoms, seed, until)
}
