//! SARIF 2.1.0: one result for each finding, with the fields of its line or member as properties.
//!
//! Files below the source root are relative to `%SRCROOT%`, which services set to what they checked out.

use serde_json::{Map, Value, json};

use super::{Checked, Findings, Place, Rule, Subject, Told};
use crate::fields::{compared, finding, run, totals};
use crate::model::Report;
use crate::object::{Object, pretty};

/// The schema that OASIS publishes for the format.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Name of the fingerprint; its number rises when the same finding gets another one.
const FINGERPRINT: &str = "hitm/v1";

/// The log as JSON, indented, with a line feed at the end.
pub fn render(checked: &Checked<'_>, findings: &Findings<'_>) -> String {
    let rules: Vec<Value> = Rule::all().map(rule).collect();
    let results = findings.list.iter().map(|one| result(checked.report, one));
    let notes = findings.notes.iter();
    let notes = notes.map(|note| json!({"level": "note", "message": {"text": note}}));
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "hitm",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": notes.collect::<Vec<_>>(),
            }],
            "results": results.collect::<Vec<_>>(),
            "properties": run_properties(checked.report),
        }],
    });
    pretty(&log)
}

fn rule(rule: Rule) -> Value {
    let [short, full, help] = rule.help();
    json!({
        "id": rule.id(),
        "name": short.split(' ').map(capitalized).collect::<String>(),
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "help": {
            "text": help.replace('`', ""),
            "markdown": format!("**{short}.** {full}\n\n{help}"),
        },
        "defaultConfiguration": {"level": rule.level().name()},
        "properties": {"tags": ["performance", "concurrency"]},
    })
}

/// A word with a capital, for names of rules: letters and digits only.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars().filter(|c| c.is_ascii_alphanumeric());
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn result(report: &Report, finding: &Told<'_>) -> Value {
    let mut places = finding.places.iter();
    let index = Rule::all().position(|rule| rule == finding.rule);
    let mut result = json!({
        "ruleId": finding.rule.id(),
        "level": finding.level.name(),
        "message": {"text": finding.message},
        "locations": places.next().map(|place| location(place, &finding.name)).into_iter().collect::<Vec<_>>(),
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
    });
    if let Some(index) = index {
        result["ruleIndex"] = json!(index);
    }
    let related: Vec<Value> = places.map(related).collect();
    if !related.is_empty() {
        result["relatedLocations"] = Value::Array(related);
    }
    match finding.subject {
        Subject::Finding(finding) => {
            let properties = Object::of_run(finding::ALL, finding, report.is_sampled());
            result["properties"] = properties.json();
        }
        Subject::Member(row) => {
            result["properties"] = Object::of(compared::ALL, row).json();
        }
    }
    result
}

fn physical(place: &Place) -> Value {
    let mut artifact = Map::new();
    match place.is_below_root {
        true => {
            artifact.insert("uri".into(), encoded(&place.file).into());
            artifact.insert("uriBaseId".into(), "%SRCROOT%".into());
        }
        false => {
            let scheme = if place.file.starts_with('/') {
                "file://"
            } else {
                ""
            };
            artifact.insert(
                "uri".into(),
                format!("{scheme}{}", encoded(&place.file)).into(),
            );
        }
    }
    let mut physical = json!({"artifactLocation": artifact});
    if let Some(line) = place.line {
        physical["region"] = json!({"startLine": line});
    }
    physical
}

fn location(place: &Place, name: &str) -> Value {
    let mut location = json!({"physicalLocation": physical(place)});
    location["logicalLocations"] = json!([{"fullyQualifiedName": name, "kind": "object"}]);
    location
}

fn related(place: &Place) -> Value {
    let words = [place.function.as_str(), place.member.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    json!({
        "physicalLocation": physical(place),
        "message": {"text": words.join(": ")},
    })
}

/// A path as part of a URI: what is no letter, digit, slash or one of `-._~` is written by its bytes.
fn encoded(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn run_properties(report: &Report) -> Value {
    let is_sampled = report.is_sampled();
    json!({
        "run": Object::of_run(run::ALL, &report.run, is_sampled).json(),
        "totals": Object::of_run(totals::ALL, &report.totals, is_sampled).json(),
    })
}
