//! Two copies of the tree, the one that is kept and the one with a trial, and how both are built, checked and
//! recorded in turn.

use std::collections::BTreeSet;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hitm_base::Machine;
use hitm_recording::Recording;

use super::elsewhere::{Elsewhere, replayed};
use super::environment::Environment;
use super::folder::Folder;
use super::judge::{Judgement, Spread};
use super::output::Expected;
use super::process::{Ran, Surroundings};
use super::tree::{Source, Tree};
use super::words::{Program, shell_line};
use super::{Changed, Fate, FixError, Limits};
use crate::record::Signals;

/// Names of the copies: of one length, so that a path in a program takes as many bytes in both.
const COPIES: [&str; 2] = ["a", "b"];

/// Recording of the user's version.
const FIRST: &str = "first.hitm";

/// Commands that build, check and run a tree.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Line for a shell that builds it.
    pub build: String,
    /// The program to record.
    pub run: Program,
    /// Line for a shell that checks it.
    pub check: Option<String>,
    /// Time that each command may take.
    pub timeout: Duration,
    /// The `hitm` that records.
    pub recorder: PathBuf,
    /// Options of its `record`, without the output.
    pub record_options: Vec<String>,
    /// Machines on which the result is replayed.
    pub other_machines: Vec<Machine>,
}

/// The copies and what is known of their program.
#[derive(Debug)]
pub struct Bench<'s> {
    setup: &'s Setup,
    source: Source,
    signals: Signals,
    trees: [Tree; 2],
    /// Variables that the remedies of each tree need.
    environments: [Environment; 2],
    /// Index of the kept tree.
    kept: usize,
    /// Recording of the kept version.
    recording: PathBuf,
    expected: Option<Expect>,
    /// Behind what lies in it: fields are dropped in their order.
    folder: Folder,
}

/// The behaviour that every version must have.
#[derive(Debug)]
struct Expect {
    output: Expected,
    code: Option<i32>,
    warnings: BTreeSet<String>,
}

/// A recorded run.
struct Recorded {
    file: PathBuf,
    cycles: u64,
    ran: Ran,
}

