//! A question about one structure from files: its layout, the profile, the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hitm_base::Machine;
use hitm_layout::StructLayout;
use hitm_layout::advise::{
    Advice, AdviseError, Candidate, Demand, Options, Subject, SubjectMember, Weighed,
    path_in_types, place_in_types,
};
use hitm_layout::emit::{
    Emission, EmitError, Style, c_asserts, c_struct, clang_reorder_fields, declarations,
    kernel_asserts, patch_array, patch_rust, patch_struct, rust_struct,
};
use hitm_layout::layout_file::{
    FileMember, LayoutFile, LayoutFileError, LayoutTable, shipped, shipped_names,
};
use hitm_layout::profile::{Profile, ProfileError};
use thiserror::Error;

use super::proof::{Proof, Proving};
use super::{
    EnginePrices, Heading, ProfileOptions, Question, RecordedProfile, RecordedProfileError, ask,
    profile_of_recording,
};
use crate::layout::{LayoutError, LayoutFile as TypesFile};
use crate::recording::{Recording, RecordingError};
use crate::whatif::{HeapInstances, WhatifError};

/// Longest text that is read: what the parsers take.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// The structure, or a variable that is an array of scalars.
    pub type_name: String,
    /// A layout file or the name of a shipped one, or a file with debug information.
    pub input: PathBuf,
    /// A recording, or a table of accesses.
    pub profile: PathBuf,
    /// Where on the heap instances are.
    pub at: Option<String>,
    /// Types of members whose own members may move.
    pub open: Vec<String>,
    /// The machine; the recording's when it is left out.
    pub machine: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// A file that is longer than any of its kind.
    #[error("{}: found {found} bytes, expected at most {TEXT_BYTES_MAX}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
    },
    /// A table of accesses belongs to no machine of its own.
    #[error("{}: a table of accesses says nothing of a machine: expected --machine", path.display())]
    NoMachine {
        /// The table.
        path: PathBuf,
    },
    /// Declarations need types.
    #[error(
        "{type_name} comes from a layout file, which has no types: expected a file with debug information"
    )]
    NoTypes {
        /// The structure.
        type_name: String,
    },
    /// The debug information cannot be used.
    #[error(transparent)]
    Types(#[from] LayoutError),
    /// The layout file is wrong.
    #[error(transparent)]
    LayoutFile(#[from] LayoutFileError),
    /// The table of accesses is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The recording has nothing about the structure.
    #[error(transparent)]
    NotRecorded(#[from] RecordedProfileError),
    /// The machine is not understood.
    #[error(transparent)]
    Machine(#[from] crate::machine::Error),
    /// The advisor has nothing to answer.
    #[error(transparent)]
    Advise(#[from] AdviseError),
    /// The members of an opened structure have no place of their own in the source.
    #[error(
        "{type_name} has opened members: found --emit, expected --output, which hitm whatif reads; its source must be rewritten by hand"
    )]
    Opened {
        /// The structure.
        type_name: String,
    },
    /// The recording cannot be run again.
    #[error(transparent)]
    Whatif(#[from] WhatifError),
    /// There is no source text for it.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// Where the structure comes from.
#[derive(Debug)]
enum Structure {
    Table(LayoutTable),
    Types(Box<TypesFile>, Arc<StructLayout>),
    /// An array of scalars: its elements are the instances.
    Scalars,
}

/// The source text that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C or C++ or the kernel's dialect.
    C(Style),
    /// Rust.
    Rust,
}

/// Everything that answers need.
#[derive(Debug)]
pub struct Session {
    structure: Structure,
    subject: Subject,
    profile: Profile,
    bases: BTreeMap<u32, u64>,
    machine: Machine,
    is_opened: bool,
    proving: Option<Proving>,
}

impl Session {
    /// Reads everything. `progress` is told how much of a recording has been read.
    pub fn open(
        inputs: &Inputs,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Session, SessionError> {
        let mut structure = structure_of(inputs)?;
        if is_table(&inputs.profile)? {
            let text = read_text(&inputs.profile)?;
            let profile = Profile::parse(&text, &inputs.profile.display().to_string())?;
            let Some(machine) = &inputs.machine else {
                return Err(SessionError::NoMachine {
                    path: inputs.profile.clone(),
                });
            };
            let (machine, _) = crate::machine::resolve(machine)?;
            return Ok(Session {
                subject: subject_of(inputs, &mut structure)?,
                structure,
                profile,
                bases: BTreeMap::new(),
                machine,
                is_opened: !inputs.open.is_empty(),
                proving: None,
            });
        }
        let recording = Recording::load(&inputs.profile, progress)?;
        let asked = match &inputs.machine {
            Some(name) => Some(crate::machine::resolve(name)?.0),
            None => None,
        };
        let (structure, subject, recorded) = recorded(inputs, structure, &recording)?;
        let at = inputs.at.iter().map(|site| HeapInstances {
            type_name: Some(subject.name.clone()),
            site: site.clone(),
        });
        let proving = Proving {
            path: inputs.profile.clone(),
            instances: at.collect(),
            machine: asked.clone(),
            recording,
        };
        Ok(Session {
            structure,
            subject,
            profile: recorded.profile,
            bases: recorded.bases,
            machine: asked.unwrap_or_else(|| proving.recording.machine.clone()),
            is_opened: !inputs.open.is_empty(),
            proving: Some(proving),
        })
    }

    /// What the answers are about.
    pub fn heading(&self) -> Heading {
        Heading {
            type_name: self.subject.name.clone(),
            machine: self.machine.name.clone(),
            profile: self.profile.name.clone(),
        }
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The profile on the machine.
    pub fn demand(&self) -> Result<Demand, SessionError> {
        let prices = EnginePrices::new(self.machine.clone());
        Ok(Demand::new(&self.profile, &prices)?)
    }

    /// Looks for better layouts.
    pub fn advise(&mut self, options: &Options) -> Result<Advice, SessionError> {
        let question = Question {
            subject: &self.subject,
            profile: &self.profile,
            machine: &self.machine,
            bases: &self.bases,
        };
        let locate = locator(&mut self.structure, &self.subject);
        Ok(ask(&question, &locate, options)?)
    }

    /// Weighs the structure as it is, then as each of the layout files (names of shipped ones or
    /// paths) has it.
    pub fn compare(&mut self, layouts: &[String]) -> Result<Vec<(String, Weighed)>, SessionError> {
        let demand = self.demand()?;
        let no_member = |member: String| AdviseError::NoSuchMember {
            name: self.subject.name.clone(),
            member,
        };
        let mut weighed = Vec::new();
        {
            let locate = locator(&mut self.structure, &self.subject);
            let now = demand.weigh_layout(self.subject.size_bytes, &self.bases, &locate);
            weighed.push((String::from("now"), now.map_err(no_member)?));
        }
        for name in layouts {
            let file = read_layout(Path::new(name))?;
            let replaced = file.get(&self.subject.name).map(|of| of.size_bytes);
            let answer = match &mut self.structure {
                Structure::Table(base) => {
                    let table = base.clone().overlay(&file)?;
                    let size = table.get(&self.subject.name).map_or(0, |of| of.size_bytes);
                    let locate = |path: &str| in_table(&table, &self.subject.name, path);
                    demand.weigh_layout(size, &BTreeMap::new(), &locate)
                }
                other => {
                    let locate = locator(other, &self.subject);
                    let moved = |path: &str| {
                        let (offset, size) = locate(path)?;
                        let member = &self.subject.members[self.subject.member_at(offset)?].file;
                        let to = file.get(&self.subject.name)?.get(&member.name)?;
                        Some((to.offset_bytes + offset - member.offset_bytes, size))
                    };
                    let size = replaced.unwrap_or(self.subject.size_bytes);
                    demand.weigh_layout(size, &BTreeMap::new(), &moved)
                }
            };
            weighed.push((file.name.clone(), answer.map_err(no_member)?));
        }
        Ok(weighed)
    }

    /// What the recording says of the candidate when it is run again; none when the profile is a table.
    pub fn prove(
        &self,
        candidate: &Candidate,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Option<Proof>, WhatifError> {
        let layout = self.layout_file("advised", candidate);
        let proving = self.proving.as_ref();
        proving
            .map(|proving| proving.prove(layout, progress))
            .transpose()
    }

    /// The candidate as a layout file.
    pub fn layout_file(&self, name: &str, candidate: &Candidate) -> LayoutFile {
        LayoutFile {
            name: name.to_owned(),
            description: format!("{} as hitm layout advise proposes it", self.subject.name),
            source: format!(
                "profile {} on machine {}",
                self.profile.name, self.machine.name
            ),
            structs: vec![candidate.layout.clone()],
        }
    }

    /// The candidate as source: a structure with assertions, or, when `source` is given, a unified
    /// diff of that file.
    pub fn emit(
        &mut self,
        candidate: &Candidate,
        language: Language,
        source: Option<&Path>,
    ) -> Result<String, SessionError> {
        if self.is_opened {
            let type_name = self.subject.name.clone();
            return Err(SessionError::Opened { type_name });
        }
        let text = source.map(read_text).transpose()?;
        let named = source.map(|path| path.display().to_string());
        let file = named.as_deref().zip(text.as_deref());
        let (layout, declared) = match &mut self.structure {
            Structure::Types(object, layout) => {
                let layout = layout.clone();
                let declared = declarations(&layout, object.types());
                (layout, declared)
            }
            Structure::Scalars => {
                let Language::C(style) = language else {
                    return Err(self.no_types());
                };
                let (name, text) = file.ok_or_else(|| self.no_types())?;
                return Ok(patch_array(&self.subject.name, (name, text), style)?);
            }
            Structure::Table(_) => return Err(self.no_types()),
        };
        let style = match language {
            Language::C(style) => style,
            Language::Rust => Style::C,
        };
        let rust_types: Vec<String> = layout
            .members
            .iter()
            .map(|member| member.type_name.to_string())
            .collect();
        let emission = Emission {
            subject: &self.subject,
            layout: &candidate.layout,
            declarations: if language == Language::Rust {
                &rust_types
            } else {
                &declared
            },
            style,
        };
        if language == Language::Rust {
            return Ok(match file {
                Some(file) => patch_rust(&emission, file)?,
                None => rust_struct(&emission),
            });
        }
        if let Some(file) = file {
            let lines: Vec<Option<u32>> = layout
                .members
                .iter()
                .map(|member| member.decl.as_ref().map(|decl| decl.line))
                .collect();
            return Ok(patch_struct(&emission, file, &lines)?);
        }
        let declared_in = layout.decl.as_ref().map_or("FILE.c", |decl| &*decl.file);
        let asserts = match style {
            Style::Kernel => {
                c_asserts(&candidate.layout, style) + "\n" + &kernel_asserts(&candidate.layout)
            }
            Style::C | Style::Cpp => c_asserts(&candidate.layout, style),
        };
        Ok(format!(
            "{}\n{asserts}\n/* {} */\n",
            c_struct(&emission),
            clang_reorder_fields(&candidate.layout, declared_in)
        ))
    }

    fn no_types(&self) -> SessionError {
        SessionError::NoTypes {
            type_name: self.subject.name.clone(),
        }
    }
}

fn structure_of(inputs: &Inputs) -> Result<Structure, SessionError> {
    let is_layout = inputs
        .input
        .extension()
        .is_some_and(|extension| extension == "toml");
    let is_shipped = inputs
        .input
        .to_str()
        .is_some_and(|name| shipped(name).is_some());
    if is_layout || is_shipped {
        return Ok(Structure::Table(LayoutTable::new(&read_layout(
            &inputs.input,
        )?)?));
    }
    let mut file = TypesFile::open(Some(&inputs.input), None)?;
    match file.struct_layout(&inputs.type_name) {
        Ok(layout) => Ok(Structure::Types(Box::new(file), layout)),
        // A variable, perhaps: the recording knows.
        Err(LayoutError::Type(hitm_layout::Error::NoSuchType { .. }))
            if !is_table(&inputs.profile)? =>
        {
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

/// The profile of a recording, and the structure as the recording shows it.
fn recorded(
    inputs: &Inputs,
    mut structure: Structure,
    recording: &Recording,
) -> Result<(Structure, Subject, RecordedProfile), SessionError> {
    let name = inputs.profile.display().to_string();
    let mut options = ProfileOptions {
        type_name: inputs.type_name.clone(),
        at: inputs.at.clone(),
    };
    let subject = match &structure {
        Structure::Scalars => scalars(&inputs.type_name, recording)?,
        _ => subject_of(inputs, &mut structure)?,
    };
    let size = subject.size_bytes;
    let found = match &mut structure {
        Structure::Types(object, layout) => {
            let layout = layout.clone();
            let store = object.types();
            let member_at =
                |offset: u64| path_in_types(&layout, store, offset).map(|found| found.0);
            profile_of_recording(recording, &name, (size, &member_at), &options)?
        }
        Structure::Scalars => {
            options.at = Some(inputs.type_name.clone());
            profile_of_recording(
                recording,
                &name,
                (size, &|_| Some(String::from(VALUE))),
                &options,
            )?
        }
        Structure::Table(_) => {
            let member_at = |offset: u64| {
                let member = subject.member_at(offset)?;
                Some(subject.members[member].file.name.clone())
            };
            profile_of_recording(recording, &name, (size, &member_at), &options)?
        }
    };
    Ok((structure, subject, found))
}

/// The member that an element of an array of scalars becomes.
const VALUE: &str = "value";

/// An element of the variable `name` as a structure with one member.
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

fn in_table(table: &LayoutTable, name: &str, path: &str) -> Option<(u64, u64)> {
    let place = table.place(name, path)?;
    // What has one element per node behind a pointer has no place in the structure.
    place
        .per()
        .is_none()
        .then_some((place.offset_bytes, place.size_bytes))
}

/// Offset and size of a path.
type Locator<'s> = Box<dyn Fn(&str) -> Option<(u64, u64)> + 's>;

/// Finds paths in the structure as it is.
fn locator<'s>(structure: &'s mut Structure, subject: &'s Subject) -> Locator<'s> {
    match structure {
        Structure::Table(table) => Box::new(|path| in_table(table, &subject.name, path)),
        Structure::Types(object, layout) => {
            let store = object.types();
            Box::new(move |path| place_in_types(layout, store, path))
        }
        Structure::Scalars => Box::new(|path| (path == VALUE).then_some((0, subject.size_bytes))),
    }
}

/// A layout file by path, or a shipped one by name.
fn read_layout(path: &Path) -> Result<LayoutFile, SessionError> {
    let name = path.display().to_string();
    if let Some(text) = shipped(&name) {
        return Ok(LayoutFile::parse(text, &name)?);
    }
    let text = read_text(path).map_err(|error| match error {
        SessionError::Read { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            let known = shipped_names().collect::<Vec<_>>().join(", ");
            let message =
                format!("no such file, and no layout of that name comes with hitm: {known}");
            SessionError::Read {
                path,
                source: std::io::Error::new(source.kind(), message),
            }
        }
        other => other,
    })?;
    Ok(LayoutFile::parse(&text, &name)?)
}

/// Whether a profile is a table: text that begins with a comment or a title.
fn is_table(path: &Path) -> Result<bool, SessionError> {
    use std::io::Read as _;
    let failed = |source| SessionError::Read {
        path: path.to_owned(),
        source,
    };
    let mut head = [0; 1];
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let count = file.read(&mut head).map_err(failed)?;
    let is_csv = path.extension().is_some_and(|extension| extension == "csv");
    Ok(is_csv || (count == 1 && head[0] == b'#'))
}

fn read_text(path: &Path) -> Result<String, SessionError> {
    let failed = |source| SessionError::Read {
        path: path.to_owned(),
        source,
    };
    let found = std::fs::metadata(path).map_err(failed)?.len();
    if found > TEXT_BYTES_MAX {
        return Err(SessionError::TooLong {
            path: path.to_owned(),
            found,
        });
    }
    std::fs::read_to_string(path).map_err(failed)
}
