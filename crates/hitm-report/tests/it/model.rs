//! Contents of the report's model, and their bounds.

use hitm_base::{AccessOp, DataSource};
use hitm_coherence::sharing::Verdict;
use hitm_coherence::stats::Handovers;
use hitm_report::{ReportOptions, Who};
use proptest::prelude::*;

use crate::example::{LOCK, OPTIONS, PACKED, Run, SLOTS, Touch, example, report, with_pairs};

#[test]
fn lines_come_by_cycles_lost_with_their_verdicts() {
    let report = example();
    let lines: Vec<_> = report
        .lines
        .iter()
        .map(|line| (line.rank, line.line.first_byte(), line.name(), line.verdict))
        .collect();
    assert_eq!(
        lines,
        [
            (1, PACKED, "f".to_owned(), Verdict::FalseSharing),
            (2, LOCK, "account".to_owned(), Verdict::Lock),
            (
                3,
                SLOTS + 48,
                "slots (heap)".to_owned(),
                Verdict::FalseSharing
            ),
        ]
    );
    assert_eq!(report.lines[1].verdict_text, "lock with its data");
    assert_eq!(report.quiet.line_count, 3); // And the first and the last line of the slots.
}

/// A line that one thread uses, beside one that another thread fetches.
#[test]
fn a_pair_of_lines_is_shared_where_the_machine_fetches_pairs() {
    let mut run = Run::default();
    for _ in 0..200 {
        let own = Touch(LOCK + 8, AccessOp::LockedRmw, 0x401520);
        run.access(1, own, DataSource::LocalUpgrade, 100);
        let write = Touch(LOCK + 64, AccessOp::LockedRmw, 0x401530);
        run.access(3, write, DataSource::LocalHitm, 100);
        let read = Touch(LOCK + 64, AccessOp::Load, 0x401510);
        run.access(2, read, DataSource::LocalHitm, 100);
    }
    let statistics = run.statistics();
    let has_own = |report: &hitm_report::Report| {
        let mut lines = report.lines.iter();
        lines.any(|line| line.line.first_byte() == LOCK)
    };
    assert!(!has_own(&report(&statistics, 4, OPTIONS)));
    let report = with_pairs(&statistics, 4);
    assert!(has_own(&report));
    let mut lines = report.lines.iter();
    let line = lines.find(|line| line.line.first_byte() == LOCK).unwrap();
    assert_eq!(line.verdict, Verdict::PairSharing);
    assert_eq!(line.verdict_text, "shares a pair of lines");
    let advice = &line.advice;
    assert!(advice.starts_with("Align account to 128 bytes"), "{advice}");
}

#[test]
fn shares_of_a_line_add_up() {
    let report = example();
    let line = &report.lines[0];
    let sum = |share: fn(&hitm_report::RowReport) -> f64| line.rows.iter().map(share).sum::<f64>();
    assert!((sum(|row| row.remote_hitm_share) - 1.0).abs() < 1e-9);
    assert!((sum(|row| row.store_hit_share) - 1.0).abs() < 1e-9);
    assert!((sum(|row| row.store_miss_share) - 1.0).abs() < 1e-9);
    assert!((sum(|row| row.lost_share) - 1.0).abs() < 1e-9);
    assert_eq!(line.counts.remote_hitm(), 2000);
    assert_eq!(line.nodes, [0, 1, 2, 3]);
}

#[test]
fn time_lost_is_the_same_by_line_and_by_thread() {
    let report = example();
    let by_thread: u64 = report.threads.iter().map(|thread| thread.lost_cycles).sum();
    let by_line: u64 = report.lines.iter().map(|line| line.lost_cycles).sum();
    assert_eq!(by_thread, report.totals.lost_cycles);
    assert_eq!(
        by_line + report.quiet.lost_cycles,
        report.totals.lost_cycles
    );
}

