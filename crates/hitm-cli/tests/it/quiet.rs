//! `-q`, `-v` and `--repeat`: habits of perf's users.

use crate::programs;

#[test]
fn quiet_says_nothing_and_verbose_says_what_it_records_with() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let source = programs::root().join("examples/false_sharing.c");
    programs::build(folder, "packed", &source, &[]);
    let said = |args: &[&str]| {
        let run = programs::run(folder, &[args, &["--", "./packed", "2000"]].concat());
        assert!(run.status.success(), "{run:?}");
        String::from_utf8(run.stderr).expect("UTF-8")
    };
    let quiet = said(&["record", "-q", "-o", "a.hitm"]);
    assert!(!quiet.contains("hitm:"), "{quiet}");
    let verbose = said(&["record", "-v", "-o", "b.hitm"]);
    for wanted in [
        "hitm: program: ",
        "hitm: emulator: ",
        "hitm: recorder: ",
        "hitm: machine: ",
    ] {
        assert!(verbose.contains(wanted), "{verbose}");
    }
    let repeated = said(&["record", "--repeat", "2", "-o", "runs"]);
    assert!(repeated.contains("hitm: run 2 of 2: "), "{repeated}");
    assert!(folder.join("runs/2.hitm").exists());
    // Errors are said, and a gate has its exit code.
    let gate = ["-q", "report", "-i", "a.hitm", "--fail-on", "cycles=0"];
    let gate = programs::run(folder, &gate);
    assert_eq!(
        (gate.status.code(), gate.stderr.len()),
        (Some(1), 0),
        "{gate:?}"
    );
    let missing = programs::run(folder, &["report", "-q", "-i", "none.hitm"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(!missing.stderr.is_empty());
}
