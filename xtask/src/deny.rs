//! `cargo deny` on the libraries: licences, duplicates and sources, and known advisories.
//!
//! deny.toml in the root has the rules. A check that this host cannot make prints a line that
//! begins with `NOT RUN: `, and the others continue.

use std::process::Command;

use anyhow::Result;

use crate::{root, run};

/// The command that installs the program.
const INSTALL: &str = "`cargo install cargo-deny --locked`";

/// Checks licences, duplicates and sources. Needs no network when the libraries are there.
pub fn check_libraries() -> Result<()> {
    if !is_installed() {
        let reason = format!("the program is not installed; {INSTALL}");
        not_run("licences, duplicates and sources", &reason);
        return Ok(());
    }
    let check = ["deny", "--workspace", "check"];
    let kinds = ["licenses", "bans", "sources"];
    run("cargo", &[&check[..], &kinds[..]].concat())
}

/// Checks the libraries against the database of advisories, which it downloads.
pub fn check_advisories() -> Result<()> {
    if !is_installed() {
        let reason = format!("the program is not installed; {INSTALL}");
        not_run("advisories", &reason);
        return Ok(());
    }
    let fetched = Command::new("cargo")
        .args(["deny", "fetch", "db"])
        // No terminal answers when git asks for a name.
        .env("GIT_TERMINAL_PROMPT", "0")
        .current_dir(root())
        .output()?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        let reason = format!(
            "the database cannot be downloaded ({}); `cargo deny check advisories` on a host that can",
            last_line(&said)
        );
        not_run("advisories", &reason);
        return Ok(());
    }
    let check = ["deny", "--workspace", "check", "--disable-fetch"];
    run("cargo", &[&check[..], &["advisories"]].concat())
}

fn is_installed() -> bool {
    let version = Command::new("cargo").args(["deny", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

fn not_run(what: &str, reason: &str) {
    println!("NOT RUN: cargo deny: {what}: {reason}");
}

/// Last line with text, in which a tool gives its reason.
fn last_line(text: &str) -> &str {
    let mut lines = text.lines().rev().map(str::trim);
    lines
        .find(|line| !line.is_empty())
        .unwrap_or("it does not say why")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_that_was_said() {
        assert_eq!(
            last_line("cloning\nfatal: no network\n\n"),
            "fatal: no network"
        );
        assert_eq!(last_line("\n"), "it does not say why");
    }
}
