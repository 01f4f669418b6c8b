//! A recording as a profile: the accesses to instances of one type, found by address.
//!
//! A variable is searched for the type by its debug information. A heap block has no type: the caller
//! names its allocation site ([`ProfileOptions::at`]), and the block is taken as an array of the type.
//!
//! Not modelled: the recorder counts accesses to a line only from the moment when a second thread
//! comes by, so a line that one thread alone uses has none.

use std::collections::BTreeMap;

use hitm_base::{AccessOp, Cycles, LINE_SIZE};
use hitm_coherence::stats::{RowKey as Place, RowStats};
use hitm_layout::profile::{Counts, CpuSet, Profile, RowKey};
use thiserror::Error;

use crate::recording::Recording;

/// Which accesses are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileOptions {
    /// The type's name.
    pub type_name: String,
    /// Part of the name of an allocation site or variable (`main (heap_straddle.c:33)`): what is
    /// there is an array of the type.
    pub at: Option<String>,
}

/// Why a recording gives no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordedProfileError {
    /// No shared line holds the type.
    #[error(
        "{recording}: no access to {wanted} in a line that two threads share: expected a variable of \
         that type, or --at with one of: {known}"
    )]
    NothingFound {
        /// The recording.
        recording: String,
        /// The type.
        wanted: String,
        /// Objects that were accessed.
        known: String,
    },
}

/// A profile and where the instances were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedProfile {
    /// The counts.
    pub profile: Profile,
    /// Address of each instance.
    pub bases: BTreeMap<u32, u64>,
    /// The objects that the instances were found in.
    pub objects: Vec<String>,
}

/// The accesses to instances of a type of `type_size` bytes; `member_at` names the member that holds a
/// byte of it.
pub fn profile_of_recording(
    recording: &Recording,
    name: &str,
    (type_size, member_at): (u64, &dyn Fn(u64) -> Option<String>),
    options: &ProfileOptions,
) -> Result<RecordedProfile, RecordedProfileError> {
    let names = recording.names();
    let mut found = Found {
        profile: Profile::new(
            name,
            format!("recorded by hitm {}", recording.header.hitm_version),
            Cycles(1),
        ),
        bases: BTreeMap::new(),
        objects: Vec::new(),
    };
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    for (line, stats) in &recording.statistics.lines {
        for (place, row) in &stats.rows {
            let addr = line.0 * LINE_SIZE + u64::from(place.offset);
            let Some(instance) = names.instance_of(addr, place.size, (options, type_size)) else {
                continue;
            };
            *known.entry(instance.object.clone()).or_default() += row.latency.count;
            let Some(base) = instance.base else { continue };
            let Some(path) = member_at(addr - base) else {
                continue;
            };
            if !found.objects.contains(&instance.object) {
                found.objects.push(instance.object);
            }
            found.add(
                recording,
                (base, path, names.code(place.code).function),
                (place, row),
            );
        }
    }
    if found.bases.is_empty() {
        let mut known: Vec<(u64, String)> = known
            .into_iter()
            .map(|(name, count)| (count, name))
            .collect();
        known.sort_by(|a, b| b.cmp(a));
        let known: Vec<String> = known.into_iter().take(8).map(|(_, name)| name).collect();
        return Err(RecordedProfileError::NothingFound {
            recording: name.to_owned(),
            wanted: options.type_name.clone(),
            known: known.join(", "),
        });
    }
    Ok(found.finish(recording))
}

/// Counts by instance address.
struct Found {
    profile: Profile,
    /// Instance numbers in order of first sight.
    bases: BTreeMap<u64, u32>,
    objects: Vec<String>,
}

impl Found {
    fn add(
        &mut self,
        recording: &Recording,
        (base, member, function): (u64, String, String),
        (place, row): (&Place, &RowStats),
    ) {
        let next = self.bases.len() as u32;
        let instance = *self.bases.entry(base).or_insert(next);
        let thread = recording.threads.get(place.thread.index());
        let count = row.latency.count;
        let counts = match place.op {
            AccessOp::Load => Counts {
                loads: count,
                ..Counts::default()
            },
            AccessOp::Store => Counts {
                stores: count,
                ..Counts::default()
            },
            AccessOp::LockedRmw => Counts {
                rmws: count,
                ..Counts::default()
            },
            AccessOp::Fence => Counts::default(),
        };
        // A thread that moved between CPUs is split evenly.
        let cpus: Vec<String> = row.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        let Some(cpus) = CpuSet::parse(&cpus.join(" ")) else {
            return;
        };
        let key = RowKey {
            member,
            instance,
            function,
            comm: thread.map_or_else(String::new, |thread| thread.start.name.clone()),
            cpus,
        };
        self.profile.add(key, counts);
    }

    fn finish(mut self, recording: &Recording) -> RecordedProfile {
        let mut longest = Cycles(1);
        for thread in &recording.threads {
            let Some(exit) = thread.exit else { continue };
            let lived = exit.time.saturating_sub(thread.start.time);
            let own = lived.saturating_sub(exit.contention_stall);
            let work = self
                .profile
                .work
                .entry(thread.start.cpu)
                .or_insert(Cycles::ZERO);
            *work = Cycles((work.0 + own.0).max(1));
            longest = longest.max(*work);
        }
        self.profile.period = longest;
        RecordedProfile {
            profile: self.profile,
            bases: self
                .bases
                .into_iter()
                .map(|(base, instance)| (instance, base))
                .collect(),
            objects: self.objects,
        }
    }
}

/// What of a recording's memory holds an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstancePlace {
    /// The object's name.
    pub(crate) object: String,
    /// Address of the instance of the wanted type in it.
    pub(crate) base: Option<u64>,
}
