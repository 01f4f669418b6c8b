//! Opens what a scenario names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use hitm_layout::BtfFile;
use hitm_layout::layout_file::{shipped, shipped_names};
use hitm_sim::layout::Layouts;
use hitm_sim::scenario::{ModelChoice, Scenario, TEXT_BYTES_MAX, WorkloadKind};
use hitm_sim::workload::rt_app::{self, RtApp};

use super::types::layouts_of_types;
use super::{Error, LoadOptions, Simulation, layouts_of};
use crate::layout::LayoutFile;
use crate::machine;

/// Longest layout file.
const LAYOUT_BYTES_MAX: u64 = 16 << 20;

impl Simulation {
    /// Reads the scenario at `path` and what it names; relative paths count from its folder.
    ///
    /// # Errors
    /// Files that cannot be read or are wrong, with their place.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Simulation, Error> {
        let text = read(path, TEXT_BYTES_MAX as u64, "a scenario")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Simulation::of_text(&text, &path.display().to_string(), folder, options)
    }

    /// The same for a text; `origin` is its name in errors, `folder` where its paths count from.
    pub fn of_text(
        text: &str,
        origin: &str,
        folder: &Path,
        options: &LoadOptions,
    ) -> Result<Simulation, Error> {
        let mut scenario = Scenario::parse(text, origin)?;
        if !options.layouts.is_empty() {
            scenario.kernel.layouts.clone_from(&options.layouts);
        }
        if options.quick {
            scenario.shorten();
        }
        let mut hash = Fingerprint::new();
        hash.add(text);
        hash.add(if options.quick { "quick" } else { "" });
        let name = match (&options.machine, &scenario.machine.model) {
            (Some(name), _) | (None, ModelChoice::Preset(name)) => name.clone(),
            (None, ModelChoice::File(file)) => folder.join(file).display().to_string(),
        };
        let (whole, machine_text) = machine::resolve(&name)?;
        hash.add(&machine_text);
        let machine = scenario.check(&whole)?;
        // A path that was given on the command line counts from the working directory.
        let layout_folder = if options.layouts.is_empty() {
            folder
        } else {
            Path::new("")
        };
        let mut layouts = Vec::new();
        for name in &scenario.kernel.layouts {
            layouts.push((name.clone(), layout(name, layout_folder, &mut hash)?));
        }
        let rt_apps = rt_apps(&scenario, folder, &mut hash)?;
        Ok(Simulation {
            scenario,
            machine,
            layouts,
            rt_apps,
            hash: hash.0,
        })
    }
}

fn layout(name: &str, folder: &Path, hash: &mut Fingerprint) -> Result<Layouts, Error> {
    if let Some(text) = shipped(name) {
        hash.add(text);
        return layouts_of(text, name);
    }
    let path = folder.join(name);
    if !path.exists() {
        return Err(Error::UnknownLayout {
            name: name.to_owned(),
            shipped: shipped_names().collect::<Vec<_>>().join(", "),
        });
    }
    if has_types(&path)? {
        let layouts = layouts_of_types(&mut LayoutFile::open(Some(&path), None)?)?;
        // What the file says of these structures counts, not the rest of a kernel's types.
        hash.add(&format!("{layouts:?}"));
        return Ok(layouts);
    }
    let text = read(&path, LAYOUT_BYTES_MAX, "a layout file")?;
    hash.add(&text);
    layouts_of(&text, &path.display().to_string())
}

/// Whether a file is BTF or ELF rather than text.
fn has_types(path: &Path) -> Result<bool, Error> {
    const ELF: [u8; 4] = *b"\x7fELF";
    const MAGIC_BYTES: u64 = 4;
    let failed = |source| Error::Read {
        path: path.into(),
        source,
    };
    let mut magic = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAGIC_BYTES)
        .read_to_end(&mut magic)
        .map_err(failed)?;
    Ok(magic == ELF || BtfFile::is_raw(&magic))
}

fn rt_apps(
    scenario: &Scenario,
    folder: &Path,
    hash: &mut Fingerprint,
) -> Result<BTreeMap<String, RtApp>, Error> {
    let mut apps = BTreeMap::new();
    for workload in &scenario.workloads {
        let WorkloadKind::RtApp(spec) = &workload.kind else {
            continue;
        };
        let path = folder.join(&spec.file);
        let text = read(&path, rt_app::TEXT_BYTES_MAX as u64, "an rt-app file")?;
        hash.add(&text);
        let app = RtApp::parse(&text, &path.display().to_string())?;
        apps.insert(workload.name.clone(), app);
    }
    Ok(apps)
}

/// A text file of at most `max` bytes. Bytes that are no UTF-8 become U+FFFD, which no format here
/// takes for anything else.
fn read(path: &Path, max: u64, what: &'static str) -> Result<String, Error> {
    let failed = |source| Error::Read {
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > max {
        return Err(Error::TooLong {
            path: path.into(),
            max,
            what,
        });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// FNV-1a (Fowler, Noll, Vo) over texts: the same on every host, and no secret.
struct Fingerprint(u64);

impl Fingerprint {
    fn new() -> Fingerprint {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        // The end of a text is no byte of UTF-8, so that no two lists of texts look alike.
        for byte in text.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
