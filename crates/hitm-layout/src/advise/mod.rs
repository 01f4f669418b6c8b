//! The advisor: where the members of a structure should lie, given who touches them.
//!
//! [`Demand`] puts a [`crate::profile::Profile`] on a machine; [`Demand::line_cost`] says what a line
//! costs that holds given members ([`line`](LineCost)); [`advise`] partitions the members into lines
//! so that the sum is least, for each number of lines, and answers a [`Candidate`] for each that is
//! worth its lines. `docs/models/advisor.md` derives the cost and says how far it is from a replay.
//!
//! Invariants: every candidate has the members of the subject, each once, none overlapping, each at a
//! multiple of its alignment; pinned members and the frozen prefix are where they were asked to be;
//! the cost of a candidate is [`Demand::weigh_layout`] of it. Same input, same candidates.
//!
//! Not modelled: members that nothing in the profile touches are taken to be free of cost wherever
//! they are; they fill the cheapest lines first.

mod arrange;
mod atoms;
mod bins;
mod demand;
mod exact;
mod line;
mod local;
mod prices;
mod reason;
mod subject;
#[cfg(test)]
mod tests;
mod weighed;

use std::collections::BTreeMap;

use hitm_base::CpuId;
use thiserror::Error;

pub use demand::{Demand, Spot};
pub use line::{FOOTPRINT_PERIOD, HIDDEN_WEIGHT, LineCost};
pub use prices::{Prices, Toll};
pub use reason::Move;
pub use subject::{Subject, SubjectMember, path_in_types, place_in_types};
pub use weighed::{LineReport, Weighed};

use crate::layout_file::FileStruct;
use bins::{Weigher, spot_places};
use exact::{Assignment, EXACT_ATOMS_MAX};

/// The most candidates that are answered.
pub const CANDIDATES_MAX: usize = 5;

/// A layout with more lines must save at least this share of the present layout's cost to be a
/// candidate, and lines that differ by less are equally good for what nothing touches: less is within
/// the error of the model, and of a profile.
const WORTH_A_LINE: f64 = 0.001;

/// What the advisor must keep to.
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
}

/// Why there is no advice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The profile is of a larger machine.
    #[error("the profile has CPU {}, machine {machine} has {cpu_count} CPUs", cpu.0)]
    UnknownCpu {
        /// The CPU.
        cpu: CpuId,
        /// How many CPUs the machine has.
        cpu_count: usize,
        /// The machine.
        machine: String,
    },
    /// No such structure.
    #[error("no structure {name}")]
    NoSuchType {
        /// The name that was asked for.
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
        /// The member.
        member: String,
    },
    /// A constraint that cannot be met.
    #[error("{what}: {why}")]
    BadConstraint {
        /// The constraint.
        what: String,
        /// Why.
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

/// A layout that is worth its lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The layout.
    pub layout: FileStruct,
    /// What it costs.
    pub weighed: Weighed,
    /// What moved and why, the largest gain first.
    pub moves: Vec<Move>,
    /// What a layout with these constraints and as many hot lines costs at least, in cycles: exact when
    /// up to 12 atoms are distributed, an estimate beyond.
    pub bound_cycles: f64,
}

impl Candidate {
    /// How much dearer it is than the bound, as a share; 0 is proof that none is better, since the
    /// estimate stays below what was found.
    pub fn gap(&self) -> f64 {
        let cost = self.weighed.cost.cycles();
        let apart = cost - self.bound_cycles;
        // The bound is in thousandths of a cycle: what is less is rounding.
        if apart <= 1.0 { 0.0 } else { apart / cost }
    }
}

/// The advisor's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The layout as it is.
    pub original: Weighed,
    /// Better ones: from few lines to many, each cheaper than those before it; may be empty.
    pub candidates: Vec<Candidate>,
    /// Members that the profile touches and that may move.
    pub hot_count: usize,
}

/// Where the profile's paths are in the structure as it is.
#[derive(Clone, Copy)]
pub struct Located<'l> {
    /// Offset and size of a path.
    pub locate: &'l dyn Fn(&str) -> Option<(u64, u64)>,
    /// Addresses of instances, where they are known.
    pub bases: &'l BTreeMap<u32, u64>,
}

impl std::fmt::Debug for Located<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Located")
            .field("bases", &self.bases)
            .finish_non_exhaustive()
    }
}

