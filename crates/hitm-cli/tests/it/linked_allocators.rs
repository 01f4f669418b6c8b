//! Allocators that are inside of programs: static ones, those with names of their own, Go's.

use hitm_test::process::Command;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::programs;

/// Builds a fixture with `compiler`, its arguments before the source.
fn build(directory: &Path, source: &str, compiler: &[&str]) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/linked_allocators");
    let program = directory.join(source.split('.').next().expect("a name"));
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-o").arg(&program);
    let status = command.arg(fixtures.join(source)).status();
    let status = status.expect("the compiler starts");
    assert!(status.success(), "{source} does not compile");
    program
}

/// The report of `hitm record ARGS PROGRAM`.
fn recorded(program: &Path, args: &[&str]) -> Value {
    let directory = program.parent().expect("it is in a directory");
    let program = program.to_str().expect("a temporary path is UTF-8");
    let recording = format!("{program}.hitm");
    let head = ["record", "-o", &recording].into_iter();
    let all: Vec<&str> = head
        .chain(args.iter().copied())
        .chain(["--", program])
        .collect();
    let output = programs::run(directory, &all);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm record fails: {error}");
    programs::report(Path::new(&recording))
}

/// Origins of the objects of the contended lines whose rows have a member that begins with `member`.
fn origins(report: &Value, member: &str) -> Vec<String> {
    let lines = report["lines"].as_array().expect("lines are a list");
    let has_it = |line: &&Value| {
        let rows = line["rows"].as_array().expect("rows are a list");
        let names = rows.iter().filter_map(|row| row["member"].as_str());
        names.into_iter().any(|name| name.starts_with(member))
    };
    let lines = lines.iter().filter(has_it);
    let objects = lines.flat_map(|line| line["objects"].as_array().expect("objects are a list"));
    let object = member.split(['.', '[']).next().expect("a name");
    let of_it = objects.filter(|of| {
        of["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(object))
    });
    of_it
        .map(|of| of["origin"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// An object with that member was allocated by the function.
fn check(report: &Value, member: &str, function: &str) {
    let origins = origins(report, member);
    let is_there = origins.iter().any(|origin| origin.contains(function));
    assert!(is_there, "{member}: {origins:?}, not {function}");
}

/// Returns true if the report says that nobody observed a heap.
fn is_unobserved(report: &Value) -> bool {
    let notes = report["diagnostics"].to_string();
    notes.contains("lines without names of heap blocks")
}

/// Both allocators of `named.c` hand out blocks with names, in the program of a compiler.
fn check_named(compiler: &[&str]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path(), "named.c", compiler);
    let rule = ["--allocator", "pool_get,out=2,size=3,count=4"];
    let report = recorded(&program, &rule);
    check(
        &report,
        "account.balance",
        "block of 24 B from make_account",
    );
    check(&report, "counter[", "block of 32 B from make_counters");
    assert!(!is_unobserved(&report));
}

#[test]
fn functions_with_names_of_their_own() {
    for link in ["-static", "-pie"] {
        check_named(&["cc", "-O2", "-g", "-pthread", link]);
    }
}

#[test]
fn programs_for_aarch64() {
    const COMPILER: &str = "aarch64-linux-gnu-gcc";
    if Command::new(COMPILER).arg("--version").output().is_err() {
        return programs::say_not_run("programs_for_aarch64", &format!("no {COMPILER}"));
    }
    check_named(&[COMPILER, "-O2", "-g", "-static", "-pthread"]);
}

#[test]
fn operators_of_cpp() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let compiler = ["c++", "-O2", "-g", "-static", "-pthread"];
    let report = recorded(&build(directory.path(), "operators.cpp", &compiler), &[]);
    check(&report, "Order.filled", "block of 24 B from make_order");
    check(
        &report,
        "Shelf[1].stock",
        "block of 256 B from make_shelves",
    );
}

#[test]
fn rusts_global_allocator() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let is_static = ["-C", "target-feature=+crt-static"];
    let head = ["rustc", "--edition", "2024", "-O", "-g"].into_iter();
    let compiler: Vec<&str> = head.chain(is_static).collect();
    let report = recorded(&build(directory.path(), "shared.rs", &compiler), &[]);
    check(&report, "Metrics.hits", "from shared::metrics");
}

#[test]
fn gos_heap_with_the_types_that_it_is_told() {
    if !programs::has_compiler(Path::new("accounts.go")) {
        return programs::say_not_run("gos_heap_with_the_types_that_it_is_told", "no go");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = build(directory.path(), "accounts.go", &["go", "build"]);
    let report = recorded(&program, &[]);
    check(&report, "main.Counter.hits", "block of 16 B from main.open");
    check(
        &report,
        "main.Account.balance",
        "block of 24 B from main.open",
    );
}

/// Names come from the table that Go needs itself; there are no types.
#[test]
fn gos_heap_without_symbols() {
    if !programs::has_compiler(Path::new("accounts.go")) {
        return programs::say_not_run("gos_heap_without_symbols", "no go");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let compiler = ["go", "build", "-ldflags=-s -w"];
    let program = build(directory.path(), "accounts.go", &compiler);
    let report = recorded(&program, &[]);
    for bytes in [16, 24] {
        let block = format!("heap block of {bytes} B from main.open");
        let found = !origins(&report, &block).is_empty();
        assert!(found, "no {block}: {report:#}");
    }
}

#[test]
fn a_rule_that_is_none() {
    let output = programs::run(
        Path::new("/"),
        &["record", "--allocator", "pool_get,bytes=2", "--", "true"],
    );
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("found 'bytes=2', expected size=N"),
        "{error}"
    );
}
