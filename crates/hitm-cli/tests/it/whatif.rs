//! `hitm whatif` on real recordings, against recordings of the changed program or machine.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::programs::{build, record, root, run};

fn example(directory: &Path, name: &str, source: &str, defines: &[&str]) -> PathBuf {
    let defines: Vec<String> = defines.iter().map(|define| (*define).to_owned()).collect();
    build(
        directory,
        name,
        &root().join("examples").join(source),
        &defines,
    )
}

fn recording(directory: &Path, program: &Path, iterations: &str) -> PathBuf {
    record(directory, program, &[iterations.to_owned()])
}

fn layout(name: &str) -> String {
    let path = root().join("examples/layouts").join(format!("{name}.toml"));
    path.to_str().expect("the path is UTF-8").to_owned()
}

pub(crate) fn whatif(recording: &Path, options: &[&str]) -> Value {
    let input = recording.to_str().expect("a temporary path is UTF-8");
    let args = [&["whatif", "-i", input, "--format", "json"], options].concat();
    let output = run(Path::new("/"), &args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm whatif fails: {error}");
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}

pub(crate) fn per_iteration(answer: &Value, side: &str) -> f64 {
    let value = &answer["run"][side]["cycles_per_iteration"];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no cycles of an iteration in {answer:#}"))
}

/// Asserts that nothing changed between the two runs, as far as the answer shows.
fn assert_unchanged(answer: &Value, name: &str) {
    assert_eq!(answer["run"]["before"], answer["run"]["after"], "{name}");
    for list in ["threads", "lines"] {
        for row in answer[list].as_array().expect("a list") {
            for (key, before) in row.as_object().expect("an object") {
                if let Some(stem) = key.strip_suffix("_before") {
                    assert_eq!(
                        *before,
                        row[&format!("{stem}_after")],
                        "{name} {key}: {row:#}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_replay_without_a_change_is_the_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (source, iterations) in [
        ("false_sharing.c", "20000"),
        ("lock_beside_data.c", "3000"),
        ("heap_straddle.c", "20000"),
        ("true_sharing.rs", "3000"),
    ] {
        let name = source.split('.').next().expect("a name");
        let program = example(directory.path(), name, source, &[]);
        let recording = recording(directory.path(), &program, iterations);
        let answer = whatif(&recording, &["--per", iterations, "--top", "1000"]);
        assert_unchanged(&answer, name);
        assert!(
            answer["run"]["before"]["remote_hitm_count"].as_u64() > Some(100),
            "{name}"
        );
    }
}

/// Predicts with a layout, records the program that has it, and compares cycles of an iteration.
fn check_layout(name: &str, changed: &Path, options: &[&str]) {
    let directory = changed.parent().expect("it lies in a directory");
    // The main thread runs some 200,000 instructions before it starts the others. Threads with more than four
    // an iteration count as workers: it must not be one.
    let iterations = "100000";
    let program = example(directory, name, &format!("{name}.c"), &[]);
    let before = recording(directory, &program, iterations);
    let after = recording(directory, changed, iterations);
    let layout = layout(name);
    let options = [&["--per", iterations, "--layout", &layout], options].concat();
    let predicted = whatif(&before, &options);
    let recorded = whatif(&after, &["--per", iterations]);
    let (then, now) = (
        per_iteration(&predicted, "before"),
        per_iteration(&predicted, "after"),
    );
    let really = per_iteration(&recorded, "before");
    assert!(now < then * 0.9, "{name}: {then} to {now} is no gain");
    let error = now / really - 1.0;
    assert!(
        error.abs() < 0.05,
        "{name}: predicted {now}, recorded {really}"
    );
    assert_eq!(
        predicted["objects"][0]["element_count"],
        if name == "heap_straddle" { 4 } else { 1 }
    );
    let moved = &predicted["members"][0];
    assert!(
        moved["access_count_before"].as_u64() > Some(10_000),
        "{moved:#}"
    );
}

#[test]
fn members_moved_apart_cost_what_they_cost_when_compiled_so() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let padded = example(directory.path(), "padded", "false_sharing.c", &["PADDED"]);
    check_layout("false_sharing", &padded, &[]);
}

#[test]
fn structures_on_the_heap_are_moved_by_who_allocates_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let examples = root().join("examples");
    let source = fs::read_to_string(examples.join("heap_straddle.c")).expect("the example");
    let source = source.replace("padding[3]", "padding[5]").replace(
        "calloc((size_t)options.threads, sizeof(*workers))",
        "aligned_alloc(64, (size_t)options.threads * sizeof(*workers))",
    );
    let changed = directory.path().join("changed.c");
    fs::write(&changed, source).expect("a temporary file");
    let common = examples.join("common.h");
    fs::copy(common, directory.path().join("common.h")).expect("a temporary file");
    let changed = build(directory.path(), "changed", &changed, &[]);
    // Part of the name that a report gives the block: "heap block of 160 B from main (...)".
    let block = ["--instances", "heap:B from main"];
    check_layout("heap_straddle", &changed, &block);
}

#[test]
fn another_machine_is_predicted_as_it_records() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Each pair of neighbours shares one line, so the threads' order at the start changes little.
    // Where all threads meet on one line, it can choose between rhythms 10 % apart.
    let program = example(directory.path(), "straddle", "heap_straddle.c", &[]);
    let here = recording(directory.path(), &program, "20000");
    let there = directory.path().join("there.hitm");
    let [program, there] = [&program, &there].map(|path| path.to_str().expect("UTF-8"));
    let args = [
        "record",
        "-m",
        "genoa-384",
        "-o",
        there,
        "--",
        program,
        "20000",
    ];
    assert!(run(directory.path(), &args).status.success());
    let predicted = whatif(&here, &["--per", "20000", "--machine", "genoa-384"]);
    let recorded = whatif(Path::new(there), &["--per", "20000"]);
    let ratio = per_iteration(&predicted, "after") / per_iteration(&recorded, "before");
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
    assert_eq!(predicted["run"]["after"]["machine"], "genoa-384");
}

#[test]
fn what_does_not_fit_is_said() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = example(directory.path(), "packed", "false_sharing.c", &[]);
    let recording = recording(directory.path(), &program, "2000");
    let path = directory.path().join("new.toml");
    let whole = fs::read_to_string(layout("false_sharing")).expect("the layout is there");
    let check = |change: &dyn Fn(&str) -> String, options: &[&str], expected: &str| {
        fs::write(&path, change(&whole)).expect("a temporary file");
        let [input, layout] = [&recording, &path].map(|path| path.to_str().expect("UTF-8"));
        let args = [&["whatif", "-i", input, "--layout", layout], options].concat();
        let output = run(directory.path(), &args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains(expected),
            "found {error}, expected {expected}"
        );
    };
    let same = |text: &str| text.to_owned();
    check(
        &|text| text.replace("name = \"z\"", "name = \"v\""),
        &[],
        "struct foo of the layout has a member v, but the program's has none",
    );
    check(
        &|text| {
            text.replace(
                "  { name = \"z\", offset_bytes = 192, size_bytes = 4 },\n",
                "",
            )
        },
        &[],
        "struct foo of the program has a member z, but the layout's has none",
    );
    check(
        &|text| text.replace("192, size_bytes = 4", "192, size_bytes = 8"),
        &[],
        "foo.z: found 8 bytes in the layout, expected the 4 of the program's debug information",
    );
    check(
        &|text| text.replace("\"foo\"", "\"bar\""),
        &[],
        "nothing moves: no variable of type bar, and no array of plain values with that name, has recorded accesses",
    );
    check(
        &same,
        &["--instances", "heap:nobody"],
        "no shared heap block from \"nobody\"",
    );
    check(
        &same,
        &["--instances", "stack:main"],
        "expected 'heap:FUNCTION'",
    );
    check(
        &same,
        &["--threads-to", "4000"],
        "the placement names CPU 4000",
    );
}
