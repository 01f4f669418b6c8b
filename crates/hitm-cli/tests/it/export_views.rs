//! `hitm export --folded`, `--firefox`, `--csv` and `--parquet`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::programs;

fn export(directory: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = programs::run(directory, &[&["export", "program.hitm"], args].concat());
    let error = String::from_utf8(output.stderr).expect("hitm writes UTF-8");
    (output.status.code(), error)
}

fn read(directory: &Path, name: &str) -> String {
    let path = directory.join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_recording_is_written_for_other_viewers() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "program", &source, &[]);
    let recording = programs::record(directory, &program, &["20000".to_owned()]);
    let report = programs::report(&recording);
    let args = [
        "--folded",
        "stacks.txt",
        "--firefox",
        "profile.json",
        "--csv",
        "csv",
        "--parquet",
        "parquet",
    ];
    let (code, error) = export(directory, &args);
    assert_eq!(code, Some(0), "{error}");
    stacks(directory, &report);
    tables(directory, &report);
    refusals(directory);
}

fn stacks(directory: &Path, report: &Value) {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut members = 0;
    for line in read(directory, "stacks.txt").lines() {
        let (frames, cycles) = line.rsplit_once(' ').expect("frames and a weight");
        let thread = frames.split(';').next().expect("a thread").to_owned();
        *sums.entry(thread).or_default() += cycles.parse::<u64>().expect("a count");
        members += u64::from(frames.ends_with(";touch_own_member;f.w"));
    }
    assert!(members > 0, "nothing is lost at f.w");
    for thread in report["threads"].as_array().expect("threads") {
        let name = thread["name"].as_str().expect("a name");
        let sum = sums.get(name).copied().unwrap_or(0);
        assert_eq!(thread["lost_cycles"], sum, "{name}");
    }
    let profile: Value = serde_json::from_str(&read(directory, "profile.json")).expect("JSON");
    let threads = profile["threads"].as_array().expect("threads");
    let weights = threads
        .iter()
        .flat_map(|thread| thread["samples"]["weight"].as_array());
    let weights = weights
        .flatten()
        .map(|weight| weight.as_u64().expect("a weight"));
    assert_eq!(report["totals"]["lost_cycles"], weights.sum::<u64>());
}

fn tables(directory: &Path, report: &Value) {
    let rows = |name: &str| read(directory, &format!("csv/{name}.csv")).lines().count() - 1;
    let count = |key: &str| report[key].as_array().expect("a list").len();
    assert_eq!(rows("lines"), count("lines"));
    assert_eq!(rows("threads"), count("threads"));
    assert_eq!((rows("run"), rows("totals"), rows("counts")), (1, 1, 3));
    let head = read(directory, "csv/rows.csv");
    assert!(
        head.starts_with("line_rank,offset,size_bytes,member,op,"),
        "{head}"
    );
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).expect("a directory");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut names: Vec<String> = paths
            .map(|path| {
                path.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&directory.join("csv")),
        names(&directory.join("parquet"))
    );
    let lines = std::fs::read(directory.join("parquet/lines.parquet")).expect("a table");
    assert!(lines.starts_with(b"PAR1") && lines.ends_with(b"PAR1"));
}

fn refusals(directory: &Path) {
    let (code, error) = export(directory, &["--csv", "one", "--table", "threads,run"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(directory.join("one/run.csv").is_file());
    assert!(!directory.join("one/lines.csv").exists());
    let (code, error) = export(directory, &["--csv", "two", "--table", "colours"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("found no table colours, expected some of run, totals"),
        "{error}"
    );
    assert!(!directory.join("two").exists());
    let (code, error) = export(directory, &["--folded", "x", "--table", "run"]);
    assert_eq!(code, Some(2), "{error}");
}
