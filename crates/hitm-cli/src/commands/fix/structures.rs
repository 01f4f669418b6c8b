//! Layouts of a structure that a replay proved -> edits of its declaration.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hitm::fix::{Environment, Remedy, Tree};
use hitm_advise::{Inputs, Language, Proposal, Session, gain};
use hitm_base::LINE_SIZE;
use hitm_layout::advise::{Candidate, Options, Plan};
use hitm_layout::emit::{
    Source, Style, align_rust, c_asserts, declares_go, declares_rust, is_go, is_rust, wrap_rust,
};
use hitm_report::fix::{layout_words, wrapped_words};
use hitm_report::pictures::Structure;

use super::advisor::Case;
use super::{crossbeam, gofmt, promises};

/// Layouts of a structure that are built: each takes a build and several recordings.
pub(super) const BUILT_MAX: usize = 3;

/// Steps of a search, as for the first screen of a report.
pub(super) const STEPS_MAX: u64 = 10_000_000;

/// Remedies for the structure on a finding's lines.
pub(super) fn remedies(case: &Case<'_>, structure: &Structure) -> Result<Vec<Remedy>> {
    let inputs = Inputs {
        profile: case.file.to_owned(),
        ..structure.inputs.clone()
    };
    let opened = Session::open(&inputs, &mut |_, _| {})?;
    let options = Options {
        seed: 1,
        steps_max: Some(STEPS_MAX),
        ..Options::default()
    };
    let (session, answer) = opened.first_better(&options, |session| {
        let advice = session.search(&options, &|_, _| {})?;
        Ok::<_, anyhow::Error>(session.prove(&advice, None, &mut |_, _| {}))
    })?;
    let declared = Declared::of(session, case.tree);
    let promise = declared.file.as_deref().and_then(|file| {
        let found = promises::of(&declared.name, file, case.tree);
        found.filter(|_| !case.allows_abi)
    });
    let proposals = answer.proposals.iter().take(BUILT_MAX);
    let mut remedies: Vec<Remedy> = proposals
        .flat_map(|proposal| {
            let wrapped = declared.wrapped(session, proposal, case);
            let plain = declared.remedy(session, proposal, case);
            wrapped.into_iter().chain([plain])
        })
        .collect();
    if let Some(promise) = promise {
        for remedy in &mut remedies {
            remedy.diff = Err(promise.clone());
        }
    }
    Ok(remedies)
}

/// A structure and the file that declares it.
struct Declared {
    name: String,
    /// None where it is not declared in the tree.
    file: Option<PathBuf>,
    /// Place of a declaration elsewhere.
    elsewhere: String,
}

impl Declared {
    fn of(session: &Session, tree: &Tree) -> Declared {
        let name = session.heading().type_name;
        let decl = session.declared_at();
        let by_debug = decl
            .as_ref()
            .and_then(|decl| tree.relative(Path::new(&*decl.file)));
        Declared {
            file: by_debug.or_else(|| by_name(&name, tree)),
            elsewhere: decl.map_or_else(String::new, |decl| decl.file.to_string()),
            name,
        }
    }

    fn remedy(&self, session: &Session, proposal: &Proposal, case: &Case<'_>) -> Remedy {
        let now = session.structure();
        let candidate = &proposal.candidate;
        let language = self.file.as_deref().map(|file| language(file, case.tree));
        // Blocks of C's malloc and objects of Go begin anywhere.
        let is_unaligned = match language {
            Some(Language::C(Style::C | Style::Kernel)) => case.is_on_heap(),
            Some(Language::Go) => true,
            _ => false,
        };
        let mut layout = candidate.layout.clone();
        if is_unaligned {
            layout.align_bytes = now
                .align_bytes
                .filter(|align| *align < LINE_SIZE)
                .or(Some(1));
        }
        let candidate = Candidate {
            layout,
            ..candidate.clone()
        };
        let what = layout_words(&self.name, &candidate.plan);
        let root = format!("{}/", case.tree.root().display());
        let diff = match (&self.file, language) {
            (Some(file), Some(language)) => {
                let text = self.text(session, &candidate, language, &case.tree.root().join(file));
                text.map_err(|error| format!("{error:#}").replace(&root, ""))
            }
            _ => Err(self.not_here()),
        };
        Remedy {
            key: what.clone(),
            what,
            finding: case.finding.name.clone(),
            file: self.file.clone(),
            diff,
            replayed_gain: replayed_gain(proposal),
            size_before: Some(now.size_bytes),
            size_after: Some(candidate.layout.size_bytes),
            instance_count: instance_count(session),
            assertions: assertions(&candidate, language),
            environment: Environment::default(),
            needs: String::new(),
        }
    }

