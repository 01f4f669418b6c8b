//! Totals by name, their order, filters, and rows that are folded.

use expect_test::expect;
use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_coherence::stats::{CallCollector, CallStats, RestOfLines, Statistics};
use hitm_report::by::{TotalKind, TotalsBy};
use hitm_report::text::{PercentLimit, TextOptions};
use hitm_report::{By, Filters, Report, Selection, SkippedFunctions, SortKey, json, text};
use proptest::prelude::*;

use crate::example::{OPTIONS, Run, Touch, everything, select};

fn by(kinds: &[By]) -> Selection {
    Selection {
        by: kinds.to_vec(),
        ..Selection::default()
    }
}

/// Keeps what a report of a long run needs: rows of the lines that matter, sums of the others.
fn with_rest(mut statistics: Statistics) -> Statistics {
    let mut rest = RestOfLines {
        line_count: 7,
        contended_line_count: 3,
        stall: Cycles(900),
        ..RestOfLines::default()
    };
    rest.loads.0[DataSource::RemoteHitm as usize] = 11;
    rest.stores.0[DataSource::L1 as usize] = 5;
    rest.lost = [(ThreadId(0), Cycles(250)), (ThreadId(2), Cycles(50))].into();
    statistics.rest.merge(rest);
    statistics
}

fn shown(totals: &TotalsBy) -> String {
    let rows = totals.rows.iter().map(|row| {
        format!(
            "{} lost {} of {} accesses, {:?}+{:?} HITM, {:?} lines\n",
            row.name,
            row.lost_cycles,
            row.access_count,
            row.remote_hitm_count,
            row.local_hitm_count,
            row.line_count
        )
    });
    format!("by {}:\n{}", totals.by.id(), rows.collect::<String>())
}

fn all_shown(report: &Report) -> String {
    report.totals_by.iter().map(shown).collect()
}

/// Fails when the rows are not all of the run.
fn check_sums(report: &Report) {
    for totals in &report.totals_by {
        if totals.by == By::Children && report.has_call_chains {
            continue;
        }
        let sum = |of: &dyn Fn(&hitm_report::by::TotalRow) -> u64| -> u64 {
            totals.rows.iter().map(of).sum()
        };
        let what = totals.by.id();
        assert_eq!(
            sum(&|row| row.lost_cycles),
            report.totals.lost_cycles,
            "{what}"
        );
        let counts = &report.totals.counts;
        assert_eq!(sum(&|row| row.access_count), counts.total(), "{what}");
        let hitm = |source| counts.loads_from(source);
        let remote = sum(&|row| row.remote_hitm_count);
        assert_eq!(remote, hitm(DataSource::RemoteHitm), "{what}");
        let local = sum(&|row| row.local_hitm_count);
        assert_eq!(local, hitm(DataSource::LocalHitm), "{what}");
    }
}