impl<'s> Bench<'s> {
    /// Copies the tree of `source`. From now on signals end the commands, and are an error of the next one.
    ///
    /// # Errors
    /// The tree cannot be copied. With `applies` also where it has changes.
    pub fn new(setup: &'s Setup, source: &Path, applies: bool) -> Result<Bench<'s>, FixError> {
        let signals = Signals::catch();
        let source = Source::open(source)?;
        if applies {
            source.check_clean()?;
        }
        let folder = Folder::create()?;
        let [first, second] = COPIES.map(|name| Tree::copy(&source, &folder.path().join(name)));
        Ok(Bench {
            setup,
            source,
            signals,
            trees: [first?, second?],
            environments: Default::default(),
            kept: 0,
            recording: PathBuf::new(),
            expected: None,
            folder,
        })
    }

    /// The tree with all that is kept.
    pub fn tree(&self) -> &Tree {
        &self.trees[self.kept]
    }

    /// A recording of the version that is kept.
    pub fn recording(&self) -> &Path {
        &self.recording
    }

    /// Files that differ from the user's.
    pub(super) fn changed(&self) -> Result<Vec<Changed>, FixError> {
        self.tree().changed()
    }

    /// Words of the output that are not compared.
    pub(super) fn varying_words(&self) -> u64 {
        let expected = self.expected.as_ref();
        expected.map_or(0, |expected| expected.output.varying_words())
    }

    /// Exit code of every version.
    pub(super) fn exit_code(&self) -> Option<u64> {
        let expected = self.expected.as_ref()?;
        expected.code.and_then(|code| u64::try_from(code).ok())
    }

    /// Writes the changes to the user's tree.
    ///
    /// # Errors
    /// The tree has changes, or cannot be written.
    pub fn apply(&self, changed: &[Changed]) -> Result<(), FixError> {
        self.source.apply(changed)
    }

    /// Builds, checks, runs and records the user's version.
    pub(super) fn begin(&mut self) -> Result<(), FixError> {
        let failed = |what: &str, ran: &Ran| FixError::Base {
            why: format!("{what}: {}", ran.failure()),
        };
        let built = self.build(self.kept)?;
        if !built.is_success() {
            return Err(failed("--build", &built));
        }
        if let Some(check) = &self.setup.check {
            let checked = self.check(check, self.kept)?;
            if !checked.is_success() {
                return Err(failed("--check", &checked));
            }
        }
        // Times differ most between a run here and one on the modelled machine.
        let words = self.setup.run.at(self.tree().root());
        let ran = self.run(Command::new(&words[0]).args(&words[1..]))?;
        if ran.code.is_none() {
            return Err(failed("--run", &ran));
        }
        self.expected = Some(Expect {
            output: Expected::new(&ran.output),
            code: ran.code,
            warnings: warnings(&built),
        });
        let recorded = self.record(self.kept, "before")?;
        let recorded = recorded.map_err(|why| FixError::Base { why })?;
        self.learn(&recorded.ran);
        let first = self.folder.path().join(FIRST);
        fs::copy(&recorded.file, &first).map_err(|source| FixError::System {
            what: "write",
            path: first,
            source,
        })?;
        self.keep(recorded.file);
        Ok(())
    }

    /// Both versions on other machines.
    pub(super) fn elsewhere(&self) -> Vec<Elsewhere> {
        let first = self.folder.path().join(FIRST);
        let machines = self.setup.other_machines.iter();
        let all = machines.filter_map(|machine| replayed(&first, &self.recording, machine));
        all.collect()
    }

    /// Tries another text of a file, beside the version before.
    pub(super) fn try_text(
        &mut self,
        file: &Path,
        text: &str,
        environment: &Environment,
        limits: &Limits,
    ) -> Result<Fate, FixError> {
        let before = self.tree().read(file)?;
        let trial = 1 - self.kept;
        self.trees[trial].write(file, text)?;
        self.environments[trial] = self.environments[self.kept].and(environment);
        let fate = match self.refusal()? {
            Some(why) => Fate::Refused(why),
            None => self.measured(limits)?,
        };
        let other = match fate {
            Fate::Kept(_) => {
                self.kept = trial;
                text
            }
            _ => &before,
        };
        let other_tree = 1 - self.kept;
        self.environments[other_tree] = self.environments[self.kept].clone();
        self.trees[other_tree].write(file, other)?;
        Ok(fate)
    }

    /// Reason for which the trial is not measured: it does not build, or its check fails.
    fn refusal(&self) -> Result<Option<String>, FixError> {
        let trial = 1 - self.kept;
        let built = self.build(trial)?;
        if !built.is_success() {
            return Ok(Some(format!("it does not build: {}", built.failure())));
        }
        let known = self.expected.as_ref().map(|expected| &expected.warnings);
        let new = warnings(&built).into_iter();
        let mut new = new.filter(|warning| known.is_none_or(|known| !known.contains(warning)));
        if let Some(warning) = new.next() {
            return Ok(Some(format!("the compiler warns: {warning}")));
        }
        let Some(check) = &self.setup.check else {
            return Ok(None);
        };
        let checked = self.check(check, trial)?;
        let failure = (!checked.is_success()).then(|| checked.failure());
        Ok(failure.map(|failure| format!("its check fails: {failure}")))
    }

    /// Records both versions in turn. No more runs follow once the remedy cannot be kept any more: each further run can
    /// only lower what is sure.
    fn measured(&mut self, limits: &Limits) -> Result<Fate, FixError> {
        let trial = 1 - self.kept;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut last = PathBuf::new();
        for _ in 0..limits.runs.max(1) {
            let of_kept = self.record(self.kept, "before")?;
            let of_kept = of_kept.map_err(|why| FixError::Base { why })?;
            self.learn(&of_kept.ran);
            before.push(of_kept.cycles);
            let of_trial = match self.record(trial, "after")? {
                Ok(recorded) => recorded,
                Err(why) => return Ok(Fate::Refused(why)),
            };
            if let Some(why) = self.difference(&of_trial.ran) {
                return Ok(Fate::Refused(why));
            }
            after.push(of_trial.cycles);
            last = of_trial.file;
            let judgement = judgement(&before, &after);
            if !judgement.is_kept(limits.min_gain) {
                return Ok(Fate::Undone(judgement));
            }
        }
        self.keep(last);
        Ok(Fate::Kept(judgement(&before, &after)))
    }

    fn learn(&mut self, ran: &Ran) {
        if let Some(expected) = &mut self.expected {
            expected.output.learn(&ran.output);
        }
    }

    /// Difference of a run from those of the user's version.
    fn difference(&self, ran: &Ran) -> Option<String> {
        let expected = self.expected.as_ref()?;
        match ran.code == expected.code {
            true => expected.output.difference(&ran.output),
            false => Some(format!(
                "{}, expected exit code {}",
                ran.failure(),
                expected.code.unwrap_or(0)
            )),
        }
    }

    /// Makes a recording that of the kept version. It keeps its name: names of generated code lie beside it.
    fn keep(&mut self, file: PathBuf) {
        let former = mem::replace(&mut self.recording, file);
        // The next recordings have room enough where it stays.
        let _ = fs::remove_file(former);
    }

    /// A file for a recording that does not replace that of the kept version.
    fn place(&self, name: &str) -> PathBuf {
        let mut files = ["", "-again"]
            .map(|end| self.folder.path().join(format!("{name}{end}.hitm")))
            .into_iter();
        let free = files.find(|file| *file != self.recording);
        free.expect("one of two names is not the recording's")
    }

    /// Records a tree's program; a reason where there is no whole recording.
    fn record(&self, tree: usize, name: &str) -> Result<Result<Recorded, String>, FixError> {
        let file = self.place(name);
        let mut command = Command::new(&self.setup.recorder);
        command.arg("record").args(&self.setup.record_options);
        command.arg("--output").arg(&file).arg("--");
        command.args(self.setup.run.at(self.trees[tree].root()));
        self.environments[tree].set_for_run(&mut command);
        let ran = self.run(&mut command)?;
        if ran.code.is_none() {
            return Ok(Err(format!("recording it: {}", ran.failure())));
        }
        let read = Recording::load_contended(&file, &mut |_, _| {});
        let Ok(recording) = read else {
            return Ok(Err(format!("it cannot be recorded: {}", ran.failure())));
        };
        if !recording.is_complete() {
            let why = recording.diagnostics().join("; ");
            return Ok(Err(format!("its recording is not whole: {why}")));
        }
        Ok(Ok(Recorded {
            cycles: recording.thread_cycles().0,
            file,
            ran,
        }))
    }

    fn build(&self, tree: usize) -> Result<Ran, FixError> {
        let mut command = self.shell(&self.setup.build, tree);
        self.environments[tree].set_for_build(&mut command);
        self.run(&mut command)
    }

    fn check(&self, line: &str, tree: usize) -> Result<Ran, FixError> {
        let mut command = self.shell(line, tree);
        self.environments[tree].set_for_run(&mut command);
        self.run(&mut command)
    }

    fn shell(&self, line: &str, tree: usize) -> Command {
        let line = shell_line(line, self.trees[tree].root());
        let mut command = Command::new("sh");
        command.args(["-c", &line]);
        command
    }

    fn run(&self, command: &mut Command) -> Result<Ran, FixError> {
        let surroundings = Surroundings {
            folder: self.folder.path(),
            timeout: self.setup.timeout,
            signals: &self.signals,
        };
        surroundings.run(command)
    }
}

fn judgement(before: &[u64], after: &[u64]) -> Judgement {
    let spread = |cycles| Spread::of(cycles).expect("each version was recorded");
    Judgement {
        before: spread(before),
        after: spread(after),
    }
}

/// A compiler's warnings, without their places.
fn warnings(built: &Ran) -> BTreeSet<String> {
    let texts = [&built.output, &built.errors].map(|bytes| String::from_utf8_lossy(bytes));
    let lines = texts.iter().flat_map(|text| text.lines());
    let warnings = lines.filter_map(|line| line.split_once("warning: "));
    warnings.map(|(_, warning)| warning.to_owned()).collect()
}
