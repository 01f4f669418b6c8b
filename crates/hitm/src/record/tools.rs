//! Tools that recording needs on this host: a user-mode QEMU that loads plugins, and hitm's own libraries.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hitm_base::Architecture;
use hitm_files::limits;
use hitm_recording::HEAP_OBSERVER;
use thiserror::Error;

use super::target::find_in_path;
use crate::distribution::QemuUser;

/// The recorder's libraries, newest plugin interface first: QEMU refuses the ones outside its range.
const PLUGINS: [&str; 2] = ["libhitm_qemu_api2.so", "libhitm_qemu_api1.so"];

/// A QEMU that loads the recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// First line that it prints for `--version`.
    pub version: String,
    /// The recorder's library that it accepts.
    pub plugin: PathBuf,
}

/// Everything that recording needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// The emulator.
    pub qemu: Qemu,
    /// The library that tells of allocations; on x86-64, and for its programs only.
    pub heap_observer: Option<PathBuf>,
}

/// A tool that is missing or unfit.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// No QEMU.
    #[error("{name} is not installed; {}", QemuUser::here().hint())]
    NoQemu {
        /// The program that is needed.
        name: String,
    },
    /// A QEMU that cannot load plugins, or not ours.
    #[error("{} ({version}) {problem}; {}", path.display(), QemuUser::here().hint())]
    UnfitQemu {
        /// The QEMU.
        path: PathBuf,
        /// First line that it prints for `--version`.
        version: String,
        /// Reason that it is unfit.
        problem: String,
    },
    /// A QEMU that is there and cannot be started.
    #[error("cannot run {}: {source}", path.display())]
    CannotRun {
        /// The QEMU.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// hitm's own libraries are not beside the program.
    #[error("{name} is not in {}; build it with `cargo build --release --workspace`", directory.display())]
    NoLibrary {
        /// The library.
        name: &'static str,
        /// Directory that was searched.
        directory: PathBuf,
    },
}

impl Tools {
    /// Finds what is needed to record programs of `architecture`. A QEMU whose version tells which plugins it
    /// loads is not tried ([`Qemu::check`]).
    pub fn find(architecture: Architecture, qemu: Option<&Path>) -> Result<Tools, ToolsError> {
        let qemu = Qemu::find(architecture, qemu)?;
        // Elsewhere the recorder follows allocators by their addresses alone.
        let is_native = architecture.id() == std::env::consts::ARCH;
        let heap_observer = match is_native && architecture == Architecture::X86_64 {
            true => Some(library(HEAP_OBSERVER)?),
            false => None,
        };
        Ok(Tools {
            qemu,
            heap_observer,
        })
    }
}

impl Qemu {
    /// Finds a QEMU and the plugin that it accepts.
    fn find(architecture: Architecture, given: Option<&Path>) -> Result<Qemu, ToolsError> {
        let name = format!("qemu-{}", architecture.id());
        let path = match given {
            Some(path) => path.to_path_buf(),
            None => find_in_path(&name).ok_or(ToolsError::NoQemu { name: name.clone() })?,
        };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => ToolsError::NoQemu {
                name: path.display().to_string(),
            },
            _ => ToolsError::CannotRun {
                path: path.clone(),
                source: limits::explain_start(source),
            },
        };
        let version = version_of(&path).map_err(failed)?;
        if version.is_empty() {
            return Err(ToolsError::NoQemu {
                name: path.display().to_string(),
            });
        }
        let plugin = match plugin_of(&version) {
            Some(name) => library(name)?,
            None => fit_plugin(&path, &version)?,
        };
        Ok(Qemu {
            path,
            version,
            plugin,
        })
    }

    /// Tries whether it loads the recorder.
    pub fn check(&self) -> Result<(), ToolsError> {
        fit_plugin(&self.path, &self.version).map(|_| ())
    }
}

/// The recorder's library that a QEMU with this version loads, if it loads plugins; none where trying tells.
fn plugin_of(version: &str) -> Option<&'static str> {
    let number = version.split("version ").nth(1)?;
    let mut numbers = number.split(|c: char| !c.is_ascii_digit());
    let [major, minor] = [numbers.next()?, numbers.next()?].map(|text| text.parse::<u32>().ok());
    match (major?, minor?) {
        (7, 2) => Some(PLUGINS[1]),
        (9.., _) => Some(PLUGINS[0]),
        _ => None,
    }
}

/// The recorder's library that a QEMU of this path and version loads.
fn fit_plugin(path: &Path, version: &str) -> Result<PathBuf, ToolsError> {
    let failed = |source: io::Error| ToolsError::CannotRun {
        path: path.to_path_buf(),
        source: limits::explain_start(source),
    };
    let unfit = |problem: &str| ToolsError::UnfitQemu {
        path: path.to_path_buf(),
        version: version.to_owned(),
        problem: problem.to_owned(),
    };
    if !output_of(path, "-help")
        .map_err(failed)?
        .contains("-plugin")
    {
        return Err(unfit("is built without plugins"));
    }
    for name in PLUGINS {
        let plugin = library(name)?;
        if accepts(path, &plugin).map_err(failed)? {
            return Ok(plugin);
        }
    }
    Err(unfit("accepts no version of the recorder"))
}

/// True if `qemu` loads `plugin`, when asked to with nothing to run. With an accepted plugin QEMU
/// continues, and complains of the missing program.
fn accepts(qemu: &Path, plugin: &Path) -> io::Result<bool> {
    let argument = format!("{},probe=on", plugin.display());
    let run = Command::new(qemu)
        .args(["-plugin", &argument, "/"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&run.stderr).to_lowercase();
    Ok(!said.contains("plugin"))
}

/// First line that a program prints for `--version`; empty if it prints nothing.
pub(crate) fn version_of(program: &Path) -> io::Result<String> {
    let text = output_of(program, "--version")?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn output_of(program: &Path, argument: &str) -> io::Result<String> {
    let mut command = Command::new(program);
    let output = command.arg(argument).stdin(Stdio::null()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Directory of hitm's libraries: beside the program, or in `../lib/hitm` as packages and the Python
/// wheel install them. Cargo puts the programs of tests into `deps`, below them.
fn library_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("/")).to_path_buf();
    if beside.ends_with("deps") {
        return beside.join("..");
    }
    let installed = beside.join("../lib/hitm");
    let is_there = |directory: &PathBuf| directory.join(HEAP_OBSERVER).exists();
    let candidates = [beside.clone(), installed];
    candidates.into_iter().find(is_there).unwrap_or(beside)
}

/// Path of one of hitm's own libraries.
pub(crate) fn library(name: &'static str) -> Result<PathBuf, ToolsError> {
    let directory = library_directory();
    let path = directory.join(name);
    match path.exists() {
        true => Ok(path),
        false => Err(ToolsError::NoLibrary { name, directory }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_tells_the_plugin_or_trying_does() {
        let version = |number| format!("qemu-x86_64 version {number} (Debian 1:7.2+dfsg-7)");
        let plugin = |number| plugin_of(&version(number));
        assert_eq!(plugin("7.2.17"), Some("libhitm_qemu_api1.so"));
        assert_eq!(plugin("10.0.2"), Some("libhitm_qemu_api2.so"));
        assert_eq!(
            (plugin("8.1.0"), plugin("6.2.0"), plugin("x")),
            (None, None, None)
        );
        assert_eq!(plugin_of("my emulator"), None);
    }
}
