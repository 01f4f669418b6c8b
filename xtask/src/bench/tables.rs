//! The tables of docs/performance.md, made from the history.
//!
//! docs/performance/tables.txt has a paragraph for each: its name, and its text with places such as
//! `{replay-one-core:0}`. A place is the newest median of a benchmark with so many decimals, and
//! with a `+` at its end also the smallest and the largest sample.

use std::fs;

use anyhow::{Context, Result};

use super::history::{self, Entry, Figure};
use crate::root;
use crate::tidy::Checkout;

const PAGE: &str = "docs/performance.md";
const TEMPLATES: &str = "docs/performance/tables.txt";
/// The command that writes the tables.
const COMMAND: &str = "cargo xtask bench --tables";

/// Writes the tables of the newest figures into the page.
pub fn write() -> Result<()> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
    };
    let page = filled(&read(PAGE)?, &read(TEMPLATES)?, &read(history::PATH)?)?;
    fs::write(root().join(PAGE), page).with_context(|| format!("cannot write {PAGE}"))
}

/// Says why the tables of a checkout are not those of its history.
pub(crate) fn outdated(checkout: &Checkout) -> Vec<String> {
    let text = |path: &str| {
        checkout
            .text(path)
            .with_context(|| format!("{path} is missing"))
    };
    let made = || {
        let page = text(PAGE)?;
        let made = filled(page, text(TEMPLATES)?, text(history::PATH)?)?;
        Ok::<bool, anyhow::Error>(made == page)
    };
    match made() {
        Ok(true) => Vec::new(),
        Ok(false) => vec![format!("{PAGE}: `{COMMAND}` writes them")],
        Err(error) => vec![format!("{error:#}")],
    }
}

/// The page with the tables of this history.
fn filled(page: &str, templates: &str, history: &str) -> Result<String> {
    let history = history::parse(history)?;
    let mut page = page.to_owned();
    for template in templates.trim_end().split("\n\n") {
        let (name, table) = template
            .split_once('\n')
            .with_context(|| format!("{TEMPLATES}: a paragraph is only {template:?}"))?;
        let table = with_figures(table, &history)?;
        page = with_table(&page, name, &table)?;
    }
    Ok(page)
}

/// The page with another table between the two comments of its name.
fn with_table(page: &str, name: &str, table: &str) -> Result<String> {
    let begin = format!("<!-- {COMMAND}: {name} -->\n");
    let end = format!("<!-- end of {COMMAND}: {name} -->\n");
    let parts = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some([before, after])
    });
    let [before, after] = parts.with_context(|| format!("{PAGE} has no table {name}"))?;
    Ok(format!("{before}{begin}{table}\n{end}{after}"))
}

/// A template with figures in its places.
fn with_figures(template: &str, history: &[Entry]) -> Result<String> {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let figure = part.split_once('}').and_then(|(place, rest)| {
            text += &shown(place, history)?;
            text += rest;
            Some(())
        });
        figure.with_context(|| format!("{TEMPLATES}: no figure for {{{part:.60}"))?;
    }
    Ok(text)
}

/// The figure of a place: `NAME:DECIMALS`, with its spread `NAME:DECIMALS+`.
fn shown(place: &str, history: &[Entry]) -> Option<String> {
    let (name, form) = place.split_once(':')?;
    let decimals = form.strip_suffix('+').unwrap_or(form);
    let decimals = usize::from(decimals.parse::<u8>().ok()?);
    let newest = history.iter().rev().map(|entry| &entry.figure);
    let figure = newest.into_iter().find(|figure| figure.bench == name)?;
    let spread = match form.ends_with('+') {
        true => spread(figure, decimals),
        false => String::new(),
    };
    Some(format!("{:.decimals$}{spread}", figure.median))
}

/// Smallest and largest sample and the note, as far as they are known, in brackets.
fn spread(figure: &Figure, decimals: usize) -> String {
    let range = figure.min.zip(figure.max);
    let range = range.map(|(min, max)| format!("{min:.decimals$} to {max:.decimals$}"));
    let known: Vec<String> = range.into_iter().chain(figure.note.clone()).collect();
    if known.is_empty() {
        return String::new();
    }
    format!(" ({})", known.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::File;

    const PAGE_BEFORE: &str = "# Title\n\n<!-- cargo xtask bench --tables: toys -->\n| old |\n<!-- end of cargo xtask bench --tables: toys -->\n\nText.\n";

    fn line(bench: &str, figures: &str) -> String {
        format!(
            r#"{{"bench":"{bench}","unit":"s",{figures},"date":"unknown","commit":"unknown","host":{{"cpu":"unknown","cpu_count":2,"kernel":"unknown","rustc":"unknown"}}}}"#
        ) + "\n"
    }

    fn history() -> String {
        let of_other = r#""median":0.25,"min":null,"max":null,"run_count":1"#;
        line("toy", r#""median":9,"min":8,"max":10,"run_count":3"#)
            + &line(
                "toy",
                r#""median":4,"min":3.14,"max":5,"run_count":3,"note":"quiet""#,
            )
            + &line("other", of_other)
    }

    #[test]
    fn a_table_has_the_newest_figures_and_nothing_else_changes() {
        let templates = "toys\n| a | b |\n|---|---|\n| {toy:1+} x | {toy:0}, {other:2+} s |\n";
        let page = filled(PAGE_BEFORE, templates, &history()).unwrap();
        let table = "| a | b |\n|---|---|\n| 4.0 (3.1 to 5.0; quiet) x | 4, 0.25 s |";
        assert_eq!(page, PAGE_BEFORE.replace("| old |", table));
        assert_eq!(filled(&page, templates, &history()).unwrap(), page);
    }

    #[test]
    fn a_place_without_a_figure_and_a_table_without_a_place_are_errors() {
        let error = |templates: &str| {
            let error = filled(PAGE_BEFORE, templates, &history()).unwrap_err();
            format!("{error:#}")
        };
        for place in ["{none:1}", "{toy}", "{toy:x}", "{toy:300}", "{toy:1"] {
            assert!(error(&format!("toys\n| {place} |\n")).contains("no figure for {"));
        }
        assert!(error("others\n| a |\n").contains("has no table others"));
        assert!(error("toys").contains("only \"toys\""));
    }

    #[test]
    fn a_checkout_whose_table_is_old_is_found() {
        let problems = |page: &str, history: &str| {
            let files = vec![
                File::of(PAGE, page),
                File::of(TEMPLATES, "toys\n| {toy:0} |\n"),
                File::of(history::PATH, history),
            ];
            outdated(&Checkout {
                files,
                packages: Vec::new(),
            })
        };
        let found = problems(PAGE_BEFORE, &history());
        assert_eq!(
            found,
            ["docs/performance.md: `cargo xtask bench --tables` writes them"]
        );
        assert!(problems(&PAGE_BEFORE.replace("old", "4"), &history()).is_empty());
        let damaged = problems(PAGE_BEFORE, &(history() + "{}\n"));
        assert!(damaged[0].starts_with("docs/performance/history.jsonl:4 is damaged"));
    }
}
