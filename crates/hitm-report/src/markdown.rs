//! Answers as Markdown, for comments on a change.

mod report;

use hitm_base::counted;
use hitm_fields::Align;

use crate::Printout;
use crate::compare::ProgramComparison;
use crate::fields::{Field, Unit};
use crate::text::compare::{FINDING_COLUMNS, TOTAL_COLUMNS, small_text};
use crate::text::table::Shows;
pub use report::report;

/// Two programs compared.
pub fn compare(compared: &ProgramComparison) -> Printout {
    let mut out = Printout::new();
    let runs = compared.programs.each_ref().map(|one| one.runs.len());
    let runs = match runs[0] == runs[1] {
        true => counted(runs[0] as u64, "run") + " each",
        false => format!("{} and {} runs", runs[0], runs[1]),
    };
    let commands = compared.programs.iter().map(|one| {
        let (name, command) = (code(&one.label), code(&one.command.join(" ")));
        match one.label == one.command.join(" ") {
            true => name,
            false => format!("{name} = {command}"),
        }
    });
    let commands: Vec<String> = commands.collect();
    out.line(&format!("**{}**", escaped(&compared.sentence())));
    out.blank();
    out.line(&format!(
        "{}, as on {}, {runs}.",
        commands.join(", then "),
        compared.machine,
    ));
    table(&mut out, &TOTAL_COLUMNS, compared.known_totals(), escaped);
    if !compared.findings.is_empty() {
        table(&mut out, &FINDING_COLUMNS, compared.findings.iter(), code);
    }
    if let Some(text) = small_text(compared) {
        out.blank();
        out.line(&text);
    }
    out
}

/// A table of items below an empty line.
fn table<'t, T: 't>(
    out: &mut Printout,
    columns: &[Shows<T>],
    items: impl Iterator<Item = &'t T>,
    name: fn(&str) -> String,
) {
    out.blank();
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let fields: Vec<Field<T>> = columns.iter().map(|one| one.field).collect();
    let heads = fields.iter().map(|field| escaped(field.title));
    out.line(&row(heads.collect()));
    let rules = fields.iter().map(|field| match field.align {
        Align::Right => "--:".to_owned(),
        Align::Left | Align::Name | Align::Words => "---".to_owned(),
    });
    out.line(&row(rules.collect()));
    for item in items {
        let cells = fields.iter().map(|field| match (field.align, field.unit) {
            (Align::Name, _) => name(&field.text(item)),
            (_, Unit::Cycles) => field.cell(item),
            _ => escaped(&field.text(item)),
        });
        out.line(&row(cells.collect()));
    }
}

/// Text that Markdown shows as it is, in a cell of a table too.
fn escaped(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~'
        ) {
            kept.push('\\');
        }
        kept.push(c);
    }
    kept
}

/// Text as code. Inside, a bar ends a cell of a table all the same, and a backtick ends the code.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("a_b|<T>*"), "a\\_b\\|\\<T\\>\\*");
        assert_eq!(code("map<K>|`x`"), "`map<K>\\|'x'`");
    }
}
