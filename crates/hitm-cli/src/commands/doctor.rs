//! `hitm doctor`.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Result, bail};
use clap::Args;
use hitm::doctor::{Finding, doctor, install};
use hitm_report::doctor::text;

use crate::{Exit, Terminal};

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Install what is missing and comes in a Debian package, with apt-get, after asking
    #[arg(long)]
    fix: bool,
    /// Do not ask
    #[arg(short, long, requires = "fix")]
    yes: bool,
}

pub(super) fn run(args: DoctorArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mut findings = doctor();
    terminal.out(&text(&findings, terminal.color()))?;
    let packages = packages(&findings);
    if args.fix && !packages.is_empty() && (args.yes || agrees(&packages)?) {
        install(&packages)?;
        findings = doctor();
        terminal.out(&text(&findings, terminal.color()))?;
    }
    let works = findings.iter().all(|finding| finding.works);
    Ok(if works { Exit::Done } else { Exit::Missing })
}

/// The packages that bring what is missing, each once.
fn packages(findings: &[Finding]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = findings
        .iter()
        .filter_map(|finding| finding.package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn agrees(packages: &[&str]) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("standard input is no terminal: nobody can be asked; --yes installs without");
    }
    eprint!("install {} with apt-get? [y/N] ", packages.join(" "));
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_installed_once() {
        let finding = |package| Finding {
            subject: String::new(),
            detail: String::new(),
            works: false,
            package,
        };
        let findings = [Some("qemu-user"), None, Some("qemu-user"), Some("a")].map(finding);
        assert_eq!(packages(&findings), ["a", "qemu-user"]);
    }
}