/// With rows or only sums: what is handed over is the same, and adds up.
#[test]
fn what_is_handed_over_needs_no_rows() {
    let mut run = Run::default();
    run.packed(500);
    run.quiet();
    run.slots(3, 5);
    let mut statistics = run.statistics();
    let with_rows = report(&statistics, 4, OPTIONS);
    let handed = &with_rows.handed;
    let names: Vec<&str> = handed.objects.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["slots (heap)", ""]);
    assert_eq!(
        handed.objects[1].name_count, 0,
        "nothing names the quiet line"
    );
    assert_eq!(handed.takers[0].name, "count_in_slot");
    assert_eq!(handed.line_count, with_rows.quiet.line_count);
    assert_eq!(handed.all.lost.0, with_rows.quiet.lost_cycles);
    for rows in [&handed.objects, &handed.takers] {
        let mut sums = Handovers::default();
        rows.iter().for_each(|row| sums.merge(&row.sums));
        assert_eq!(sums, handed.all);
    }
    let mut rest = run.tally().sums();
    statistics.lines.retain(|line, stats| {
        let is_flagged = with_rows.lines.iter().any(|one| one.line == *line);
        if is_flagged {
            rest.take_out(*line, stats);
        }
        is_flagged
    });
    statistics.rest = rest;
    let without_rows = report(&statistics, 4, OPTIONS);
    assert_eq!(without_rows.handed, with_rows.handed);
}

#[test]
fn elements_that_straddle_lines_are_noted() {
    let report = example();
    let slots = &report.lines[2].objects[0];
    assert!(slots.straddles && slots.is_array);
    assert_eq!(slots.members, ["[1].count", "[1].sum", "[2].count"]);
    assert!(!report.lines[0].objects[0].straddles);
    let advice = &report.lines[2].advice;
    assert!(
        advice.starts_with("Align slots (heap) to 64 bytes and pad its elements"),
        "{advice}"
    );
}

#[test]
fn rows_of_many_threads_are_folded_and_counted() {
    let mut run = Run::default();
    for thread in 0..40 {
        for _ in 0..20 {
            use hitm_base::{AccessOp::LockedRmw, DataSource::RemoteHitm};
            run.access(
                thread,
                Touch(0x600000, LockedRmw, 0x401500),
                RemoteHitm,
                500,
            );
        }
    }
    let report = report(&run.statistics(), 40, OPTIONS);
    let line = &report.lines[0];
    assert_eq!(
        (
            line.rows.len(),
            line.rows_folded_count,
            line.rows_left_out_count
        ),
        (1, 39, 0)
    );
    assert_eq!(line.rows[0].thread_count, 40);
    assert_eq!(line.rows[0].threads.len(), 4);
    assert_eq!(line.rows[0].threads_text(Who::Threads), "40 threads");
    assert_eq!(line.rows[0].access_count, 800);
}

#[test]
fn lines_and_rows_that_do_not_fit_are_counted() {
    let options = ReportOptions {
        lines_max: 1,
        rows_max: 4,
        call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
    };
    let mut run = Run::default();
    run.packed(500);
    run.lock(200);
    let report = report(&run.statistics(), 4, options);
    assert_eq!(report.lines.len(), 1);
    assert_eq!(report.findings.len(), 2);
    assert_eq!(report.quiet.left_out_line_count, 1);
    assert_eq!(
        report.quiet.left_out_lost_cycles,
        report.findings[1].lost_cycles
    );
    let line = &report.lines[0];
    assert_eq!((line.rows.len(), line.rows_left_out_count), (4, 3));
    let shown: u64 = line.rows.iter().map(|row| row.lost_cycles).sum();
    assert_eq!(shown + line.rows_left_out_lost_cycles, line.lost_cycles);
}

proptest! {
    #[test]
    fn private_and_quiet_lines_change_no_contended_line(extra in proptest::collection::vec(0..4_u32, 0..50)) {
        use hitm_base::{AccessOp::Store, DataSource::L1};
        let mut run = Run::default();
        run.packed(100);
        let before = report(&run.statistics(), 4, OPTIONS);
        for (index, thread) in extra.into_iter().enumerate() {
            run.access(thread, Touch(0x900000 + 64 * index as u64, Store, 0x401100), L1, 4);
        }
        let after = report(&run.statistics(), 4, OPTIONS);
        prop_assert_eq!(before.lines, after.lines);
        prop_assert_eq!(before.findings, after.findings);
    }
}

/// A recording that was cut short has its threads' times up to some moment before its last accesses.
#[test]
fn nobody_loses_more_time_than_there_was() {
    let mut run = Run::default();
    run.packed(50_000);
    let report = report(&run.statistics(), 4, OPTIONS);
    let times = report.threads.iter().map(|thread| thread.cycles);
    assert_eq!(report.totals.thread_cycles, times.sum::<u64>());
    let lost = report.threads.iter().map(|thread| thread.lost_cycles);
    assert!(
        lost.max() > Some(1_000_000),
        "more than it is said to have run"
    );
    for thread in &report.threads {
        assert!(thread.lost_share() <= 1.0, "{thread:?}");
    }
    for line in &report.lines {
        assert!(line.run_share <= 1.0, "{}", line.run_share);
    }
}
