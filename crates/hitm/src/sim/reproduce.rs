//! The scenarios that come with hitm: published figures, simulated again.

use std::path::Path;

use hitm_sim::scenario::{ShippedFile, shipped};

use super::{Error, LoadOptions, Progress, SimReport, Simulation};

/// Selection of scenarios to reproduce.
#[derive(Debug, Clone, Default)]
pub struct Reproduction {
    /// Folders by the number that they begin with, or by name, and scenarios by folder and file, as in
    /// `000/ffmpeg`; empty for all.
    pub folders: Vec<String>,
    /// Shortened runs: see [`LoadOptions::quick`].
    pub quick: bool,
    /// Seeds of each variant; absent for as many as each scenario states.
    pub seed_count: Option<u64>,
}

/// Names of the folders.
pub fn folders() -> Vec<&'static str> {
    let mut names: Vec<&str> = shipped().map(|file| file.folder).collect();
    names.dedup();
    names
}

impl Reproduction {
    /// Names of the folders of which scenarios are selected.
    ///
    /// # Errors
    /// An unknown one.
    pub fn cases(&self) -> Result<Vec<&'static str>, Error> {
        let mut names: Vec<&str> = self.files()?.iter().map(|file| file.folder).collect();
        names.dedup();
        Ok(names)
    }

    /// The selected scenarios, in order.
    ///
    /// # Errors
    /// An unknown one.
    pub(super) fn files(&self) -> Result<Vec<ShippedFile>, Error> {
        for name in &self.folders {
            if !shipped().any(|file| is_named(file, name)) {
                return Err(Error::UnknownFolder {
                    name: name.clone(),
                    known: folders().join(", "),
                });
            }
        }
        let is_wanted = |file: &&ShippedFile| {
            let mut names = self.folders.iter();
            self.folders.is_empty() || names.any(|name| is_named(file, name))
        };
        Ok(shipped().filter(is_wanted).copied().collect())
    }
}

/// Runs the scenarios of the folders in order; `progress` also gets each scenario's name.
///
/// # Errors
/// An unknown folder, or a run that fails.
pub fn reproduce(
    wanted: &Reproduction,
    progress: &(dyn Fn(&str, Progress) + Sync),
) -> Result<Vec<SimReport>, Error> {
    let options = LoadOptions {
        quick: wanted.quick,
        ..LoadOptions::default()
    };
    let mut reports = Vec::new();
    for file in wanted.files()? {
        let origin = format!("scenarios/{}/{}", file.folder, file.name);
        let simulation = Simulation::of_text(file.text, &origin, Path::new(""), &options)?;
        let tell = |now| progress(file.name, now);
        let seed_count = wanted.seed_count.unwrap_or(simulation.seed_count());
        reports.push(simulation.run(simulation.seed(), seed_count, &tell)?);
    }
    Ok(reports)
}

/// Matches `000-root-domain` by name or by number, and one scenario of it by its file: `000/ffmpeg`.
fn is_named(file: &ShippedFile, name: &str) -> bool {
    let (folder, of_file) = match name.split_once('/') {
        Some((folder, of_file)) => (folder, Some(of_file)),
        None => (name, None),
    };
    let has_number = |(number, _): (&str, &str)| number == folder;
    let is_of_folder = file.folder == folder || file.folder.split_once('-').is_some_and(has_number);
    is_of_folder && of_file.is_none_or(|stem| file.name.strip_suffix(".toml") == Some(stem))
}