/// Looks for better layouts of `subject`.
pub fn advise(
    subject: &Subject,
    demand: &Demand,
    located: Located<'_>,
    options: &Options,
) -> Result<Advice, AdviseError> {
    let no_member = |member: String| AdviseError::NoSuchMember {
        name: subject.name.clone(),
        member,
    };
    let atoms = atoms::atoms(subject, options)?;
    let places = spot_places(demand, subject, &atoms, located.locate).map_err(no_member)?;
    let weigher = Weigher::new(demand, &atoms, &places);
    let original = demand
        .weigh_layout(subject.size_bytes, located.bases, located.locate)
        .map_err(no_member)?;
    let worth = original.cost.cycles() * WORTH_A_LINE;
    let mut all = Vec::new();
    for (assignment, bound) in solutions(&weigher, options.seed) {
        let layout = arrange::arrange(&weigher, subject, &assignment, (worth * 1000.0) as u64);
        let moved = |path: &str| relocate(subject, &layout, located.locate, path);
        let weighed = demand
            .weigh_layout(layout.size_bytes, &BTreeMap::new(), &moved)
            .map_err(no_member)?;
        all.push(Candidate {
            moves: Vec::new(),
            bound_cycles: bound as f64 / 1000.0,
            layout,
            weighed,
        });
    }
    let least = all
        .iter()
        .map(|candidate| candidate.weighed.lines)
        .min()
        .unwrap_or(0);
    if let Some(max) = options.max_lines {
        all.retain(|candidate| candidate.weighed.lines <= max);
        if all.is_empty() {
            let name = subject.name.clone();
            return Err(AdviseError::TooFewLines { name, max, least });
        }
    }
    let mut candidates = front(all, original.cost.cycles(), worth);
    for candidate in &mut candidates {
        candidate.moves = reason::moves(&weigher, subject, &candidate.layout);
    }
    Ok(Advice {
        original,
        candidates,
        hot_count: weigher.hot.len(),
    })
}

/// Assignments for growing numbers of lines, each with what is possible at least, in thousandths of a
/// cycle.
fn solutions(weigher: &Weigher<'_>, seed: u64) -> Vec<(Assignment, u64)> {
    if weigher.hot.len() <= EXACT_ATOMS_MAX {
        let exact = exact::partitions(weigher, &weigher.hot)
            .into_iter()
            .flatten();
        return exact.map(|found| (found.clone(), found.cost)).collect();
    }
    local::partitions_of_many(weigher, seed)
        .into_iter()
        .flatten()
        .collect()
}

/// Where `path` is after its member has moved.
fn relocate(
    subject: &Subject,
    layout: &FileStruct,
    locate: &dyn Fn(&str) -> Option<(u64, u64)>,
    path: &str,
) -> Option<(u64, u64)> {
    let (offset, size) = locate(path)?;
    let member = &subject.members[subject.member_at(offset)?].file;
    let moved = layout.get(&member.name)?;
    Some((moved.offset_bytes + (offset - member.offset_bytes), size))
}

/// The candidates that no other one beats in both lines and cycles, and that beat the present layout
/// in one of them; if there are too many, those with the largest steps.
fn front(mut all: Vec<Candidate>, original_cycles: f64, worth: f64) -> Vec<Candidate> {
    all.sort_by(|a, b| {
        let cycles = a.weighed.cost.cycles().total_cmp(&b.weighed.cost.cycles());
        a.weighed.lines.cmp(&b.weighed.lines).then(cycles)
    });
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in all {
        let cycles = candidate.weighed.cost.cycles();
        let beats_present = cycles < original_cycles - worth;
        let beats_last = kept
            .last()
            .is_none_or(|last| cycles < last.weighed.cost.cycles() - worth);
        if beats_present && beats_last {
            kept.push(candidate);
        }
    }
    while kept.len() > CANDIDATES_MAX {
        // The ends stay; of the rest goes the one that the step to its successor makes needless.
        let cycles = |at: usize| kept[at].weighed.cost.cycles();
        let inner = (1..kept.len() - 1).min_by(|a, b| {
            let step = |at: usize| cycles(at - 1) - cycles(at);
            step(*a).total_cmp(&step(*b))
        });
        match inner {
            Some(at) => drop(kept.remove(at)),
            None => break,
        }
    }
    kept
}
