//! Layouts of a structure that a replay proved -> edits of its declaration.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hitm::fix::{Remedy, Tree};
use hitm_advise::{Inputs, Language, Proposal, Session, gain};
use hitm_base::LINE_SIZE;
use hitm_layout::advise::{Candidate, Options, Plan};
use hitm_layout::emit::{
    Source, Style, align_rust, c_asserts, declares_go, declares_rust, is_go, is_rust,
};
use hitm_report::fix::layout_words;
use hitm_report::pictures::Structure;

use super::advisor::Case;
use super::promises;

/// Layouts of a structure that are built: each takes a build and several recordings.
const BUILT_MAX: usize = 3;

/// Steps of a search, as for the first screen of a report.
const STEPS_MAX: u64 = 10_000_000;

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
    let remedies = proposals.map(|proposal| {
        let mut remedy = declared.remedy(session, proposal, case);
        if let Some(promise) = &promise {
            remedy.diff = Err(promise.clone());
        }
        remedy
    });
    Ok(remedies.collect())
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
            replayed_gain: proposal
                .proof
                .as_ref()
                .and_then(|proof| proof.as_ref().ok())
                .map(gain),
            size_before: Some(now.size_bytes),
            size_after: Some(candidate.layout.size_bytes),
            assertions: assertions(&candidate, language),
        }
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
        Ok(session.emit(candidate, language, Some(path))?)
    }

    fn not_here(&self) -> String {
        let name = &self.name;
        match self.elsewhere.as_str() {
            "" => format!("no file of the tree declares {name}"),
            file => format!("{name} is declared in {file}, outside of the tree"),
        }
    }
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
