//! Completions in shells, by the scripts of `hitm completions`. A shell that is missing says so.

use hitm_test::process::Command;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A folder with `hitm` for PATH, and the script of a shell.
fn prepared(shell: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_hitm"));
    std::os::unix::fs::symlink(program, folder.path().join("hitm")).unwrap();
    let output = Command::new(program)
        .args(["completions", shell])
        .output()
        .unwrap();
    assert!(output.status.success());
    let script = folder.path().join("script");
    fs::write(&script, output.stdout).unwrap();
    (folder, script)
}

/// Runs a shell in the folder; None when it is not installed.
fn run(shell: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let path = env::var("PATH").unwrap_or_default();
    let output = Command::new(shell)
        .args(arguments)
        .env("PATH", format!("{}:{path}", folder.display()))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        println!("NOT RUN: no {shell}");
        return None;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shell}: {error}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Replies of bash at a TAB behind a line, whose words are told apart by spaces; `last` is the one that it
/// completes.
fn bash_replies(folder: &Path, script: &Path, line: &str, last: &str) -> Option<String> {
    let count = line.split(' ').count() - 1;
    let typed = format!(
        "source {}; COMP_WORDS=({line}); COMP_CWORD={count}; COMP_TYPE=9\n\
         _hitm hitm {last} before; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    run("bash", &["--norc", "-c", &typed], folder)
}

/// Lines typed, their last word, and what it becomes.
const CASES: [(&str, &str, &str); 4] = [
    ("hitm record --machine xeon-4", "xeon-4", "xeon-480"),
    (
        "hitm sim 000-root-domain/ff",
        "000-root-domain/ff",
        "000-root-domain/ffmpeg",
    ),
    ("hitm machine show icel", "icel", "icelake-2s"),
    ("hitm rec", "rec", "record"),
];

#[test]
fn bash_completes_commands_machines_and_scenarios() {
    let (folder, script) = prepared("bash");
    for (line, last, expected) in CASES {
        let Some(shown) = bash_replies(folder.path(), &script, line, last) else {
            return;
        };
        assert_eq!(shown.trim_end(), expected, "{line}");
    }
}

/// In bash `=` is a word of its own.
#[test]
fn bash_completes_values_behind_an_equals_sign() {
    let (folder, script) = prepared("bash");
    let split = [
        ("hitm record --machine = icel", "icel", "icelake-2s"),
        ("hitm report --format =", "''", "sarif"),
    ];
    for (line, last, expected) in split {
        let Some(shown) = bash_replies(folder.path(), &script, line, last) else {
            return;
        };
        let found = shown.lines().any(|reply| reply == expected);
        assert!(found, "{line}: {shown}");
    }
}

#[test]
fn fish_completes_commands_machines_and_scenarios() {
    let (folder, script) = prepared("fish");
    for (line, _, expected) in CASES {
        let typed = format!("source {}; complete -C '{line}'", script.display());
        let Some(shown) = run("fish", &["--no-config", "-c", &typed], folder.path()) else {
            return;
        };
        let values: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.split('\t').next())
            .collect();
        assert_eq!(values, [expected], "{line}");
    }
}
