//! Opens the files that a scenario names.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use hitm_advise::types_files;
use hitm_base::Fnv1a;
use hitm_files::input_file::{self, NamedBy};
use hitm_files::text_file::{TextFileError, read, read_named};
use hitm_layout::BtfFile;
use hitm_layout::layout_file::shipped;
use hitm_machine as machine;
use hitm_sim::layout::Layouts;
use hitm_sim::scenario::{
    ModelChoice, Scenario, TEXT_BYTES_MAX, TRACE_BYTES_MAX, WorkloadKind, parse_trace,
};
use hitm_sim::workload::requests::TracedRequest;
use hitm_sim::workload::rt_app::{self, RtApp, RtAppFile};
use hitm_whatif::layout_files;

use super::naming::shipped_scenario;
use super::types::layouts_of_types;
use super::{Error, LoadOptions, Simulation, layouts_of};

/// Ending of the name of rt-app's files.
const RT_APP_ENDING: &str = "json";
/// Machine on which an rt-app file runs that nobody names one for: that of `hitm record`.
const RT_APP_MACHINE: &str = "broadwell-4s";

/// Returns true for the name of an rt-app file.
pub fn is_rt_app(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending == RT_APP_ENDING)
}

impl Simulation {
    /// Reads the scenario at `path` and the files that it names; relative paths count from its
    /// folder.
    ///
    /// # Errors
    /// Files that cannot be read or are wrong, with their place.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Simulation, Error> {
        let text = read(path, TEXT_BYTES_MAX as u64, "a scenario")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Simulation::of_text(&text, &path.display().to_string(), folder, options)
    }

    /// Like [`Simulation::load`], for the name of a scenario that comes with hitm or for a path; one that ends in
    /// `.json` is rt-app's own file, as it is.
    ///
    /// # Errors
    /// As of [`Simulation::load`].
    pub fn load_named(name: &Path, options: &LoadOptions) -> Result<Simulation, Error> {
        let shipped = name.to_str().and_then(shipped_scenario);
        match shipped {
            Some(file) => {
                let origin = name.display().to_string();
                Simulation::of_text(file.text, &origin, Path::new(""), options)
            }
            None if is_rt_app(name) => Simulation::of_rt_app(name, options),
            None => Simulation::load(name, options),
        }
    }

    /// An rt-app file on the machine that recordings are priced on unless `options` name another one, on a kernel
    /// with the defaults of a scenario and Linux's own load balancing.
    fn of_rt_app(path: &Path, options: &LoadOptions) -> Result<Simulation, Error> {
        let origin = path.display().to_string();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let words = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let text = format!(
            "schema = 1\nname = {name}\ndescription = \"rt-app's file, as it is\"\nsource = {name}\n\
             [machine]\npreset = \"{RT_APP_MACHINE}\"\n[kernel]\nload_balancing = \"domains\"\n\
             [[workload]]\nkind = \"rt-app\"\nfile = {file}\n",
            name = words(&origin),
            file = words(&file),
        );
        let folder = path.parent().unwrap_or(Path::new(""));
        Simulation::of_text(&text, &origin, folder, options)
    }

    /// Like [`Simulation::load`], for a text; `origin` is its name in errors, `folder` the base of
    /// its paths.
    pub fn of_text(
        text: &str,
        origin: &str,
        folder: &Path,
        options: &LoadOptions,
    ) -> Result<Simulation, Error> {
        let mut scenario = Scenario::parse_with(text, origin, &options.settings)?;
        if !options.layouts.is_empty() {
            scenario.kernel.layouts.clone_from(&options.layouts);
        }
        if options.quick {
            scenario.shorten();
        }
        let quick: &[u8] = if options.quick { b"quick" } else { b"" };
        let mut hash = Fnv1a::EMPTY.with_word(text.as_bytes()).with_word(quick);
        for setting in &options.settings {
            hash = hash.with_word(setting.as_bytes());
        }
        let (name, named_by) = match (&options.machine, &scenario.machine.model) {
            (Some(name), _) => (name.clone(), NamedBy::User),
            (None, ModelChoice::Preset(name)) => (name.clone(), NamedBy::Input),
            (None, ModelChoice::File(file)) => {
                (folder.join(file).display().to_string(), NamedBy::Input)
            }
        };
        let (mut machine_file, machine_text) = machine::load_with_text(&name, named_by)?;
        hash = hash.with_word(machine_text.as_bytes());
        if !options.numbers.is_empty() {
            machine_file.replace_numbers(&options.numbers);
            hash = hash.with_word(machine_file.to_toml().as_bytes());
        }
        let whole = machine_file.resolve().map_err(machine::Error::from)?;
        let machine = scenario.check(&whole)?;
        // A path on the command line counts from the working directory.
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
        let traces = traces(&scenario, folder, &mut hash)?;
        Ok(Simulation {
            scenario,
            machine,
            machine_file,
            layouts,
            rt_apps,
            traces,
            hash: hash.value(),
        })
    }
}

