//! `hitm export --perfetto` and `hitm sim --perfetto`.

use std::path::Path;

use hitm_test::perfetto::{PerfettoTrace, read};

use crate::programs;

fn trace(directory: &Path, name: &str) -> (Vec<u8>, PerfettoTrace) {
    let bytes = std::fs::read(directory.join(name)).expect("a trace");
    let trace = read(&bytes);
    (bytes, trace)
}

fn export(directory: &Path, recording: &str, trace: &str) -> (Option<i32>, String) {
    let output = programs::run(directory, &["export", recording, "--perfetto", trace]);
    let error = String::from_utf8(output.stderr).expect("hitm writes UTF-8");
    (output.status.code(), error)
}

/// The sum that counters of all CPUs together have.
fn lost(trace: &PerfettoTrace) -> u64 {
    let all = trace
        .tracks
        .iter()
        .find(|(_, track)| track.0 == "lost cycles");
    let (all, _) = all.expect("a counter of all CPUs");
    let samples = trace.counters.iter().filter(|sample| sample.0 == *all);
    samples.map(|sample| sample.2).sum()
}

#[test]
fn a_recording_is_written_as_a_trace() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "program", &source, &[]);
    let recording = programs::record(directory, &program, &["2000".to_owned()]);
    let report = programs::report(&recording);
    let (code, error) = export(directory, "program.hitm", "a.pftrace");
    assert_eq!(code, Some(0), "{error}");
    let (bytes, found) = trace(directory, "a.pftrace");
    assert_eq!(report["totals"]["lost_cycles"], lost(&found));
    let said = format!(
        "{} slices, {} instants, {} arrows and {} samples of counters, {} bytes",
        found.slices.len(),
        found.instants.len(),
        found.arrows.len(),
        found.counters.len(),
        bytes.len()
    );
    assert!(error.contains(&said), "{said} is not in {error}");
    let is_at_member = |slice: &&(u64, u64, u64, String)| slice.3.contains(" f.w");
    assert!(found.slices.iter().filter(is_at_member).count() > 100);
    assert!(found.arrows.len() > 100, "{} arrows", found.arrows.len());
    let function = ("function".to_owned(), "touch_own_member".to_owned());
    assert!(found.annotations.contains(&function));
    for thread in report["threads"].as_array().expect("threads") {
        let name = thread["name"].as_str().expect("a name");
        let tracks = found.tracks.iter().filter(|(_, track)| track.0 == name);
        let tracks: Vec<u64> = tracks.map(|(uuid, _)| *uuid).collect();
        assert_eq!(tracks.len(), 1, "{name}");
        let runs = found.slices.iter();
        let mut runs = runs.filter(|slice| slice.0 == tracks[0] && slice.3.starts_with("on cpu "));
        assert!(runs.next().is_some(), "{name} never ran");
    }
    let (code, _) = export(directory, "program.hitm", "b.pftrace");
    assert_eq!(code, Some(0));
    assert_eq!(
        std::fs::read(directory.join("b.pftrace")).expect("a trace"),
        bytes
    );
    let (code, error) = export(directory, "none.hitm", "c.pftrace");
    assert_eq!(code, Some(2), "{error}");
    assert!(!directory.join("c.pftrace").exists());
}

#[test]
fn a_simulation_is_written_as_a_trace() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let scenario = programs::root().join("scenarios/001-rt-balancing/cpus-004.toml");
    let scenario = scenario.to_str().expect("a path of the checkout is UTF-8");
    let simulate = |args: &[&str]| {
        let all = [&["sim", scenario, "--quick", "--format", "json"], args].concat();
        let output = programs::run(directory, &all);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output.stdout
    };
    let untraced = simulate(&[]);
    assert_eq!(simulate(&["--perfetto", "a.pftrace"]), untraced);
    let (bytes, found) = trace(directory, "a.pftrace");
    assert_eq!(simulate(&["--perfetto", "b.pftrace"]), untraced);
    assert_eq!(
        std::fs::read(directory.join("b.pftrace")).expect("a trace"),
        bytes
    );
    let has_slice = |name: &str| found.slices.iter().any(|slice| slice.3.contains(name));
    assert!(
        has_slice("on cpu ") && has_slice("rq."),
        "{:?}",
        found.tracks
    );
    let locks = found
        .tracks
        .values()
        .filter(|track| track.0.contains("lock #"));
    assert!(locks.count() > 1);
    assert!(lost(&found) > 0);
}
