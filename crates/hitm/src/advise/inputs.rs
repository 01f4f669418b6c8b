//! Inputs of a question, read from files: the structure, the profile, the machine.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hitm_base::Machine;
use hitm_layout::StructLayout;
use hitm_layout::advise::{AdviseError, Subject, SubjectMember, path_in_types};
use hitm_layout::layout_file::{FileMember, LayoutTable, shipped};
use hitm_layout::profile::Profile;

use super::proof::Proving;
use super::simulated::{self, Simulated};
use super::{
    ProfileOptions, RecordedProfile, SessionError, lines_of_instances, profile_of_recording,
};
use crate::input_file::{self, NamedBy};
use crate::layout::{LayoutError, LayoutFile as TypesFile};
use crate::perf_data::{self, KernelSource, Weights};
use crate::recording::{Recording, RecordingFile};
use crate::whatif::HeapInstances;
use crate::{layout_files, machine, text_file};

/// Longest table of accesses that is read: what its parser takes.
const TABLE_BYTES_MAX: u64 = 16 << 20;
/// Longest result of a simulation: hundreds of runs with all their lines.
const SIMULATION_BYTES_MAX: u64 = 256 << 20;

/// Inputs of a question about one structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inputs {
    /// The structure, or a variable that is an array of scalars.
    pub type_name: String,
    /// A layout file or the name of a shipped one, or a file with types.
    pub input: PathBuf,
    /// Layout with the structures that `input`, a layout too, lacks.
    pub below: Option<PathBuf>,
    /// Base of split BTF.
    pub btf_base: Option<PathBuf>,
    /// A recording, a table of accesses, samples, or the result of a simulation.
    pub profile: PathBuf,
    /// Variant of a simulation.
    pub variant: Option<String>,
    /// Place of the instances: an allocation site, a variable or an address.
    pub at: Option<String>,
    /// Types of members whose own members may be moved too.
    pub open: Vec<String>,
    /// Name or path of the machine; `None` for the recording's.
    pub machine: Option<String>,
    /// Source of the names of a sampled kernel.
    pub kernel: Option<KernelSource>,
}

/// Source of the structure.
#[derive(Debug)]
pub(super) enum Structure {
    Table(LayoutTable),
    Types(Box<TypesFile>, Arc<StructLayout>),
    /// An array of scalars: its elements are the instances.
    Scalars,
}

/// Contents of the inputs.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) structure: Structure,
    pub(super) subject: Subject,
    pub(super) profile: Profile,
    pub(super) bases: BTreeMap<u32, u64>,
    pub(super) machine: Machine,
    pub(super) proving: Option<Proving>,
    /// Kind of the profile.
    pub(super) source: Source,
    /// Name of the machine on which accesses were counted; none for a table.
    pub(super) recorded_on: Option<String>,
    /// Meaning of the samples' counts, if it has samples.
    pub(super) counted: Option<String>,
    /// Notes for the reader of the answer, one sentence each.
    pub(super) notes: Vec<String>,
}

/// Kind of a file of accesses, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Table,
    Samples,
    Simulation,
    Recording,
}

impl Source {
    pub(super) fn of(path: &Path) -> Result<Source, SessionError> {
        let failed = |source| text_file::TextFileError::Read {
            path: path.to_owned(),
            source,
        };
        let mut head = Vec::new();
        let file = input_file::open(path, NamedBy::User).map_err(failed)?;
        file.take(256).read_to_end(&mut head).map_err(failed)?;
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_csv = path.extension().is_some_and(|extension| extension == "csv");
        Ok(match first {
            Some(b'{') => Source::Simulation,
            Some(b'#') => Source::Table,
            _ if is_csv => Source::Table,
            _ if perf_data::sample_format(path).is_some() => Source::Samples,
            _ => Source::Recording,
        })
    }

    /// Returns true if the file counts by address, so that the subject may be a variable.
    fn has_addresses(self) -> bool {
        matches!(self, Source::Samples | Source::Recording)
    }
}

