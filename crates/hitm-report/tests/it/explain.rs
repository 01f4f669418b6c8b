//! Words explained with a report.

use std::path::Path;

use expect_test::expect_file;
use hitm_coherence::sharing::Verdict;
use hitm_report::explain::{Explained, Recorded, json, meanings, text};
use hitm_report::text::{PercentLimit, TextOptions};
use serde_json::Value;

use crate::example::example;

const NARROW: TextOptions = TextOptions {
    width: 80,
    color: false,
    has_events: false,
    percent_limit: PercentLimit::DEFAULT,
};

fn fits(text: &str) {
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(NARROW.width), "{text}");
}

#[test]
fn each_line_meets_the_rule_of_its_verdict() {
    let report = example();
    let recorded = Recorded {
        input: Path::new("run.hitm"),
        report: &report,
    };
    for finding in &report.findings {
        let word = finding.number.to_string();
        let explained = Explained::finding(&word, finding.number, recorded).expect("the finding");
        let evidence = explained.evidence.as_ref().expect("what met the rule");
        let unmet = evidence.conditions.iter().find(|one| !one.is_met());
        assert_eq!(unmet, None, "finding {word}");
        fits(&text::render(&explained, &NARROW));
    }
    assert!(Explained::finding("9", 9, recorded).is_none());
}

#[test]
fn a_line_is_explained_with_its_counts() {
    let report = example();
    let recorded = Recorded {
        input: Path::new("run.hitm"),
        report: &report,
    };
    let explained = Explained::finding("2", 2, recorded).expect("the finding");
    let shown = text::render(&explained, &NARROW);
    expect_file!["../golden/explain/lock.txt"].assert_eq(&shown);
}

#[test]
fn a_verdict_is_explained_by_its_costliest_line() {
    let report = example();
    let recorded = Recorded {
        input: Path::new("run.hitm"),
        report: &report,
    };
    let of = |verdict: Verdict| {
        let explained = Explained::word(verdict.id(), meanings(verdict.id()), Some(recorded));
        let json: Value = serde_json::from_str(&json::render(&explained)).expect("JSON");
        json
    };
    let false_sharing = of(Verdict::FalseSharing);
    assert_eq!(false_sharing["finding"]["number"], 1);
    assert_eq!(false_sharing["line"]["rank"], 1);
    assert_eq!(false_sharing["other_findings"], serde_json::json!([3]));
    assert_eq!(false_sharing["recording"], "run.hitm");
    assert_eq!(of(Verdict::Mixed)["line"], Value::Null);
}

#[test]
fn a_figure_has_its_values() {
    let report = example();
    let recorded = Recorded {
        input: Path::new("run.hitm"),
        report: &report,
    };
    let explained = Explained::word("lost_cycles", meanings("lost_cycles"), Some(recorded));
    let json: Value = serde_json::from_str(&json::render(&explained)).expect("JSON");
    let values = &json["values"];
    assert_eq!(values["totals"]["lost_cycles"], report.totals.lost_cycles);
    assert_eq!(
        values["lines"][1]["lost_cycles"],
        report.lines[1].lost_cycles
    );
}

#[test]
fn all_words_fit_a_narrow_screen() {
    let list = text::list(&NARROW);
    fits(&list);
    assert!(list.lines().any(|line| line.starts_with("  HITM ")));
}
