//! Time and memory of every reader grow in proportion to each number of its input.

use std::path::Path;
use std::time::Duration;

use hitm_test::growth::{inputs, measure};
use hitm_test::process::Command;

/// A minute of CPU time takes longer on a busy host.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Set in the process that measures.
const MEASURES: &str = "HITM_TEST_MEASURES_GROWTH";

/// The measurements have a process of their own: what this one takes meanwhile would count as memory of
/// what it starts.
#[test]
fn twice_the_input_costs_at_most_two_and_a_half_times_as_much() {
    if std::env::var_os(MEASURES).is_some() {
        return measure_all();
    }
    let program = std::env::current_exe().expect("a test has a path");
    let only = [
        "--exact",
        "growth::twice_the_input_costs_at_most_two_and_a_half_times_as_much",
        "--nocapture",
    ];
    let mut command = Command::new(program);
    command.args(only).env(MEASURES, "1").within(PATIENCE);
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "no measurement was made: {said}"
    );
}

fn measure_all() {
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
