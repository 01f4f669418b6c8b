//! Time and memory of every reader grow in proportion to each number of its input.

use std::path::Path;
use std::time::Duration;

use hitm_test::growth::{inputs, measure};
use hitm_test::process::Command;

/// A minute of CPU time takes longer on a busy host.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The measurements have a process of their own: what this one takes meanwhile would count as memory of
/// what it starts.
#[test]
fn twice_the_input_costs_at_most_two_and_a_half_times_as_much() {
    let program = std::env::current_exe().expect("a test has a path");
    let only = [
        "--exact",
        "growth::measurements",
        "--ignored",
        "--nocapture",
    ];
    let mut command = Command::new(program);
    let output = command.args(only).within(PATIENCE).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "no measurement was made: {said}"
    );
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn measurements() {
    let hitm = Path::new(env!("CARGO_BIN_EXE_hitm"));
    let mut wrong = Vec::new();
    for input in inputs() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        match measure(&input, hitm, folder.path()) {
            Ok(measured) => wrong.extend(measured.steep.iter().map(ToString::to_string)),
            Err(error) => wrong.push(format!("{}: {error}", input.number)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