#[test]
fn totals_add_up_to_the_run() {
    let statistics = with_rest(everything());
    let report = select(&statistics, 4, OPTIONS, &by(&By::ALL));
    check_sums(&report);
    // Lines have the table that is always there.
    assert_eq!(report.totals_by.len(), By::ALL.len() - 1);
    expect![[r#"
        by object:
        f lost 695000 of 6500 accesses, 2000+0 HITM, Some(1) lines
        account lost 110000 of 1000 accesses, 400+0 HITM, Some(1) lines
        slots (heap) lost 32400 of 720 accesses, 0+360 HITM, Some(3) lines
        (no name) lost 310 of 2 accesses, 1+0 HITM, Some(1) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by member:
        f.w lost 175000 of 2000 accesses, 500+0 HITM, Some(1) lines
        f.y lost 175000 of 2000 accesses, 500+0 HITM, Some(1) lines
        f.z lost 175000 of 2000 accesses, 500+0 HITM, Some(1) lines
        f.x lost 170000 of 500 accesses, 500+0 HITM, Some(1) lines
        account.lock lost 110000 of 600 accesses, 400+0 HITM, Some(1) lines
        slots (heap)[].count lost 16200 of 360 accesses, 0+180 HITM, Some(2) lines
        slots (heap)[].sum lost 16200 of 360 accesses, 0+180 HITM, Some(3) lines
        (no name) lost 310 of 2 accesses, 1+0 HITM, Some(1) lines
        account.balance lost 0 of 400 accesses, 0+0 HITM, Some(1) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by type:
        packed lost 695000 of 6500 accesses, 2000+0 HITM, Some(1) lines
        account lost 110000 of 1000 accesses, 400+0 HITM, Some(1) lines
        (no type known) lost 32710 of 722 accesses, 1+360 HITM, Some(4) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by function:
        bump lost 525000 of 6000 accesses, 1500+0 HITM, Some(1) lines
        read_x lost 170000 of 500 accesses, 500+0 HITM, Some(1) lines
        account_add lost 110000 of 1000 accesses, 400+0 HITM, Some(1) lines
        count_in_slot lost 32710 of 721 accesses, 1+360 HITM, Some(4) lines
        (no function known) lost 0 of 1 accesses, 0+0 HITM, Some(1) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by caller:
        (no caller known) lost 837710 of 8222 accesses, 2401+360 HITM, Some(6) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by children:
        bump lost 525000 of 6000 accesses, 1500+0 HITM, Some(1) lines
        read_x lost 170000 of 500 accesses, 500+0 HITM, Some(1) lines
        account_add lost 110000 of 1000 accesses, 400+0 HITM, Some(1) lines
        count_in_slot lost 32710 of 721 accesses, 1+360 HITM, Some(4) lines
        (no function known) lost 0 of 1 accesses, 0+0 HITM, Some(1) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by source:
        examples/packed.c:30 lost 525000 of 6000 accesses, 1500+0 HITM, Some(1) lines
        examples/packed.c:21 lost 170000 of 500 accesses, 500+0 HITM, Some(1) lines
        examples/packed.c:50 lost 110000 of 1000 accesses, 400+0 HITM, Some(1) lines
        examples/packed.c:70 lost 32710 of 721 accesses, 1+360 HITM, Some(4) lines
        (no source line known) lost 0 of 1 accesses, 0+0 HITM, Some(1) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
        by process:
        program-0 lost 421600 of 3481 accesses, 1200+240 HITM, Some(6) lines
        program-1 lost 416110 of 4741 accesses, 1201+120 HITM, Some(4) lines
        (lines that changed hands too rarely) lost 300 of 16 accesses, 11+0 HITM, Some(7) lines
    "#]]
    .assert_eq(&all_shown(&report));
}

#[test]
fn a_sort_key_orders_lines_and_totals() {
    let order = |sort| {
        let selection = Selection {
            sort,
            ..by(&[By::Function])
        };
        let report = select(&everything(), 4, OPTIONS, &selection);
        let lines: Vec<String> = report.lines.iter().map(|line| line.name()).collect();
        let rows = report.totals_by[0].rows.iter();
        let rows: Vec<&str> = rows.map(|row| &*row.name).collect();
        format!("{}; {}", lines.join(" "), rows.join(" "))
    };
    expect!["f account slots (heap); bump read_x account_add count_in_slot (no function known)"]
        .assert_eq(&order(SortKey::Lost));
    expect!["slots (heap) f account; count_in_slot bump read_x account_add (no function known)"]
        .assert_eq(&order(SortKey::LocalHitm));
    expect!["f account slots (heap); bump account_add count_in_slot read_x (no function known)"]
        .assert_eq(&order(SortKey::Accesses));
    expect!["f account slots (heap); (no function known) account_add bump count_in_slot read_x"]
        .assert_eq(&order(SortKey::Name));
}

#[test]
fn a_filter_says_what_it_leaves() {
    let report_of = |filters: Filters| {
        let selection = Selection {
            filters,
            ..by(&[By::Object, By::Function])
        };
        select(&with_rest(everything()), 4, OPTIONS, &selection)
    };
    let pattern = |text: &str| vec![text.parse().unwrap()];
    let one_thread = report_of(Filters {
        function: pattern("bump"),
        thread: pattern("worker-2*"),
        ..Filters::default()
    });
    let filtered = one_thread.filtered.clone().unwrap();
    expect![[r#"
        Filtered { filters: ["function bump", "thread worker-2*"], access_count: 2000, line_count: 1, lost_cycles: 175000, lost_share: 0.20882805694442788, unfiltered_lost_cycles: 300 }
        by object:
        f lost 175000 of 2000 accesses, 500+0 HITM, Some(1) lines
        by function:
        bump lost 175000 of 2000 accesses, 500+0 HITM, Some(1) lines
    "#]].assert_eq(&format!("{filtered:?}\n{}", all_shown(&one_thread)));
    // The line is shown whole, and the others not at all; sums of the run stay.
    assert_eq!(one_thread.lines.len(), 1);
    assert_eq!(
        (one_thread.findings.len(), one_thread.lines[0].thread_count),
        (1, 4)
    );
    let all = report_of(Filters::default());
    assert_eq!(one_thread.totals, all.totals);
    assert_eq!(one_thread.lines[0], all.lines[0]);
    let text = text_of(&one_thread, PercentLimit::DEFAULT);
    assert!(
        text.contains("filter: function bump and thread worker-2*:"),
        "{text}"
    );

    let lost = |filters| report_of(filters).filtered.unwrap().lost_cycles;
    let object = |text: &str| Filters {
        object: pattern(text),
        ..Filters::default()
    };
    assert_eq!(lost(object("account")), lost(object("account.lock")));
    assert!(lost(object("f.x")) < lost(object("f")));
    assert_eq!(lost(object("nothing")), 0);
    let file = |text: &str| Filters {
        file: pattern(text),
        ..Filters::default()
    };
    let named: u64 = all.totals_by[1]
        .rows
        .iter()
        .filter(|row| row.kind != TotalKind::Rest)
        .map(|row| row.lost_cycles)
        .sum();
    assert_eq!(lost(file("examples/packed.c")), named);
    assert_eq!(lost(file("packed.c:50")), lost(object("account")));
    let odd = Filters {
        process: pattern("program-1"),
        ..Filters::default()
    };
    let even = Filters {
        process: pattern("program-0"),
        ..Filters::default()
    };
    assert_eq!(lost(odd) + lost(even), named);
}

fn text_of(report: &Report, percent_limit: PercentLimit) -> String {
    let options = TextOptions {
        has_events: true,
        width: TextOptions::WIDTH_DEFAULT,
        color: false,
        percent_limit,
    };
    text::render(report, &[], &options).to_string()
}

#[test]
fn small_rows_are_one_row() {
    let report = select(
        &with_rest(everything()),
        4,
        OPTIONS,
        &by(&[By::Source, By::Type]),
    );
    let text = text_of(&report, PercentLimit(5_000));
    let start = text.find("== By source line").unwrap();
    let end = text.find("== Line 2").unwrap();
    expect![[r#"
        == By source line, sorted by cycles lost to contention =================================================================
          lost cycles lost% run% rmt HITM lcl HITM accesses lines name
              525,000  62.6 13.1    1,500        0    6,000     1 examples/packed.c:30
              170,000  20.3  4.2      500        0      500     1 examples/packed.c:21
              110,000  13.1  2.8      400        0    1,000     1 examples/packed.c:50
               32,710   3.9  0.8        1      360      722     - (2 more below 5%)
                  300   0.0  0.0       11        0       16     7 (lines that changed hands too rarely)

        == By type, sorted by cycles lost to contention ========================================================================
          lost cycles lost% run% rmt HITM lcl HITM accesses lines name
              695,000  82.9 17.4    2,000        0    6,500     1 packed
              110,000  13.1  2.8      400        0    1,000     1 account
               32,710   3.9  0.8        1      360      722     4 (no type known)
                  300   0.0  0.0       11        0       16     7 (lines that changed hands too rarely)

        == Shared cache lines, by cycles lost to contention ====================================================================
          #     line object            verdict            lost cycles lost% run% rmt HITM lcl HITM load mean nodes
          1 0x4040c0 f                 false sharing          695,000  82.9 17.4    2,000        0       200   0-3
          2 0x404100 account           lock with its data     110,000  13.1  2.8      400        0       185   0-3
                     (1 more below 5%)                         16,200   1.9  0.4        0      180
          6 lines changed hands too rarely to matter and lost 16,810 cycles.

        == Line 1: 0x4040c0 f ==================================================================================================
          verdict: false sharing
          advice: Give f.w, f.y and f.z, which different threads write, a cache line each, away from f.x, which is only read
                  (align to 64 bytes), and assert the offsets at compile time: the false sharing that this ends costs 695,000
                  cycles.
          fight: false-sharing 525,256 cycles (75.6%) on f.w, f.y, f.z
          fight: read-mostly-with-hot-writer 169,744 cycles (24.4%) on f.x
          object: f at 0x4040c0, 16 bytes: .w .x .y .z
          cost: lost cycles 695,000, stall cycles 701,000, lost 82.9%, run 17.4%
          accesses: loads 3,500, stores 3,000, locked 0; store hits 1,500, store misses 1,500
          latency: load mean 200, load max 390, miss p50 351, miss p99 390
          shared by: threads 4, CPUs 4, nodes 0-3, disjoint 100.0%
          off member op    rmt% lcl% hit% miss% rmt cyc lcl cyc load cyc lost% accesses CPUs nodes
          0x0 f.w    load  25.0  0.0    -     -     350       -      177  25.2    1,000    1     1
               worker-1 (1001)  bump  packed.c:30  0x401240
          0x0 f.w    store    -    - 33.3  33.3       -       -        -   0.0    1,000    1     1
               worker-1 (1001)  bump  packed.c:30  0x401246
          0x4 f.x    load  25.0  0.0    -     -     340       -      340  24.5      500    1     0
               worker-0 (1000)  read_x  packed.c:21  0x401100
          0x8 f.y    load  25.0  0.0    -     -     350       -      177  25.2    1,000    1     2
               worker-2 (1002)  bump  packed.c:30  0x401280
          0x8 f.y    store    -    - 33.3  33.3       -       -        -   0.0    1,000    1     2
               worker-2 (1002)  bump  packed.c:30  0x401286
          0xc f.z    load  25.0  0.0    -     -     350       -      177  25.2    1,000    1     3
               worker-3 (1003)  bump  packed.c:30  0x4012c0
          0xc f.z    store    -    - 33.3  33.3       -       -        -   0.0    1,000    1     3
               worker-3 (1003)  bump  packed.c:30  0x4012c6

    "#]].assert_eq(&text[start..end]);
    assert!(!text.contains("== Line 3"));
    // JSON has every row, whatever text folds.
    let json = json::render(&report);
    assert!(json.contains("count_in_slot") && json.contains("\"by\": \"source\""));
    let without = select(&with_rest(everything()), 4, OPTIONS, &Selection::default());
    let json = json::render(&without);
    assert!(!json.contains("totals_by") && !json.contains("filtered"));
    // Half a per cent leaves out nothing that is written, and the limit can be lifted.
    let text = text_of(&report, PercentLimit::NONE);
    assert!(!text.contains(" more below "), "{text}");
}

/// Chains through two callers for a part of one instruction's accesses.
fn calls() -> CallStats {
    let mut calls = CallCollector::default();
    for (caller, count) in [(0x401505, 30), (0x401605, 20)] {
        for _ in 0..count {
            let access = Access {
                thread: ThreadId(0),
                cpu: CpuId(0),
                time: Cycles::ZERO,
                addr: crate::example::PACKED + 4,
                size: 4,
                op: AccessOp::Load,
                code: CodeAddr(0x401100),
            };
            let outcome = Outcome::by_source(
                DataSource::RemoteHitm,
                Cycles(300),
                Cycles::ZERO,
                Cycles(300),
            );
            let chain = [CodeAddr(caller), CodeAddr(0x401205)];
            calls.add(&access, &outcome, &chain);
        }
    }
    calls.finish()
}

#[test]
fn callers_count_what_has_a_chain() {
    let mut statistics = everything();
    statistics.calls = calls();
    let report = select(&statistics, 4, OPTIONS, &by(&[By::Caller]));
    check_sums(&report);
    expect![[r#"
        by caller:
        (no caller known) lost 822710 of 8172 accesses, 2351+360 HITM, Some(6) lines
        account_add lost 9000 of 30 accesses, 30+0 HITM, Some(1) lines
        count_in_slot lost 6000 of 20 accesses, 20+0 HITM, Some(1) lines
    "#]]
    .assert_eq(&all_shown(&report));
}

/// A function that only locks says nothing: those who call it do.
#[test]
fn accesses_of_skipped_functions_are_their_callers() {
    let mut statistics = everything();
    statistics.calls = calls();
    let skipping = |pattern: &str| Selection {
        skip: SkippedFunctions::with(vec![pattern.parse().unwrap()]),
        ..by(&[By::Function, By::Caller, By::Children])
    };
    let report = select(&statistics, 4, OPTIONS, &skipping("read_?"));
    check_sums(&report);
    expect![[r#"
        by function:
        bump lost 525000 of 6000 accesses, 1500+0 HITM, Some(1) lines
        read_x lost 155000 of 450 accesses, 450+0 HITM, Some(1) lines
        account_add lost 119000 of 1030 accesses, 430+0 HITM, Some(2) lines
        count_in_slot lost 38710 of 741 accesses, 21+360 HITM, Some(5) lines
        (no function known) lost 0 of 1 accesses, 0+0 HITM, Some(1) lines
        by caller:
        (no caller known) lost 822710 of 8172 accesses, 2351+360 HITM, Some(6) lines
        account_add lost 9000 of 30 accesses, 30+0 HITM, Some(1) lines
        count_in_slot lost 6000 of 20 accesses, 20+0 HITM, Some(1) lines
        by children:
        bump lost 540000 of 6050 accesses, 1550+0 HITM, Some(1) lines
        read_x lost 170000 of 500 accesses, 500+0 HITM, Some(1) lines
        account_add lost 119000 of 1030 accesses, 430+0 HITM, Some(2) lines
        count_in_slot lost 38710 of 741 accesses, 21+360 HITM, Some(5) lines
        (no function known) lost 0 of 1 accesses, 0+0 HITM, Some(1) lines
    "#]]
    .assert_eq(&all_shown(&report));
    // Where all are skipped, the function itself counts.
    let report = select(&statistics, 4, OPTIONS, &skipping("*"));
    check_sums(&report);
    let plain = select(&statistics, 4, OPTIONS, &by(&[By::Function]));
    assert_eq!(shown(&report.totals_by[0]), shown(&plain.totals_by[0]));
}

proptest! {
    /// Whatever happened, the rows of each table are all of it, and filters by thread part it.
    #[test]
    fn totals_of_any_run_add_up(
        accesses in proptest::collection::vec((0u32..4, 0u64..6, 0u8..3, 0u64..4, 1u64..500), 0..80),
        rest in proptest::bool::ANY,
    ) {
        let places = [crate::example::PACKED, crate::example::LOCK, crate::example::LOCK + 8, crate::example::SLOTS, 0x500000, 0x500040];
        let codes = [0x401100, 0x401200, 0x401500, 0xffff_8000_0000_0000];
        let ops = [AccessOp::Load, AccessOp::Store, AccessOp::LockedRmw];
        let sources = [DataSource::L1, DataSource::LocalHitm, DataSource::RemoteHitm, DataSource::RemoteUpgrade];
        let mut run = Run::default();
        for (thread, place, op, code, cycles) in &accesses {
            let source = sources[(cycles % 4) as usize];
            run.access(*thread, Touch(places[*place as usize], ops[*op as usize], codes[*code as usize]), source, *cycles);
        }
        let mut statistics = run.statistics();
        if rest {
            statistics = with_rest(statistics);
        }
        let report = select(&statistics, 4, OPTIONS, &by(&By::ALL));
        check_sums(&report);
        let of_thread = |thread: u32| {
            let filters = Filters {
                thread: vec![format!("worker-{thread} ").parse().unwrap()],
                ..Filters::default()
            };
            let selection = Selection { filters, ..Selection::default() };
            select(&statistics, 4, OPTIONS, &selection).filtered.unwrap()
        };
        let left: u64 = (0..4).map(|thread| of_thread(thread).lost_cycles).sum();
        prop_assert_eq!(left + of_thread(0).unfiltered_lost_cycles, report.totals.lost_cycles);
    }
}
