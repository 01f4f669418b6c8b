//! `hitm report` by name, in other orders, and of a part of a recording.

use std::path::Path;

use serde_json::Value;

use crate::programs;

fn output(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let args = [&["report", "-i", "program.hitm"], args].concat();
    let output = programs::run(directory, &args);
    let text = |bytes| String::from_utf8(bytes).expect("hitm writes UTF-8");
    let code = output.status.code().expect("an exit code");
    (code, text(output.stdout), text(output.stderr))
}

fn report(directory: &Path, args: &[&str]) -> String {
    let (code, text, error) = output(directory, args);
    assert_eq!((code, &*error), (0, ""), "{args:?}");
    text
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let text = report(directory, &[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("the report is JSON")
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

fn sum(rows: &Value, key: &str) -> u64 {
    let rows = rows.as_array().expect("rows");
    rows.iter().map(|row| count(&row[key])).sum()
}

/// The first row of a table of totals that has a name.
fn first<'v>(report: &'v Value, by: &str) -> &'v str {
    let tables = report["totals_by"].as_array().expect("tables");
    let table = tables.iter().find(|table| table["by"] == by);
    let rows = table.expect("the table")["rows"].as_array().expect("rows");
    let named = rows.iter().find(|row| row["kind"] == "named");
    named.expect("a name")["name"].as_str().expect("words")
}

#[test]
fn a_recording_is_added_up_by_name_and_looked_at_in_part() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/flag_beside_counter.c");
    let program = programs::build(directory, "program", &source, &[]);
    let args = ["20000".to_owned()];
    programs::record_as(directory, &["-g", "0"], &program, &args);
    totals(directory);
    filters(directory);
    folding(directory);
    refusals(directory);
}

fn totals(directory: &Path) {
    let all = json(
        directory,
        &["--by", "object,type,function,source", "--by", "process"],
    );
    let tables = all["totals_by"].as_array().expect("tables");
    assert_eq!(tables.len(), 5);
    for table in tables {
        for key in [
            "lost_cycles",
            "access_count",
            "remote_hitm_count",
            "local_hitm_count",
        ] {
            let by = &table["by"];
            assert_eq!(
                sum(&table["rows"], key),
                count(&all["totals"][key]),
                "{by} {key}"
            );
        }
    }
    assert!(count(&all["totals"]["lost_cycles"]) > 0);
    assert_eq!(first(&all, "object"), "control");
    assert_eq!(first(&all, "type"), "control");
    assert_eq!(first(&all, "function"), "run");
    let line = first(&all, "source");
    assert!(line.contains("flag_beside_counter.c:"), "{line}");
    assert_eq!(first(&all, "process"), "program");

    // Nothing else in the report changes, and by line there is nothing to add.
    let plain = report(directory, &["--format", "json"]);
    assert_eq!(
        report(directory, &["--by", "line", "--format", "json"]),
        plain
    );
    let without = |report: Value| {
        let Value::Object(mut keys) = report else {
            panic!("a report is an object");
        };
        keys.remove("totals_by");
        // More files are asked for names, and some have none.
        keys.remove("diagnostics");
        keys
    };
    let plain: Value = serde_json::from_str(&plain).expect("JSON");
    assert_eq!(without(all), without(plain));

    let text = report(directory, &["--by", "function", "-s", "accesses"]);
    let title = text
        .find("== By function, sorted by accesses")
        .expect("the table");
    assert!(
        title
            < text
                .find("== Shared cache lines, by accesses")
                .expect("lines")
    );
    // perf's words.
    assert_eq!(
        report(directory, &["--by", "symbol", "--sort", "accesses"]),
        text
    );
}

fn filters(directory: &Path) {
    let whole = json(directory, &["--by", "function"]);
    let lost = count(&whole["totals"]["lost_cycles"]);
    let part = |args: &[&str]| json(directory, &[args, &["--by", "function"]].concat());
    let run = part(&["--function", "run", "--file", "*/flag_beside_counter.c"]);
    let left = count(&run["filtered"]["lost_cycles"]);
    assert!(left > 0 && left <= lost, "{left} of {lost}");
    assert_eq!(sum(&run["totals_by"][0]["rows"], "lost_cycles"), left);
    assert_eq!(count(&run["totals"]["lost_cycles"]), lost);
    let (code, _, said) = output(directory, &["--object", "contrl"]);
    let near = "found --object contrl, expected one such as: control";
    assert!(code == 2 && said.contains(near), "{code}: {said}");
    // Each access is of one thread; what is counted as a whole is no thread's.
    let threads = whole["threads"].as_array().expect("threads");
    let of_threads: u64 = threads
        .iter()
        .map(|thread| {
            let name = thread["name"].as_str().expect("a name");
            count(&part(&["--comm", name])["filtered"]["lost_cycles"])
        })
        .sum();
    let unfiltered = count(&run["filtered"]["unfiltered_lost_cycles"]);
    assert_eq!(of_threads + unfiltered, lost);

    let text = report(directory, &["--object", "control"]);
    assert!(text.contains("  filter: object control: "), "{text}");
    // The gate looks at the lines that are left.
    let gate = ["--fail-on", "cycles=1", "--object"];
    assert_eq!(output(directory, &[&gate[..], &["control"]].concat()).0, 1);
    // An object whose lines are not contended passes; none of that name is no answer.
    let (code, ..) = output(directory, &[&gate[..], &["no such object"]].concat());
    assert_eq!(code, 2);
}

fn folding(directory: &Path) {
    let rows = |args: &[&str]| report(directory, &[&["--by", "source"], args].concat());
    let all = rows(&["--percent-limit", "0"]);
    assert!(!all.contains(" more below "), "{all}");
    let few = rows(&["--percent-limit", "99%"]);
    assert!(few.contains(" more below 99%)"), "{few}");
    assert!(few.lines().count() < all.lines().count());
    // No row of half a per cent is shown as nothing, unless it is what closes the sum.
    let shown = rows(&[]);
    let table = shown.split("== Shared").next().expect("the totals");
    let table = table.split("== By").nth(1).expect("the totals");
    for row in table.lines().skip(2).filter(|row| row.contains(" 0.0 ")) {
        let share = row.split_whitespace().nth(1).expect("a share");
        assert!(row.contains('(') || share != "0.0", "{row}");
    }
    // Programs get every row, and the gate sees every line.
    let json = |limit| report(directory, &["--format", "json", "--percent-limit", limit]);
    assert_eq!(json("0"), json("100"));
    let gate = ["--fail-on", "false-sharing", "--percent-limit"];
    let with = |limit: &str| output(directory, &[&gate[..], &[limit]].concat()).0;
    assert_eq!((with("0"), with("100")), (1, 1));
}

fn refusals(directory: &Path) {
    let refused = |args: &[&str]| {
        let (code, _, error) = output(directory, args);
        assert_eq!(code, 2, "{args:?}: {error}");
        error
    };
    let error = refused(&["--by", "caller"]);
    assert!(error.contains("program.hitm has none"), "{error}");
    let error = refused(&["--percent-limit", "101"]);
    assert!(error.contains("expected a number from 0 to 100"), "{error}");
    let error = refused(&["--object", ""]);
    assert!(
        error.contains("an empty name matches everything"),
        "{error}"
    );
    let error = refused(&["--by", "colour"]);
    assert!(
        error.contains("possible values: line, object, member, type"),
        "{error}"
    );
    let error = refused(&["--type", "control", "--sort", "accesses"]);
    assert!(error.contains("cannot be used with"), "{error}");
    let error = refused(&["--perf-c2c", "--function", "run"]);
    assert!(error.contains("cannot be used with"), "{error}");
}