/// Reads all inputs. `progress` gets the bytes of a recording read so far and in all.
pub(super) fn read(
    inputs: &Inputs,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Read, SessionError> {
    let source = Source::of(&inputs.profile)?;
    if inputs.kernel.is_some() && !source.has_addresses() {
        return Err(SessionError::NoSamples {
            path: inputs.profile.clone(),
        });
    }
    let structure = structure_of(inputs, source)?;
    let asked = match &inputs.machine {
        Some(name) => Some(machine::resolve(name)?.0),
        None => None,
    };
    match source {
        Source::Table => {
            let profile = table(&inputs.profile)?;
            let machine = asked.ok_or_else(|| SessionError::NoMachine {
                path: inputs.profile.clone(),
            })?;
            without_addresses(inputs, structure, (None, profile, machine))
        }
        Source::Simulation => {
            let text = text_file::read(
                &inputs.profile,
                SIMULATION_BYTES_MAX,
                "the result of a simulation",
            )?;
            let wanted = Simulated {
                path: &inputs.profile,
                type_name: &inputs.type_name,
                variant: inputs.variant.as_deref(),
                layout: &inputs.input.display().to_string(),
            };
            let (profile, simulated_on) = simulated::profile(&text, &wanted)?;
            let machine = match asked {
                Some(machine) => machine,
                None => machine::resolve(&simulated_on)?.0,
            };
            without_addresses(inputs, structure, (Some(simulated_on), profile, machine))
        }
        Source::Samples | Source::Recording => of_addresses(inputs, structure, asked, progress),
    }
}

/// Reads a table of accesses.
pub(super) fn table(path: &Path) -> Result<Profile, SessionError> {
    let text = text_file::read(path, TABLE_BYTES_MAX, "a table of accesses")?;
    Ok(Profile::parse(&text, &path.display().to_string())?)
}

/// Reads a profile that counts by member, which has no instances and no replay.
fn without_addresses(
    inputs: &Inputs,
    mut structure: Structure,
    (simulated_on, profile, machine): (Option<String>, Profile, Machine),
) -> Result<Read, SessionError> {
    Ok(Read {
        subject: subject_of(inputs, &mut structure)?,
        structure,
        profile,
        bases: BTreeMap::new(),
        machine,
        proving: None,
        source: match simulated_on {
            Some(_) => Source::Simulation,
            None => Source::Table,
        },
        recorded_on: simulated_on,
        counted: None,
        notes: Vec::new(),
    })
}

/// Reads a recording or samples and finds the accesses to instances by address.
fn of_addresses(
    inputs: &Inputs,
    structure: Structure,
    asked: Option<Machine>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Read, SessionError> {
    let (mut recording, weights) = load(&inputs.profile, progress)?;
    if weights.is_some() {
        perf_data::name_kernel(&mut recording, inputs.kernel.as_ref())?;
    } else if inputs.kernel.is_some() {
        return Err(SessionError::NoSamples {
            path: inputs.profile.clone(),
        });
    }
    let mut notes = Vec::new();
    let counted = weights.as_ref().map(count_of_samples);
    if let Some(weights) = &weights {
        if weights.span_ns().is_none() {
            return Err(SessionError::NoTimes {
                path: inputs.profile.clone(),
            });
        }
        notes.extend(counted.clone());
        notes.push(String::from(
            "not replayed: samples are some of the accesses, and a replay needs them all",
        ));
        if asked.is_none() {
            notes.push(String::from(
                "priced on the machine as the samples describe it, with latencies of its like: name \
                 one that is measured with --machine"
            ));
        }
    }
    let machine = asked.clone().unwrap_or_else(|| recording.machine.clone());
    let sampled = weights.as_ref().map(|weights| (weights, &machine));
    let (structure, subject, recorded) =
        recorded(inputs, structure, (&mut recording, sampled), progress)?;
    let at = inputs.at.iter().map(|site| HeapInstances {
        type_name: Some(subject.name.clone()),
        site: site.clone(),
    });
    let source = match weights {
        Some(_) => Source::Samples,
        None => Source::Recording,
    };
    let recorded_on = Some(recording.machine.name.clone());
    let proving = weights.is_none().then(|| Proving {
        path: inputs.profile.clone(),
        instances: at.collect(),
        machine: asked,
        recording,
    });
    Ok(Read {
        structure,
        subject,
        profile: recorded.profile,
        bases: recorded.bases,
        machine,
        proving,
        source,
        recorded_on,
        counted,
        notes,
    })
}

/// Loads a recording; with the weights of its samples, if it has samples.
fn load(
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

/// Returns true if a path is that of a layout file, or the name of a shipped one.
pub(super) fn is_layout(input: &Path) -> bool {
    let is_layout = input
        .extension()
        .is_some_and(|extension| extension == "toml");
    is_layout || input.to_str().is_some_and(|name| shipped(name).is_some())
}

fn structure_of(inputs: &Inputs, source: Source) -> Result<Structure, SessionError> {
    if is_layout(&inputs.input) {
        let (file, _) = layout_files::read(&inputs.input)?;
        return Ok(Structure::Table(match &inputs.below {
            Some(below) => LayoutTable::new(&layout_files::read(below)?.0)?.overlay(&file)?,
            None => LayoutTable::new(&file)?,
        }));
    }
    let mut file = TypesFile::open(Some(&inputs.input), inputs.btf_base.as_deref())?;
    match file.struct_layout(&inputs.type_name) {
        Ok(layout) => Ok(Structure::Types(Box::new(file), layout)),
        // It may be a variable, which the recording knows.
        Err(LayoutError::Type(hitm_layout::Error::NoSuchType { .. })) if source.has_addresses() => {
            Ok(Structure::Scalars)
        }
        Err(error) => Err(error.into()),
    }
}

fn subject_of(inputs: &Inputs, structure: &mut Structure) -> Result<Subject, SessionError> {
    let (name, open) = (&inputs.type_name, &inputs.open[..]);
    Ok(match structure {
        Structure::Table(table) => Subject::from_table(table, name, open)?,
        Structure::Types(object, layout) => Subject::from_types(layout, object.types(), open)?,
        Structure::Scalars => {
            return Err(AdviseError::NoSuchType {
                name: name.to_owned(),
            }
            .into());
        }
    })
}

/// Returns the profile of a recording, and the structure as the recording's objects show it.
fn recorded(
    inputs: &Inputs,
    mut structure: Structure,
    (recording, sampled): (&mut Recording, Option<(&Weights, &Machine)>),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Structure, Subject, RecordedProfile), SessionError> {
    let subject = match &structure {
        Structure::Scalars => scalars(&inputs.type_name, recording)?,
        _ => subject_of(inputs, &mut structure)?,
    };
    let is_scalar = matches!(structure, Structure::Scalars);
    let options = ProfileOptions {
        type_name: inputs.type_name.clone(),
        name: inputs.profile.display().to_string(),
        at: match is_scalar {
            true => Some(inputs.type_name.clone()),
            false => inputs.at.clone(),
        },
        sampled,
    };
    let size = subject.size_bytes;
    if recording.is_cut() {
        let lines = lines_of_instances(recording, size, &options);
        recording.add_rows(&inputs.profile, lines.into_iter(), progress)?;
    }
    if let Some((recorded, types)) = recording.names().kernel_size(&subject.name)
        && recorded != size
    {
        return Err(SessionError::OtherSize {
            type_name: subject.name,
            input: inputs.input.clone(),
            found: size,
            recorded,
            types,
        });
    }
    let found = match &mut structure {
        Structure::Types(object, layout) => {
            let layout = layout.clone();
            let store = object.types();
            let member_at =
                |offset: u64| path_in_types(&layout, store, offset).map(|found| found.0);
            profile_of_recording(recording, (size, &member_at), &options)?
        }
        Structure::Scalars => {
            profile_of_recording(recording, (size, &|_| Some(String::from(VALUE))), &options)?
        }
        Structure::Table(table) => {
            let member_at = |offset: u64| table.path_at(&subject.name, offset);
            profile_of_recording(recording, (size, &member_at), &options)?
        }
    };
    Ok((structure, subject, found))
}

/// Name of the only member of an array's element.
pub(super) const VALUE: &str = "value";

/// An element of the array `name` as a structure with one member.
fn scalars(name: &str, recording: &Recording) -> Result<Subject, SessionError> {
    let size = recording
        .names()
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
