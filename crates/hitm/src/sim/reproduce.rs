//! The scenarios that come with hitm: published figures, simulated again.

use std::path::Path;

use hitm_sim::scenario::shipped;

use super::{Error, LoadOptions, Progress, SimReport, Simulation};

/// Selection of scenarios to reproduce.
#[derive(Debug, Clone, Default)]
pub struct Reproduction {
    /// Folders by the number that they begin with, or by name; empty for all.
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
    /// Names of the selected folders.
    ///
    /// # Errors
    /// An unknown one.
    pub fn cases(&self) -> Result<Vec<&'static str>, Error> {
        let all = folders();
        for name in &self.folders {
            if !all.iter().any(|folder| is_folder(folder, name)) {
                return Err(Error::UnknownFolder {
                    name: name.clone(),
                    known: all.join(", "),
                });
            }
        }
        let is_wanted = |folder: &&str| {
            let mut names = self.folders.iter();
            self.folders.is_empty() || names.any(|name| is_folder(folder, name))
        };
        Ok(all.into_iter().filter(is_wanted).collect())
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
    let cases = wanted.cases()?;
    let options = LoadOptions {
        quick: wanted.quick,
        ..LoadOptions::default()
    };
    let mut reports = Vec::new();
    for file in shipped() {
        if !cases.contains(&file.folder) {
            continue;
        }
        let origin = format!("scenarios/{}/{}", file.folder, file.name);
        let simulation = Simulation::of_text(file.text, &origin, Path::new(""), &options)?;
        let tell = |now| progress(file.name, now);
        let seed_count = wanted.seed_count.unwrap_or(simulation.seed_count());
        reports.push(simulation.run(simulation.seed(), seed_count, &tell)?);
    }
    Ok(reports)
}

/// Matches `000-root-domain` by name or by number.
fn is_folder(folder: &str, name: &str) -> bool {
    folder == name
        || folder
            .split_once('-')
            .is_some_and(|(number, _)| number == name)
}
