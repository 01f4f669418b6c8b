//! Rules that no compiler checks, each a function from the checkout to a list of problems.
//!
//! A rule that proves wrong is changed here, not worked around; an unwanted rule is deleted with
//! its check.

mod edges;
mod links;
mod loads;
mod manifests;
mod parameters;
mod prose;
mod text;
mod world;

pub(crate) use links::resolved;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{output, root};

/// Inputs of the checks: every file that git knows or would add, and cargo's metadata of the
/// crates.
#[derive(Debug)]
pub struct Checkout {
    /// Files, by path from the root.
    pub files: Vec<File>,
    /// The crates of the workspace.
    pub packages: Vec<Package>,
}

/// A crate, as `cargo metadata` describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The description in its manifest.
    pub description: Option<String>,
    /// The licence in its manifest.
    pub license: Option<String>,
    /// Path of its manifest.
    pub manifest_path: PathBuf,
    /// Its dependencies, crates from elsewhere included.
    pub dependencies: Vec<Dependency>,
}

/// One dependency of a crate.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    /// Name of the crate that it depends on.
    pub name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub kind: Option<String>,
}

/// The part of `cargo metadata` that the checks look at.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A file of the checkout.
#[derive(Debug, Clone)]
pub struct File {
    /// Path from the root, with `/` between its parts.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its text, when it is UTF-8 without NUL bytes.
    pub text: Option<String>,
}

impl File {
    /// A file of this text, for tests.
    pub fn of(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            size_bytes: text.len() as u64,
            text: Some(text.to_owned()),
        }
    }

    fn read(path: &str) -> Result<Option<File>> {
        let absolute: PathBuf = root().join(path);
        // The file was deleted but not yet committed, or is a link.
        let Ok(metadata) = fs::symlink_metadata(&absolute) else {
            return Ok(None);
        };
        if !metadata.is_file() {
            return Ok(None);
        }
        let bytes = fs::read(&absolute).with_context(|| format!("cannot read {path}"))?;
        let text = String::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'));
        Ok(Some(File {
            path: path.to_owned(),
            size_bytes: metadata.len(),
            text,
        }))
    }
}

impl Checkout {
    /// Reads the checkout that this crate lies in.
    pub fn read() -> Result<Checkout> {
        let list = output(
            "git",
            &["ls-files", "--cached", "--others", "--exclude-standard"],
        )?;
        let mut files = Vec::new();
        for path in list.lines() {
            files.extend(File::read(path)?);
        }
        let metadata = output("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
        let metadata: Metadata =
            serde_json::from_str(&metadata).context("cannot read what cargo metadata says")?;
        Ok(Checkout {
            files,
            packages: metadata.packages,
        })
    }

    /// The text of one file, if it is there.
    pub fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        file.text.as_deref()
    }
}

/// One rule, and the search for places that break it.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The rule in a few words.
    pub rule: &'static str,
    /// Returns the places that break it.
    pub find: fn(&Checkout) -> Vec<String>,
}

/// All rules.
pub const CHECKS: &[Check] = &[
    Check {
        rule: "crates depend only on what the table in ARCHITECTURE.md allows",
        find: edges::find,
    },
    Check {
        rule: "who touches files, threads and processes is in the table in ARCHITECTURE.md",
        find: world::find,
    },
    Check {
        rule: "every crate has a description, a licence and the workspace's lints",
        find: manifests::find,
    },
    Check {
        rule: "a source file has at most 1000 lines of code, tests not counted",
        find: |checkout| text::each_file(checkout, text::too_long),
    },
    Check {
        rule: "no unfinished code, ignored tests or debug prints",
        find: |checkout| text::each_file(checkout, text::unfinished),
    },
    Check {
        rule: "no parameter of a function is a tuple",
        find: |checkout| text::each_file(checkout, parameters::tuples),
    },
    Check {
        rule: "the simulated kernel loads no word for nothing: `touch`, `load_known`",
        find: |checkout| text::each_file(checkout, loads::discarded),
    },
    Check {
        rule: "tests start processes by hitm_test::process, with a deadline",
        find: |checkout| text::each_file(checkout, text::endless),
    },
    Check {
        rule: "no path of one particular machine",
        find: |checkout| text::each_file(checkout, text::machine_path),
    },
    Check {
        rule: "a Markdown file starts with its title and has no second one",
        find: |checkout| text::each_file(checkout, text::markdown_title),
    },
    Check {
        rule: "links in Markdown lead to files of the checkout",
        find: links::broken,
    },
    Check {
        rule: "every page of docs/ is in docs/SUMMARY.md",
        find: links::unreachable,
    },
    Check {
        rule: "tables of docs/performance.md are those of its history",
        find: crate::bench::outdated,
    },
    Check {
        rule: "sentences of documents are short",
        find: prose::long_sentences,
    },
    Check {
        rule: "documents use the field's terms",
        find: prose::words,
    },
    Check {
        rule: "a folder of fixtures says in a README where they come from",
        find: text::fixtures_without_readme,
    },
    Check {
        rule: "no file is larger than 500 kB",
        find: text::blobs,
    },
];

/// Problems of the checkout, as `rule: place`.
pub fn problems() -> Result<Vec<String>> {
    let checkout = Checkout::read()?;
    let mut problems = Vec::new();
    for check in CHECKS {
        let found = (check.find)(&checkout);
        problems.extend(
            found
                .into_iter()
                .map(|place| format!("{}: {place}", check.rule)),
        );
    }
    Ok(problems)
}

/// The lengths of the documents' sentences, by page.
pub fn sentences() -> Result<String> {
    Ok(prose::table(&Checkout::read()?))
}
