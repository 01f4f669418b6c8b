//! A file of accesses: read once, for all questions about it.
//!
//! ```text
//! questions -> their structures -> lines of the instances -> rows of all these lines -> a profile for each
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hitm_base::{LineAddr, Machine};
use hitm_files::text_file;
use hitm_layout::advise::{AdviseError, Subject, SubjectMember, path_in_types};
use hitm_layout::emit::Nameless;
use hitm_layout::layout_file::FileMember;
use hitm_layout::profile::Profile;
use hitm_machine as machine;
use hitm_perf::c2c::published::Published;
use hitm_recording::perf_data::{self, KernelSource, Weights};
use hitm_recording::{AddressNames, Recording, RecordingFile};

use super::inputs::{Asked, Source, Structure};
use super::published;
use super::simulated::{self, Simulated};
use super::{
    ProfileOptions, RecordedProfile, SessionError, lines_of_instances, profile_of_recording,
};

/// Longest table of accesses that is read: what its parser takes.
const TABLE_BYTES_MAX: u64 = 16 << 20;
/// Longest result of a simulation: hundreds of runs with all their lines.
const SIMULATION_BYTES_MAX: u64 = 256 << 20;

/// Contents of the inputs of a question.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) structure: Structure,
    pub(super) subject: Subject,
    pub(super) profile: Profile,
    pub(super) bases: BTreeMap<u32, u64>,
    pub(super) machine: Machine,
    /// Kind of the profile.
    pub(super) source: Source,
    /// Meaning of the samples' counts, if it has samples.
    pub(super) counted: Option<String>,
    /// Notes for the reader of the answer, one sentence each.
    pub(super) notes: Vec<String>,
    /// Anonymous structures that the source marks `__randomize_layout`.
    pub(super) randomized: Vec<Nameless>,
}

/// Answers to several questions, in their order. One may fail without the others.
pub(super) type Answers = Vec<Result<Read, SessionError>>;

/// Contents of a file of accesses.
#[derive(Debug)]
pub(super) enum Accesses {
    Table(Profile),
    Published(Published),
    /// The text of a result.
    Simulation(String),
    ByAddress(Box<ByAddress>),
}

/// Accesses with addresses: a recording, or samples.
#[derive(Debug)]
pub(super) struct ByAddress {
    path: PathBuf,
    recording: Recording,
    weights: Option<Weights>,
}

