//! Two builds of a structure and who touches its members: what a change of its layout costs and
//! gains, on several machines.
//!
//! The changed types are those whose members lie elsewhere ([`hitm_layout::structs::diff`]'s rule). Each is
//! weighed as it was and as it is by the advisor's model, so that a review says what
//! `hitm layout compare` says. The profile is folded onto machines with fewer CPUs
//! ([`Profile::folded`](hitm_layout::profile::Profile::folded)).
//!
//! Invariant: a type has costs only if each member that the profile touches has a place in the second
//! build, or is said to be gone there. Members are paired by the names that source uses.
//!
//! Not modelled: members that the profile does not know, which cost nothing wherever they are.

mod coverage;
mod matching;
mod places;
mod price;
mod renames;
mod replay;
mod sides;
#[cfg(test)]
mod tests;
mod worse;

use std::path::PathBuf;

use hitm_layout::structs::{Change, MemberDiff};
use hitm_recording::perf_data::KernelSource;
use hitm_whatif::Took;
use hitm_whatif::layout_files::LayoutReadError;
use thiserror::Error;

use super::SessionError;
use crate::types_files::TypesError;

pub use hitm_layout::advise::{LineReport, Weighed};
pub use matching::{Alike, Unmatched};
use renames::Renames;
pub use renames::{Rename, StatedRename};
use sides::{Builds, Side};
pub use worse::{Worse, WorseKind};

/// Machines of a review that names none, each of another kind.
pub const MACHINES: [&str; 4] = ["xeon-480", "genoa-384", "kunpeng920-96", "broadwell-4s"];

/// Most types of a review that names none: more are no page that anybody reads.
const TYPES_MAX: usize = 16;

/// Bytes of a cache line on the machines that hitm has models of.
const LINE: u64 = hitm_base::LINE_SIZE;

/// Inputs of a review.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReviewInputs {
    /// The builds before and after: BTF, ELF files with BTF or DWARF, layout files or shipped ones.
    pub builds: [PathBuf; 2],
    /// Base of split BTF, of both builds.
    pub btf_base: Option<PathBuf>,
    /// Types to review; all that changed when empty.
    pub types: Vec<String>,
    /// Accesses to the members.
    pub profile: Option<PathBuf>,
    /// Variant of a simulation.
    pub variant: Option<String>,
    /// Place of the instances: an allocation site, a variable or an address.
    pub at: Option<String>,
    /// Source of the names of a sampled kernel.
    pub kernel: Option<KernelSource>,
    /// Members that have another name in the second build, or are gone there.
    pub renamed: Vec<StatedRename>,
    /// Names or paths of machines; the profile's own and [`MACHINES`] when empty.
    pub machines: Vec<String>,
}

/// Errors of a review.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// The types of a build cannot be read.
    #[error(transparent)]
    Types(#[from] TypesError),
    /// The structure cannot be read.
    #[error(transparent)]
    Type(#[from] hitm_layout::Error),
    /// A layout cannot be read.
    #[error(transparent)]
    Layout(#[from] LayoutReadError),
    /// The machine is not understood.
    #[error("--machine {name}: {cause}")]
    Machine {
        /// Requested machine.
        name: String,
        /// Reason.
        cause: Box<hitm_machine::Error>,
    },
    /// A build lacks a type that was asked for.
    #[error("{lacks}: no structure {type_name}{}", match has {
        Some(has) => format!(": only {has} has it, and a review compares two"),
        None => String::new(),
    })]
    NoSuchType {
        /// The type.
        type_name: String,
        /// Build that lacks it.
        lacks: String,
        /// Build that has it.
        has: Option<String>,
    },
    /// A renamed member is not there, or may be one of several.
    #[error("--renamed {text}: {cause}")]
    Renamed {
        /// The option.
        text: String,
        /// Reason.
        cause: String,
    },
    /// The costs of a type that was asked for are unknown.
    #[error(transparent)]
    Session(Box<SessionError>),
}

impl From<SessionError> for ReviewError {
    fn from(error: SessionError) -> ReviewError {
        ReviewError::Session(Box::new(error))
    }
}

/// A structure's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Bytes of an instance.
    pub size_bytes: u64,
    /// Cache lines of an instance that begins at a line's start.
    pub line_count: u64,
    /// Holes between members.
    pub hole_count: u64,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Bytes behind the last member.
    pub padding_bytes: u64,
}

/// A member before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberReview {
    /// Its places.
    pub places: MemberDiff,
    /// Accesses in the profile; 0 where the profile does not know the member, none without a profile.
    pub access_count: Option<u64>,
}

/// Both layouts on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineCost {
    /// Name of the machine.
    pub machine: String,
    /// CPUs of the machine.
    pub cpu_count: u64,
    /// CPUs of the profile that stand for one another, where the machine has fewer.
    pub folded_cpu_count: Option<u64>,
    /// Sums over all threads by a replay of the recording; none where the model's estimates decide.
    pub replay: Option<hitm_whatif::Change<Took>>,
    /// Cost of both layouts by the model.
    pub weighed: [Weighed; 2],
}

impl MachineCost {
    /// Cycles before and after: of all threads by a replay, else of the type's lines by the model.
    pub fn cycles(&self) -> [f64; 2] {
        if let Some(hitm_whatif::Change { before, after }) = self.replay {
            return [before, after].map(|took| took.cycles.0 as f64);
        }
        [0, 1].map(|side| self.weighed[side].cost.cycles())
    }
}

