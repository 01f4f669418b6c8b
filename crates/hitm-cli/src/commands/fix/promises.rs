//! Promises of a layout to others, by a search of the tree.

use std::path::Path;

use hitm::fix::Tree;
use hitm_layout::emit::{Source, guards};

use super::installs;

/// Folder of headers that others include.
const PUBLIC: &str = "include";

/// Promises that a refusal names.
const NAMED_MAX: usize = 3;

/// Endings of files that are searched.
const SOURCES: [&str; 16] = [
    "c", "h", "cc", "cpp", "cxx", "c++", "hpp", "hh", "hxx", "ipp", "inc", "C", "rs", "go", "S",
    "i",
];

/// Files that say what is installed.
const BUILD_FILES: [&str; 6] = [
    "Makefile",
    "makefile",
    "GNUmakefile",
    "Makefile.am",
    "CMakeLists.txt",
    "meson.build",
];

/// Reason not to change a structure without being asked; none where nobody else depends on its layout.
pub(super) fn of(type_name: &str, declared_in: &Path, tree: &Tree) -> Option<String> {
    promises(type_name, declared_in, tree, PUBLIC)
}

/// The same for a structure of a kernel, whose programs know what headers below `uapi` declare.
pub(super) fn of_kernel(type_name: &str, declared_in: &Path, tree: &Tree) -> Option<String> {
    promises(type_name, declared_in, tree, "uapi")
}

fn promises(
    type_name: &str,
    declared_in: &Path,
    tree: &Tree,
    public: &str,
) -> Option<String> {
    let mut found: Vec<String> = Vec::new();
    if is_public(declared_in, public) {
        found.push(format!(
            "is declared in the public header {}",
            declared_in.display()
        ));
    }
    found.extend(installed(declared_in, tree));
    for file in tree.files() {
        let ending = file.extension().and_then(|ending| ending.to_str());
        let (Some(shown), true) = (
            file.to_str(),
            ending.is_some_and(|ending| SOURCES.contains(&ending)),
        ) else {
            continue;
        };
        // What is no text declares nothing.
        let Ok(text) = tree.read(file) else { continue };
        let all = guards(
            type_name,
            Source {
                file: shown,
                text: &text,
            },
        );
        found.extend(
            all.iter()
                .map(|guard| format!("{} ({}:{})", guard.kind.words(), guard.file, guard.line)),
        );
    }
    let more = match found.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    found.truncate(NAMED_MAX);
    let promises = found.join(", ");
    (!found.is_empty()).then(|| format!("{type_name} {promises}{more}: --allow-abi changes it"))
}

/// Returns true for a header below a folder of this name.
fn is_public(file: &Path, public: &str) -> bool {
    let mut folders = file.parent().into_iter().flat_map(Path::components);
    let is_header = file
        .extension()
        .is_some_and(|ending| ending.to_string_lossy().starts_with('h'));
    is_header && folders.any(|folder| folder.as_os_str() == public)
}

/// The line of a build file that installs a header.
fn installed(header: &Path, tree: &Tree) -> Option<String> {
    let name = header.file_name()?.to_str()?;
    if !header
        .extension()
        .is_some_and(|ending| ending.to_string_lossy().starts_with('h'))
    {
        return None;
    }
    let build_files = tree.files().iter().filter(|file| {
        let own = file.file_name().and_then(|name| name.to_str());
        own.is_some_and(|own| BUILD_FILES.contains(&own))
    });
    build_files.into_iter().find_map(|file| {
        let line = installs::line_of(&tree.read(file).ok()?, name)?;
        Some(format!("is installed ({}:{line})", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_below_include_are_public() {
        let is_public = |file: &str, public| is_public(Path::new(file), public);
        assert!(is_public("include/a/b.h", PUBLIC) && is_public("lib/include/b.hpp", PUBLIC));
        assert!(!is_public("src/b.h", PUBLIC) && !is_public("include/b.c", PUBLIC));
        assert!(is_public("include/uapi/linux/b.h", "uapi") && !is_public("include/linux/b.h", "uapi"));
    }
}
