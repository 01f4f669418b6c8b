//! Defaults of options that a user or a project has chosen: `hitm.toml` in this folder, `config.toml` of the user, and
//! HITM_MACHINE. What is typed comes first, then the variable, then the folder's file, then the user's.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Command;
use hitm_base::document::TextLines;
use hitm_files::input_file::NamedBy;
use hitm_files::text_file;
use hitm_recording::user_folder;
use hitm_report::Pattern;
use hitm_report::gate::Gate;
use hitm_weave::Placement;
use serde::Deserialize;

/// The file of a project.
const OF_FOLDER: &str = "hitm.toml";
/// The file of a user, below the folder for configurations.
const OF_USER: &str = "hitm/config.toml";
/// The machine of recordings.
const MACHINE: &str = "HITM_MACHINE";
/// Largest file that is read.
const BYTES_MAX: u64 = 64 * 1024;

/// Defaults that a file may choose.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Settings {
    /// Machine of `hitm record` and `hitm compare`.
    machine: Option<String>,
    /// CPUs for threads, of the same commands.
    threads_to: Option<String>,
    /// Gates of `hitm report`.
    fail_on: Option<Vec<String>>,
    /// Findings that no gate counts.
    suppress: Option<Vec<String>>,
}

impl Settings {
    fn read(path: &Path) -> Result<Settings> {
        if !path.exists() {
            return Ok(Settings::default());
        }
        let text = text_file::read_named(path, NamedBy::Input, BYTES_MAX, "a file of settings")?;
        let settings: Settings = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = TextLines::of(&text).place(at).line;
            anyhow!("{}:{line}: {}", path.display(), error.message())
        })?;
        settings
            .check()
            .with_context(|| path.display().to_string())?;
        Ok(settings)
    }

    /// Fails for a value that its option would refuse.
    fn check(&self) -> Result<()> {
        if let Some(placement) = &self.threads_to {
            placement.parse::<Placement>().context("threads-to")?;
        }
        for gate in self.fail_on.iter().flatten() {
            gate.parse::<Gate>().context("fail-on")?;
        }
        for name in self.suppress.iter().flatten() {
            name.parse::<Pattern>().context("suppress")?;
        }
        Ok(())
    }

    fn or(self, other: Settings) -> Settings {
        Settings {
            machine: self.machine.or(other.machine),
            threads_to: self.threads_to.or(other.threads_to),
            fail_on: self.fail_on.or(other.fail_on),
            suppress: self.suppress.or(other.suppress),
        }
    }

    /// The options with these defaults.
    fn apply(self, command: Command) -> Command {
        let one = |command: Command,
                   verb: &'static str,
                   option: &'static str,
                   value: Option<String>| match value {
            Some(value) => command.mut_subcommand(verb, |verb| {
                verb.mut_arg(option, |option| option.default_value(value))
            }),
            None => command,
        };
        let command = ["record", "compare"]
            .into_iter()
            .fold(command, |command, verb| {
                let command = one(command, verb, "machine", self.machine.clone());
                one(command, verb, "threads_to", self.threads_to.clone())
            });
        let lists = [("fail_on", self.fail_on), ("suppress", self.suppress)];
        lists
            .into_iter()
            .fold(command, |command, (option, values)| match values {
                Some(values) => command.mut_subcommand("report", |report| {
                    report.mut_arg(option, |option| option.default_values(values))
                }),
                None => command,
            })
    }
}

/// A command line with the defaults that were chosen.
///
/// # Errors
/// A file of settings that cannot be read, or has what hitm does not know.
pub(crate) fn apply(command: Command) -> Result<Command> {
    let mut settings = Settings {
        machine: env::var(MACHINE).ok().filter(|name| !name.is_empty()),
        ..Settings::default()
    };
    let of_user = user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join(OF_USER));
    for path in [Some(PathBuf::from(OF_FOLDER)), of_user]
        .into_iter()
        .flatten()
    {
        settings = settings.or(Settings::read(&path)?);
    }
    Ok(settings.apply(command))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(OF_FOLDER);
        fs::write(&path, text).expect("a file");
        Settings::read(&path).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_is_nearer_comes_first() {
        let near = read("machine = 'milan'\nsuppress = ['stats*']").expect("both are known");
        let far = read("machine = 'host'\nthreads-to = 'compact'").expect("both are known");
        let both = near.or(far);
        assert_eq!(both.machine.as_deref(), Some("milan"));
        assert_eq!(both.threads_to.as_deref(), Some("compact"));
        assert_eq!(both.suppress, Some(vec!["stats*".to_owned()]));
        assert_eq!(read(""), Ok(Settings::default()));
    }

    #[test]
    fn mistakes_are_named() {
        let said = |text, expected: &str| {
            let said = read(text).expect_err("it is wrong");
            assert!(said.ends_with(expected), "{said}");
        };
        said(
            "fail-on = ['all']",
            "hitm.toml: fail-on: unknown condition \"all\", expected false-sharing or cycles=N",
        );
        said(
            "threads-to = 'near'",
            "threads-to: found 'near', expected 'spread', 'compact' or CPU numbers like '0,2,8-11'",
        );
        said(
            "\nmachine = 1",
            "hitm.toml:2: invalid type: integer `1`, expected a string",
        );
    }
}
