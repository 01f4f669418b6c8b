//! perf.data out: stock perf opens what hitm exports and counts it as hitm does.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::programs;

/// Runs the perf that is installed; the test fails when there is none.
fn perf(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("perf");
    command
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null());
    let output = command.output().expect("perf is installed: scripts/setup");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {args:?} fails: {error}");
    output
}

fn perf_c2c(directory: &Path, file: &str) -> String {
    let output = perf(directory, &["c2c", "report", "--stdio", "-i", file]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.is_empty(), "perf warns: {error}");
    String::from_utf8(output.stdout).expect("perf writes UTF-8")
}

fn hitm(directory: &Path, args: &[&str]) -> String {
    let output = programs::run(directory, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm {args:?} fails: {error}");
    String::from_utf8(output.stdout).expect("hitm writes UTF-8")
}

/// The cells of a report, line by line. Of names only the example's own function is compared:
/// perf and hitm may choose different ones of several symbols at one address.
fn cells(report: &str) -> Vec<Vec<&str>> {
    let lines = report.lines().map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        match cells.iter().position(|cell| *cell == "[.]") {
            Some(symbol) if !line.contains(" touch_own_member ") => cells[..symbol].to_vec(),
            _ => cells,
        }
    });
    // perf draws dots as wide as its names are.
    let lines = lines.filter(|cells| !cells.is_empty());
    lines.filter(|cells| !cells.contains(&".....")).collect()
}

fn record_packed(directory: &Path) {
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "packed", &source, &[]);
    programs::record(directory, &program, &["20000".to_owned()]);
}

#[test]
fn perf_c2c_shows_an_export_as_hitm_shows_the_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    record_packed(directory);
    hitm(
        directory,
        &["export", "packed.hitm", "--perf-data", "perf.data"],
    );
    let theirs = perf_c2c(directory, "perf.data");
    let ours = hitm(directory, &["report", "-i", "packed.hitm", "--perf-c2c"]);
    let (theirs_cells, ours_cells) = (cells(&theirs), cells(&ours));
    for (theirs, ours) in theirs_cells.iter().zip(&ours_cells) {
        assert_eq!(theirs, ours, "perf on the left, hitm on the right");
    }
    assert_eq!(theirs_cells.len(), ours_cells.len());
    // What is compared is what the example is about, not two empty tables.
    let report = programs::report(&directory.join("packed.hitm"));
    let line = &report["lines"][0];
    let address = line["address"].as_str().expect("an address is text");
    let top = ours_cells.iter().find(|cells| cells.contains(&address));
    let top = top.unwrap_or_else(|| panic!("{address} is not in {ours}"));
    assert_eq!(top[0], "0", "the costliest line is perf's first");
    assert_eq!(top[6], line["local_hitm_count"].to_string());
    assert_eq!(top[7], line["remote_hitm_count"].to_string());
    assert!(line["remote_hitm_count"].as_u64() > Some(1000), "{line:#}");
}

#[test]
fn other_verbs_of_perf_open_an_export() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    record_packed(directory);
    let period = [
        "export",
        "packed.hitm",
        "--perf-data",
        "p.data",
        "--period",
        "100",
    ];
    hitm(directory, &period);
    let script = perf(
        directory,
        &["script", "-i", "p.data", "-F", "tid,event,addr,ip,sym"],
    );
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    let report = programs::report(&directory.join("packed.hitm"));
    let count = |key: &str| report["totals"][key].as_u64().expect("a count");
    let samples = |event: &str| script.lines().filter(|line| line.contains(event)).count() as u64;
    assert_eq!(samples("mem-stores"), count("store_count") / 100);
    assert_eq!(
        samples("mem-loads"),
        (count("load_count") + count("locked_count")) / 100
    );
    assert!(script.contains("touch_own_member"), "{script}");
    let by_memory = perf(directory, &["mem", "report", "-i", "p.data", "--stdio"]);
    assert!(String::from_utf8_lossy(&by_memory.stdout).contains("touch_own_member"));
    let by_function = perf(directory, &["report", "-i", "p.data", "--stdio"]);
    assert!(String::from_utf8_lossy(&by_function.stdout).contains("touch_own_member"));
}
