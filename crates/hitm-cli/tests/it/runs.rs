//! `hitm record --runs`, and reports and baselines of the folder that it writes.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::programs;

/// Records a program in `directory` several times into `folder`.
fn record(directory: &Path, folder: &str, program: &str) -> Output {
    let args = ["--runs", "3", "-o", folder, "--", program, "2000"];
    programs::record_within(directory, &args)
}

/// Runs `hitm report` with these arguments.
fn report(directory: &Path, args: &[&str]) -> Output {
    let hitm = programs::hitm()
        .to_str()
        .expect("a path of this tree is UTF-8");
    programs::run_within(directory, &[&[hitm, "report"], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("hitm writes UTF-8")
}

fn built(directory: &Path, name: &str, defines: &[&str]) {
    let source = programs::root().join("examples/false_sharing.c");
    let defines: Vec<String> = defines.iter().map(|one| (*one).to_owned()).collect();
    programs::build(directory, name, &source, &defines);
}

fn succeeds(output: &Output) -> String {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    error
}

#[test]
fn runs_of_a_folder_are_reported_and_are_a_baseline() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    built(directory, "padded", &["PADDED"]);
    built(directory, "packed", &[]);
    let said = succeeds(&record(directory, "old", "./padded"));
    for number in 1..=3 {
        assert!(
            said.contains(&format!("run {number} of 3: old/{number}.hitm: ")),
            "{said}"
        );
        assert!(directory.join(format!("old/{number}.hitm")).is_file());
    }
    assert!(said.contains("hitm: old: 3 runs lost "), "{said}");
    succeeds(&record(directory, "new", "./packed"));
    shows_the_median(directory);
    compares(directory);
}

fn shows_the_median(directory: &Path) {
    let shown = report(directory, &["-i", "new"]);
    succeeds(&shown);
    assert!(
        text(&shown.stdout).contains("  runs: 3 runs lost "),
        "{}",
        text(&shown.stdout)
    );
    let args = ["-i", "new", "--by", "member", "--format", "json"];
    let json = report(directory, &args).stdout;
    let value: Value = serde_json::from_slice(&json).expect("JSON");
    let runs = &value["runs"];
    assert_eq!(runs["count"], 3);
    assert_eq!(runs["lost_cycles_median"], value["totals"]["lost_cycles"]);
    let members = runs["members"].as_array().expect("a list");
    assert!(members.iter().any(|member| member["name"] == "f.w"));
    std::fs::write(directory.join("new.json"), json).expect("a baseline");
}

/// The programs have different names, and one of them shares lines falsely.
fn compares(directory: &Path) {
    let worse = report(directory, &["-i", "new", "--baseline", "old"]);
    let said = text(&worse.stderr);
    assert_eq!(worse.status.code(), Some(1), "{said}");
    assert!(said.contains("hitm: baseline: f.w lost "), "{said}");
    assert!(said.contains(" (median of 3 runs), "), "{said}");
    assert!(
        !said.contains("stack of ") && !said.contains("(no name)"),
        "{said}"
    );
    succeeds(&report(directory, &["-i", "old", "--baseline", "new"]));
    succeeds(&report(
        directory,
        &["-i", "old/2.hitm", "--baseline", "new.json"],
    ));
    succeeds(&report(directory, &["-i", "new", "--baseline", "new.json"]));
    let mixed = report(directory, &["-i", "new/1.hitm", "--baseline", "old"]);
    assert_eq!(mixed.status.code(), Some(1), "{}", text(&mixed.stderr));
}

#[test]
fn a_failing_program_ends_the_runs_with_its_own_exit_code() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let args = ["--runs", "3", "-o", "runs", "--", "sh", "-c", "exit 7"];
    let ended = programs::record_within(directory, &args);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(7), "{said}");
    assert!(
        said.contains("no run follows number 1 of 3: the program ended with exit code 7"),
        "{said}"
    );
    assert!(directory.join("runs/1.hitm").is_file());
    assert!(!directory.join("runs/2.hitm").exists());
}

#[test]
fn folders_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let refused = |output: Output, expected: &str| {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    std::fs::write(directory.join("file"), "").expect("a file");
    std::fs::create_dir(directory.join("full")).expect("a folder");
    std::fs::write(directory.join("full/2.hitm"), "").expect("a file");
    std::fs::create_dir(directory.join("empty")).expect("a folder");
    refused(
        record(directory, "file", "true"),
        "found a file, expected a new or an empty folder",
    );
    refused(
        record(directory, "full", "true"),
        "found 2.hitm in it, expected a new or an empty folder",
    );
    refused(record(directory, "new", "./missing"), "missing");
    assert!(!directory.join("new").exists());
    refused(
        report(directory, &["-i", "empty"]),
        "empty: found a folder without 1.hitm",
    );
    refused(
        report(directory, &["-i", "full"]),
        "full: found a folder without 1.hitm",
    );
    std::fs::write(directory.join("full/1.hitm"), "").expect("a file");
    refused(
        report(directory, &["-i", "full", "--type", "x"]),
        "--type shows one recording",
    );
    refused(report(directory, &["-i", "full"]), "1.hitm");
    let once = ["--runs", "1", "--", "true"];
    refused(
        programs::record_within(directory, &once),
        "1 is not in 2..=99",
    );
    let controlled = ["--runs", "2", "--control", "fifo", "--", "true"];
    refused(
        programs::record_within(directory, &controlled),
        "cannot be used with",
    );
}