impl Accesses {
    /// Reads a file. `progress` gets the bytes of a recording read so far and in all.
    pub(super) fn open(
        path: &Path,
        kernel: Option<&KernelSource>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Accesses, SessionError> {
        Ok(match Source::of(path)? {
            Source::Table => Accesses::Table(table(path)?),
            Source::Published => Accesses::Published(published::read(path)?),
            Source::Simulation => Accesses::Simulation(text_file::read(
                path,
                SIMULATION_BYTES_MAX,
                "the result of a simulation",
            )?),
            Source::Samples | Source::Recording => {
                Accesses::ByAddress(Box::new(ByAddress::load(path, kernel, progress)?))
            }
        })
    }

    /// The accesses of a recording that was read from `path`.
    pub(super) fn of_recording(path: &Path, recording: Recording) -> Accesses {
        Accesses::ByAddress(Box::new(ByAddress {
            path: path.to_owned(),
            recording,
            weights: None,
        }))
    }

    /// Answers questions about these accesses. Of a large recording the rows of all their instances are read
    /// at once: `progress` gets the bytes so far and in all.
    pub(super) fn answer(
        &mut self,
        asked: Vec<Result<Asked, SessionError>>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Answers, SessionError> {
        let asked = asked.into_iter();
        Ok(match self {
            Accesses::Table(profile) => asked.map(|one| stated(one?, profile)).collect(),
            Accesses::Published(text) => asked.map(|one| published::stated(one?, text)).collect(),
            Accesses::Simulation(text) => asked.map(|one| simulated(one?, text)).collect(),
            Accesses::ByAddress(accesses) => accesses.answer(asked, progress)?,
        })
    }

    /// The recording on which layouts can be tried, if it is one.
    pub(super) fn into_recording(self) -> Option<Recording> {
        match self {
            Accesses::ByAddress(accesses) if accesses.weights.is_none() => Some(accesses.recording),
            _ => None,
        }
    }
}

/// Reads a table of accesses.
pub(super) fn table(path: &Path) -> Result<Profile, SessionError> {
    let text = text_file::read(path, TABLE_BYTES_MAX, "a table of accesses")?;
    Ok(Profile::parse(&text, &path.display().to_string())?)
}

fn stated(asked: Asked, profile: &Profile) -> Result<Read, SessionError> {
    let machine = asked.machine.clone();
    let machine = machine.ok_or_else(|| SessionError::NoMachine {
        path: asked.inputs.profile.clone(),
    })?;
    without_addresses(asked, profile.clone(), machine)
}

fn simulated(asked: Asked, text: &str) -> Result<Read, SessionError> {
    let inputs = &asked.inputs;
    let wanted = Simulated {
        path: &inputs.profile,
        type_name: &inputs.type_name,
        variant: inputs.variant.as_deref(),
        layout: &inputs.input.display().to_string(),
    };
    let (profile, simulated_on) = simulated::profile(text, &wanted)?;
    let machine = match &asked.machine {
        Some(machine) => machine.clone(),
        None => machine::resolve(&simulated_on)?.0,
    };
    without_addresses(asked, profile, machine)
}

/// Answers with a profile that counts by member, which has no instances and no replay.
fn without_addresses(
    asked: Asked,
    profile: Profile,
    machine: Machine,
) -> Result<Read, SessionError> {
    Ok(Read {
        subject: asked.subject()?,
        structure: asked.structure,
        profile,
        bases: BTreeMap::new(),
        machine,
        source: asked.source,
        counted: None,
        notes: Vec::new(),
        randomized: asked.randomized,
    })
}

impl ByAddress {
    fn load(
        path: &Path,
        kernel: Option<&KernelSource>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<ByAddress, SessionError> {
        let (mut recording, weights) = recording_or_samples(path, progress)?;
        match &weights {
            None if kernel.is_some() => {
                return Err(SessionError::NoSamples {
                    path: path.to_owned(),
                });
            }
            None => {}
            Some(weights) => {
                perf_data::name_kernel(&mut recording, kernel)?;
                if weights.span_ns().is_none() {
                    return Err(SessionError::NoTimes {
                        path: path.to_owned(),
                    });
                }
            }
        }
        Ok(ByAddress {
            path: path.to_owned(),
            recording,
            weights,
        })
    }

    fn answer(
        &mut self,
        asked: impl Iterator<Item = Result<Asked, SessionError>>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Answers, SessionError> {
        let mut lines: BTreeSet<LineAddr> = BTreeSet::new();
        let mut known = Vec::new();
        let names = self.recording.names();
        for one in asked {
            let one = one.and_then(|one| Ok((subject(&one, &names)?, one)));
            if let (Ok((subject, one)), true) = (&one, self.recording.is_cut()) {
                let options = self.options(one);
                let size = subject.size_bytes;
                lines.extend(lines_of_instances(&names, size, &options));
            }
            known.push(one);
        }
        let known = known.into_iter();
        // What files say of names is read once, unless there are more rows to name by.
        if lines.is_empty() {
            return Ok(self.found(known, &names));
        }
        drop(names);
        self.recording
            .add_rows(&self.path, lines.into_iter(), progress)?;
        Ok(self.found(known, &self.recording.names()))
    }

    /// The accesses to structures that were asked for.
    fn found(
        &self,
        known: impl Iterator<Item = Result<(Subject, Asked), SessionError>>,
        names: &AddressNames<'_>,
    ) -> Answers {
        let found = |(subject, asked)| self.found_one(subject, asked, names);
        known.map(|one| one.and_then(found)).collect()
    }

    /// The accesses to one structure.
    fn found_one(
        &self,
        subject: Subject,
        asked: Asked,
        names: &AddressNames<'_>,
    ) -> Result<Read, SessionError> {
        let options = self.options(&asked);
        let recorded = profile(&asked.structure, &subject, names, &options)?;
        let mut notes = Vec::new();
        let counted = self.weights.as_ref().map(count_of_samples);
        if let Some(counted) = &counted {
            notes.push(counted.clone());
            notes.push(String::from(
                "not replayed: samples are some of the accesses, and a replay needs them all",
            ));
            if asked.machine.is_none() {
                notes.push(String::from(
                    "priced on the machine as the samples describe it, with latencies of its like: name \
                     one that is measured with --machine"
                ));
            }
        }
        let source = match self.weights {
            Some(_) => Source::Samples,
            None => Source::Recording,
        };
        let machine = &self.recording.machine;
        Ok(Read {
            structure: asked.structure,
            subject,
            profile: recorded.profile,
            bases: recorded.bases,
            machine: asked.machine.unwrap_or_else(|| machine.clone()),
            source,
            counted,
            notes,
            randomized: asked.randomized,
        })
    }

    fn options<'o>(&'o self, asked: &'o Asked) -> ProfileOptions<'o> {
        let inputs = &asked.inputs;
        let machine = asked.machine.as_ref().unwrap_or(&self.recording.machine);
        ProfileOptions {
            type_name: inputs.type_name.clone(),
            name: inputs.profile.display().to_string(),
            at: match asked.structure {
                Structure::Scalars => Some(inputs.type_name.clone()),
                _ => inputs.at.clone(),
            },
            sampled: self.weights.as_ref().map(|weights| (weights, machine)),
        }
    }
}

/// Loads a recording; with the weights of its samples, if it has samples.
fn recording_or_samples(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Recording, Option<Weights>), SessionError> {
    if perf_data::sample_format(path).is_some() {
        let (recording, weights) = perf_data::load_weighed(path, progress)?;
        return Ok((recording, Some(weights)));
    }
    let recording = Recording::load_for_replay(path, progress)?;
    if recording.header.sampled.is_none() {
        return Ok((recording, None));
    }
    let mut weights = Weights::default();
    RecordingFile::open(path)?.visit(&mut weights, progress)?;
    Ok((recording, Some(weights)))
}

/// Says what the samples count.
fn count_of_samples(weights: &Weights) -> String {
    let samples = weights.samples;
    match weights.has_periods() {
        true => format!(
            "{samples} samples, each counted as the accesses of its period: {} in all",
            weights.total
        ),
        false => format!(
            "{samples} samples, each counted as one access: none says that it stands for more"
        ),
    }
}

/// The structure as the recording's objects show it.
fn subject(asked: &Asked, names: &AddressNames<'_>) -> Result<Subject, SessionError> {
    let subject = match &asked.structure {
        Structure::Scalars => scalars(&asked.inputs.type_name, names)?,
        _ => asked.subject()?,
    };
    if let Some((recorded, types)) = names.kernel_size(&subject.name)
        && recorded != subject.size_bytes
    {
        return Err(SessionError::OtherSize {
            found: subject.size_bytes,
            type_name: subject.name,
            input: asked.inputs.input.clone(),
            recorded,
            types,
        });
    }
    Ok(subject)
}

/// The accesses to a structure's instances in a recording.
fn profile(
    structure: &Structure,
    subject: &Subject,
    names: &AddressNames<'_>,
    options: &ProfileOptions<'_>,
) -> Result<RecordedProfile, SessionError> {
    let member_at: &dyn Fn(u64) -> Option<String> = match structure {
        Structure::Types(file, layout) => &|offset| {
            let mut file = file.borrow_mut();
            path_in_types(layout, file.types(), offset).map(|found| found.0)
        },
        Structure::Scalars => &|_| Some(String::from(VALUE)),
        Structure::Table(table) => &|offset| table.path_at(&subject.name, offset),
    };
    Ok(profile_of_recording(
        names,
        subject.size_bytes,
        member_at,
        options,
    )?)
}

/// Name of the only member of an array's element.
pub(super) const VALUE: &str = "value";

/// An element of the array `name` as a structure with one member.
fn scalars(name: &str, names: &AddressNames<'_>) -> Result<Subject, SessionError> {
    let size = names
        .scalar_array(name)
        .ok_or_else(|| AdviseError::NoSuchType {
            name: name.to_owned(),
        })?;
    Ok(Subject {
        name: name.to_owned(),
        size_bytes: size,
        align_bytes: size,
        members: vec![SubjectMember {
            file: FileMember::plain(VALUE, 0, size),
            align: size,
        }],
    })
}
