//! docs/accuracy.md and its pages beside what the program prints.
//!
//! In the test suite: the figures of scenarios that take a second. `cargo xtask accuracy CASE...` sets
//! `HITM_ACCURACY`, and the test runs whole cases and compares their pages line by line.

use hitm_test::process::Command;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::programs::root;

/// Scenarios with published figures that take a second together.
const QUICK: [&str; 3] = [
    "001-rt-balancing/cpus-004",
    "001-rt-balancing/open-case",
    "003-lock-affinity/one-thread",
];

/// JSON that `hitm` prints in `directory`.
fn json(args: &[&str], directory: &Path) -> Value {
    let mut hitm = Command::new(env!("CARGO_BIN_EXE_hitm"));
    let hitm = hitm.args(args).args(["--format", "json"]);
    let output = hitm.current_dir(directory).stdin(Stdio::null()).output();
    let output = output.expect("hitm starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

/// A figure as scripts/accuracy-page writes it: three digits, or all of a large number.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 {
        let digits = format!("{value:.0}");
        let (sign, digits) = digits.split_at(usize::from(value < 0.0));
        let first = digits.len() % 3;
        let groups = digits.as_bytes()[first..].chunks(3);
        let groups = groups.map(|group| String::from_utf8_lossy(group).into_owned());
        let head = (first > 0).then(|| digits[..first].to_owned());
        let groups: Vec<String> = head.into_iter().chain(groups).collect();
        return format!("{sign}{}", groups.join(","));
    }
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let decimals = (2 - value.abs().log10().floor() as i64).max(0) as usize;
    let digits = format!("{value:.decimals$}");
    match digits.contains('.') {
        true => digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => digits,
    }
}

#[test]
fn figures_are_written_as_the_page_has_them() {
    let written = [
        (4118.850575, "4,119"),
        (1_234_567.2, "1,234,567"),
        (-2500.0, "-2,500"),
        (10.0, "10"),
        (9.999007, "10"),
        (7.2, "7.2"),
        (0.0452, "0.0452"),
        (-0.9641, "-0.964"),
    ];
    for (value, expected) in written {
        assert_eq!(number(value), expected);
    }
}

/// The cells of the row of docs/accuracy.md with this figure.
fn row<'p>(page: &'p str, scenario: &str, figure: &Value) -> Vec<&'p str> {
    let (id, variant) = (
        format!("`{}`", figure["id"].as_str().unwrap()),
        &figure["variant"],
    );
    let published = |key: &str| number(figure[key].as_f64().unwrap());
    let ends = [published("published_min"), published("published_max")];
    let published = match ends[0] == ends[1] {
        true => ends[0].clone(),
        false => ends.join(" to "),
    };
    let rows = page
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<&str>>());
    let is_it = |cells: &Vec<&str>| {
        cells.len() > 8
            && (cells[1], cells[2]) == (scenario, &id)
            && (Some(cells[3]), cells[4]) == (variant.as_str(), &published)
    };
    let mut found = rows.filter(is_it);
    found
        .next()
        .unwrap_or_else(|| panic!("docs/accuracy.md has no row {scenario} {id} {variant}"))
}

/// Compares the figures of a scenario with their rows; returns how many there were.
fn compare(page: &str, scenario: &str, comparisons: &Value) -> usize {
    let figures = comparisons.as_array().expect("comparisons");
    for figure in figures {
        let cells = row(page, scenario, figure);
        let simulated = figure["simulated"].as_f64().expect("a figure");
        assert_eq!(cells[5], number(simulated), "{scenario} {}", figure["id"]);
    }
    figures.len()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/accuracy.md")).expect("the page")
}

#[test]
fn figures_of_the_page_are_those_of_the_program() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut count = 0;
    for scenario in QUICK {
        let path = root().join(format!("scenarios/{scenario}.toml"));
        let json = json(&["sim", path.to_str().unwrap()], directory.path());
        count += compare(&page(), scenario, &json["comparisons"]);
    }
    assert_eq!(count, 8);
}

/// Runs a case as its page says, and compares the page and the rows of docs/accuracy.md.
fn compare_case(case: &str, directory: &Path) {
    let pages = fs::read_dir(root().join("docs/accuracy")).expect("the pages");
    let mut pages = pages.map(|entry| entry.expect("a page").path());
    let is_it = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(case))
    };
    let path = pages
        .find(is_it)
        .unwrap_or_else(|| panic!("no page of {case}"));
    let copy = directory.join("page.md");
    fs::copy(&path, &copy).expect("a copy of the page");
    let json = json(&["reproduce", case, "--write", "page.md"], directory);
    let read = |path: &Path| fs::read_to_string(path).expect("the page");
    let (kept, now) = (read(&path), read(&copy));
    for (line, (kept, now)) in kept.lines().zip(now.lines()).enumerate() {
        assert_eq!(kept, now, "{}:{}", path.display(), line + 1);
    }
    assert_eq!(
        kept.lines().count(),
        now.lines().count(),
        "{}",
        path.display()
    );
    for scenario in json["scenarios"].as_array().expect("scenarios") {
        let name = scenario["scenario"].as_str().expect("a name");
        let crossing = &scenario["crossing"];
        let of = if crossing.is_null() {
            scenario
        } else {
            crossing
        };
        // Case 004 has no rows of its own: the text below the table gives its figures.
        if !name.starts_with("004") {
            compare(&page(), name, &of["comparisons"]);
        }
    }
}

/// Whole cases, named by `cargo xtask accuracy`.
#[test]
fn pages_of_whole_cases_are_those_of_the_program() {
    let Ok(cases) = std::env::var("HITM_ACCURACY") else {
        return;
    };
    for case in cases.split_whitespace() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        compare_case(case, directory.path());
        println!("{case}: the page is what the program prints");
    }
}
