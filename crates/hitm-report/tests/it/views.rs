//! Text and JSON of the example. `UPDATE_EXPECT=1 cargo test -p hitm-report` rewrites the goldens.

use expect_test::expect_file;
use hitm_report::text::{PercentLimit, TextOptions};
use hitm_report::{json, text};

use crate::example::{OPTIONS, Run, example, report};

const PLAIN: TextOptions = TextOptions {
    width: TextOptions::WIDTH_DEFAULT,
    color: false,
    percent_limit: PercentLimit::NONE,
};

#[test]
fn text_of_the_example() {
    expect_file!["../golden/example/report.txt"].assert_eq(&text::render(&example(), &PLAIN));
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
    expect_file!["../golden/quiet/report.txt"].assert_eq(&text::render(&report, &PLAIN));
}

#[test]
fn text_keeps_to_its_width() {
    for width in [80, 100, 120, 140, 200] {
        let options = TextOptions { width, ..PLAIN };
        let text = text::render(&example(), &options);
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
    let coloured = text::render(&example(), &options);
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
    assert_eq!(plain, text::render(&example(), &PLAIN).as_str());
}
