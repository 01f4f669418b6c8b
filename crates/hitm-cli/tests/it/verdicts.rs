//! Programs with a known kind of contention are recorded for real: their verdicts, fights, advice, and
//! what `--fail-on false-sharing` says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice::from_ref;

use serde::Deserialize;
use serde_json::Value;

use crate::programs;
use crate::sentences::{Said, follow_one_another};

const FOLDER: &str = "crates/hitm-cli/tests/fixtures/verdicts";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    program: Vec<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    source: String,
    #[serde(default)]
    defines: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    object: String,
    verdict: String,
    fights: BTreeSet<String>,
    fails: bool,
    advice: Vec<Said>,
}

impl Program {
    /// Fails with the first thing that the report should not say.
    fn check(&self, directory: &Path) -> Result<(), String> {
        let source = programs::root().join(FOLDER).join(&self.source);
        let program = programs::build(directory, &self.name, &source, &self.defines);
        let recording = programs::record(directory, &program, &self.args);
        let report = programs::report(&recording);
        let lines = report["lines"].as_array().expect("lines are a list");
        let fails = fails_gate(directory, &recording);
        // The lines of an object with several may lose about the same: the order of those is no matter.
        let mut own = lines.iter().filter(|line| self.is_own(line));
        match own.any(|line| self.is_right(line)) && fails == self.fails {
            true => Ok(()),
            false => Err(format!("gate fails: {fails}, {lines:#?}")),
        }
    }

    /// Returns true for a line of the object. Go's linker puts others beside it, which its runtime may touch.
    fn is_own(&self, line: &Value) -> bool {
        let name = line["name"].as_str().unwrap_or_default();
        name.split(", ").any(|object| object == self.object)
    }

    fn is_right(&self, line: &Value) -> bool {
        let advice = line["advice"].as_str().expect("advice is text");
        line["verdict"] == *self.verdict
            && has_fights(line, &self.fights)
            && self
                .advice
                .iter()
                .all(|part| follow_one_another(advice, from_ref(part)))
    }
}

/// Returns true if each expected kind of fight is at least a twentieth of the line's loss, and no
/// other is a fifth. Shares of a program with a sleeping lock differ from run to run.
fn has_fights(line: &Value, expected: &BTreeSet<String>) -> bool {
    let fights = line["fights"].as_array().expect("fights are a list");
    let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
    for fight in fights {
        let kind = fight["kind"].as_str().expect("a kind is text");
        *lost.entry(kind).or_default() += fight["lost_cycles"].as_u64().expect("a number");
    }
    let whole: u64 = lost.values().sum();
    let has_all = expected.iter().all(|kind| {
        lost.get(kind.as_str())
            .is_some_and(|lost| lost * 20 >= whole)
    });
    let mut others = lost.iter().filter(|(kind, _)| !expected.contains(**kind));
    has_all && others.all(|(_, lost)| lost * 5 < whole)
}

fn fails_gate(directory: &Path, recording: &Path) -> bool {
    let recording = recording.to_str().expect("a temporary path is UTF-8");
    let args = ["report", "-i", recording, "--fail-on", "false-sharing"];
    match programs::run(directory, &args).status.code() {
        Some(0) => false,
        Some(1) => true,
        other => panic!("hitm report ends with {other:?}"),
    }
}

#[test]
fn programs_get_the_verdicts_of_the_table() {
    let text = std::fs::read_to_string(programs::root().join(FOLDER).join("expected.toml"));
    let table: Table = toml::from_str(&text.expect("the table is there")).expect("it is a table");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let wrong: Vec<String> = table
        .program
        .iter()
        .filter(|program| programs::has_compiler(Path::new(&program.source)))
        .filter_map(|program| {
            let error = program.check(directory.path()).err()?;
            Some(format!("{}: {error}", program.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
