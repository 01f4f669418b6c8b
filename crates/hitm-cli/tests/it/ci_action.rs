//! The action in examples/ci/action: its script records the tests of a small project, comments and gates.

use std::fs;
use std::path::Path;
use std::process::Output;

use hitm_test::process::Command;

use crate::programs;

/// Longest comment on GitHub, in characters.
const COMMENT_CHARS_MAX: usize = 65_536;

/// A crate whose test has two threads that count, in neighbouring fields or on lines of their own.
fn project(folder: &Path, align: &str) {
    let manifest = "[package]\nname = \"counts\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [profile.dev]\nopt-level = 1\n[workspace]\n";
    let test = format!(
        "use std::sync::atomic::{{AtomicU64, Ordering}};\n\
         #[repr(align({align}))]\n\
         struct Count(AtomicU64);\n\
         struct Counts {{ left: Count, right: Count }}\n\
         static COUNTS: Counts = Counts {{ left: Count(AtomicU64::new(0)), right: Count(AtomicU64::new(0)) }};\n\
         fn add(to: &AtomicU64) {{ for _ in 0..20000 {{ to.fetch_add(1, Ordering::Relaxed); }} }}\n\
         #[test]\n\
         fn two_threads_count() {{\n\
             let other = std::thread::spawn(|| add(&COUNTS.right.0));\n\
             add(&COUNTS.left.0);\n\
             other.join().unwrap();\n\
         }}\n"
    );
    fs::create_dir_all(folder.join("tests")).expect("a folder");
    fs::create_dir_all(folder.join("src")).expect("a folder");
    fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
    fs::write(folder.join("src/lib.rs"), "").expect("a file");
    fs::write(folder.join("tests/count.rs"), test).expect("a file");
}

/// Runs the action's script in a folder.
fn action(folder: &Path, args: &[&str]) -> Output {
    let bin = programs::hitm().parent().expect("a directory");
    let path = std::env::var("PATH").expect("a search path");
    let script = programs::root().join("examples/ci/action/record-tests.sh");
    let mut shell = Command::new("sh");
    shell.arg(script).args(args).current_dir(folder);
    shell.env("PATH", format!("{}:{path}", bin.display()));
    // The project's own, not this tree's.
    shell.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    shell.output().expect("a shell")
}

fn comment(folder: &Path) -> String {
    let text = fs::read_to_string(folder.join("found/comment.md")).expect("a comment");
    assert!(text.chars().count() < COMMENT_CHARS_MAX);
    text
}

#[test]
fn the_tests_of_a_crate_are_recorded_commented_and_gated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    project(folder, "8");
    let args = [
        "cargo",
        "found",
        "false-sharing",
        "--test",
        "count",
        "--offline",
    ];
    let packed = action(folder, &args);
    assert_eq!(packed.status.code(), Some(1), "{packed:?}");
    let text = comment(folder);
    assert!(text.starts_with("### count-"), "{text}");
    assert!(text.contains("**Breaks the gate:** "), "{text}");
    assert!(text.contains("| false sharing |"), "{text}");
    assert!(text.contains("COUNTS"), "{text}");
    // The same tests with each count on a line of its own.
    fs::remove_dir_all(folder.join("found")).expect("it is there");
    project(folder, "64");
    let padded = action(folder, &args);
    assert_eq!(padded.status.code(), Some(0), "{padded:?}");
    assert!(!comment(folder).contains("Breaks the gate"));
}

#[test]
fn a_test_that_fails_ends_the_job_with_its_own_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let args = ["program", "found", "false-sharing", "sh", "-c", "exit 7"];
    let failed = action(folder.path(), &args);
    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
    let unknown = action(folder.path(), &["make", "found", "none"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        said.contains("found make, expected cargo, ctest, go, pytest or program"),
        "{said}"
    );
}

#[test]
fn a_program_and_go_tests_are_recorded_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(folder, "packed", &source, &[]);
    let program = program.to_str().expect("UTF-8");
    let run = action(folder, &["program", "found", "none", program, "5000"]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(comment(folder).starts_with("### program\n\n**hitm: "));
    fs::write(folder.join("go.mod"), "module counts\n\ngo 1.19\n").expect("a file");
    let test = "package counts\nimport \"testing\"\nfunc TestNothing(t *testing.T) { _ = make(chan int, 1) }\n";
    fs::write(folder.join("counts_test.go"), test).expect("a file");
    if Command::new("go").arg("version").output().is_err() {
        return programs::say_not_run("go tests under the action", "there is no go");
    }
    fs::remove_dir_all(folder.join("found")).expect("it is there");
    // Go's own runtime shares some lines falsely in some runs.
    let run = action(folder, &["go", "found", "cycles=1000000000", "./..."]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(
        comment(folder).starts_with("### counts.test\n"),
        "{}",
        comment(folder)
    );
}
