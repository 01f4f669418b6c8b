//! Inputs of a question: the structure, the profile, the machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use hitm_base::Machine;
use hitm_files::input_file::{self, NamedBy};
use hitm_files::text_file;
use hitm_layout::StructLayout;
use hitm_layout::advise::{AdviseError, Opening, Subject};
use hitm_layout::emit::{Nameless, randomized};
use hitm_layout::layout_file::{LayoutTable, shipped};
use hitm_layout::structs::TypesFile;
use hitm_machine as machine;
use hitm_perf::c2c::published::is_published;
use hitm_recording::perf_data::{self, KernelSource};
use hitm_whatif::layout_files;

use super::SessionError;
use super::inner::Inner;
use crate::types_files;

/// First bytes of a profile that tell its kind: a mail has words before its tables.
const HEAD_BYTES: u64 = 1 << 20;
/// Longest source file that is read.
pub(super) const SOURCE_BYTES_MAX: u64 = 16 << 20;

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
    /// A recording, a table of accesses, samples, the text of `perf c2c report`, or the result of a simulation.
    pub profile: PathBuf,
    /// Variant of a simulation.
    pub variant: Option<String>,
    /// Place of the instances: an allocation site, a variable or an address.
    pub at: Option<String>,
    /// Types of members whose own members may be moved too.
    pub open: Vec<String>,
    /// The file that declares the structure: it says which members must stay together.
    pub declared_in: Option<PathBuf>,
    /// Name or path of the machine; `None` for the recording's.
    pub machine: Option<String>,
    /// Source of the names of a sampled kernel.
    pub kernel: Option<KernelSource>,
}

impl Inputs {
    /// The question about a structure inside this one.
    pub(super) fn of_inner(&self, inner: &Inner) -> Inputs {
        Inputs {
            type_name: inner.type_name.clone(),
            open: Vec::new(),
            ..self.clone()
        }
    }
}

/// Source of the structure.
#[derive(Debug)]
pub(super) enum Structure {
    Table(LayoutTable),
    Types(Rc<RefCell<TypesFile>>, Arc<StructLayout>),
    /// An array of scalars: its elements are the instances.
    Scalars,
}

/// Kind of a file of accesses, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Table,
    /// The text of `perf c2c report`.
    Published,
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
        file.take(HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(failed)?;
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
        let is_csv = path.extension().is_some_and(|extension| extension == "csv");
        Ok(match first {
            Some(b'{') => Source::Simulation,
            _ if is_csv => Source::Table,
            _ if is_published(&head) => Source::Published,
            Some(b'#') => Source::Table,
            _ if perf_data::sample_format(path).is_some() => Source::Samples,
            _ => Source::Recording,
        })
    }

    /// Returns true if the file says on which machine its accesses were counted.
    pub(super) fn has_machine(self) -> bool {
        !matches!(self, Source::Table | Source::Published)
    }

    /// Returns true if the file counts by address, so that the subject may be a variable.
    pub(super) fn has_addresses(self) -> bool {
        matches!(self, Source::Samples | Source::Recording)
    }
}

/// A question whose structure is known.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) inputs: Inputs,
    /// Kind of the profile.
    pub(super) source: Source,
    pub(super) structure: Structure,
    /// The machine that was asked for.
    pub(super) machine: Option<Machine>,
    /// Anonymous structures that the source marks `__randomize_layout`.
    pub(super) randomized: Vec<Nameless>,
}

impl Asked {
    /// Reads everything but the accesses. Files of types are taken from `files`.
    pub(super) fn new(inputs: Inputs, files: &mut TypesFiles) -> Result<Asked, SessionError> {
        let source = Source::of(&inputs.profile)?;
        if inputs.kernel.is_some() && !source.has_addresses() {
            return Err(SessionError::NoSamples {
                path: inputs.profile,
            });
        }
        let structure = files.structure(&inputs, source)?;
        let machine = match &inputs.machine {
            Some(name) => Some(machine::resolve(name)?.0),
            None => None,
        };
        let randomized = match (&inputs.declared_in, &structure) {
            (Some(path), Structure::Types(file, layout)) => {
                let text = text_file::read_utf8(path, SOURCE_BYTES_MAX, "a source file")?;
                randomized(&text, layout, file.borrow_mut().types())
            }
            _ => Vec::new(),
        };
        Ok(Asked {
            inputs,
            source,
            structure,
            machine,
            randomized,
        })
    }

    /// The structure as its file has it.
    pub(super) fn subject(&self) -> Result<Subject, SessionError> {
        let (name, open) = (&self.inputs.type_name, &self.inputs.open[..]);
        Ok(match &self.structure {
            Structure::Table(table) => Subject::from_table(table, name, open)?,
            Structure::Types(file, layout) => {
                let randomized = self.randomized.iter();
                let whole: Vec<_> = randomized.map(|one| one.bytes.clone()).collect();
                let opening = Opening {
                    types: open,
                    whole: &whole,
                };
                Subject::from_types(layout, file.borrow_mut().types(), &opening)?
            }
            Structure::Scalars => {
                return Err(AdviseError::NoSuchType {
                    name: name.to_owned(),
                }
                .into());
            }
        })
    }
}

/// Files of types, each opened once.
#[derive(Debug, Default)]
pub(super) struct TypesFiles(BTreeMap<(PathBuf, Option<PathBuf>), Rc<RefCell<TypesFile>>>);

impl TypesFiles {
    fn structure(&mut self, inputs: &Inputs, source: Source) -> Result<Structure, SessionError> {
        if is_layout(&inputs.input) {
            let (file, _) = layout_files::read(&inputs.input)?;
            return Ok(Structure::Table(match &inputs.below {
                Some(below) => LayoutTable::new(&layout_files::read(below)?.0)?.overlay(&file)?,
                None => LayoutTable::new(&file)?,
            }));
        }
        let file = self.open(&inputs.input, inputs.btf_base.as_deref())?;
        let found = file.borrow_mut().struct_layout(&inputs.type_name);
        match found {
            Ok(layout) => Ok(Structure::Types(file, layout)),
            // It may be a variable, which the recording knows.
            Err(hitm_layout::Error::NoSuchType { .. }) if source.has_addresses() => {
                Ok(Structure::Scalars)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open(
        &mut self,
        path: &Path,
        base: Option<&Path>,
    ) -> Result<Rc<RefCell<TypesFile>>, SessionError> {
        let key = (path.to_owned(), base.map(Path::to_owned));
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let file = Rc::new(RefCell::new(types_files::open(Some(path), base)?));
        self.0.insert(key, file.clone());
        Ok(file)
    }
}

/// Returns true if a path is that of a layout file, or the name of a shipped one.
pub(super) fn is_layout(input: &Path) -> bool {
    let is_layout = input
        .extension()
        .is_some_and(|extension| extension == "toml");
    is_layout || input.to_str().is_some_and(|name| shipped(name).is_some())
}