/// Way in which accesses were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Each one, by a recording.
    Recorded,
    /// Each one, by a simulation.
    Simulated,
    /// By samples.
    Sampled,
    /// As a table states them.
    Stated,
}

impl Counted {
    /// The word in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Counted::Recorded => "recorded",
            Counted::Simulated => "simulated",
            Counted::Sampled => "sampled",
            Counted::Stated => "stated",
        }
    }
}

/// The profile's knowledge of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Way in which accesses were counted.
    pub counted: Counted,
    /// Origin of the counts.
    pub source: String,
    /// Accesses.
    pub access_count: u64,
    /// Functions that make them.
    pub function_count: u64,
    /// CPUs that make them.
    pub cpu_count: u64,
    /// Members of the new layout that the profile does not know.
    pub unknown_members: Vec<String>,
    /// Members of the profile that a layout lacks, and their accesses: before, then after.
    pub lacking: [Vec<(String, u64)>; 2],
    /// Other limits of the figures, one sentence each.
    pub notes: Vec<String>,
}

/// A changed type.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeReview {
    /// Its name.
    pub name: String,
    /// Memory before and after.
    pub memory: [Memory; 2],
    /// Members by their new offset; removed ones by their old offset.
    pub members: Vec<MemberReview>,
    /// Cost on each machine; empty when the profile does not know the type.
    pub costs: Vec<MachineCost>,
    /// The profile's knowledge; none when it does not know the type.
    pub coverage: Option<Coverage>,
    /// Reason for which there are no costs.
    pub unpriced: Option<String>,
    /// Touched members without a place in the second build: costs without them would be wrong.
    pub unmatched: Vec<Unmatched>,
    /// Members that have another name in the second build, or are gone there.
    pub renames: Vec<Rename>,
    /// Everything that gets worse.
    pub worse: Vec<Worse>,
}

/// A review.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    /// Names of the builds.
    pub builds: [String; 2],
    /// Name of the profile.
    pub profile: Option<String>,
    /// Types that both builds have and that were compared.
    pub compared_count: u64,
    /// Types that only the first and only the second build has.
    pub only_counts: [u64; 2],
    /// The changed types.
    pub types: Vec<TypeReview>,
    /// Names of changed types that are left out.
    pub left_out: Vec<String>,
}

/// A changed type, not yet priced.
struct Changed {
    name: String,
    memory: [Memory; 2],
    members: Vec<MemberDiff>,
    renames: Renames,
}

/// Compares two builds and prices the types that differ. `progress` gets the bytes of a recording
/// read so far and in all.
pub fn review(
    inputs: &ReviewInputs,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Review, ReviewError> {
    let machines = price::machines(&inputs.machines)?;
    let [old, new] = [0, 1].map(|at| Side::open(&inputs.builds[at], inputs.btf_base.as_deref()));
    let mut builds = Builds {
        old: old?,
        new: new?,
    };
    let names = match inputs.types.is_empty() {
        true => sides::shared(&mut builds.old, &mut builds.new)?,
        false => sides::asked(&mut builds.old, &mut builds.new, &inputs.types)?,
    };
    renames::check_used(&inputs.renamed, &names.both, &mut builds.old)?;
    let mut changed = Vec::new();
    for name in &names.both {
        let stated = renames::of_type(&inputs.renamed, name, &names.both, &mut builds)?;
        changed.extend(compared(name, stated, &mut builds)?);
    }
    let mut pricing = price::Pricing::new(inputs, machines, builds)?;
    pricing.order(&mut changed);
    let most = if inputs.types.is_empty() {
        TYPES_MAX
    } else {
        usize::MAX
    };
    let left_out = changed.split_off(changed.len().min(most));
    let types = pricing.price(changed, progress)?;
    Ok(Review {
        builds: pricing.names(),
        profile: pricing.profile_name(),
        compared_count: names.both.len() as u64,
        only_counts: names.only,
        types,
        left_out: left_out.into_iter().map(|one| one.name).collect(),
    })
}

/// Compares a type of both builds; none when nothing differs.
fn compared(
    name: &str,
    stated: Renames,
    builds: &mut Builds,
) -> Result<Option<Changed>, ReviewError> {
    let wholes = (builds.old.whole(name)?, builds.new.whole(name)?);
    let (Some(before), Some(after)) = wholes else {
        return Ok(None);
    };
    let [old, new] = builds.parts(name, &before.parts, &after.parts);
    let mut renames = stated;
    renames.0.extend(matching::automatic(&old, &new, &renames));
    let members = matching::rows(&old, &new, &renames);
    let is_same = |row: &MemberDiff| {
        let sizes = row.before.as_ref().zip(row.after.as_ref());
        row.change == Change::Same && sizes.is_some_and(|(a, b)| a.bit_size == b.bit_size)
    };
    let memory = [before.memory, after.memory];
    let is_same = members.iter().all(is_same)
        && memory[0].size_bytes == memory[1].size_bytes
        && renames.0.is_empty();
    Ok((!is_same).then(|| Changed {
        name: name.to_owned(),
        memory,
        members,
        renames,
    }))
}
