//! `--fail-on`.

use hitm_report::ReportOptions;
use hitm_report::gate::{Gate, failures};

use crate::example::{OPTIONS, Run, example, report};

fn check(gates: &[Gate], expected: &[&str]) {
    let failures: Vec<String> = failures(&example(), gates, &[])
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(failures, expected);
}

#[test]
fn false_sharing_fails_the_gate_and_a_lock_does_not() {
    check(
        &[Gate::FalseSharing],
        &[
            "false-sharing: f (line 0x4040c0) lost 695000 cycles to false sharing, 17.4% of the run: false-sharing",
            "false-sharing: slots (heap)[] (48 B) (line 0x7f000040) lost 16200 cycles to false sharing, 0.4% of the run: false-sharing",
        ],
    );
}

#[test]
fn what_is_suppressed_is_not_looked_at() {
    // Without the larger one, the other is not worth a change.
    let suppressed = |name: &str| {
        let name = name.parse().expect("a pattern");
        failures(&example(), &[Gate::FalseSharing], &[name]).len()
    };
    assert_eq!(
        [
            suppressed("f"),
            suppressed("slots*"),
            suppressed("*"),
            suppressed("other")
        ],
        [0, 1, 0, 2]
    );
}

#[test]
fn a_line_that_costs_too_much_fails_whatever_its_verdict() {
    check(
        &[Gate::Cycles(100_000)],
        &[
            "cycles=100000: f (line 0x4040c0) lost 695000 cycles to contention, 17.4% of the run: false-sharing",
            "cycles=100000: account.lock (line 0x404100) lost 110000 cycles to contention, 2.8% of the run: lock",
        ],
    );
    check(&[Gate::Cycles(1_000_000)], &[]);
}

#[test]
fn a_moment_of_false_sharing_does_not_fail() {
    let mut run = Run::default();
    run.packed(2);
    run.packed(2);
    assert!(
        failures(
            &report(&run.statistics(), 4, OPTIONS),
            &[Gate::FalseSharing],
            &[]
        )
        .is_empty()
    );
}

#[test]
fn lines_that_are_not_shown_fail_too() {
    let mut run = Run::default();
    run.packed(500);
    let options = ReportOptions {
        lines_max: 0,
        rows_max: 16,
        call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
    };
    let report = report(&run.statistics(), 4, options);
    assert!(report.lines.is_empty());
    assert_eq!(failures(&report, &[Gate::FalseSharing], &[]).len(), 1);
}
