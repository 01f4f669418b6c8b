//! `hitm fix --kernel-type`: layouts of a kernel's structure, run on the booted machine.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow, bail};
use hitm::fix::{Environment, KernelBench, KernelSetup, KernelTrial, Remedy, Step, Tree};
use hitm_advise::{
    Inputs, Language, Proposal, RecordedProfileError, Session, SessionError,
};
use hitm_files::output_file;
use hitm_layout::advise::Options;
use hitm_layout::emit::{Style, c_asserts, declares_c};
use hitm_layout::layout_file::LayoutFile;
use hitm_recording::Recording;
use hitm_report::fix as view;
use hitm_weave::Placement;

use super::structures::{BUILT_MAX, STEPS_MAX, instance_count, replayed_gain};
use super::{FixArgs, promises, show};
use crate::progress::Bar;
use crate::{Exit, Terminal};

pub(super) fn tried(args: &FixArgs, name: &str, terminal: &mut Terminal) -> Result<Exit> {
    let input = args.input.as_deref().expect("clap asks for it");
    let (setup, machine) = setup(args, input, name)?;
    let bench = KernelBench::new(&setup, args.source.as_deref(), args.apply)?;
    let declared = match bench.tree() {
        Some(tree) => Some(declaring_file(name, tree)?),
        None => None,
    };
    let promise = match (bench.tree(), &declared) {
        (Some(tree), Some(file)) if !args.allow_abi => promises::of_kernel(name, file, tree),
        _ => None,
    };
    let place = Place {
        bench: &bench,
        file: declared,
        promise,
    };
    let mut trials = place.trials(&inputs(&setup, input), args)?;
    for path in &args.layout {
        trials.push(compared(path, name)?);
    }
    let limits = args.limits();
    let mut step = |step: Step<'_>| terminal.note(&view::step(&step));
    let fixed = bench.run(trials, &limits, &mut step)?;
    let view = view::FixView::new(&fixed, &limits, &machine, &commands(args, &setup, &machine));
    if let Some(path) = args.output.as_deref().filter(|_| !fixed.layout.is_empty()) {
        output_file::write(path, fixed.layout.as_bytes())?;
        terminal.note(&format!("wrote {}", path.display()));
    }
    if args.apply && !fixed.changed.is_empty() {
        bench.apply(&fixed.changed)?;
        terminal.note(&view.applied());
    }
    // Its folder goes before a reader of the result does.
    drop(bench);
    show(&view, args, terminal)
}

/// The machine and workload of the recording, and the machine's name.
fn setup(args: &FixArgs, input: &Path, name: &str) -> Result<(KernelSetup, String)> {
    let recording = Recording::load_contended(input, &mut |_, _| {})?;
    let names = recording.names();
    if !names.is_machine() {
        bail!(
            "{}: found no kernel whose names are kept on this host, expected a recording of `hitm vm run`",
            input.display()
        );
    }
    let Some((_, types)) = names.kernel_size(name) else {
        bail!("{}: the recorded kernel has no structure {name}", input.display());
    };
    let header = &recording.header;
    let cpus = Placement::from_str(&header.placement)
        .with_context(|| format!("{}: the list of CPUs", input.display()))?;
    let Placement::List(cpus) = cpus else {
        bail!("{}: found {}, expected a list of CPUs", input.display(), header.placement);
    };
    let kernel = args.kernel.as_ref().expect("clap asks for it");
    let kernel = match kernel {
        hitm::vm::KernelSource::File(path) => path.display().to_string(),
        debian @ hitm::vm::KernelSource::Debian(_) => debian.to_string(),
    };
    let options = [
        ("--kernel", kernel),
        ("--smp", cpus.len().to_string()),
        ("--memory", args.memory.to_string()),
        ("--window", header.window.0.to_string()),
        ("--timeout", args.timeout.as_secs().max(1).to_string()),
    ];
    let options = options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]);
    let setup = KernelSetup {
        recorder: std::env::current_exe().context("cannot find the path of hitm")?,
        machine_toml: header.machine_toml.clone(),
        options: options.collect(),
        workload: header.args.clone(),
        types,
        type_name: name.to_owned(),
        timeout: args.timeout,
    };
    Ok((setup, recording.machine.name.clone()))
}

fn inputs(setup: &KernelSetup, input: &Path) -> Inputs {
    Inputs {
        type_name: setup.type_name.clone(),
        input: setup.types.clone(),
        profile: input.to_owned(),
        ..Inputs::default()
    }
}

/// The only file of the tree that declares a structure.
fn declaring_file(name: &str, tree: &Tree) -> Result<PathBuf> {
    let root = tree.root().display();
    let declares = |file: &&PathBuf| {
        let is_c = file
            .extension()
            .is_some_and(|ending| ending == "h" || ending == "c");
        // What is no text declares nothing.
        is_c && tree
            .read(file)
            .is_ok_and(|text| text.contains(name) && declares_c(&text, name))
    };
    let mut found = tree.files().iter().filter(declares);
    match (found.next(), found.next()) {
        (Some(file), None) => Ok(file.clone()),
        (Some(first), Some(second)) => bail!(
            "{root}: found declarations of {name} in {} and {}, expected one",
            first.display(),
            second.display()
        ),
        (None, _) => bail!("{root}: no file of the tree declares {name}"),
    }
}

/// The structure's place in the source.
struct Place<'p> {
    bench: &'p KernelBench<'p>,
    file: Option<PathBuf>,
    /// Reason not to change it.
    promise: Option<String>,
}

