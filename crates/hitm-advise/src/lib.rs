//! Advice on the layout of a structure: the profile, the prices of a machine, and a replay that
//! checks the advisor's prediction.

mod accesses;
mod error;
mod heading;
mod inner;
mod inputs;
mod locate;
mod member_path;
mod prices;
mod profile;
mod proof;
mod proposals;
mod published;
mod recorded;
mod replay;
pub mod review;
mod session;
mod simulated;
mod source;
pub mod types_files;
mod whole;

use std::collections::BTreeMap;

use hitm_base::Machine;
use hitm_layout::advise::{Advice, AdviseError, Demand, Located, Options, Subject, advise};
use hitm_layout::profile::Profile;

pub use error::SessionError;
pub use heading::Heading;
pub use inputs::Inputs;
pub use prices::EnginePrices;
pub(crate) use profile::ProfileOptions;
pub use profile::RecordedProfileError;
use profile::{RecordedProfile, lines_of_instances, profile_of_recording};
pub use proof::{Proof, access_count, gain};
pub use proposals::{Proposal, Tried};
pub use recorded::{RecordedAdvice, advise_recorded, element_at, pad_values, structure_at};
pub use replay::{Replayed, replay};
pub use session::{Answer, Compared, Session, nearest};
pub use simulated::{Simulated, SimulatedProfileError, profile as profile_of_simulation};
pub use source::Language;

/// A structure to be laid out, and its profile.
#[derive(Debug)]
pub struct Question<'q> {
    /// The structure.
    pub subject: &'q Subject,
    /// Accesses to its members.
    pub profile: &'q Profile,
    /// Machine that prices the accesses.
    pub machine: &'q Machine,
    /// Addresses of instances, where they are known.
    pub bases: &'q BTreeMap<u32, u64>,
    /// True for a recording: it lacks accesses to lines that one thread uses alone, or that all only read.
    pub is_partial: bool,
}

/// Searches for better layouts; `locate` finds a path of the profile in the present structure.
/// `progress` gets the steps of the search so far and at most.
pub fn ask(
    question: &Question<'_>,
    locate: &dyn Fn(&str) -> Option<(u64, u64)>,
    options: &Options,
    progress: &dyn Fn(u64, u64),
) -> Result<Advice, AdviseError> {
    let demand = Demand::new(
        question.profile,
        &EnginePrices::new(question.machine.clone()),
    )?;
    let located = Located {
        locate,
        bases: question.bases,
        is_partial: question.is_partial,
    };
    advise(question.subject, &demand, located, options, progress)
}
