//! Layouts of a kernel's structure: each run in turn with the one that the kernel was compiled with, on a booted machine
//! that prices the structure's objects in it (`hitm vm run --layout`).
//!
//! All layouts are of one structure, so that one is kept at most. The source is tried by a compiler: a small file of C
//! includes the changed declaration, and the debug information of its object must have the layout.

mod compiler;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hitm_advise::types_files;
use hitm_layout::advise::{Opening, Subject};
use hitm_layout::emit::patched;
use hitm_layout::layout_file::{FileStruct, LayoutFile};
use hitm_recording::Recording;

use self::compiler::Compiler;
use super::folder::Folder;
use super::judge::{Judgement, Spread};
use super::process::Surroundings;
use super::tree::{Source, Tree};
use super::{Changed, Fate, FixError, Fixed, Limits, Remedy, Step, Tried};
use crate::record::Signals;

/// The machine and its workload.
#[derive(Debug, Clone)]
pub struct KernelSetup {
    /// The `hitm` that records.
    pub recorder: PathBuf,
    /// Text of the machine model.
    pub machine_toml: String,
    /// Options of `vm run` beside the machine, layouts and output.
    pub options: Vec<String>,
    /// The workload and its arguments.
    pub workload: Vec<String>,
    /// File with the types of the recorded kernel, whose name has the build id.
    pub types: PathBuf,
    /// A structure of the kernel.
    pub type_name: String,
    /// Time that each run may take.
    pub timeout: Duration,
}

/// A layout to run.
#[derive(Debug, Clone)]
pub struct KernelTrial {
    /// The change; what cannot be made of it is refused before it runs.
    pub remedy: Remedy,
    /// The layout.
    pub layout: LayoutFile,
    /// The structure as C, where no tree was given.
    pub declaration: String,
    /// True for a layout that the others are compared with.
    pub is_compared: bool,
}

/// Files of the trials.
#[derive(Debug)]
pub struct KernelBench<'s> {
    setup: &'s KernelSetup,
    signals: Signals,
    tree: Option<(Source, Tree, Compiler)>,
    folder: Folder,
}

/// A text in place of a file of the tree.
#[derive(Debug, Clone, Copy)]
struct Changes<'c> {
    file: &'c Path,
    text: &'c str,
}

/// A layout that runs.
struct Running {
    trial: KernelTrial,
    file: PathBuf,
    before: Vec<u64>,
    after: Vec<u64>,
    fate: Option<Fate>,
}

impl Running {
    fn judgement(&self) -> Option<Judgement> {
        Some(Judgement {
            before: Spread::of(&self.before)?,
            after: Spread::of(&self.after)?,
        })
    }
}