impl Place<'_> {
    /// Layouts that a replay proved, the best first.
    fn trials(&self, inputs: &Inputs, args: &FixArgs) -> Result<Vec<KernelTrial>> {
        let bar = Bar::start("reading");
        let declared_in = match (&self.file, self.bench.tree()) {
            (Some(file), Some(tree)) => Some(tree.root().join(file)),
            _ => None,
        };
        let inputs = Inputs {
            declared_in,
            ..inputs.clone()
        };
        let session = Session::open(&inputs, &mut |read, all| bar.set(read, all));
        let session = session.map_err(|error| not_accessed(error, &inputs))?;
        bar.finish();
        self.check_source(&session)?;
        let options = Options {
            seed: 1,
            steps_max: Some(STEPS_MAX),
            ..Options::default()
        };
        let advice = session.search(&options, &|_, _| {})?;
        let answer = session.prove(&advice, None, &mut |_, _| {});
        let count = BUILT_MAX.min(args.remedies.into());
        let proposals = answer.proposals.iter().take(count);
        proposals.map(|proposal| self.trial(&session, proposal)).collect()
    }

    /// Fails where the tree's structure is not the recorded kernel's.
    fn check_source(&self, session: &Session) -> Result<()> {
        let (Some(file), Some(tree)) = (&self.file, self.bench.tree()) else {
            return Ok(());
        };
        match self.bench.mismatch(file, &session.structure())? {
            None => Ok(()),
            Some(why) => bail!(
                "{}: {}: {}, expected the source of the recorded kernel with its configuration",
                tree.root().display(),
                file.display(),
                self.below(&why)
            ),
        }
    }

    fn trial(&self, session: &Session, proposal: &Proposal) -> Result<KernelTrial> {
        let candidate = &proposal.candidate;
        let name = &candidate.layout.name;
        let language = Language::C(Style::Kernel);
        let mut declaration = String::new();
        let path = self.bench.tree().zip(self.file.as_deref());
        let path = path.map(|(tree, file)| tree.root().join(file));
        let text = session.emit(candidate, language, path.as_deref());
        let diff = match (&self.promise, text, &self.file) {
            (Some(promise), ..) => Err(promise.clone()),
            (None, Err(error), _) => Err(self.below(&format!("{:#}", anyhow::Error::from(error)))),
            (None, Ok(diff), Some(file)) => {
                match self.bench.refusal(file, &diff, &candidate.layout)? {
                    Some(why) => Err(why),
                    None => Ok(diff),
                }
            }
            (None, Ok(text), None) => {
                declaration = text;
                Ok(String::new())
            }
        };
        let what = view::layout_words(name, &candidate.plan);
        Ok(KernelTrial {
            remedy: Remedy {
                key: what.clone(),
                what,
                finding: name.clone(),
                file: self.file.clone(),
                diff,
                replayed_gain: replayed_gain(proposal),
                size_before: Some(session.structure().size_bytes),
                size_after: Some(candidate.layout.size_bytes),
                instance_count: instance_count(session),
                assertions: match self.file {
                    Some(_) => c_asserts(&candidate.layout, Style::Kernel),
                    None => String::new(),
                },
                environment: Environment::default(),
                needs: String::new(),
            },
            layout: session.layout_file("fixed", candidate),
            declaration,
            is_compared: false,
        })
    }

    /// A text with paths as they are below the tree.
    fn below(&self, text: &str) -> String {
        match self.bench.tree() {
            Some(tree) => text.replace(&format!("{}/", tree.root().display()), ""),
            None => text.to_owned(),
        }
    }
}

/// An error of opening a recording, without the options of other commands.
fn not_accessed(error: SessionError, inputs: &Inputs) -> anyhow::Error {
    match error {
        SessionError::NotRecorded(RecordedProfileError::NothingFound { wanted, known, .. }) => anyhow!(
            "{}: no access to {wanted} in a line that two CPUs share: expected a structure that is on such lines, \
             which are those of {known}",
            inputs.profile.display()
        ),
        other => other.into(),
    }
}

/// A layout file that the others are compared with.
fn compared(path: &Path, name: &str) -> Result<KernelTrial> {
    let layout: LayoutFile = hitm_whatif::read_layout(path)?;
    let Some(of) = layout.structs.iter().find(|one| one.name == name) else {
        bail!("{}: no layout of {name}", path.display());
    };
    let what = view::compared_words(name, &layout.name);
    Ok(KernelTrial {
        remedy: Remedy {
            key: what.clone(),
            what,
            finding: name.to_owned(),
            file: None,
            diff: Ok(String::new()),
            replayed_gain: None,
            size_before: None,
            size_after: Some(of.size_bytes),
            instance_count: None,
            assertions: String::new(),
            environment: Environment::default(),
            needs: String::new(),
        },
        layout,
        declaration: String::new(),
        is_compared: true,
    })
}

/// Commands that repeat the figures, with the layout and without.
fn commands(args: &FixArgs, setup: &KernelSetup, machine: &str) -> view::Commands {
    let file = args.output.as_deref().unwrap_or(Path::new("fixed.toml"));
    let run = format!("hitm vm run {} --machine {machine}", setup.options.join(" "));
    let workload = setup.workload.join(" ");
    view::Commands(vec![
        format!("{run} --layout {} -- {workload}", file.display()),
        "hitm report".to_owned(),
        format!("{run} -- {workload}"),
        "hitm report".to_owned(),
    ])
}