fn layout(name: &str, folder: &Path, hash: &mut Fnv1a) -> Result<Layouts, Error> {
    let path = folder.join(name);
    let is_shipped = shipped(name).is_some();
    if !is_shipped && path.exists() && has_types(&path)? {
        let layouts = layouts_of_types(&mut types_files::open(Some(&path), None)?)?;
        // Only these structures enter the hash, not the rest of a kernel's types.
        *hash = hash.with_word(format!("{layouts:?}").as_bytes());
        return Ok(layouts);
    }
    let text = layout_files::text(name, folder)?;
    *hash = hash.with_word(text.as_bytes());
    match is_shipped {
        true => layouts_of(&text, name),
        false => layouts_of(&text, &path.display().to_string()),
    }
}

/// Returns true if a file is BTF or ELF rather than text.
fn has_types(path: &Path) -> Result<bool, Error> {
    const ELF: [u8; 4] = *b"\x7fELF";
    const MAGIC_BYTES: u64 = 4;
    let failed = |source| TextFileError::Read {
        path: path.into(),
        source,
    };
    let mut magic = Vec::new();
    let file = input_file::open(path, NamedBy::Input).map_err(failed)?;
    file.take(MAGIC_BYTES)
        .read_to_end(&mut magic)
        .map_err(failed)?;
    Ok(magic == ELF || BtfFile::is_raw(&magic))
}

fn rt_apps(
    scenario: &Scenario,
    folder: &Path,
    hash: &mut Fnv1a,
) -> Result<BTreeMap<String, RtApp>, Error> {
    let mut apps = BTreeMap::new();
    for workload in &scenario.workloads {
        let WorkloadKind::RtApp(RtAppFile(file)) = &workload.kind else {
            continue;
        };
        let path = folder.join(file);
        let max = rt_app::TEXT_BYTES_MAX as u64;
        let text = read_named(&path, NamedBy::Input, max, "an rt-app file")?;
        *hash = hash.with_word(text.as_bytes());
        let app = RtApp::parse(&text, &path.display().to_string())?;
        apps.insert(workload.name.clone(), app);
    }
    Ok(apps)
}

/// Traces of requests, by workload.
fn traces(
    scenario: &Scenario,
    folder: &Path,
    hash: &mut Fnv1a,
) -> Result<BTreeMap<String, Vec<TracedRequest>>, Error> {
    let mut traces = BTreeMap::new();
    for workload in &scenario.workloads {
        let WorkloadKind::Requests(requests) = &workload.kind else {
            continue;
        };
        let Some(file) = &requests.trace else {
            continue;
        };
        let path = folder.join(file);
        let max = TRACE_BYTES_MAX as u64;
        let text = read_named(&path, NamedBy::Input, max, "a trace of requests")?;
        *hash = hash.with_word(text.as_bytes());
        let trace = parse_trace(&text, &path.display().to_string())?;
        traces.insert(workload.name.clone(), trace);
    }
    Ok(traces)
}
