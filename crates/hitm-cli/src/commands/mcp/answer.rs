//! Answers that an agent can afford: at most 2 KB, with counts of what was cut.

use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

/// Bytes of an answer.
pub(super) const BYTES_MAX: usize = 2_000;

/// Columns of text: names stay whole where a screen of 80 shortens them.
const WIDTH: &str = "100";

/// Runs this program with a command line. Returns what it printed.
///
/// # Errors
/// The command fails: with its words.
pub(super) fn hitm(args: &[String]) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = output(args)?;
    match status.success() {
        true => Ok(String::from_utf8_lossy(&stdout).into_owned()),
        false => bail!("{}", String::from_utf8_lossy(&stderr).trim_end()),
    }
}

/// The same with all that the command leaves behind.
pub(super) fn output(args: &[String]) -> Result<Output> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(args).env("COLUMNS", WIDTH).stdin(Stdio::null());
    command.output().context("cannot run this program again")
}

/// The same, as JSON.
pub(super) fn json_of(args: &[String]) -> Result<Value> {
    let args = [args, &["--format".to_owned(), "json".to_owned()]].concat();
    Ok(serde_json::from_str(&hitm(&args)?)?)
}

/// Text in whole lines, with the number of those that are cut.
pub(super) fn cut(text: &str) -> String {
    if text.len() <= BYTES_MAX {
        return text.trim_end().to_owned();
    }
    // Room for the last line.
    const LAST: usize = 60;
    let mut kept = String::new();
    let mut lines = text.lines();
    for line in lines.by_ref() {
        if kept.len() + line.len() + 1 + LAST > BYTES_MAX {
            let left = 1 + lines.count();
            kept.push_str(&format!("[cut: {left} more lines]"));
            return kept;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// The first screen of a report: all before its first table in full.
pub(super) fn first_screen(text: &str) -> String {
    let screen = text.lines().take_while(|line| !line.starts_with("== "));
    cut(&screen.collect::<Vec<_>>().join("\n"))
}

/// Members of an object, those that it has.
pub(super) fn picked(object: &Value, keys: &[&str]) -> Value {
    let members = keys.iter().filter_map(|key| {
        let value = object.get(*key).filter(|value| !value.is_null())?;
        Some(((*key).to_owned(), value.clone()))
    });
    Value::Object(members.collect::<Map<String, Value>>())
}

/// As many items of a list as there is room for, and the number of those that are cut.
pub(super) fn listed(name: &str, items: Vec<Value>) -> String {
    let all = items.len();
    let text = |items: &[Value]| json!({ name: items, "left_out": all - items.len() }).to_string();
    let fits = (0..=all).rev().find(|count| text(&items[..*count]).len() <= BYTES_MAX);
    text(&items[..fits.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_counted() {
        assert_eq!(cut("a\nb\n"), "a\nb");
        let text = "0123456789\n".repeat(300);
        let kept = cut(&text);
        assert!(kept.len() <= BYTES_MAX);
        let shown = kept.lines().count() - 1;
        assert!(kept.ends_with(&format!("[cut: {} more lines]", 300 - shown)), "{kept}");
    }

    #[test]
    fn a_list_has_what_there_is_room_for() {
        let item = json!({ "name": "x".repeat(90) });
        assert_eq!(listed("all", vec![]), r#"{"all":[],"left_out":0}"#);
        let text = listed("all", vec![item; 40]);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let shown = value["all"].as_array().map(Vec::len).expect("a list");
        assert!(text.len() <= BYTES_MAX && shown > 15);
        assert_eq!(value["left_out"], 40 - shown);
    }
}
