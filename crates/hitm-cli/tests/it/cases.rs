//! Programs whose contention people have reported, in small, and their mended forms: verdict, headline, first
//! advice and gate of each, as a colleague would put them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

use hitm_test::process::Command;
use serde::Deserialize;
use serde_json::Value;

use crate::programs;
use crate::sentences::{Said, follow_one_another};

const FOLDER: &str = "crates/hitm-cli/tests/fixtures/cases";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    source: String,
    #[serde(default)]
    defines: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Parts of "Lost".
    #[serde(default)]
    lost: Vec<Said>,
    /// Parts of "Where".
    #[serde(default)]
    at: Vec<Said>,
    /// The verdict, or a sentence: a part of "Why".
    verdict: Option<Said>,
    /// Parts of "Do", in this order.
    #[serde(default)]
    advice: Vec<Said>,
    /// Words that a reader finds on the first screen: object, kind, place and remedy.
    #[serde(default)]
    screen: Vec<String>,
    /// True if the gate fails; none where it may be either.
    fails: Option<bool>,
}

/// The summary of a report.
struct Head {
    lines: BTreeMap<String, String>,
    fails: bool,
}

impl Case {
    /// Builds the program; none if this host cannot.
    fn build(&self, directory: &Path) -> Option<Vec<String>> {
        let source = Path::new(&self.source);
        let path = programs::root().join(FOLDER).join(source);
        let text = |path: &Path| {
            path.to_str()
                .expect("a path of this tree is UTF-8")
                .to_owned()
        };
        if source.starts_with("crates") {
            let built = crates()?.join(source.file_stem().expect("it is a file"));
            return Some(vec![text(&built)]);
        }
        if source
            .extension()
            .is_some_and(|extension| extension == "java")
        {
            let compiled = Command::new("javac")
                .arg("-d")
                .arg(directory)
                .arg(&path)
                .output();
            if compiled.is_err() {
                programs::say_not_run(&self.name, "there is no javac");
                return None;
            }
            let run = [
                "java",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                &text(directory),
                "Hits",
            ];
            return Some(run.map(str::to_owned).to_vec());
        }
        if !programs::has_compiler(source) {
            programs::say_not_run(&self.name, "there is no Go");
            return None;
        }
        let built = programs::build(directory, &self.name, &path, &self.defines);
        Some(vec![text(&built)])
    }

    fn record(&self, directory: &Path, program: &[String]) -> PathBuf {
        let recording = directory.join(format!("{}.hitm", self.name));
        let mut command = Command::new(programs::hitm());
        command
            .args(["record", "-m", "broadwell-4s", "-o"])
            .arg(&recording);
        command.arg("--").args(program).args(&self.args);
        command.envs(&self.env).current_dir(directory);
        let (code, said) = programs::in_time(&mut command);
        assert_eq!(code, Some(0), "{}: {said}", self.name);
        recording
    }

    /// Sentences about all that is not as it should be.
    fn check(&self, directory: &Path) -> Vec<String> {
        let Some(program) = self.build(directory) else {
            return Vec::new();
        };
        let recording = self.record(directory, &program);
        let head = head(directory, &recording);
        let wanted = [
            ("Lost", &self.lost[..]),
            ("Where", &self.at),
            ("Why", self.verdict.as_slice()),
            ("Do", &self.advice),
        ];
        let mut wrong = Vec::new();
        for (key, parts) in wanted {
            let said = head.lines.get(key).map_or("", String::as_str);
            if !follow_one_another(said, parts) {
                wrong.push(format!("{}: {key} {said}\n  expected {parts:?}", self.name));
            }
        }
        let lacking = programs::not_on_first_screen(&recording, &self.screen);
        if !lacking.is_empty() {
            wrong.push(format!("{}: {lacking}", self.name));
        }
        if self.fails.is_some_and(|fails| fails != head.fails) {
            wrong.push(format!("{}: its gate fails: {}", self.name, head.fails));
        }
        wrong
    }
}

fn head(directory: &Path, recording: &Path) -> Head {
    let recording = recording.to_str().expect("a temporary path is UTF-8");
    let gate = ["--fail-on", "false-sharing"];
    let args = [&["report", "-i", recording, "--format", "json"], &gate[..]].concat();
    let Output { status, stdout, .. } = programs::run(directory, &args);
    let text = String::from_utf8(stdout).expect("a report is UTF-8");
    let report: Value = serde_json::from_str(&text).expect("a report is JSON");
    let lines = report["summary"].as_array().expect("it has a summary");
    let word = |line: &Value, key: &str| line[key].as_str().expect("it is text").to_owned();
    Head {
        lines: lines
            .iter()
            .map(|line| (word(line, "label"), word(line, "text")))
            .collect(),
        fails: match status.code() {
            Some(0) => false,
            Some(1) => true,
            other => panic!("hitm report ends with {other:?}: {text}"),
        },
    }
}

/// The folder with the programs of other people's crates; none if these cannot be had here.
fn crates() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let manifest = programs::root().join(FOLDER).join("crates/Cargo.toml");
        let target = hitm_test::program::built().join("cases");
        let cargo = |words: &[&str]| {
            let mut command = Command::new("cargo");
            command
                .args(words)
                .args(["--locked", "--manifest-path"])
                .arg(&manifest);
            programs::in_time(command.env("CARGO_TARGET_DIR", &target))
        };
        let (code, said) = cargo(&["fetch"]);
        if code != Some(0) {
            programs::say_not_run("cases with crates", &said);
            return None;
        }
        let (code, said) = cargo(&["build", "--release"]);
        assert_eq!(code, Some(0), "{said}");
        Some(target.join("release"))
    });
    built.as_deref()
}

fn check(is_wanted: impl Fn(&Case) -> bool) {
    let text = std::fs::read_to_string(programs::root().join(FOLDER).join("expected.toml"));
    let table: Table = toml::from_str(&text.expect("the table is there")).expect("it is a table");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let cases = table.case.iter().filter(|case| is_wanted(case));
    let wrong: Vec<String> = cases
        .flat_map(|case| case.check(directory.path()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_c(case: &Case) -> bool {
    case.source.ends_with(".c") || case.source.ends_with(".cpp")
}

#[test]
fn cases_in_c_are_answered_as_by_a_colleague() {
    check(is_c);
}

#[test]
fn cases_in_other_languages_are_answered_as_by_a_colleague() {
    check(|case| !is_c(case));
}
