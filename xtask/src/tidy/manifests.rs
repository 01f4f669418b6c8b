//! Rules about every crate's manifest.

use std::path::Path;

use super::Checkout;

/// Crates that link with QEMU, which is GPL-2.0-or-later.
const COPYLEFT_PREFIX: &str = "hitm-qemu";

pub(super) fn find(checkout: &Checkout) -> Vec<String> {
    let mut problems = Vec::new();
    for package in &checkout.packages {
        let name = package.name.as_str();
        let folder = package.manifest_path.parent().and_then(Path::file_name);
        if folder.is_none_or(|folder| folder != name) {
            problems.push(format!("{name} lies in a folder of another name"));
        }
        if package
            .description
            .as_deref()
            .unwrap_or_default()
            .is_empty()
        {
            problems.push(format!("{name} has no description"));
        }
        let copyleft = name.starts_with(COPYLEFT_PREFIX);
        let wanted = if copyleft {
            "GPL-2.0-or-later"
        } else {
            "MIT OR Apache-2.0"
        };
        if package.license.as_deref() != Some(wanted) {
            problems.push(format!(
                "{name} has the licence {:?}, not {wanted}",
                package.license
            ));
        }
    }
    let manifests = checkout.files.iter().filter(|file| {
        // A fixture is a program to record, and no crate of the workspace.
        let is_fixture = file.path.contains("/fixtures/");
        let is_crate = file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml");
        file.path == "xtask/Cargo.toml" || (is_crate && !is_fixture)
    });
    for file in manifests {
        if !file.text.as_deref().is_some_and(has_workspace_lints) {
            problems.push(format!("{} lacks [lints] workspace = true", file.path));
        }
    }
    problems
}

fn has_workspace_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim);
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lints_table_is_recognised() {
        assert!(has_workspace_lints(
            "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"
        ));
        assert!(!has_workspace_lints("[lints]\n\n[dependencies]\n"));
        assert!(!has_workspace_lints("[package]\n"));
    }
}
