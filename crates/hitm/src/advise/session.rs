//! A question about one structure from files: its layout, the profile, the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hitm_layout::StructLayout;
use hitm_layout::advise::{
    Advice, AdviseError, Candidate, Demand, Options, Subject, Weighed, place_in_types,
};
use hitm_layout::emit::{EmitError, patch_array};
use hitm_layout::layout_file::{FileStruct, LayoutFile, LayoutFileError, LayoutTable};
use hitm_layout::profile::{Profile, ProfileError};
use thiserror::Error;

use super::accesses::{Accesses, Read, VALUE};
use super::inputs::{Asked, Inputs, Structure, TypesFiles};
use super::proof::{Proof, Proving};
use super::source::{self, Language};
use super::{EnginePrices, Heading, Question, RecordedProfileError, SimulatedProfileError, ask};
use crate::layout::LayoutError;
use crate::layout_files::{self, LayoutReadError};
use crate::perf_data::PerfDataError;
use crate::recording::RecordingError;
use crate::text_file::{self, TextFileError};
use crate::whatif::WhatifError;

/// Longest source file that is patched.
const SOURCE_BYTES_MAX: u64 = 16 << 20;

/// Errors of answering a question.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A text cannot be read.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// There is no such layout, or it is wrong.
    #[error(transparent)]
    LayoutRead(#[from] LayoutReadError),
    /// The samples, or the names of their kernel, cannot be read.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// The result of a simulation gives no profile.
    #[error(transparent)]
    Simulated(#[from] SimulatedProfileError),
    /// Samples without times give no rate of events.
    #[error("{}: samples have no times, and a profile needs to know in how much time they were taken: record with perf record --timestamp, print with perf script -F +time", path.display())]
    NoTimes {
        /// The samples.
        path: PathBuf,
    },
    /// Only samples need the names of a kernel.
    #[error("--kallsyms and --vmlinux name the kernel of samples, and {} has none", path.display())]
    NoSamples {
        /// The profile.
        path: PathBuf,
    },
    /// A table of accesses names no machine.
    #[error("{}: a table of accesses says nothing of a machine: expected --machine", path.display())]
    NoMachine {
        /// The table.
        path: PathBuf,
    },
    /// Declarations need types, which a layout file lacks.
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
    /// The recording has no access to the structure.
    #[error(transparent)]
    NotRecorded(#[from] RecordedProfileError),
    /// The machine is not understood.
    #[error(transparent)]
    Machine(#[from] crate::machine::Error),
    /// The advisor has no answer.
    #[error(transparent)]
    Advise(#[from] AdviseError),
    /// A compared layout has no such structure.
    #[error("the layout {layout} has no structure {type_name}")]
    NotInLayout {
        /// The layout.
        layout: String,
        /// The structure.
        type_name: String,
    },
    /// The structure differs from that of the recorded kernel.
    #[error(
        "{}: found {type_name} with {found} bytes, expected the {recorded} bytes that it has in the \
         recorded kernel, whose types are in {}", input.display(), types.display()
    )]
    OtherSize {
        /// The structure.
        type_name: String,
        /// Source of its layout.
        input: PathBuf,
        /// Its bytes there.
        found: u64,
        /// Its bytes in the recorded kernel.
        recorded: u64,
        /// The BTF of the recorded kernel.
        types: PathBuf,
    },
    /// The language has no names for the structure's types.
    #[error(
        "{type_name} is declared in {declared}: found --emit {found}, expected --emit {expected}"
    )]
    Language {
        /// The structure.
        type_name: String,
        /// The language of its declaration.
        declared: &'static str,
        /// Requested language.
        found: &'static str,
        /// Languages that can be requested.
        expected: &'static str,
    },
    /// The members of an opened structure are declared elsewhere.
    #[error(
        "{}: members of structures inside {type_name} are declared outside of it, so there is no diff of it alone: --emit without --source prints the whole structure", path.display()
    )]
    Opened {
        /// The structure.
        type_name: String,
        /// The source file.
        path: PathBuf,
    },
    /// The recording cannot be replayed.
    #[error(transparent)]
    Whatif(#[from] WhatifError),
    /// There is no source text for it.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// Inputs of all answers.
#[derive(Debug)]
pub struct Session {
    read: Read,
    /// The recording that proposals are tried on, if it is one.
    proving: Option<Proving>,
    is_opened: bool,
}

impl Session {
    /// Reads all inputs. `progress` gets the bytes of a recording read so far and in all.
    pub fn open(
        inputs: &Inputs,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Session, SessionError> {
        // Files of types come first: they are short, and a recording may be long.
        let asked = Asked::new(inputs.clone(), &mut TypesFiles::default())?;
        let machine = asked.machine.clone();
        let mut accesses = Accesses::open(&inputs.profile, inputs.kernel.as_ref(), progress)?;
        let read = accesses.answer_one(asked, progress)?;
        let proving = accesses
            .into_recording()
            .map(|recording| Proving::new(inputs, &read.subject.name, (recording, machine)));
        Ok(Session {
            read,
            proving,
            is_opened: !inputs.open.is_empty(),
        })
    }

    /// A session that opens no structures inside of its own, and tries no proposals.
    pub(super) fn of(read: Read) -> Session {
        Session {
            read,
            proving: None,
            is_opened: false,
        }
    }

    /// Names of the structure, machine and profile, for the head of an answer.
    pub fn heading(&self) -> Heading {
        Heading {
            type_name: self.read.subject.name.clone(),
            machine: self.read.machine.name.clone(),
            profile: self.read.profile.name.clone(),
            notes: self.read.notes.clone(),
        }
    }

    /// The present structure.
    pub fn structure(&self) -> FileStruct {
        let subject = &self.read.subject;
        FileStruct {
            name: subject.name.clone(),
            size_bytes: subject.size_bytes,
            align_bytes: Some(subject.align_bytes),
            members: subject
                .members
                .iter()
                .map(|member| member.file.clone())
                .collect(),
        }
    }

    /// Accesses to its members.
    pub fn profile(&self) -> &Profile {
        &self.read.profile
    }

    /// Prices the profile on the machine.
    pub fn demand(&self) -> Result<Demand, SessionError> {
        let prices = EnginePrices::new(self.read.machine.clone());
        Ok(Demand::new(&self.read.profile, &prices)?)
    }

    /// Searches for better layouts. `progress` gets the steps of the search so far and at most.
    pub fn advise(
        &self,
        options: &Options,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Advice, SessionError> {
        let question = Question {
            subject: &self.read.subject,
            profile: &self.read.profile,
            machine: &self.read.machine,
            bases: &self.read.bases,
        };
        let locate = locator(&self.read.structure, &self.read.subject);
        Ok(ask(&question, &locate, options, progress)?)
    }

    /// Weighs the present structure, then each of the layout files (names of shipped ones or
    /// paths).
    pub fn compare(&self, layouts: &[String]) -> Result<Vec<(String, Weighed)>, SessionError> {
        let demand = self.demand()?;
        let no_member = |member: String| AdviseError::NoSuchMember {
            name: self.read.subject.name.clone(),
            member,
        };
        let mut weighed = Vec::new();
        {
            let locate = locator(&self.read.structure, &self.read.subject);
            let now = demand.weigh_layout(self.read.subject.size_bytes, &self.read.bases, &locate);
            weighed.push((String::from("now"), now.map_err(no_member)?));
        }
        for name in layouts {
            let file = layout_files::read(Path::new(name))?.0;
            let (size, locate) = replaced(&self.read.structure, &self.read.subject, (&file, name))?;
            let answer = demand.weigh_layout(size, &BTreeMap::new(), &locate);
            weighed.push((file.name.clone(), answer.map_err(no_member)?));
        }
        Ok(weighed)
    }

    /// Replays the recording with the candidate's layout; none when the profile is a table.
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

    /// Returns the candidate as a layout file.
    pub fn layout_file(&self, name: &str, candidate: &Candidate) -> LayoutFile {
        LayoutFile {
            name: name.to_owned(),
            description: format!(
                "{} as hitm layout advise proposes it",
                self.read.subject.name
            ),
            source: format!(
                "profile {} on machine {}",
                self.read.profile.name, self.read.machine.name
            ),
            structs: vec![candidate.layout.clone()],
        }
    }

    /// Returns the candidate as source: a structure with assertions, or, when `source` is given, a
    /// unified diff of that file.
    pub fn emit(
        &self,
        candidate: &Candidate,
        language: Language,
        source: Option<&Path>,
    ) -> Result<String, SessionError> {
        if let Some(path) = source.filter(|_| self.is_opened) {
            return Err(SessionError::Opened {
                type_name: self.read.subject.name.clone(),
                path: path.to_owned(),
            });
        }
        let read = |path| text_file::read_utf8(path, SOURCE_BYTES_MAX, "a source file");
        let text = source.map(read).transpose()?;
        let named = source.map(|path| path.display().to_string());
        let file = named.as_deref().zip(text.as_deref());
        let subject = &self.read.subject;
        match (&self.read.structure, language, file) {
            (Structure::Types(types, layout), ..) => {
                check_language(layout, &subject.name, language)?;
                Ok(source::emit(&source::Wanted {
                    subject,
                    layout: &candidate.layout,
                    types: (layout, types.borrow_mut().types()),
                    language,
                    file,
                })?)
            }
            (Structure::Scalars, Language::C(style), Some(file)) => {
                Ok(patch_array(&subject.name, file, style)?)
            }
            (Structure::Scalars | Structure::Table(_), ..) => Err(SessionError::NoTypes {
                type_name: subject.name.clone(),
            }),
        }
    }
}

/// Fails when the structure is declared in another language.
fn check_language(
    layout: &StructLayout,
    name: &str,
    language: Language,
) -> Result<(), SessionError> {
    let (declared, found, expected) = match (layout.is_rust, language) {
        (true, Language::C(_)) => ("Rust", "c, cpp or kernel", "rust"),
        (false, Language::Rust) => ("C or C++", "rust", "c, cpp or kernel"),
        _ => return Ok(()),
    };
    Err(SessionError::Language {
        type_name: name.to_owned(),
        declared,
        found,
        expected,
    })
}

fn in_table(table: &LayoutTable, name: &str, path: &str) -> Option<(u64, u64)> {
    let place = table.place(name, path)?;
    // A member with one element per node lies behind a pointer, outside the structure.
    place
        .per()
        .is_none()
        .then_some((place.offset_bytes, place.size_bytes))
}

/// Returns offset and size of a path.
pub(super) type Locator<'s> = Box<dyn Fn(&str) -> Option<(u64, u64)> + 's>;

/// Returns the size of the structure as the layout `file` has it, named `layout`, and a locator of
/// paths in it.
pub(super) fn replaced<'s>(
    structure: &'s Structure,
    subject: &'s Subject,
    (file, layout): (&LayoutFile, &str),
) -> Result<(u64, Locator<'s>), SessionError> {
    if let Structure::Table(base) = structure {
        let table = base.clone().overlay(file)?;
        let size = table.get(&subject.name).map_or(0, |of| of.size_bytes);
        let locate = move |path: &str| in_table(&table, &subject.name, path);
        return Ok((size, Box::new(locate)));
    }
    let replaced = file.get(&subject.name);
    let replaced = replaced.ok_or_else(|| SessionError::NotInLayout {
        layout: layout.to_owned(),
        type_name: subject.name.clone(),
    })?;
    let members = replaced.by_name();
    let new_offsets: Vec<Option<u64>> = (subject.members.iter())
        .map(|member| Some(members.get(&*member.file.name)?.offset_bytes))
        .collect();
    let locate = locator(structure, subject);
    let moved = move |path: &str| {
        let (offset, size) = locate(path)?;
        let at = subject.member_at(offset)?;
        let old = subject.members[at].file.offset_bytes;
        Some((new_offsets[at]? + offset - old, size))
    };
    Ok((replaced.size_bytes, Box::new(moved)))
}

/// Returns a locator of paths in the present structure.
pub(super) fn locator<'s>(structure: &'s Structure, subject: &'s Subject) -> Locator<'s> {
    match structure {
        Structure::Table(table) => Box::new(|path| in_table(table, &subject.name, path)),
        Structure::Types(file, layout) => {
            Box::new(|path| place_in_types(layout, file.borrow_mut().types(), path))
        }
        Structure::Scalars => Box::new(|path| (path == VALUE).then_some((0, subject.size_bytes))),
    }
}
