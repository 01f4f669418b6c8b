//! Callers of locks that are taken in a function which the compiler has put into another one, by what each language
//! takes locks with.

use std::path::Path;

use crate::programs;

/// Returns the callers that a report lists, the dearest first, and the first call path to a lock's word.
fn callers(directory: &Path, recording: &Path) -> (Vec<String>, String) {
    let recording = recording.to_str().expect("a temporary path is UTF-8");
    let args = [
        "report", "-i", recording, "--by", "caller", "--format", "json", "-g", "1",
    ];
    let output = programs::run(directory, &args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = report["totals_by"][0]["rows"].as_array().expect("a table");
    let names = rows
        .iter()
        .map(|row| row["name"].as_str().expect("a name").to_owned());
    let lines = report["lines"].as_array().expect("a list");
    let rows = lines
        .iter()
        .flat_map(|line| line["rows"].as_array().expect("a list"));
    let paths = rows.flat_map(|row| row["call_paths"].as_array().expect("a list"));
    let frames = paths.map(|path| {
        let frames = path["frames"].as_array().expect("a list").iter();
        frames
            .map(|frame| {
                let inlined = if frame["is_inlined"] == true { "+" } else { "" };
                format!("{}{inlined}", frame["function"].as_str().expect("a name"))
            })
            .collect::<Vec<_>>()
            .join(" ")
    });
    let path = frames.into_iter().find(|path| path.contains("deposit"));
    (names.collect(), path.unwrap_or_default())
}

/// Without an option: callers are recorded once there are threads that could fight.
#[test]
fn who_takes_a_lock_is_named_though_the_compiler_inlined_him() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/deposit");
    for kind in ["c", "cpp", "rs", "go"] {
        let source = folder.join(format!("deposit.{kind}"));
        if !programs::has_compiler(&source) {
            continue;
        }
        let program = programs::build(directory.path(), &format!("deposit_{kind}"), &source, &[]);
        let recording = programs::record(directory.path(), &program, &[]);
        let (callers, path) = callers(directory.path(), &recording);
        assert!(callers[0].contains("deposit"), "{kind}: {callers:?}");
        assert!(
            callers
                .iter()
                .any(|name| name.contains("take (inlined in ")),
            "{kind}: {callers:?}"
        );
        assert!(path.contains("deposit"), "{kind}: {path}");
        // C's lock is a function of the library, which a function that is gone called.
        assert!(kind != "c" || path.contains("take+ deposit"), "{path}");
    }
}
