//! The path of crossbeam's `CachePadded` in a crate that depends on crossbeam already.

use std::path::{Path, PathBuf};

use hitm::fix::Tree;
use toml::{Table, Value};

/// Manifest of a crate.
const MANIFEST: &str = "Cargo.toml";

/// Returns the path for a source file; none where its crate does not depend on crossbeam.
pub(super) fn wrapper(file: &Path, tree: &Tree) -> Option<String> {
    let mut folders = file.ancestors().skip(1);
    let manifest = folders.find_map(|folder| {
        let manifest: PathBuf = folder.join(MANIFEST);
        tree.files().contains(&manifest).then_some(manifest)
    })?;
    path_in(&tree.read(&manifest).ok()?)
}

fn path_in(manifest: &str) -> Option<String> {
    let manifest: Table = manifest.parse().ok()?;
    let dependencies = manifest.get("dependencies")?.as_table()?;
    let mut paths = dependencies.iter().filter_map(|(key, value)| {
        let told = |name: &str| value.get(name);
        // It may be missing in a build without the feature that asks for it.
        if told("optional").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let package = told("package").and_then(Value::as_str).unwrap_or(key);
        let own = key.replace('-', "_");
        match package {
            "crossbeam-utils" => Some(format!("{own}::CachePadded")),
            "crossbeam" => Some(format!("{own}::utils::CachePadded")),
            _ => None,
        }
    });
    paths.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrapper_is_that_of_a_dependency() {
        let path = |dependencies: &str| path_in(&format!("[dependencies]\n{dependencies}\n"));
        let of_utils = Some("crossbeam_utils::CachePadded".to_owned());
        assert_eq!(path("crossbeam-utils = \"0.8\""), of_utils);
        assert_eq!(path("crossbeam-utils = { workspace = true }"), of_utils);
        assert_eq!(
            path("crossbeam = \"0.8\"").as_deref(),
            Some("crossbeam::utils::CachePadded")
        );
        assert_eq!(
            path("my-utils = { package = \"crossbeam-utils\", version = \"0.8\" }").as_deref(),
            Some("my_utils::CachePadded")
        );
        assert_eq!(
            path("crossbeam-utils = { version = \"0.8\", optional = true }"),
            None
        );
        assert_eq!(path("crossbeam-channel = \"0.5\""), None);
        assert_eq!(path_in("[dev-dependencies]\ncrossbeam-utils = \"0.8\"\n"), None);
        assert_eq!(path_in("no manifest"), None);
    }
}
