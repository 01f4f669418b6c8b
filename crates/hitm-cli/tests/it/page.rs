//! `hitm report --format html`: what the page's data adds up to.

use std::path::Path;

use serde_json::Value;

use crate::programs;

fn output(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let output = programs::run(directory, args);
    let text = |bytes| String::from_utf8(bytes).expect("hitm writes UTF-8");
    let code = output.status.code().expect("an exit code");
    (code, text(output.stdout), text(output.stderr))
}

pub(crate) fn data(html: &str) -> Value {
    let start = "id=\"data\">";
    let from = html.find(start).expect("the page has data") + start.len();
    let to = html[from..].find("</script>").expect("the data ends");
    serde_json::from_str(&html[from..from + to]).expect("the data is JSON")
}

/// The values of one column of a table without its fields.
pub(crate) fn column(fields: &Value, rows: &Value, id: &str) -> Vec<Value> {
    let fields = fields.as_array().expect("fields");
    let at = fields.iter().position(|field| field["id"] == id);
    let at = at.unwrap_or_else(|| panic!("no field {id}"));
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| row[at].clone()).collect()
}

fn sum(fields: &Value, rows: &Value, id: &str) -> u64 {
    let values = column(fields, rows, id).into_iter();
    values.map(|value| value.as_u64().expect("a count")).sum()
}

#[test]
fn a_page_adds_up_to_its_report() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let program = programs::build(directory, "program", &source, &[]);
    programs::record(directory, &program, &["20000".to_owned()]);
    let args = ["report", "-i", "program.hitm", "--format"];
    let (code, json, _) = output(directory, &[&args[..], &["json"]].concat());
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&json).expect("JSON");
    let (code, html, error) = output(directory, &[&args[..], &["html"]].concat());
    assert_eq!((code, &*error), (0, ""));
    let page = data(&html);
    stacks(&page, &report);
    transfers(&page, &report);
    map(&page, &report);
    assert_eq!(page["advice"][0]["advice"]["type"], "foo");
    files(directory, &html);
    source_text(directory, &html);
}

/// The text of a source file is in a page unless it is not wanted; then its lines are there without it.
fn source_text(directory: &Path, html: &str) {
    let text = "hash = private_work(options";
    assert!(html.contains(text), "the page has the text of its source");
    let args = ["report", "-i", "program.hitm", "--no-source"];
    let (code, without, error) = output(directory, &[&args[..], &["--format", "html"]].concat());
    assert_eq!((code, &*error), (0, ""));
    assert!(!without.contains(text));
    let [with, without] = [html, &without].map(|html| data(html)["sources"].clone());
    assert_eq!(without["rows"], with["rows"]);
    let texts = without["texts"].as_array().expect("a text for each line");
    assert!(!texts.is_empty() && texts.iter().all(Value::is_null));
    let (code, _, error) = output(directory, &args);
    assert_eq!(code, 2);
    assert_eq!(
        error,
        "hitm: error: --no-source is for pages: expected --format html\n"
    );
}

/// Stacks have all that is lost, and their times have all of it again.
fn stacks(page: &Value, report: &Value) {
    let stacks = &page["pictures"]["stacks"];
    let lost = sum(&stacks["fields"], &stacks["rows"], "lost_cycles");
    assert_eq!(
        lost,
        report["totals"]["lost_cycles"].as_u64().expect("cycles")
    );
    let times = stacks["times"].as_array().expect("times");
    let of_stack = |rows| sum(&stacks["time_fields"], rows, "lost_cycles");
    assert_eq!(times.iter().map(of_stack).sum::<u64>(), lost);
}

/// Hand-overs are those of the totals, and the giver of a modified line is in the package that the price
/// says: that tells the inferred owner from any other CPU.
fn transfers(page: &Value, report: &Value) {
    let transfers = &page["pictures"]["transfers"];
    let topology = &page["pictures"]["topology"];
    let (fields, run) = (&transfers["fields"], &transfers["run"]);
    assert_eq!(run["level"], "cpu");
    let hitm = column(fields, &run["rows"], "hitm_count");
    let ends = ["giver", "taker"].map(|id| column(fields, &run["rows"], id));
    let mut found = [0, 0];
    for (at, count) in hitm.iter().enumerate() {
        let [from, to] = [&ends[0][at], &ends[1][at]];
        let package = |cpu: &Value| &topology["package"][cpu.as_u64().expect("a CPU") as usize];
        found[usize::from(package(from) != package(to))] += count.as_u64().expect("a count");
    }
    let counts = &report["totals"]["counts"];
    let all = |source: &str| -> u64 {
        let kinds = ["loads", "stores", "locked"].into_iter();
        kinds
            .map(|kind| counts[kind][source].as_u64().expect("a count"))
            .sum()
    };
    let unknown = [run["unknown"].clone()].to_vec().into();
    let unknown = sum(&transfers["unknown_fields"], &unknown, "hitm_count");
    let [local, remote] = [all("local_hitm"), all("remote_hitm")];
    assert_eq!(found[0] + found[1] + unknown, local + remote);
    assert!(
        unknown * 20 < local + remote,
        "{unknown} of {} are unknown",
        local + remote
    );
    assert!(
        found[0] <= local && found[1] <= remote,
        "{found:?}, {local} {remote}"
    );
}

/// The bytes of the line are there once, and its accesses are those of the report.
fn map(page: &Value, report: &Value) {
    let pictures = &page["pictures"];
    let map = &pictures["maps"][0];
    let members = column(&pictures["box_fields"], &map["boxes"], "member");
    assert_eq!(members[..4], [".w", ".x", ".y", ".z"].map(Value::from));
    assert_eq!(
        sum(&pictures["box_fields"], &map["boxes"], "size_bytes"),
        64
    );
    for id in ["load_count", "store_count", "locked_count", "lost_cycles"] {
        let found = sum(&pictures["cell_fields"], &map["cells"], id);
        assert_eq!(Some(found), report["lines"][0][id].as_u64(), "{id}");
    }
}

/// A page goes into a file of its own, the same bytes each time; text does not.
fn files(directory: &Path, html: &str) {
    let args = ["report", "-i", "program.hitm", "-o", "page.html"];
    let (code, out, error) = output(directory, &[&args[..], &["--format", "html"]].concat());
    assert_eq!((code, &*out, &*error), (0, "", "hitm: wrote page.html\n"));
    let written = std::fs::read_to_string(directory.join("page.html")).expect("the page");
    assert!(written == html, "two pages of one recording differ");
    let (code, _, error) = output(directory, &args);
    assert_eq!(code, 2);
    assert_eq!(
        error,
        "hitm: error: -o is for pages: expected --format html\n"
    );
    let args = [
        "report",
        "-i",
        "program.hitm",
        "--format",
        "html",
        "--type",
        "foo",
    ];
    let (code, _, error) = output(directory, &args);
    assert_eq!(code, 2);
    assert_eq!(
        error,
        "hitm: error: found --format html, expected text or json: --type has no page\n"
    );
}
