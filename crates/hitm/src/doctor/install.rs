//! Installs Debian packages with apt-get.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use thiserror::Error;

/// Behind the name of a package that comes from Debian 12, whatever this host's version is.
const OF_BOOKWORM: &str = "/bookworm";
/// Keys of Debian's archives, and the package that brings them.
const KEYRING_PACKAGE: &str = "debian-archive-keyring";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const INSTALL: [&str; 3] = ["install", "-y", "--no-install-recommends"];
const SOURCES: &str = "/etc/apt/sources.list.d/hitm-bookworm.list";
const PREFERENCES: &str = "/etc/apt/preferences.d/hitm-bookworm";

/// Errors of installing packages.
#[derive(Debug, Error)]
pub enum InstallError {
    /// There is no apt-get.
    #[error("apt-get cannot be run: {0}; install these with your package manager")]
    NoApt(io::Error),
    /// Only root may install packages.
    #[error("only root installs packages; run: sudo {}", command_line(packages))]
    NotRoot {
        /// Their names, with blanks between.
        packages: String,
    },
    /// apt-get failed.
    #[error("apt-get {what}: {status}")]
    Failed {
        /// Its command and arguments.
        what: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// Packages of Debian 12 are wanted, and apt knows no Debian archive.
    #[error(
        "apt has no Debian archive among its sources: add one with bookworm, then run this again"
    )]
    NoArchive,
    /// A file of apt cannot be written.
    #[error("cannot write {path}: {source}")]
    CannotWrite {
        /// The file.
        path: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// The command that installs `packages`: apt-get does not know those of Debian 12 yet.
fn command_line(packages: &str) -> String {
    match packages.contains(OF_BOOKWORM) {
        true => "hitm doctor --fix".into(),
        false => format!("apt-get install -y {packages}"),
    }
}

/// Installs Debian packages with apt-get, whose output goes to standard error. A name that ends with
/// `/bookworm` is a package of Debian 12: its archive becomes a source of apt, for that package and
/// for what it needs that this host's version has not.
///
/// # Errors
/// There is no apt-get, it is not ours to run, it fails, or it knows no Debian archive.
pub fn install(packages: &[&str]) -> Result<(), InstallError> {
    // SAFETY: it takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        let packages = packages.join(" ");
        return Err(InstallError::NotRoot { packages });
    }
    let (of_bookworm, own): (Vec<&str>, Vec<&str>) = packages
        .iter()
        .partition(|name| name.ends_with(OF_BOOKWORM));
    // The host's own first: libraries that they bring serve the others too.
    if !own.is_empty() {
        run(&[&INSTALL[..], &own].concat())?;
    }
    if !of_bookworm.is_empty() {
        add_bookworm(&of_bookworm)?;
        run(&["update", "-q"])?;
        let options = ["--allow-downgrades", "--no-remove"];
        run(&[&INSTALL[..], &options, &of_bookworm].concat())?;
    }
    Ok(())
}

/// Makes the archive of Debian 12 a source of apt. Only `packages` come from there although this
/// host's version has them too.
fn add_bookworm(packages: &[&str]) -> Result<(), InstallError> {
    let uris = "$(REPO_URI)";
    let query = [
        "indextargets",
        "Created-By: Packages",
        "Label: Debian",
        "--format",
        uris,
    ];
    let Output { stdout, .. } = Command::new("apt-get")
        .args(query)
        .stdin(Stdio::null())
        .output()
        .map_err(InstallError::NoApt)?;
    let archives = String::from_utf8_lossy(&stdout);
    let archive = archives.lines().next().ok_or(InstallError::NoArchive)?;
    if !Path::new(KEYRING).exists() {
        run(&["update", "-q"])?;
        run(&["install", "-y", KEYRING_PACKAGE])?;
    }
    let source = format!("deb [signed-by={KEYRING}] {archive} bookworm main\n");
    write(SOURCES, &source)?;
    write(PREFERENCES, &preferences(packages))
}

/// Priorities of apt: 100 is below all that the host's version has, 1001 above it.
fn preferences(packages: &[&str]) -> String {
    let names: Vec<&str> = packages
        .iter()
        .map(|name| name.trim_end_matches(OF_BOOKWORM))
        .collect();
    format!(
        "Package: *\nPin: release n=bookworm\nPin-Priority: 100\n\n\
          Package: {}\nPin: release n=bookworm\nPin-Priority: 1001\n",
        names.join(" ")
    )
}

fn write(path: &'static str, text: &str) -> Result<(), InstallError> {
    fs::write(path, text).map_err(|source| InstallError::CannotWrite { path, source })
}

fn run(arguments: &[&str]) -> Result<(), InstallError> {
    let mut apt = Command::new("apt-get");
    apt.args(arguments);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.stdin(Stdio::null()).stdout(io::stderr());
    let status = apt.status().map_err(InstallError::NoApt)?;
    match status.success() {
        true => Ok(()),
        false => Err(InstallError::Failed {
            what: arguments.join(" "),
            status,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_install_is_told_the_command() {
        let command = |packages: &str| {
            let packages = packages.to_owned();
            InstallError::NotRoot { packages }.to_string()
        };
        let expected = "run: sudo apt-get install -y qemu-user dwz";
        assert!(command("qemu-user dwz").ends_with(expected));
        assert!(command("qemu-user/bookworm").ends_with("run: sudo hitm doctor --fix"));
    }

    #[test]
    fn only_the_packages_asked_for_replace_those_of_the_host() {
        let expected = "Package: *\nPin: release n=bookworm\nPin-Priority: 100\n\n\
                        Package: qemu-user\nPin: release n=bookworm\nPin-Priority: 1001\n";
        assert_eq!(preferences(&["qemu-user/bookworm"]), expected);
    }
}
