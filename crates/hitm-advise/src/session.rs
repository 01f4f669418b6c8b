//! A question about one structure from files: its layout, the profile, the machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hitm_base::Machine;
use hitm_files::text_file;
use hitm_layout::advise::{Advice, Candidate, Demand, Options, Search, Weighed};
use hitm_layout::emit::{self, patch_array};
use hitm_layout::layout_file::{FileStruct, LayoutFile};
use hitm_layout::profile::Profile;
use hitm_layout::{Decl, StructLayout};
use hitm_recording::Recording;
use hitm_whatif::Took;
use hitm_whatif::layout_files;

use super::accesses::{Accesses, Read};
use super::error::SessionError;
use super::inner::{WithInner, read_with_inner};
use super::inputs::{Asked, Inputs, SOURCE_BYTES_MAX, Source, Structure, TypesFiles};
use super::locate::{locator, replaced};
use super::proof::{Proof, Proving};
use super::proposals::{self, Proposal, Tried};
use super::source::{self, Language};
use super::{EnginePrices, Heading, Question, ask, whole};

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
        self.read.subject.to_file_struct()
    }

    /// Number of its instances that are accessed; 0 for a profile without addresses.
    pub fn instance_count(&self) -> u64 {
        self.read.bases.len() as u64
    }

    /// Place of its declaration in the source; none where the debug information has none.
    pub fn declared_at(&self) -> Option<Decl> {
        match &self.read.structure {
            Structure::Types(_, layout) => layout.decl.clone(),
            Structure::Table(_) | Structure::Scalars => None,
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
        let no_member = |member: String| self.read.subject.no_member(member);
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
        (true, Language::C(_) | Language::Go) => ("Rust", "c, cpp or kernel", "rust"),
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
