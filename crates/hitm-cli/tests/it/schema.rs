//! `hitm schema`: what commands write as JSON is what it says.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::limits::SCENARIO;
use crate::programs;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("hitm writes UTF-8")
}

fn hitm(directory: &Path, args: &[&str]) -> Output {
    let hitm = programs::hitm()
        .to_str()
        .expect("a path of this tree is UTF-8");
    programs::run_within(directory, &[&[hitm], args].concat())
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let output = hitm(directory, args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Breaches of a schema: the part of JSON Schema that hitm's schemas use.
fn breaches(value: &Value, schema: &Value, place: &str, found: &mut Vec<String>) {
    if let Some(several) = schema["anyOf"].as_array() {
        let all = several.iter().map(|one| {
            let mut found = Vec::new();
            breaches(value, one, place, &mut found);
            found
        });
        // The one that is nearest says why.
        let least = all.min_by_key(Vec::len).unwrap_or_default();
        found.extend(least);
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    if !types.iter().any(|one| has_type(value, one)) {
        found.push(format!("{place}: found {value}, expected {types:?}"));
        return;
    }
    if let Value::Array(items) = value {
        for (index, item) in items.iter().enumerate() {
            breaches(item, &schema["items"], &format!("{place}[{index}]"), found);
        }
    }
    let Value::Object(members) = value else {
        return;
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let missing = required
        .filter_map(Value::as_str)
        .filter(|key| !members.contains_key(*key));
    found.extend(missing.map(|key| format!("{place}: {key} is missing")));
    for (key, member) in members {
        let place = format!("{place}.{key}");
        match (
            schema["properties"].get(key),
            &schema["additionalProperties"],
        ) {
            (Some(schema), _) => breaches(member, schema, &place, found),
            (None, Value::Bool(false)) => found.push(format!("{place}: not in the schema")),
            (None, schema) => breaches(member, schema, &place, found),
        }
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        _ => panic!("{name} is no type"),
    }
}

#[test]
fn a_breach_is_found() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "a": { "type": ["number", "null"] }, "b": { "anyOf": [{ "type": "string" }, { "type": "null" }] } },
        "required": ["a"],
        "additionalProperties": false,
    });
    let of = |text: &str| {
        let mut found = Vec::new();
        let value = serde_json::from_str(text).expect("JSON");
        breaches(&value, &schema, "", &mut found);
        found.len()
    };
    assert_eq!(of(r#"{"a": 1, "b": "x"}"#), 0);
    assert_eq!(of(r#"{"a": null, "b": null}"#), 0);
    assert_eq!(of(r#"{"b": 1}"#), 2);
    assert_eq!(of(r#"{"a": "x", "c": 1}"#), 2);
}

/// The schemas by name, as the program prints them.
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    fn of(directory: &Path) -> Schemas {
        let list = hitm(directory, &["schema"]);
        assert_eq!(list.status.code(), Some(0));
        let list = text(&list.stdout);
        let names = list
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let schemas = names.map(|name| (name.to_owned(), json(directory, &["schema", name])));
        Schemas(schemas.collect())
    }

    #[track_caller]
    fn check(&self, name: &str, value: &Value) {
        let schema = self
            .0
            .get(name)
            .unwrap_or_else(|| panic!("no schema {name}"));
        let mut found = Vec::new();
        breaches(value, schema, name, &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[track_caller]
    fn check_command(&self, directory: &Path, name: &str, args: &[&str]) {
        let args = [args, &["--format", "json"]].concat();
        self.check(name, &json(directory, &args));
    }
}

/// A recorded program, whose structure has debug information.
fn recorded(directory: &Path) {
    let source = programs::root().join("examples/false_sharing.c");
    programs::build(directory, "packed", &source, &[]);
    programs::build(directory, "padded", &source, &["PADDED".to_owned()]);
    for (program, output) in [("./packed", "hitm.data"), ("./padded", "other.hitm")] {
        let args = ["-o", output, "--", program, "2000"];
        assert!(programs::record_within(directory, &args).status.success());
    }
    let runs = ["--runs", "2", "-o", "runs", "--", "./packed", "500"];
    assert!(programs::record_within(directory, &runs).status.success());
}

#[test]
fn recordings_are_shown_as_their_schemas_say() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    recorded(directory);
    let schemas = Schemas::of(directory);
    let commands: &[(&str, &[&str])] = &[
        ("report", &["report"]),
        (
            "report",
            &["report", "--by", "member,function,pair,caller", "-g", "2"],
        ),
        ("report", &["report", "-i", "runs", "--by", "member"]),
        ("report", &["report", "--thread", "packed"]),
        ("type", &["report", "--type", "foo"]),
        ("perf-c2c", &["report", "--perf-c2c"]),
        ("explain", &["explain"]),
        ("explain", &["explain", "false sharing", "-i", "hitm.data"]),
        ("explain", &["explain", "run_share", "-i", "hitm.data"]),
        ("explain", &["explain", "1"]),
        ("diff", &["diff", "hitm.data", "other.hitm"]),
        ("whatif", &["whatif", "--threads-to", "compact"]),
        (
            "advice",
            &["layout", "advise", "foo", "-i", "packed", "-p", "hitm.data"],
        ),
        (
            "advice-all",
            &["layout", "advise", "--all", "-p", "hitm.data"],
        ),
        ("layout-show", &["layout", "show", "foo", "-i", "packed"]),
        ("layout-list", &["layout", "list", "-i", "packed"]),
        (
            "layout-diff",
            &["layout", "diff", "packed", "padded", "foo"],
        ),
        ("review", &["review", "packed", "padded", "-p", "hitm.data"]),
    ];
    for (name, args) in commands {
        schemas.check_command(directory, name, args);
    }
    let compared = [
        "compare",
        "--runs",
        "1",
        "--format",
        "json",
        "./packed 500",
        "./padded 500",
    ];
    schemas.check("compare", &json(directory, &compared));
}

#[test]
fn models_are_shown_as_their_schemas_say() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    std::fs::write(directory.join("x.toml"), SCENARIO).expect("a scenario");
    let schemas = Schemas::of(directory);
    let commands: &[(&str, &[&str])] = &[
        ("machine-list", &["machine", "list"]),
        ("machine", &["machine", "show", "milan-2s"]),
        ("sim", &["sim", "x.toml"]),
        ("place-status", &["place", "status"]),
    ];
    for (name, args) in commands {
        schemas.check_command(directory, name, args);
    }
}

#[test]
fn a_name_without_a_schema_is_an_error() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = hitm(directory.path(), &["schema", "reports"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("reports: no output in JSON has this name"));
}