    /// The layout by crossbeam's wrapper, in a crate of Rust that has it.
    fn wrapped(&self, session: &Session, proposal: &Proposal, case: &Case<'_>) -> Option<Remedy> {
        let file = self.file.as_deref()?;
        let path = crossbeam::wrapper(file, case.tree)?;
        let candidate = &proposal.candidate;
        if language(file, case.tree) != Language::Rust || candidate.plan == Plan::Padded {
            return None;
        }
        let text = case.tree.read(file).ok()?;
        let source = Source {
            file: file.to_str()?,
            text: &text,
        };
        // What the wrapper cannot do has its reason from the other form of the layout.
        let wrapped = wrap_rust(&candidate.layout, &path, source).ok()??;
        let fields: Vec<&str> = wrapped.fields.iter().map(String::as_str).collect();
        let what = wrapped_words(&self.name, &fields);
        Some(Remedy {
            key: what.clone(),
            what,
            finding: case.finding.name.clone(),
            file: self.file.clone(),
            diff: Ok(wrapped.diff),
            replayed_gain: replayed_gain(proposal),
            size_before: Some(session.structure().size_bytes),
            size_after: Some(wrapped.size_bytes),
            instance_count: instance_count(session),
            assertions: String::new(),
            environment: Environment::default(),
            needs: String::new(),
        })
    }

    fn text(
        &self,
        session: &Session,
        candidate: &Candidate,
        language: Language,
        path: &Path,
    ) -> Result<String> {
        if language == Language::Rust && candidate.plan == Plan::Padded {
            let text = hitm_files::text_file::source_text(path)?;
            let file = path.display().to_string();
            let source = Source {
                file: &file,
                text: &text,
            };
            return Ok(align_rust(bare(&self.name), source)?);
        }
        let diff = session.emit(candidate, language, Some(path))?;
        match language {
            Language::Go => {
                let before = hitm_files::text_file::source_text(path)?;
                Ok(gofmt::formatted(&path.display().to_string(), &before, diff))
            }
            _ => Ok(diff),
        }
    }

    fn not_here(&self) -> String {
        let name = &self.name;
        match self.elsewhere.as_str() {
            "" => format!("no file of the tree declares {name}"),
            file => format!("{name} is declared in {file}, outside of the tree"),
        }
    }
}

/// Part of the run that a replay saved.
pub(super) fn replayed_gain(proposal: &Proposal) -> Option<f64> {
    let proof = proposal.proof.as_ref()?.as_ref().ok()?;
    Some(gain(proof))
}

/// Instances that are accessed; none where they are not known.
pub(super) fn instance_count(session: &Session) -> Option<u64> {
    Some(session.instance_count()).filter(|count| *count > 0)
}

/// The only file of Rust or Go that declares a structure: their debug information has no place.
fn by_name(name: &str, tree: &Tree) -> Option<PathBuf> {
    let name = bare(name);
    let mut found = tree.files().iter().filter(|file| {
        let shown = file.to_str().unwrap_or_default();
        let declares = match shown {
            _ if is_rust(shown) => declares_rust,
            _ if is_go(shown) => declares_go,
            _ => return false,
        };
        tree.read(file).is_ok_and(|text| declares(&text, name))
    });
    let first = found.next()?;
    found.next().is_none().then(|| first.clone())
}

/// A type's name without its path and its arguments.
fn bare(name: &str) -> &str {
    let name = name.split(['<', '[']).next().unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    name.rsplit('.').next().unwrap_or(name)
}

/// Language of a file, by its name; of a header by the sources beside it.
pub(super) fn language(file: &Path, tree: &Tree) -> Language {
    let ending = |file: &Path| {
        file.extension()
            .and_then(|ending| ending.to_str())
            .map(str::to_owned)
    };
    let is_cpp = |file: &Path| {
        let cpp = ["cc", "cpp", "cxx", "c++", "hpp", "hh", "hxx", "ipp", "C"];
        ending(file).is_some_and(|ending| cpp.contains(&ending.as_str()))
    };
    match ending(file).as_deref() {
        Some("rs") => Language::Rust,
        Some("go") => Language::Go,
        Some("h" | "inc")
            if !tree
                .files()
                .iter()
                .any(|file| ending(file).as_deref() == Some("c")) =>
        {
            match tree.files().iter().any(|file| is_cpp(file)) {
                true => Language::C(Style::Cpp),
                false => Language::C(Style::C),
            }
        }
        _ if is_cpp(file) => Language::C(Style::Cpp),
        _ => Language::C(Style::C),
    }
}

/// Assertions for the author to keep. Rust's are in its diff.
fn assertions(candidate: &Candidate, language: Option<Language>) -> String {
    let layout = &candidate.layout;
    let is_named = layout
        .members
        .iter()
        .all(|member| !member.name.starts_with('('));
    match language {
        Some(Language::C(style)) if is_named => c_asserts(layout, style),
        _ => String::new(),
    }
}
