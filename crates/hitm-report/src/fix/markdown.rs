//! The result of `hitm fix` for a pull request.

use super::{FixRemedy, FixView, fate, fix_left, fix_remedy};
use crate::fields::Field;
use crate::sentences::fix as say;

/// Columns of the table, before the fate.
const COLUMNS: &[Field<FixRemedy>] = &[
    fix_remedy::what,
    fix_remedy::file,
    fix_remedy::cycles_before,
    fix_remedy::cycles_after,
    fix_remedy::size_before_bytes,
    fix_remedy::size_after_bytes,
    fix_remedy::instance_count,
    fix_remedy::memory_before_bytes,
    fix_remedy::memory_after_bytes,
];

impl FixView {
    /// The result as Markdown.
    pub fn markdown(&self) -> String {
        let mut out = format!("{}\n", escaped(&self.result()));
        for line in self.elsewhere() {
            out += &format!("\n{}\n", escaped(&line));
        }
        if !self.remedies.is_empty() {
            let heads = COLUMNS
                .iter()
                .map(|field| field.title)
                .chain([fix_remedy::fate.title]);
            let heads: Vec<&str> = heads.collect();
            out += &format!(
                "\n| {} |\n{}|\n",
                heads.join(" | "),
                "|---".repeat(heads.len())
            );
        }
        for row in &self.remedies {
            let cells = COLUMNS
                .iter()
                .map(|field| field.text(row))
                .chain([fate(row)]);
            let cells: Vec<String> = cells.map(|cell| escaped(&cell)).collect();
            out += &format!("| {} |\n", cells.join(" | "));
        }
        for note in self.notes() {
            out += &format!("\n{}\n", escaped(&note));
        }
        if !self.left.is_empty() {
            out += "\nLeft as it is:\n\n";
        }
        for left in &self.left {
            let share = fix_left::run_share.text(left);
            let name = say::left(&left.finding, &left.kind, share);
            out += &format!("- {}\n", escaped(&format!("{name}: {}", left.fix)));
        }
        for (title, language, text) in [
            ("Patch", "diff", &self.diff),
            ("The structure", "c", &self.declaration),
            ("Assertions that keep it", "c", &self.assertions),
            ("Layout file", "toml", &self.layout),
            ("Message for the commit", "", &self.message),
        ] {
            if !text.is_empty() {
                out += &format!("\n{title}:\n\n{}", fenced(language, text));
            }
        }
        out
    }
}

/// Text in which nothing is markup, in one line.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => out.extend(['\\', character]),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '\n' | '\r' => out.push(' '),
            _ => out.push(character),
        }
    }
    out
}

/// Text behind a fence that is longer than any in it.
fn fenced(language: &str, text: &str) -> String {
    let ticks = text.split(|character| character != '`').map(str::len);
    let fence = "`".repeat(ticks.max().unwrap_or(0).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}\n")
}
