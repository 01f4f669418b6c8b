//! Every example is recorded for real and must be told for what it is, by the recording and by its export.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::programs;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    example: Vec<Example>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    name: String,
    source: String,
    #[serde(default)]
    defines: Vec<String>,
    args: Vec<String>,
    verdict: String,
    object: Option<String>,
    #[serde(default)]
    members: Vec<String>,
    #[serde(default)]
    straddles: bool,
    /// Words that a reader finds on the first screen: object, kind, place and remedy.
    screen: Vec<String>,
}

impl Example {
    fn check(&self, directory: &Path) {
        let source = programs::root().join("examples").join(&self.source);
        let program = programs::build(directory, &self.name, &source, &self.defines);
        let recording = programs::record(directory, &program, &self.args);
        let lacking = programs::not_on_first_screen(&recording, &self.screen);
        assert!(lacking.is_empty(), "{}: {lacking}", self.name);
        let report = programs::report(&recording);
        self.check_report(&report);
        for period in ["1", "10"] {
            self.check_export(&recording, period, &report);
        }
    }

    /// The samples of an export say of the first line what the recording says, but for what it cost.
    fn check_export(&self, recording: &Path, period: &str, report: &Value) {
        let samples = recording.with_extension("data");
        let [from, to] = [recording, &samples].map(|path| path.to_str().expect("it is UTF-8"));
        let export = ["export", from, "--perf-data", to, "--period", period];
        let output = programs::run(Path::new("/"), &export);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "hitm export fails: {error}");
        let sampled = programs::report(&samples);
        let (sampled, recorded) = (&sampled["lines"][0], &report["lines"][0]);
        let (name, told) = (&self.name, format!("{sampled:#}"));
        assert_eq!(
            sampled["verdict"], recorded["verdict"],
            "{name}, {period}: {told}"
        );
        if let (Some(sampled), Some(recorded)) =
            (sampled["advice"].as_str(), recorded["advice"].as_str())
        {
            let without_cost = sampled.trim_end_matches('.');
            assert!(
                recorded.starts_with(without_cost),
                "{name}, {period}: {sampled} {recorded}"
            );
        }
    }

    fn check_report(&self, report: &Value) {
        let name = &self.name;
        let lines = report["lines"].as_array().expect("lines are a list");
        let Some(first) = lines.first() else {
            assert_eq!(self.verdict, "no-contention", "{name}: no line is flagged");
            return;
        };
        assert_eq!(first["verdict"], *self.verdict, "{name}: {first:#}");
        let objects = first["objects"].as_array().expect("objects are a list");
        let object = self
            .object
            .as_ref()
            .expect("a flagged example names its object");
        let found = objects
            .iter()
            .find(|candidate| candidate["name"] == **object);
        let found = found.unwrap_or_else(|| panic!("{name}: {object} is not in {objects:#?}"));
        let named = found["members"].as_array().expect("members are a list");
        let named: BTreeSet<&str> = named.iter().filter_map(Value::as_str).collect();
        let expected: BTreeSet<&str> = self.members.iter().map(String::as_str).collect();
        assert!(
            named.is_superset(&expected),
            "{name}: found {named:?}, expected {expected:?}"
        );
        if self.straddles {
            assert_eq!(found["straddles"], true, "{name}: {found:#}");
        }
    }
}

#[test]
fn every_example_is_told_for_what_it_is() {
    let text = std::fs::read_to_string(programs::root().join("examples/expected.toml"));
    let table: Table = toml::from_str(&text.expect("the table is there")).expect("it is a table");
    let directory = tempfile::tempdir().expect("a temporary directory");
    for example in &table.example {
        example.check(directory.path());
    }
}
