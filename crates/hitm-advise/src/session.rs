//! A question about one structure from files: its layout, the profile, the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hitm_base::Machine;
use hitm_files::text_file::{self, TextFileError};
use hitm_layout::StructLayout;
use hitm_layout::advise::{
    Advice, AdviseError, Candidate, Demand, Options, Search, Subject, Weighed, place_in_types,
};
use hitm_layout::emit::{self, EmitError, patch_array};
use hitm_layout::layout_file::{FileMember, FileStruct, LayoutFile, LayoutFileError, LayoutTable};
use hitm_layout::profile::{Profile, ProfileError};
use hitm_recording::perf_data::PerfDataError;
use hitm_recording::{Recording, RecordingError};
use hitm_whatif::Took;
use hitm_whatif::layout_files::{self, LayoutReadError};
use thiserror::Error;

use super::accesses::{Accesses, Read, VALUE};
use super::inner::{WithInner, read_with_inner};
use super::inputs::{Asked, Inputs, SOURCE_BYTES_MAX, Source, Structure, TypesFiles};
use super::member_path::behind;
use super::proof::{Proof, Proving};
use super::proposals::{self, Proposal, Tried};
use super::source::{self, Language};
use super::{
    EnginePrices, Heading, Question, RecordedProfileError, SimulatedProfileError, ask, whole,
};
use crate::types_files::TypesError;

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
    Types(#[from] TypesError),
    /// The structure cannot be read.
    #[error(transparent)]
    Type(#[from] hitm_layout::Error),
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
    Machine(#[from] hitm_machine::Error),
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
    /// There is no source text for it.
    #[error(transparent)]
    Emit(#[from] EmitError),
}

/// Answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Cycles of the profile's own work, of all CPUs together.
    pub work_cycles: u64,
    /// Accesses in the profile.
    pub access_count: u64,
    /// The structure as it is, by the model.
    pub now: Weighed,
    /// Sums over all threads as it is; none where the model's estimates decide.
    pub before: Option<Took>,
    /// Better layouts, the best first; may be empty.
    pub proposals: Vec<Proposal>,
    /// Number of candidates that were replayed; none where the model's estimates decide.
    pub tried: Option<Tried>,
    /// Reason for which there is a recording and no replay.
    pub not_replayed: Option<String>,
    /// Extent of the model's search.
    pub search: Search,
}

impl Answer {
    /// An answer without proposals.
    fn of(advice: &Advice) -> Answer {
        Answer {
            work_cycles: nearest(advice.work_cycles),
            access_count: nearest(advice.access_count),
            now: advice.original.clone(),
            before: None,
            proposals: Vec::new(),
            tried: None,
            not_replayed: None,
            search: advice.search,
        }
    }
}

/// The nearest whole number.
pub fn nearest(number: f64) -> u64 {
    number.round().clamp(0.0, 1e18) as u64
}

/// A layout that is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Its cost by the model.
    pub weighed: Weighed,
    /// Its replay; none of the present layout, and without a recording.
    pub proof: Option<Proof>,
}

/// Inputs of all answers.
#[derive(Debug)]
pub struct Session {
    read: Read,
    /// The recording that proposals are tried on, if it is one.
    proving: Option<Proving>,
    is_opened: bool,
    /// Structures inside this one, which may have better layouts where this one has none.
    inner: Vec<Session>,
}

impl Session {
    /// Reads all inputs. `progress` gets the bytes of a recording read so far and in all.
    pub fn open(
        inputs: &Inputs,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Session, SessionError> {
        // Files of types come first: they are short, and a recording may be long.
        let mut files = TypesFiles::default();
        let machine = Asked::new(inputs.clone(), &mut files)?.machine;
        let mut accesses = Accesses::open(&inputs.profile, inputs.kernel.as_ref(), progress)?;
        let questions = std::slice::from_ref(inputs);
        let mut read = read_with_inner(&mut accesses, questions, &mut files, progress)?;
        let read = read.pop().expect("each question has an answer")?;
        let recording = accesses.into_recording().map(Arc::new);
        Ok(Session::on(read, inputs, recording, machine))
    }

    /// A session about what was read.
    pub(super) fn on(
        read: WithInner,
        inputs: &Inputs,
        recording: Option<Arc<Recording>>,
        machine: Option<Machine>,
    ) -> Session {
        let own = |inputs: &Inputs, read: Read, inner| Session {
            proving: recording.clone().map(|recording| {
                Proving::new(inputs, &read.subject.name, recording, machine.clone())
            }),
            read,
            is_opened: !inputs.open.is_empty(),
            inner,
        };
        let inner = read.inner.into_iter();
        let inner = inner.map(|(inputs, read)| own(&inputs, read, Vec::new()));
        own(inputs, read.read, inner.collect())
    }

    /// This session or, where it has no better layout and every layout is allowed, the first inside it that has one,
    /// with its answer.
    pub fn first_better<E>(
        &self,
        options: &Options,
        mut answer: impl FnMut(&Session) -> Result<Answer, E>,
    ) -> Result<(&Session, Answer), E> {
        let own = answer(self)?;
        // Constraints speak of the outer structure's members.
        if own.proposals.is_empty() && options.is_free() {
            for inner in &self.inner {
                let of_inner = answer(inner)?;
                if !of_inner.proposals.is_empty() {
                    return Ok((inner, of_inner));
                }
            }
        }
        Ok((self, own))
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

    /// The head of an advice: it also says which members stay together.
    pub fn advice_heading(&self) -> Heading {
        let mut heading = self.heading();
        heading.notes.extend(whole::notes(
            &self.read.structure,
            &self.read.subject,
            &self.read.profile,
            &self.read.randomized,
        ));
        heading
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

    /// Searches for layouts to try. `progress` gets the steps of the search so far and at most.
    pub fn search(
        &self,
        options: &Options,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Advice, SessionError> {
        let question = Question {
            subject: &self.read.subject,
            profile: &self.read.profile,
            machine: &self.read.machine,
            bases: &self.read.bases,
            is_partial: self.read.source == Source::Recording,
        };
        let locate = locator(&self.read.structure, &self.read.subject);
        Ok(ask(&question, &locate, options, progress)?)
    }

    /// The layouts of a search that are better, by the model.
    pub fn estimate(&self, advice: &Advice) -> Answer {
        let mut answer = Answer::of(advice);
        answer.proposals = proposals::estimated(advice);
        answer
    }

    /// The layouts of a search that are better by a replay of the recording with each, at most `count` of them: as many
    /// as half a minute has room for when none. Without a recording, those that are better by the model. `progress` gets
    /// the bytes read so far and in all.
    pub fn prove(
        &self,
        advice: &Advice,
        count: Option<usize>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Answer {
        let Some(proving) = &self.proving else {
            return self.estimate(advice);
        };
        let mut candidates = proposals::in_order(advice);
        let count = count.unwrap_or_else(|| proposals::count_for(proving.access_count()));
        let left_out = candidates.split_off(count.min(candidates.len())).len();
        let layouts = candidates.iter();
        let layouts = layouts.map(|candidate| self.layout_file("advised", candidate));
        let layouts: Vec<LayoutFile> = layouts.collect();
        let proofs = proving.prove(&layouts, progress);
        // What fails for all layouts has one reason: the objects are not found.
        if let Some(Err(why)) = proofs.first()
            && proofs.iter().all(Result::is_err)
        {
            let mut answer = self.estimate(advice);
            answer.not_replayed = Some(why.clone());
            return answer;
        }
        let mut answer = Answer::of(advice);
        answer.before = proofs.iter().flatten().next().map(|proof| proof.before);
        let replayed = proofs.len();
        let (better, no_better) = proposals::proved(candidates.into_iter().zip(proofs).collect());
        answer.proposals = better;
        answer.tried = Some(Tried {
            replayed,
            no_better,
            left_out,
        });
        answer
    }

    /// Weighs the present structure, then each of the layout files (names of shipped ones or paths), and replays the
    /// recording with them. `progress` gets the bytes read so far and in all.
    pub fn compare(
        &self,
        layouts: &[String],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<Compared>, SessionError> {
        let demand = self.demand()?;
        let no_member = |member: String| AdviseError::NoSuchMember {
            name: self.read.subject.name.clone(),
            member,
        };
        let locate = locator(&self.read.structure, &self.read.subject);
        let now = demand.weigh_layout(self.read.subject.size_bytes, &self.read.bases, &locate);
        let mut compared = vec![Compared {
            name: String::from("now"),
            weighed: now.map_err(no_member)?,
            proof: None,
        }];
        let read = layouts
            .iter()
            .map(|name| Ok(layout_files::read(Path::new(name))?.0));
        let files: Vec<LayoutFile> = read.collect::<Result<_, SessionError>>()?;
        let proofs = self
            .proving
            .as_ref()
            .map(|proving| proving.prove(&files, progress));
        let mut proofs = proofs.into_iter().flatten();
        for (file, name) in files.iter().zip(layouts) {
            let same = |path: &str| Some(path.to_owned());
            let read = &self.read;
            let (size, locate) = replaced(&read.structure, &read.subject, file, name, &same)?;
            let weighed = demand.weigh_layout(size, &BTreeMap::new(), &locate);
            compared.push(Compared {
                name: file.name.clone(),
                weighed: weighed.map_err(no_member)?,
                proof: proofs.next(),
            });
        }
        Ok(compared)
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
        let file = file.map(|(file, text)| emit::Source { file, text });
        let subject = &self.read.subject;
        match (&self.read.structure, language, file) {
            (Structure::Types(types, layout), ..) => {
                check_language(layout, &subject.name, language)?;
                let names = types.borrow_mut().source_names(layout);
                Ok(source::emit(&source::Wanted {
                    subject,
                    layout: &candidate.layout,
                    of: layout,
                    store: types.borrow_mut().types(),
                    names: &names,
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
/// paths in it. `new_path` is the name that a path has there, none where the layout lacks it.
pub(super) fn replaced<'s>(
    structure: &'s Structure,
    subject: &'s Subject,
    file: &'s LayoutFile,
    layout: &str,
    new_path: &'s dyn Fn(&str) -> Option<String>,
) -> Result<(u64, Locator<'s>), SessionError> {
    if let Structure::Table(base) = structure {
        let table = base.clone().overlay(file)?;
        let size = table.get(&subject.name).map_or(0, |of| of.size_bytes);
        let locate = move |path: &str| in_table(&table, &subject.name, &new_path(path)?);
        return Ok((size, Box::new(locate)));
    }
    let replaced = file.get(&subject.name);
    let replaced = replaced.ok_or_else(|| SessionError::NotInLayout {
        layout: layout.to_owned(),
        type_name: subject.name.clone(),
    })?;
    let locate = locator(structure, subject);
    let moved = move |path: &str| {
        let (offset, size) = locate(path)?;
        let new = new_path(path)?;
        let members = replaced.members.iter();
        let named = members.filter_map(|member| Some((member, behind(&new, &member.name)?.rest)));
        if let Some((member, rest)) = named.max_by_key(|(member, _)| member.name.len()) {
            let (start, bytes) = locate(path.strip_suffix(rest)?)?;
            return Some((moved_within(member, start, bytes, offset)?, size));
        }
        // What has no name of its own, such as a union, is called by its place, or by one of its members.
        let old = &subject.members[subject.member_at(offset)?].file;
        let whole = |member: &FileMember| {
            let whole = match member.name == old.name {
                true => Some((old.offset_bytes, old.size_bytes)),
                false => locate(&member.name),
            };
            let holds =
                |(start, bytes): &(u64, u64)| *start <= offset && offset + size <= start + bytes;
            whole.filter(holds)
        };
        let mut members = replaced.members.iter();
        let found = members.find_map(|member| Some((member, whole(member)?)));
        let (member, (start, bytes)) = found?;
        Some((moved_within(member, start, bytes, offset)?, size))
    };
    Ok((replaced.size_bytes, Box::new(moved)))
}

/// The new offset of the byte at `offset` of a member that has `size` bytes from `start` on now, and that a
/// layout file places as `member`: elements of an array may lie further apart there.
fn moved_within(member: &FileMember, start: u64, size: u64, offset: u64) -> Option<u64> {
    let inside = offset.checked_sub(start)?;
    let to = member.offset_bytes + member.bits.map_or(0, |bits| bits.offset / 8);
    let element = member
        .array
        .filter(|array| array.count > 0 && member.size_bytes != size);
    let (number, stride, rest) = match element.map(|array| (array.stride_bytes, size / array.count))
    {
        Some((stride, of_now)) if of_now > 0 => (inside / of_now, stride, inside % of_now),
        _ => (0, 0, inside),
    };
    number
        .checked_mul(stride)?
        .checked_add(to)?
        .checked_add(rest)
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
