//! Text and JSON of the example. `UPDATE_EXPECT=1 cargo test -p hitm-report` rewrites the goldens.

use std::path::Path;

use expect_test::{expect, expect_file};
use hitm_report::text::{PercentLimit, TextOptions};
use hitm_report::{json, summary, text};

use crate::example::{OPTIONS, Run, example, report};

const PLAIN: TextOptions = TextOptions {
    width: TextOptions::WIDTH_DEFAULT,
    color: false,
    has_events: true,
    percent_limit: PercentLimit::NONE,
};

#[test]
fn text_of_the_example() {
    expect_file!["../golden/example/report.txt"].assert_eq(&text::render(&example(), &[], &PLAIN));
}

#[test]
fn json_of_the_example() {
    expect_file!["../golden/example/report.json"].assert_eq(&json::render(&example()));
}

#[test]
fn text_of_a_run_without_contention() {
    let mut run = Run::default();
    run.quiet();
    let mut report = report(&run.statistics(), 2, OPTIONS);
    report.run.complete = false;
    report.run.lost_access_count = 3;
    report
        .diagnostics
        .push("chunk 7 at byte 4096 is damaged and was skipped".to_owned());
    expect_file!["../golden/quiet/report.txt"].assert_eq(&text::render(&report, &[], &PLAIN));
}

#[test]
fn text_keeps_to_its_width() {
    for width in [80, 100, 120, 140, 200] {
        let options = TextOptions { width, ..PLAIN };
        let text = text::render(&example(), &[], &options);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        let allowed = width.max(TextOptions::WIDTH_MIN);
        assert!(
            widest <= allowed,
            "{widest} columns at width {width}:\n{text}"
        );
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let options = TextOptions {
        color: true,
        ..PLAIN
    };
    let coloured = text::render(&example(), &[], &options);
    assert!(coloured.contains("\x1b[1m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after
            .split_once('m')
            .expect("an escape sequence ends with m")
            .1;
    }
    plain.push_str(rest);
    assert_eq!(plain, text::render(&example(), &[], &PLAIN).as_str());
}

#[test]
fn a_summary_comes_first() {
    let report = example();
    let summary = summary::of(&report, &[], Path::new("run.hitm"));
    let narrow = TextOptions { width: 80, ..PLAIN };
    let text = text::render(&report, &summary, &narrow);
    let above = text.split("  machine:").next().expect("a beginning");
    expect![[r#"
        hitm report: ./packed 100000
          as on toy-4s (8 CPUs, 4 nodes), 4 threads placed spread
          Lost   20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0%
                 of it.

          # what                  kind               lost% lines written in
          1 f                     false sharing       17.4     1 packed.c:30 bump
          2 account.lock          lock with its data   2.8     1 packed.c:50 account_add
          3 slots (heap)[] (48 B) false sharing        0.8     1 packed.c:70..nt_in_slot
          Not shown in 80 columns: threads. --width 83 shows all.

          Line   | 1 ** . . . . . .| writer of each 8 bytes, ** several
          Why    False sharing: 4 threads, 3,500 hand-overs (2,000 loads, 1,500
                 upgrades).
          By     bump (packed.c:30) 100.0%
          Do     Give f.w, f.y and f.z, which different threads write, a cache line
                 each, away from f.x, which is only read (align to 64 bytes), and assert
                 the offsets at compile time: the false sharing that this ends costs
                 695,000 cycles.
          Next   hitm report -i run.hitm --by function,source

        == Run =========================================================================
    "#]]
    .assert_eq(above);
}

#[test]
fn a_narrow_screen_has_fewer_columns_and_says_so() {
    let narrow = TextOptions {
        width: 80,
        has_events: false,
        ..PLAIN
    };
    let mut report = example();
    let name = "root_domain.cpupri.pri_to_cpu[0].count";
    report.lines[0].rows[0].member = name.to_owned();
    report.lines[0].objects[0].name = name.to_owned();
    let text = text::render(&report, &[], &narrow);
    let shared = text.split("== ").nth(2).expect("the table of lines");
    expect![[r#"
        Shared cache lines, by cycles lost to contention ============================
          #       line object              verdict            lost cycles lost% rmt HITM
          1   0x4040c0 root_domain..count  false sharing          695,000  83.0    2,000
          2   0x404100 account             lock with its data     110,000  13.1      400
          3 0x7f000040 slots (heap)        false sharing           16,200   1.9        0
          Not shown in 80 columns: run%, lcl HITM, load mean, nodes. --width 103 shows
          all.
          3 lines changed hands too rarely to matter and lost 16,510 cycles.

    "#]]
    .assert_eq(shared);
    let line = text.split("== ").nth(3).expect("the first line");
    let rows = line.lines().skip_while(|line| !line.contains("member"));
    let rows: Vec<&str> = rows.take(4).collect();
    expect![[r#"
        rows
          off member  op    rmt% lcl% hit% miss% rmt cyc lcl cyc load cyc lost% accesses
          0x0 ..count load  25.0  0.0    -     -     350       -      177  25.2    1,000
               worker-1 (1001)  bump  packed.c:30  0x401240
          0x0 f.w     store    -    - 33.3  33.3       -       -        -   0.0    1,000
    "#]]
    .assert_eq(&format!("rows\n{}\n", rows.join("\n")));
    // Of tables that lack the same columns only the first says so.
    let said = text.matches("Not shown in 80 columns: nodes").count();
    assert!(said <= 1, "{text}");
}

#[test]
fn instructions_of_one_source_line_are_one_row() {
    let mut report = example();
    let line = &mut report.lines[0];
    let first = line.rows[0].clone();
    let mut second = first.clone();
    second.code.0 += 4;
    second.access_count = 3 * first.access_count;
    second.load_cycles_mean = Some(17.0);
    second.lost_share = 0.5;
    let mut elsewhere = second.clone();
    elsewhere.source = "packed.c:31".to_owned();
    elsewhere.source_short = "packed.c:31".to_owned();
    line.rows = vec![first, second, elsewhere];
    let text = text::render(&report, &[], &PLAIN);
    let line = text.split("== ").nth(3).expect("the first line");
    let rows = line.lines().skip_while(|line| !line.contains("member"));
    let rows: Vec<&str> = rows.skip(1).take(4).collect();
    expect![[r#"
        rows

    "#]]
    .assert_eq(&format!("rows\n{}\n", rows.join("\n")));
    let json = json::render(&report);
    assert!(
        json.contains("\"packed.c:31\""),
        "JSON keeps each instruction"
    );
    assert_eq!(json.matches("\"access_count\": 3000").count(), 2);
}
