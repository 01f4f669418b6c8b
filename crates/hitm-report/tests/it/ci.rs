//! Reports for continuous integration, and the baseline.

use expect_test::{expect, expect_file};
use hitm_report::baseline::{Baseline, BaselineError, Tolerance};
use hitm_report::ci::{Checked, Findings, Level, SourceRoot, github, junit, sarif};
use hitm_report::gate::{Gate, failures};
use hitm_report::runs::RunsReading;
use hitm_report::{By, Report, Selection, json};
use serde_json::Value;

use crate::example::{OPTIONS, Run, select};

fn by_member() -> Selection {
    Selection {
        by: vec![By::Member],
        ..Selection::default()
    }
}

/// A run whose falsely shared struct went through so many rounds, with a lock or without.
fn run(packed: u64, has_lock: bool) -> Report {
    let mut run = Run::default();
    run.packed(packed);
    if has_lock {
        run.lock(200);
    }
    run.slots(3, 60);
    select(&run.statistics(), 4, OPTIONS, &by_member())
}

fn tolerance(text: &str) -> Tolerance {
    text.parse().expect("a tolerance")
}

/// The names and changes that break the gate.
fn broken(before: &Report, after: &Report, allowed: &str) -> Vec<String> {
    let baseline = Baseline::of_report("old", before).expect("a baseline");
    let compared = baseline.compare(after, tolerance(allowed));
    let compared = compared.expect("both are comparable");
    let rows = compared.regressions();
    rows.map(|row| compared.text(row)).collect()
}

