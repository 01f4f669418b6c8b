//! `hitm explain`: words, and what a recording has of them.

use std::path::Path;

use serde_json::Value;

use crate::programs;

fn explained(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let output = programs::run(directory, &[&["explain"], args].concat());
    let text = |bytes| String::from_utf8(bytes).expect("hitm writes UTF-8");
    let code = output.status.code().expect("an exit code");
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn a_recording_says_what_met_the_rule() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "program", &source, &[]);
    programs::record(directory, &program, &["2000".to_owned()]);
    let input = ["-i", "program.hitm"];
    let (code, text, error) = explained(directory, &[&["1"], &input[..]].concat());
    assert_eq!((code, &*error), (0, ""));
    for part in [
        "false sharing (verdict)",
        "  recording: program.hitm",
        "  machine: broadwell-4s",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let args = [&["false-sharing", "--format", "json"], &input[..]].concat();
    let (_, json, _) = explained(directory, &args);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let conditions = json["line"]["conditions"].as_array().expect("conditions");
    assert!(
        conditions.iter().all(|one| one["is_met"] == true),
        "{conditions:?}"
    );
    let (code, _, error) = explained(directory, &[&["9"], &input[..]].concat());
    assert_eq!(code, 2);
    assert!(error.contains("program.hitm has no finding 9"), "{error}");
    // Numbers are of the recording that a report is of.
    let (code, _, error) = explained(directory, &["1"]);
    assert_eq!(code, 2);
    assert!(error.contains("hitm.data"), "{error}");
}

#[test]
fn a_word_needs_no_recording() {
    let directory = Path::new(".");
    let (code, text, _) = explained(directory, &["rmt", "HITM"]);
    assert_eq!(code, 0);
    assert!(text.starts_with("remote (term)\n"), "{text}");
    let (code, text, error) = explained(directory, &["staal"]);
    assert_eq!((code, &*text), (2, ""));
    assert!(error.contains("did you mean stall"), "{error}");
}
