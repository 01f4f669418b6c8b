//! Machine models: the presets, files, this host, hwloc's XML, and the probe that measures.
//!
//! All sources end in a [`MachineFile`], whose numbers name their origins. [`resolve`] turns a name
//! or a path into the cycles that the engine uses.

mod facts;
mod host;
pub mod host_cpus;
mod hwloc;
mod list;
mod perf_data;
mod probe;

use std::path::Path;

use hitm_base::machine::{
    self, CorePart, Item, Machine, MachineError, MachineFile, Quantity, Sourced,
};
use hitm_files::input_file::NamedBy;
use hitm_files::text_file::{TextFileError, read, read_named};
use thiserror::Error;

pub use host::{cpu_list, host, read_host};
pub use hwloc::{Imported, import_hwloc};
pub use list::{Summary, list};
pub use perf_data::of_perf_data;
pub use probe::{ProbeError, ProbeOptions, ProbeProgress, probe};

/// Name of the machine this runs on.
pub const HOST: &str = "host";

/// Limits on the bytes of a machine file, and of hwloc's XML.
const TOML_BYTES_MAX: u64 = 1 << 20;
const XML_BYTES_MAX: u64 = 16 << 20;

/// Errors of making a machine model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither a preset nor a file.
    #[error(
        "no machine model named {name:?}: there is no such file, and the presets are {presets}"
    )]
    Unknown {
        /// Requested name.
        name: String,
        /// The names of all presets.
        presets: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] TextFileError),
    /// The description is wrong.
    #[error(transparent)]
    Invalid(#[from] MachineError),
    /// The number of cycles per instruction is out of range.
    #[error("found {found} cycles per instruction, expected 0.05 to 100")]
    Cpi {
        /// Number that was given.
        found: f64,
    },
    /// The measurement failed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// Resolves a preset's name, a path, or [`HOST`] to a model in cycles, and its text, which a
/// recording embeds.
pub fn resolve(name_or_path: &str) -> Result<(Machine, String), Error> {
    resolve_named(name_or_path, NamedBy::User)
}

/// Like [`resolve`], for a name that `named_by` chose.
pub fn resolve_named(name_or_path: &str, named_by: NamedBy) -> Result<(Machine, String), Error> {
    let (file, text) = load_with_text(name_or_path, named_by)?;
    Ok((file.resolve()?, text))
}

/// Like [`resolve`], with another number of cycles per instruction: it depends on the program more
/// than on the machine, and may have been measured.
pub fn resolve_with_cpi(name_or_path: &str, cpi: f64) -> Result<(Machine, String), Error> {
    let mut file = load(name_or_path)?;
    let item = Item::Core(CorePart::Cpi);
    let quantity = Quantity::Milli((cpi * 1_000.0).round() as u64);
    if !item.dimension().admits(quantity) {
        return Err(Error::Cpi { found: cpi });
    }
    file.items.insert(
        item,
        Sourced::from_source(quantity, "the --cpi of the recording"),
    );
    Ok((file.resolve()?, file.to_toml()))
}

/// Loads the machine file of a preset's name, a path, or [`HOST`].
pub fn load(name_or_path: &str) -> Result<MachineFile, Error> {
    load_with_text(name_or_path, NamedBy::User).map(|(file, _)| file)
}

/// Builds a model from the XML that `lstopo --of xml` wrote to `path`. The XML has no latencies:
/// they come, marked as assumed, from the machine `like`, or from the nearest preset.
pub fn import(path: &Path, like: Option<&str>) -> Result<Imported, Error> {
    let like = like.map(load).transpose()?;
    let xml = read(path, XML_BYTES_MAX, "a machine in hwloc's XML")?;
    Ok(import_hwloc(
        &xml,
        &path.display().to_string(),
        like.as_ref(),
    )?)
}

/// Like [`load`], and returns the text too.
pub fn load_with_text(
    name_or_path: &str,
    named_by: NamedBy,
) -> Result<(MachineFile, String), Error> {
    if let Some(text) = machine::preset(name_or_path) {
        return Ok((MachineFile::parse(text, name_or_path)?, text.to_owned()));
    }
    if name_or_path == HOST {
        let file = host()?;
        let text = file.to_toml();
        return Ok((file, text));
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let presets = machine::preset_names().collect::<Vec<_>>().join(", ");
        return Err(Error::Unknown {
            name: name_or_path.into(),
            presets,
        });
    }
    let text = read_named(path, named_by, TOML_BYTES_MAX, "a machine model")?;
    Ok((MachineFile::parse(&text, name_or_path)?, text))
}