impl<'s> KernelBench<'s> {
    /// Makes a folder for recordings. `source` is the kernel's tree, which is only read.
    ///
    /// # Errors
    /// The tree cannot be read, or is one of Linux that is not prepared. With `applies` also where it has changes.
    pub fn new(
        setup: &'s KernelSetup,
        source: Option<&Path>,
        applies: bool,
    ) -> Result<KernelBench<'s>, FixError> {
        let tree = source.map(|path| {
            let source = Source::open(path)?;
            if applies {
                source.check_clean()?;
            }
            let tree = Tree::of(&source)?;
            let compiler = Compiler::of(tree.root())?;
            Ok::<_, FixError>((source, tree, compiler))
        });
        Ok(KernelBench {
            setup,
            signals: Signals::catch(),
            tree: tree.transpose()?,
            folder: Folder::create()?,
        })
    }

    /// The kernel's tree.
    pub fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref().map(|(_, tree, _)| tree)
    }

    /// Writes the change to the tree.
    ///
    /// # Errors
    /// The tree has changes, or cannot be written.
    pub fn apply(&self, changed: &[Changed]) -> Result<(), FixError> {
        match &self.tree {
            Some((source, ..)) => source.apply(changed),
            None => Ok(()),
        }
    }

    /// Compiles a file of the tree as it is; the reason for which the structure does not have the layout that it has in
    /// the recorded kernel, if it does not.
    ///
    /// # Errors
    /// A signal came, or the system refuses something.
    pub fn mismatch(&self, file: &Path, recorded: &FileStruct) -> Result<Option<String>, FixError> {
        match &self.tree {
            Some((_, tree, compiler)) => {
                let text = tree.read(file)?;
                self.compiled(compiler, Changes { file, text: &text }, recorded)
            }
            None => Ok(None),
        }
    }

    /// Compiles a file of the tree with a diff; the reason for which the structure does not get the layout, if it does
    /// not.
    ///
    /// # Errors
    /// A signal came, or the system refuses something.
    pub fn refusal(
        &self,
        file: &Path,
        diff: &str,
        layout: &FileStruct,
    ) -> Result<Option<String>, FixError> {
        let Some((_, tree, compiler)) = &self.tree else {
            return Ok(None);
        };
        match patched(&tree.read(file)?, diff) {
            Some(text) => self.compiled(compiler, Changes { file, text: &text }, layout),
            None => Ok(Some("its diff does not fit the file".to_owned())),
        }
    }

    /// Compiles a small file of C that includes a text in place of a file of the tree.
    fn compiled(
        &self,
        compiler: &Compiler,
        Changes { file, text }: Changes<'_>,
        layout: &FileStruct,
    ) -> Result<Option<String>, FixError> {
        let [header, probe, object] =
            ["changed.h", "probe.c", "probe.o"].map(|name| self.folder.path().join(name));
        let name = &layout.name;
        // Arithmetic on a pointer needs the whole structure.
        let program = format!(
            "#include \"{}\"\nvoid *hitm_probe(struct {name} *of);\nvoid *hitm_probe(struct {name} *of)\n{{\n\treturn of + 1;\n}}\n",
            header.display()
        );
        self.write(&header, text)?;
        self.write(&probe, &program)?;
        let mut command = compiler.command(&probe, &object, file);
        let ran = self.surroundings().run(&mut command)?;
        if !ran.is_success() {
            let failure = ran.failure();
            let failure =
                failure.replace(&header.display().to_string(), &file.display().to_string());
            return Ok(Some(format!("it does not compile: {failure}")));
        }
        Ok(difference(&object, layout))
    }

    /// Runs each layout in turn with the compiled one. The one that saves most for certain is kept, if that is enough.
    ///
    /// # Errors
    /// The kernel as it is does not run, a signal came, or the system refuses something.
    pub fn run(
        &self,
        trials: Vec<KernelTrial>,
        limits: &Limits,
        step: &mut dyn FnMut(Step<'_>),
    ) -> Result<Fixed, FixError> {
        let mut all = Vec::new();
        for (trial, number) in trials.into_iter().zip(1..) {
            let file = self.folder.path().join(format!("layout-{number}.toml"));
            self.write(&file, &trial.layout.to_toml())?;
            let refused = trial.remedy.diff.as_ref().err().cloned();
            all.push(Running {
                fate: refused.map(Fate::Refused),
                trial,
                file,
                before: Vec::new(),
                after: Vec::new(),
            });
        }
        for _ in 0..limits.runs.max(1) {
            self.round(&mut all, limits, step)?;
        }
        self.result(all, limits, step)
    }

    /// Runs the compiled layout, then each that may still be kept.
    fn round(
        &self,
        all: &mut [Running],
        limits: &Limits,
        step: &mut dyn FnMut(Step<'_>),
    ) -> Result<(), FixError> {
        let mut left = all.iter_mut().filter(|one| one.fate.is_none()).peekable();
        if left.peek().is_none() {
            return Ok(());
        }
        let before = self.record(None)?;
        let before = before.map_err(|why| FixError::Base { why })?;
        for one in left {
            step(Step::Trial(&one.trial.remedy));
            match self.record(Some(&one.file))? {
                Err(why) => one.fate = Some(Fate::Refused(why)),
                Ok(after) => {
                    one.before.push(before);
                    one.after.push(after);
                }
            }
            // Each further run can only lower what is sure.
            one.fate = match (one.fate.take(), one.judgement()) {
                (None, Some(judgement))
                    if !one.trial.is_compared && !judgement.is_kept(limits.min_gain) =>
                {
                    Some(Fate::Undone(judgement))
                }
                (fate, _) => fate,
            };
        }
        Ok(())
    }

    /// Cycles of one run; the reason where there is no whole recording.
    fn record(&self, layout: Option<&Path>) -> Result<Result<u64, String>, FixError> {
        let [machine, file] =
            ["machine.toml", "run.hitm"].map(|name| self.folder.path().join(name));
        self.write(&machine, &self.setup.machine_toml)?;
        let mut command = Command::new(&self.setup.recorder);
        command.args(["vm", "run"]).args(&self.setup.options);
        command
            .arg("--machine")
            .arg(&machine)
            .arg("--output")
            .arg(&file);
        if let Some(layout) = layout {
            command.arg("--layout").arg(layout);
        }
        command.arg("--").args(&self.setup.workload);
        let ran = self.surroundings().run(&mut command)?;
        if !ran.is_success() {
            return Ok(Err(ran.failure()));
        }
        let recording = match Recording::load_contended(&file, &mut |_, _| {}) {
            Ok(recording) => recording,
            Err(error) => return Ok(Err(format!("it cannot be recorded: {error}"))),
        };
        if !recording.is_complete() {
            let why = recording.diagnostics().join("; ");
            return Ok(Err(format!("its recording is not whole: {why}")));
        }
        let types = recording.names().kernel_size(&self.setup.type_name);
        if types.is_none_or(|(_, types)| types != self.setup.types) {
            return Ok(Err(
                "found another kernel, expected the one of the recording (-k)".to_owned(),
            ));
        }
        Ok(Ok(recording.thread_cycles().0))
    }

    fn result(
        &self,
        mut all: Vec<Running>,
        limits: &Limits,
        step: &mut dyn FnMut(Step<'_>),
    ) -> Result<Fixed, FixError> {
        let sure = |one: &Running| match (&one.fate, one.trial.is_compared) {
            (None, false) => one.judgement().map(|judgement| judgement.sure_gain()),
            _ => None,
        };
        let gains = all.iter().map(sure).enumerate();
        let best = gains
            .filter(|(_, gain)| gain.is_some_and(|gain| gain >= limits.min_gain))
            .max_by(|a, b| a.1.unwrap_or(0.0).total_cmp(&b.1.unwrap_or(0.0)))
            .map(|best| best.0);
        let mut fixed = Fixed::empty();
        for (index, one) in all.iter_mut().enumerate() {
            let fate = match (one.fate.take(), one.judgement()) {
                (Some(fate), _) => fate,
                (None, Some(judgement)) if one.trial.is_compared => Fate::Compared(judgement),
                (None, Some(judgement)) if best == Some(index) => {
                    (fixed.first, fixed.last) = (Some(judgement.before), Some(judgement.after));
                    fixed.layout = one.trial.layout.to_toml();
                    fixed.declaration.clone_from(&one.trial.declaration);
                    fixed.changed.extend(self.changed(&one.trial.remedy)?);
                    Fate::Kept(judgement)
                }
                (None, Some(judgement)) => Fate::Undone(judgement),
                (None, None) => Fate::Refused("it did not run".to_owned()),
            };
            fixed.tried.push(Tried {
                remedy: one.trial.remedy.clone(),
                fate,
            });
            step(Step::Ended(fixed.tried.last().expect("one was pushed")));
        }
        Ok(fixed)
    }

    /// The file of a remedy with its change.
    fn changed(&self, remedy: &Remedy) -> Result<Option<Changed>, FixError> {
        let (Some(tree), Some(file), Ok(diff)) = (self.tree(), &remedy.file, &remedy.diff) else {
            return Ok(None);
        };
        let before = tree.read(file)?;
        Ok(patched(&before, diff).map(|after| Changed {
            file: file.clone(),
            before,
            after,
        }))
    }

    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            folder: self.folder.path(),
            timeout: self.setup.timeout,
            signals: &self.signals,
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), FixError> {
        fs::write(path, text).map_err(|source| FixError::System {
            what: "write",
            path: path.to_owned(),
            source,
        })
    }
}

/// The first place in which a compiled structure is not the wanted one.
fn difference(object: &Path, wanted: &FileStruct) -> Option<String> {
    let compiled = || -> Result<FileStruct, String> {
        let mut file = types_files::open(Some(object), None).map_err(|error| error.to_string())?;
        let layout = file.struct_layout(&wanted.name);
        let layout = layout.map_err(|error| error.to_string())?;
        let subject = Subject::from_types(&layout, file.types(), &Opening::default());
        Ok(subject.map_err(|error| error.to_string())?.to_file_struct())
    };
    match compiled() {
        Ok(compiled) => difference_of(&compiled, wanted),
        Err(error) => Some(format!("its debug information: {error}")),
    }
}

fn difference_of(compiled: &FileStruct, wanted: &FileStruct) -> Option<String> {
    let name = &wanted.name;
    for member in &wanted.members {
        let mut known = compiled.members.iter();
        let Some(found) = known.find(|known| known.name == member.name) else {
            return Some(format!("{name} as compiled has no member {}", member.name));
        };
        let [at, expected] = [found, member].map(|one| (one.offset_bytes, one.size_bytes));
        if at != expected {
            return Some(format!(
                "{name}.{} as compiled: found offset {} and {} bytes, expected offset {} and {} bytes",
                member.name, at.0, at.1, expected.0, expected.1
            ));
        }
    }
    let sizes = (compiled.size_bytes, wanted.size_bytes);
    (sizes.0 != sizes.1).then(|| {
        let (found, expected) = sizes;
        format!("{name} as compiled: found {found} bytes, expected {expected}")
    })
}

#[cfg(test)]
mod tests;
