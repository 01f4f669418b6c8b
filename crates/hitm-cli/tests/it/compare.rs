//! `hitm compare`: two builds, and two revisions of a project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use hitm_test::process::Command;
use serde_json::Value;

use crate::programs;

/// Compares in `directory`.
fn compare(directory: &Path, args: &[&str]) -> Output {
    let hitm = programs::hitm()
        .to_str()
        .expect("a path of this tree is UTF-8");
    programs::run_within(directory, &[&[hitm, "compare"], args].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("hitm writes UTF-8")
}

fn succeeds(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn source() -> PathBuf {
    programs::root().join("examples/false_sharing.c")
}

/// The packed and the padded form of a structure.
fn built(directory: &Path) {
    programs::build(directory, "padded", &source(), &["PADDED".to_owned()]);
    programs::build(directory, "packed", &source(), &[]);
}

#[test]
fn a_fix_is_told_in_a_sentence_a_table_and_markdown() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    built(directory);
    let programs = ["./packed", "2000", "--", "./padded", "2000"];
    let kept = ["--runs", "3", "-o", "kept", "--format", "json"];
    let json = succeeds(&compare(directory, &[&kept, &programs[..]].concat()));
    let value: Value = serde_json::from_str(&json).expect("JSON, and nothing of the programs");
    let sentence = value["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("padded takes "), "{sentence}");
    assert!(
        sentence.contains("% fewer threads' cycles than packed ("),
        "{sentence}"
    );
    let first = &value["findings"][0];
    assert!(
        first["name"]
            .as_str()
            .is_some_and(|name| name.starts_with('f')),
        "{first}"
    );
    assert_eq!(first["is_clear"], true);
    assert!(first["change_share"].as_f64() < Some(-0.5), "{first}");
    let runs = value["programs"][1]["runs"].as_array().map(Vec::len);
    assert_eq!(runs, Some(3));
    for file in ["before/1.hitm", "after/3.hitm"] {
        assert!(directory.join("kept").join(file).is_file(), "{file}");
    }
    // Each program as one word, and what a comment shows.
    let quoted = [
        "--runs",
        "1",
        "--format",
        "markdown",
        "./packed 2000",
        "./padded 2000",
    ];
    let markdown = succeeds(&compare(directory, &quoted));
    assert!(markdown.starts_with("**padded takes "), "{markdown}");
    assert!(
        markdown.contains("\n| what | kind | before | after |"),
        "{markdown}"
    );
    let sides = ["kept/before/1.hitm", "kept/after/1.hitm"];
    let diff = programs::run(directory, &[&["diff"], &sides[..]].concat());
    let diff = succeeds(&diff);
    assert!(
        diff.contains("1.hitm takes ") && diff.contains("lost 1.hitm"),
        "{diff}"
    );
}

#[test]
fn a_program_that_fails_is_not_compared() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = compare(directory.path(), &["--runs", "1", "false", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("nothing is compared after run 1 of 1 of false"),
        "{said}"
    );
    let ignored = ["--runs", "1", "--ignore-failure", "false", "--", "true"];
    succeeds(&compare(directory.path(), &ignored));
}

fn git(repository: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository);
    git.args(["-c", "user.name=test", "-c", "user.email=test@example.org"]);
    let output = git.args(args).output().expect("git starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A project whose second revision pads a structure.
fn project(repository: &Path) {
    git(repository, &["init", "--quiet", "--initial-branch", "main"]);
    let shared = programs::root().join("examples/common.h");
    fs::copy(shared, repository.join("common.h")).expect("a copy");
    let code = fs::read_to_string(source()).expect("an example");
    for (text, tag) in [
        (code.clone(), "packed"),
        (format!("#define PADDED\n{code}"), "padded"),
    ] {
        fs::write(repository.join("app.c"), text).expect("a source");
        git(repository, &["add", "."]);
        git(repository, &["commit", "--quiet", "-m", tag]);
        git(repository, &["tag", tag]);
    }
}

const BUILD: &str = "cc -O2 -g -pthread -o app app.c";

#[test]
fn revisions_are_built_and_compared_and_leave_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let repository = directory.path();
    project(repository);
    let args = [
        "--runs", "1", "--build", BUILD, "packed", "padded", "--", "./app", "2000",
    ];
    let shown = succeeds(&compare(repository, &args));
    assert!(shown.contains("padded takes "), "{shown}");
    leaves_nothing(repository);
    let broken = ["--build", "exit 7", "packed", "padded", "--", "./app"];
    let output = compare(repository, &broken);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("the build of packed ended with exit status: 7: exit 7"),
        "{said}"
    );
    leaves_nothing(repository);
    let output = compare(
        repository,
        &["--build", BUILD, "packed", "no-such", "--", "./app"],
    );
    assert_eq!(output.status.code(), Some(2));
    leaves_nothing(repository);
    // A folder that no revision has.
    fs::create_dir(repository.join("new")).expect("a folder");
    let output = compare(
        &repository.join("new"),
        &["--build", BUILD, "packed", "padded", "--", "./app"],
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("packed has no folder new/, in which"),
        "{said}"
    );
    leaves_nothing(repository);
}

#[test]
fn a_signal_during_a_build_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let repository = directory.path();
    project(repository);
    // The build sends the signal itself, to the process that waits for it, and would then take long.
    let build = "kill -INT $PPID; sleep 200";
    let output = compare(
        repository,
        &["--build", build, "packed", "padded", "--", "./app"],
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("a signal ended the build of packed"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
    leaves_nothing(repository);
}

/// One worktree is the repository itself.
fn leaves_nothing(repository: &Path) {
    let worktrees = git(repository, &["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
}