#[test]
fn the_baseline_fails_on_what_is_new_or_dearer_and_says_by_how_much() {
    let (before, after) = (run(500, false), run(600, true));
    let found = broken(&before, &after, "5%");
    expect![[r#"
        account.lock lost 110,000 cycles, 2.8% of the run: it lost nothing in old
        f.w lost 210,000 cycles, 5.2% of the run: 20.0% more than the 175,000 in old, tolerance 5%
        f.x lost 204,000 cycles, 5.1% of the run: 20.0% more than the 170,000 in old, tolerance 5%
        f.y lost 210,000 cycles, 5.2% of the run: 20.0% more than the 175,000 in old, tolerance 5%
        f.z lost 210,000 cycles, 5.2% of the run: 20.0% more than the 175,000 in old, tolerance 5%"#]]
    .assert_eq(&sorted(found).join("\n"));
    let only_new = broken(&before, &after, "20%");
    assert_eq!(only_new.len(), 1, "{only_new:?}");
    assert!(only_new[0].starts_with("account.lock"), "{only_new:?}");
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[test]
fn what_stays_or_becomes_cheaper_holds() {
    let (before, after) = (run(500, true), run(400, false));
    assert!(broken(&before, &before, "0%").is_empty());
    assert!(broken(&before, &after, "0%").is_empty());
}

#[test]
fn a_moment_of_contention_does_not_matter() {
    // 2 rounds lose less than a thousandth of the run.
    let after = run(502, true);
    assert!(broken(&run(500, true), &after, "0%").is_empty());
    assert!(!broken(&run(450, true), &after, "0%").is_empty());
}

#[test]
fn json_is_as_good_a_baseline_as_the_recording() {
    let (before, after) = (run(500, false), run(600, true));
    let of_json = Baseline::of_json("old", &json::render(&before));
    let of_report = Baseline::of_report("old", &before);
    assert_eq!(of_json, of_report);
    let compared = of_json.unwrap().compare(&after, tolerance("5%")).unwrap();
    assert_eq!(compared.regressions().count(), 5);
}

#[test]
fn what_is_no_baseline_is_refused() {
    let error = |text: &str| Baseline::of_json("old.json", text).unwrap_err().to_string();
    assert!(error("{").starts_with("old.json: found no report in JSON: EOF"));
    assert!(error("{\"schema\": 1}").contains("missing field `run`"));
    let report = run(500, false);
    let other_schema = json::render(&report).replacen("\"schema\": 1", "\"schema\": 99", 1);
    assert_eq!(
        error(&other_schema),
        "old.json: found schema 99, expected 1"
    );
    let mut without = report.clone();
    without.totals_by.clear();
    let expected = "old.json: found no totals by member, expected those of `hitm report --by member --format json`";
    assert_eq!(error(&json::render(&without)), expected);
    let mut elsewhere = report.clone();
    elsewhere.run.machine = "toy-1s".to_owned();
    let baseline = Baseline::of_report("old", &elsewhere).unwrap();
    let refused = baseline.compare(&report, tolerance("5%")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "old: found a recording on toy-1s, expected one on toy-4s"
    );
    let mut samples = report.clone();
    samples.run.sampled = Some(Vec::new());
    let refused = Baseline::of_report("old", &samples).unwrap_err();
    assert!(matches!(refused, BaselineError::Samples { .. }));
    let refused = Baseline::of_json("old", &json::render(&samples)).unwrap_err();
    assert!(matches!(refused, BaselineError::Samples { .. }));
}

#[test]
fn a_part_of_a_run_is_no_baseline_for_all_of_it() {
    let mut run = Run::default();
    run.packed(500);
    let mut part = by_member();
    part.filters.object.push("f".parse().unwrap());
    let part = select(&run.statistics(), 4, OPTIONS, &part);
    let all = select(&run.statistics(), 4, OPTIONS, &by_member());
    let compare = |before: &Report, after: &Report| {
        let baseline = Baseline::of_json("old", &json::render(before)).unwrap();
        baseline.compare(after, Tolerance::DEFAULT).map(|_| ())
    };
    let error = compare(&part, &all).unwrap_err().to_string();
    assert_eq!(error, "old: found the filter object f, expected no filter");
    assert_eq!(compare(&part, &part), Ok(()));
}

/// Renders with both gates and a baseline.
fn with_findings<T>(
    root: &str,
    top: usize,
    render: impl FnOnce(&Checked<'_>, &Findings<'_>) -> T,
) -> T {
    let (before, mut report) = (run(500, false), run(600, true));
    report.lines.truncate(top);
    let gates = [Gate::FalseSharing, Gate::Cycles(500_000)];
    let failures = failures(&report, &gates, &[]);
    let baseline = Baseline::of_report("old.hitm", &before).unwrap();
    let comparison = baseline.compare(&report, Tolerance::DEFAULT).unwrap();
    let checked = Checked {
        report: &report,
        gates: &gates,
        failures: &failures,
        comparison: Some(&comparison),
        source_root: &SourceRoot::new(root),
    };
    render(&checked, &Findings::of(&checked))
}

#[test]
fn annotations_have_a_place_and_a_level() {
    let text = with_findings("/src", 20, |_, findings| {
        github::render(findings).to_string()
    });
    expect![[r#"
        ::error file=examples/packed.c,line=30,title=False sharing%3A f::f: false sharing: 834,000 cycles lost, 20.8%25 of the run. Give f.w, f.y and f.z, which different threads write, a cache line each, away from f.x, which is only read (align to 64 bytes), and assert the offsets at compile time: the false sharing that this ends costs 834,000 cycles. Breaks --fail-on false-sharing. Breaks --fail-on cycles=500000.
        ::notice file=examples/packed.c,line=50,title=Contended lock%3A account.lock::account.lock: lock with its data: 110,000 cycles lost, 2.8%25 of the run. Take account.lock less often or for less (locks over smaller chunks of the data, shorter critical sections); waiters that spin on it also steal the line of the data beside it, so move written data to the next line if the lock stays contended.
        ::error file=examples/packed.c,line=70,title=False sharing%3A slots (heap)[] (48 B)::slots (heap)[] (48 B): false sharing: 32,400 cycles lost, 0.8%25 of the run. Align slots (heap) to 64 bytes and pad its elements to a multiple of 64, so that no element shares a line with its neighbour, and assert the size at compile time: the false sharing that this ends costs 16,200 cycles. Breaks --fail-on false-sharing.
        ::error file=examples/packed.c,line=30,title=Dearer contention%3A f.w::f.w lost 210,000 cycles, 5.2%25 of the run: 20.0%25 more than the 175,000 in old.hitm, tolerance 5%25.
        ::error file=examples/packed.c,line=30,title=Dearer contention%3A f.y::f.y lost 210,000 cycles, 5.2%25 of the run: 20.0%25 more than the 175,000 in old.hitm, tolerance 5%25.
        ::error file=examples/packed.c,line=30,title=Dearer contention%3A f.z::f.z lost 210,000 cycles, 5.2%25 of the run: 20.0%25 more than the 175,000 in old.hitm, tolerance 5%25.
        ::error file=examples/packed.c,line=21,title=Dearer contention%3A f.x::f.x lost 204,000 cycles, 5.1%25 of the run: 20.0%25 more than the 170,000 in old.hitm, tolerance 5%25.
        ::error file=examples/packed.c,line=50,title=New contention%3A account.lock::account.lock lost 110,000 cycles, 2.8%25 of the run: it lost nothing in old.hitm.
    "#]].assert_eq(&text);
}

#[test]
fn suites_have_a_case_for_each_line_and_member() {
    let text = with_findings("/src", 20, |checked, findings| {
        junit::render(checked, findings).to_string()
    });
    expect_file!["../golden/ci/suites.xml"].assert_eq(&text);
}

fn log(root: &str, top: usize) -> Value {
    let text = with_findings(root, top, sarif::render);
    serde_json::from_str(&text).expect("the log is JSON")
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let items = value[key].as_array();
    items.unwrap_or_else(|| panic!("{key} is a list"))
}

/// The properties that the specification requires of each object that the log has (3.13 to 3.50). The
/// published schema says the same and more; python's jsonschema 4.26 found this log valid by it on 2026-11-23.
#[test]
fn a_log_has_what_sarif_requires() {
    let log = log("/src", 20);
    assert_eq!(log["version"], "2.1.0");
    let run = &list(&log, "runs")[0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "hitm");
    let rules = list(driver, "rules");
    for rule in rules {
        for text in ["shortDescription", "fullDescription", "help"] {
            let text = rule[text]["text"].as_str().expect("a text");
            assert!(text.len() > 5, "{rule}");
        }
    }
    assert_eq!(list(run, "invocations")[0]["executionSuccessful"], true);
    let results = list(run, "results");
    assert_eq!(results.len(), 3 + 5);
    for result in results {
        assert!(
            !result["message"]["text"]
                .as_str()
                .expect("a text")
                .is_empty()
        );
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let level = result["level"].as_str().expect("a level");
        assert!(["none", "note", "warning", "error"].contains(&level));
        for place in list(result, "locations") {
            let place = &place["physicalLocation"];
            assert_eq!(place["artifactLocation"]["uri"], "examples/packed.c");
            assert_eq!(place["artifactLocation"]["uriBaseId"], "%SRCROOT%");
            assert!(place["region"]["startLine"].as_u64().expect("a line") >= 1);
        }
    }
}

#[test]
fn results_say_what_the_fields_say() {
    let log = log("/src", 20);
    let result = &list(&list(&log, "runs")[0], "results")[0];
    let report: Value = serde_json::from_str(&json::render(&run(600, true))).unwrap();
    let finding = &report["findings"][0];
    for (key, value) in result["properties"].as_object().expect("properties") {
        assert_eq!(&finding[key], value, "{key}");
    }
    assert_eq!(result["properties"]["lost_cycles"], 834_000);
    assert_eq!(result["level"], "error");
}

#[test]
fn fingerprints_survive_other_costs_and_tell_findings_apart() {
    let of = |packed: u64| {
        let report = run(packed, true);
        let checked = Checked {
            report: &report,
            gates: &[],
            failures: &[],
            comparison: None,
            source_root: &SourceRoot::new("/"),
        };
        let findings = Findings::of(&checked).list;
        let levels = findings.iter().map(|one| (one.name.clone(), one.level));
        let levels: Vec<(String, Level)> = levels.collect();
        let mut prints: Vec<String> = findings.into_iter().map(|one| one.fingerprint).collect();
        prints.sort();
        (levels, prints)
    };
    let (levels, prints) = of(500);
    assert_eq!(prints, of(900).1);
    let mut different = prints.clone();
    different.dedup();
    assert_eq!(different, prints);
    let level = |name: &str| levels.iter().find(|one| one.0 == name).expect("a line").1;
    assert_eq!(
        (level("f"), level("account.lock")),
        (Level::Warning, Level::Note)
    );
}

#[test]
fn a_finding_that_is_not_shown_is_told_when_it_breaks_a_gate() {
    let log = log("/src", 0);
    let run = &list(&log, "runs")[0];
    let levels = list(run, "results").iter().map(|one| &one["level"]);
    // Two falsely shared objects, the first also beyond 500,000 cycles, five members.
    assert_eq!(levels.filter(|level| **level == "error").count(), 2 + 5);
}

#[test]
fn names_stay_in_their_annotation_and_in_their_attribute() {
    let mut report = run(500, false);
    report.totals_by.clear();
    report.findings[0].name = "a\n::error file=x,line=1::\"<b>&100%".to_owned();
    let line = &mut report.lines[0];
    line.rows[0].source = "/src/a,b:c\n::d.c:7".to_owned();
    line.rows[0].lost_cycles = u64::MAX;
    report.findings.truncate(1);
    let gates = [Gate::FalseSharing];
    let failures = failures(&report, &gates, &[]);
    let checked = Checked {
        report: &report,
        gates: &gates,
        failures: &failures[..1],
        comparison: None,
        source_root: &SourceRoot::new("/src"),
    };
    let findings = Findings::of(&checked);
    let text = github::render(&findings);
    let commands = text.lines().filter(|line| line.starts_with("::"));
    assert_eq!(commands.count(), text.lines().count());
    assert!(text.starts_with(
        "::error file=a%2Cb%3Ac\\n%3A%3Ad.c,line=7,title=False sharing%3A a\\n%3A%3Aerror file=x%2Cline=1"
    ), "{}", &*text);
    assert!(text.contains("&100%25"), "{}", &*text);
    let xml = junit::render(&checked, &findings);
    assert!(
        xml.contains("name=\"a\\n::error file=x,line=1::&quot;&lt;b&gt;&amp;100%\""),
        "{}",
        &*xml
    );
}

/// A report of runs whose falsely shared struct went through so many rounds in each.
fn runs(rounds: &[u64]) -> Report {
    let mut reading = RunsReading::default();
    let reports: Vec<Report> = rounds.iter().map(|rounds| run(*rounds, false)).collect();
    for (report, number) in reports.iter().zip(1..) {
        let file = format!("{number}.hitm");
        reading.add(&file, report).expect("runs of one machine");
    }
    let runs = reading.finish();
    let mut report = reports[runs.shown()].clone();
    report.runs = Some(runs);
    report
}

#[test]
fn several_runs_allow_their_spread() {
    let before = runs(&[500, 600, 530]);
    assert!(broken(&before, &run(530, false), "5%").is_empty());
    assert!(broken(&before, &run(690, false), "5%").is_empty());
    let found = sorted(broken(&before, &run(800, false), "5%"));
    expect!["f.w lost 280,000 cycles, 7.0% of the run: 50.9% more than the 185,500 in old (median of 3 runs), tolerance 32.1%: spread of 3 runs 18.9%"].assert_eq(&found[0]);
    // The tolerance counts where it is more.
    assert!(broken(&before, &run(800, false), "60%").is_empty());
    // Of several new runs the median is compared.
    let found = sorted(broken(&before, &runs(&[500, 800, 900]), "5%"));
    expect!["f.w lost 280,000 cycles (median of 3 runs), 7.0% of the run: 50.9% more than the 185,500 in old (median of 3 runs), tolerance 32.1%: spread of 3 runs 18.9%"].assert_eq(&found[0]);
    assert!(broken(&before, &runs(&[900, 550, 540]), "5%").is_empty());
    assert!(!broken(&run(530, false), &runs(&[900, 600, 590]), "5%").is_empty());
}

#[test]
fn json_of_several_runs_is_as_good_a_baseline_as_their_folder() {
    let before = runs(&[500, 600, 530]);
    let text = json::render(&before);
    assert_eq!(
        Baseline::of_json("old", &text),
        Baseline::of_report("old", &before)
    );
    let wrong = text.replacen("\"count\": 3", "\"count\": 4", 1);
    let error = Baseline::of_json("old", &wrong).unwrap_err().to_string();
    assert!(
        error.starts_with("old: found no report in JSON: runs: found 3 numbers of lost_cycles of ")
    );
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["runs"]["shown"], "3.hitm");
    assert_eq!(
        list(&value["runs"], "members")[0]["lost_cycles"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );
}

#[test]
fn runs_of_two_machines_do_not_belong_together() {
    let mut reading = RunsReading::default();
    let mut report = run(500, false);
    reading.add("1.hitm", &report).expect("the first run");
    report.run.machine = "toy-1s".to_owned();
    let error = reading.add("2.hitm", &report).unwrap_err().to_string();
    assert_eq!(
        error,
        "2.hitm: found a recording on toy-1s, expected one on toy-4s, as 1.hitm is"
    );
    report.run.sampled = Some(Vec::new());
    assert!(reading.add("2.hitm", &report).is_err());
}

#[test]
fn a_renamed_program_compares_member_by_member() {
    let named = |program: &str| {
        let mut report = run(500, false);
        report.run.command[0] = format!("./{program}");
        let rows = &mut report.totals_by[0].rows;
        rows[0].name = format!("stack of {program}:12 (no name)");
        rows[1].name = format!("{program} (no name)");
        report
    };
    assert!(broken(&named("packed"), &named("padded"), "0%").is_empty());
    let of_json = Baseline::of_json("old", &json::render(&named("packed"))).unwrap();
    let compared = of_json.compare(&named("padded"), tolerance("0%")).unwrap();
    assert_eq!(compared.regressions().count(), 0);
}

#[test]
fn little_more_of_many_members_is_within_the_floor() {
    // Four members lose 15 rounds more, together less than a hundredth of the run.
    let found = broken(&run(500, false), &run(515, false), "0%");
    assert!(found.is_empty(), "{found:?}");
    // One of them more than a hundredth.
    assert!(!broken(&run(500, false), &run(560, false), "0%").is_empty());
}
