//! Findings: what one change cures, whatever number of lines it has.

use expect_test::expect;
use hitm_base::AccessOp::{LockedRmw, Store};
use hitm_base::{CodeAddr, Cycles, DataSource, ThreadId};
use hitm_report::{Finding, Report, ReportOptions};
use hitm_trace::{WaitKind, Waits};

use crate::example::{LOCK, OPTIONS, PACKED, Run, Touch, report, with_waits};

fn told(report: &Report) -> String {
    let line = |one: &Finding| {
        format!(
            "{} {}: {}, {} + {} lines, {} lost, {} waited, {:?}, {}\n",
            one.number,
            one.name,
            one.kind_brief,
            one.line_count,
            one.handed_line_count,
            one.lost_cycles,
            one.waited_cycles,
            one.thread_count,
            one.written_in()
        )
    };
    report.findings.iter().map(line).collect()
}

/// Eight elements of 48 bytes lie in seven lines; the first and the last have one thread each.
#[test]
fn an_array_is_one_finding_with_the_lines_that_are_handed_over() {
    let mut run = Run::default();
    run.packed(100);
    run.slots(8, 60);
    let report = report(&run.statistics(), 8, OPTIONS);
    expect![[r#"
        1 f: false sharing, 1 + 0 lines, 139000 lost, 0 waited, Some(4), packed.c:30 bump
        2 slots (heap)[] (48 B): false sharing, 5 + 2 lines, 86400 lost, 0 waited, Some(7), packed.c:70 count_in_slot
    "#]]
    .assert_eq(&told(&report));
    let lost: u64 = report.findings.iter().map(|one| one.lost_cycles).sum();
    assert_eq!(lost, report.totals.lost_cycles);
    let array = &report.findings[1];
    assert!(array.fix.contains("costs 70,200 cycles"), "{}", array.fix);
}

/// No line loses a thousandth of the run, and all together lose more than a hundredth.
#[test]
fn lines_that_are_small_alone_count_together() {
    let of_rounds = |rounds: u64| {
        let mut run = Run::default();
        run.slots(80, rounds);
        report(&run.statistics(), 80, OPTIONS)
    };
    let many = of_rounds(70);
    assert!(many.lines.iter().all(|line| line.run_share < 0.001));
    expect![[r#"
        1 slots (heap)[] (48 B): false sharing, 59 + 2 lines, 1008000 lost, 0 waited, Some(79), packed.c:70 count_in_slot
    "#]]
    .assert_eq(&told(&many));
    assert!(of_rounds(30).findings.is_empty(), "not worth a change");
}

/// The lock's line and the waits for the lock are one finding, and what else threads wait for is another.
#[test]
fn waits_for_a_lock_belong_to_its_line() {
    let mut run = Run::default();
    run.lock(200);
    let waits = |word: u64, kind, cycles| Waits {
        thread: ThreadId(3),
        kind,
        word,
        code: CodeAddr(0x401510),
        count: 7,
        cycles: Cycles(cycles),
    };
    let waits = vec![
        waits(LOCK, WaitKind::Asleep, 300_000),
        waits(0x404108, WaitKind::Spinning, 1_000),
        waits(0x600000, WaitKind::Spinning, 90_000),
    ];
    let report = with_waits(&run.statistics(), 4, waits);
    expect![[r#"
        1 account.lock: lock with its data, asleep, 1 + 0 lines, 110000 lost, 301000 waited, Some(4), packed.c:50 account_add
        2 0x600000: spinning, 0 + 0 lines, 0 lost, 90000 waited, Some(1), packed.c:50 account_add
    "#]]
    .assert_eq(&told(&report));
}

/// A condition variable has two futexes in eight bytes; two locks that a type tells apart are two.
#[test]
fn threads_sleep_at_the_two_words_of_a_condition_variable_for_one_thing() {
    let waits = |word: u64| Waits {
        thread: ThreadId((word / 4 % 2) as u32),
        kind: WaitKind::Asleep,
        word,
        code: CodeAddr(0x401510),
        count: 5,
        cycles: Cycles(90_000),
    };
    const CONDITION: u64 = 0x404028;
    let words = [CONDITION, CONDITION + 4, PACKED, PACKED + 4];
    let report = with_waits(&Run::default().statistics(), 4, words.map(waits).to_vec());
    let row = |name: &str| {
        let found = report.waiting.rows.iter().find(|row| row.name == name);
        found.map(|row| (row.wait_count, row.cycles, row.thread_count))
    };
    assert_eq!(row("0x404028"), Some((10, 180_000, 2)));
    assert_eq!(row("f.w"), Some((5, 90_000, 1)));
    assert_eq!(row("f.x"), Some((5, 90_000, 1)));
    let of_it = report.findings.iter().find(|one| one.name == "0x404028");
    assert_eq!(of_it.map(|one| one.waited_cycles), Some(180_000));
}

/// The picture of a line has its writers by eighths.
#[test]
fn a_picture_says_who_writes_where() {
    let mut run = Run::default();
    run.packed(100);
    for thread in [1, 2] {
        for _ in 0..50 {
            let shared = Touch(0x4040f0, LockedRmw, 0x401500);
            run.access(thread, shared, DataSource::RemoteHitm, 300);
            let own = Touch(0x4040d8 + 8 * u64::from(thread), Store, 0x401500);
            run.access(thread, own, DataSource::L1, 4);
        }
    }
    let report = report(&run.statistics(), 4, OPTIONS);
    assert_eq!(
        report.findings[0].picture,
        ["1", "**", ".", ".", "1", "2", "**", "."]
    );
}

/// Findings that are not shown in detail have a name and a cost.
#[test]
fn findings_beyond_the_limit_are_told_in_brief() {
    let mut run = Run::default();
    run.packed(500);
    run.lock(200);
    let options = ReportOptions {
        lines_max: 1,
        ..OPTIONS
    };
    let report = report(&run.statistics(), 4, options);
    let [first, second] = &report.findings[..] else {
        panic!("{:?}", report.findings);
    };
    assert!(first.is_shown && !first.fix.is_empty());
    assert!(!second.is_shown && second.fix.is_empty() && second.places.is_empty());
    assert_eq!(second.name, "account.lock");
}
