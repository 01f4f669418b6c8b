//! The workflows in examples/ci, run as their services run them: by the shell, line by line.

use hitm_test::process::Command;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::programs;

/// The shell lines of a workflow: what stands behind `run:`, on its line or indented below it.
fn github_steps(workflow: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    let mut block: Option<usize> = None;
    for line in workflow.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(outer) = block {
            if indent > outer {
                let step = steps.last_mut().expect("a step");
                step.push_str(line.trim_start());
                step.push('\n');
                continue;
            }
            block = None;
        }
        match line.trim_start().strip_prefix("run:").map(str::trim) {
            Some("|") => {
                block = Some(indent);
                steps.push(String::new());
            }
            Some(step) => steps.push(step.to_owned()),
            None => {}
        }
    }
    steps
}

/// The shell lines of a job: the items below `script:`.
fn gitlab_steps(job: &str) -> Vec<String> {
    let script = job.split("\n  script:\n").nth(1).expect("a script");
    let lines = script.lines().take_while(|line| line.starts_with("    "));
    let items = lines.filter_map(|line| line.trim_start().strip_prefix("- "));
    items.map(str::to_owned).collect()
}

/// Runs steps in `directory` up to the first that fails, with hitm in PATH. Returns the last one that ran.
fn run(directory: &Path, steps: &[String], defines: &str) -> Output {
    let bin = programs::hitm().parent().expect("a directory");
    let path = std::env::var("PATH").expect("a search path");
    let mut last = None;
    for step in steps {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", step]).current_dir(directory);
        shell.env("PATH", format!("{}:{path}", bin.display()));
        shell.env("CFLAGS", defines);
        let output = shell.output().expect("a shell");
        let has_failed = !output.status.success();
        last = Some(output);
        if has_failed {
            break;
        }
    }
    last.expect("a step")
}

fn example(name: &str) -> String {
    let path = programs::root().join("examples/ci").join(name);
    std::fs::read_to_string(path).expect("the example is there")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("hitm writes UTF-8")
}

/// A checkout with the example program and the baseline of its padded build.
fn checkout(directory: &Path) {
    for (from, to) in [("false_sharing.c", "program.c"), ("common.h", "common.h")] {
        let from = programs::root().join("examples").join(from);
        std::fs::copy(from, directory.join(to)).expect("a copy");
    }
    let steps = github_steps(&example("github.yml"));
    let recorded = run(directory, &steps[..2], "-DPADDED");
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let baseline = ["report", "--by", "member", "--format", "json"];
    let baseline = programs::run(directory, &baseline).stdout;
    std::fs::write(directory.join("contention.json"), baseline).expect("a baseline");
}

#[test]
fn the_workflows_pass_when_padded_and_fail_when_packed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    checkout(directory);
    let (github, gitlab) = (
        github_steps(&example("github.yml")),
        gitlab_steps(&example("gitlab.yml")),
    );
    assert_eq!((github.len(), gitlab.len()), (4, 3));
    let padded = run(directory, &github, "-DPADDED");
    assert_eq!(padded.status.code(), Some(0), "{}", text(&padded.stderr));
    annotations(&run(directory, &github, ""));
    log(&directory.join("hitm.sarif"));
    suites(&run(directory, &gitlab, ""), &directory.join("hitm.xml"));
    baselines(directory);
}

fn annotations(packed: &Output) {
    let (out, error) = (text(&packed.stdout), text(&packed.stderr));
    assert_eq!(packed.status.code(), Some(1), "{error}");
    let place = "::error file=program.c,line=";
    let of_line = out
        .lines()
        .find(|line| line.contains("title=False sharing%3A f::f: "));
    let of_line = of_line.unwrap_or_else(|| panic!("{out}"));
    assert!(of_line.starts_with(place), "{of_line}");
    assert!(
        of_line.ends_with("Breaks --fail-on false-sharing."),
        "{of_line}"
    );
    for member in ["f.w", "f.y", "f.z"] {
        let title = format!("title=New contention%3A {member}::{member} lost ");
        let found = out.lines().find(|line| line.contains(&title));
        let found = found.unwrap_or_else(|| panic!("{member}: {out}"));
        assert!(found.starts_with(place), "{found}");
        let note = format!("hitm: baseline: {member} lost ");
        assert!(error.contains(&note), "{error}");
    }
}

fn log(path: &Path) {
    let log = std::fs::read(path).expect("a log");
    let log: Value = serde_json::from_slice(&log).expect("JSON");
    let result = &log["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "false-sharing");
    // The log is written without a gate.
    assert_eq!(result["level"], "warning");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "program.c");
    assert!(place["region"]["startLine"].as_u64().expect("a line") > 30);
}

fn suites(packed: &Output, path: &Path) {
    assert_eq!(packed.status.code(), Some(1), "{}", text(&packed.stderr));
    let xml = std::fs::read_to_string(path).expect("suites");
    for line in [
        "  <testsuite name=\"hitm --fail-on false-sharing\"",
        "  <testsuite name=\"hitm --baseline contention.json\"",
        "    <testcase name=\"f\" classname=\"hitm.false-sharing\">",
        "    <testcase name=\"f.w\" classname=\"hitm.baseline\">",
    ] {
        assert!(
            xml.lines().any(|one| one.starts_with(line)),
            "{line}: {xml}"
        );
    }
}

fn baselines(directory: &Path) {
    let report = |args: &[&str]| {
        let output = programs::run(directory, &[&["report"], args].concat());
        (output.status.code(), text(&output.stderr))
    };
    // A recording is its own baseline, and text shows no table that nobody asked for.
    let same = ["--baseline", "hitm.data", "--tolerance", "0%"];
    let same = programs::run(directory, &[&["report"], &same[..]].concat());
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    assert!(!text(&same.stdout).contains("By member"));
    let (code, error) = report(&["--baseline", "program.c"]);
    assert_eq!(code, Some(2), "{error}");
    std::fs::write(directory.join("other.json"), "{}").expect("a file");
    let (code, error) = report(&["--baseline", "other.json"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("other.json: found no report in JSON"),
        "{error}"
    );
    let (code, error) = report(&["--tolerance", "5%"]);
    assert_eq!(code, Some(2), "{error}");
    let (code, error) = report(&["--baseline", "hitm.data", "--tolerance", "much"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("expected per cent"), "{error}");
    let (code, error) = report(&["--format", "junit"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("expected --fail-on or --baseline"),
        "{error}"
    );
    let (code, error) = report(&["--perf-c2c", "--format", "sarif"]);
    assert_eq!(code, Some(2), "{error}");
}
