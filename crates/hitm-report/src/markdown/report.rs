//! A report as a comment on a change: what is lost, the findings, what to do about each.

use super::{code, escaped, table};
use crate::Printout;
use crate::ci::{Checked, Findings, Level, Subject, Told};
use crate::fields::{Field, run};
use crate::names::brief;
use crate::summary::SummaryLine;
use crate::text::findings::columns;

/// Longest comment that GitHub takes, in characters (docs.github.com, errors of its API: "body is too long").
const COMMENT_CHARS_MAX: usize = 65_536;
/// Room below that for the last lines.
const RESERVE_CHARS: usize = 2_000;
/// Notes below the findings.
const NOTES_MAX: usize = 5;

/// A report and what its gates say. `summary` is that of the first screen.
pub fn report(checked: &Checked<'_>, findings: &Findings<'_>, summary: &[SummaryLine]) -> Printout {
    let report = checked.report;
    let mut out = Printout::new();
    let lost = summary.first().map_or("", |line| line.text.as_str());
    out.line(&format!("**hitm: {}**", escaped(lost)));
    out.blank();
    out.line(&setting(checked));
    let shown: Vec<_> = report.findings.iter().filter(|one| one.is_shown).collect();
    if !shown.is_empty() {
        table(&mut out, columns(report), shown.iter().copied(), code);
    }
    out.blank();
    let mut left_out = 0;
    for told in &findings.list {
        let item = item(told);
        match out.chars().count() + item.chars().count() + RESERVE_CHARS <= COMMENT_CHARS_MAX {
            true => out.line(&item),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        out.line(&format!(
            "- {left_out} more findings do not fit into a comment."
        ));
    }
    small_print(&mut out, &findings.notes);
    out
}

/// The machine, the threads and the program.
fn setting(checked: &Checked<'_>) -> String {
    let report = checked.report;
    let figure = |field: Field<_>| escaped(&field.text(&report.run));
    let program = report.run.command.join(" ");
    let program = match program.is_empty() {
        true => String::new(),
        false => format!("{}, ", code(&program)),
    };
    let who = report.who().counted(report.threads.len() as u64);
    match report.is_sampled() {
        true => format!("{program}{who}."),
        false => format!("{program}as on {}, {who}.", figure(run::machine)),
    }
}

/// A finding or a member, with its place and what to do.
fn item(told: &Told<'_>) -> String {
    let place = told.places.first().map(|place| match place.line {
        Some(line) => format!(" at {}", code(&format!("{}:{line}", place.file))),
        None => format!(" in {}", code(&place.file)),
    });
    let place = place.unwrap_or_default();
    let name = code(&brief(&told.name));
    let breaks = match told.level {
        Level::Error => "**Breaks the gate:** ",
        Level::Warning | Level::Note => "",
    };
    match told.subject {
        Subject::Finding(finding) => {
            format!(
                "{}. {breaks}{name}{place}: {}",
                finding.number,
                escaped(&finding.fix)
            )
        }
        Subject::Member(_) => format!("- {breaks}{name}{place}: {}", escaped(&told.message)),
    }
}

fn small_print(out: &mut Printout, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    out.blank();
    let shown = notes.iter().take(NOTES_MAX);
    let cut = |note: &String| escaped(&note.chars().take(300).collect::<String>());
    let mut lines: Vec<String> = shown.map(cut).collect();
    if notes.len() > NOTES_MAX {
        lines.push(format!("{} more notes", notes.len() - NOTES_MAX));
    }
    out.line(&format!("<sub>{}</sub>", lines.join("; ")));
}
