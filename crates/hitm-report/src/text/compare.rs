//! Two programs compared, as text.

use hitm_base::{counted, grouped};

use super::style::Style;
use super::table::{FieldTable, Shows, gives_way, stays};
use super::{TextOptions, Writer};
use crate::compare::{ComparedRow, ProgramComparison};
use crate::fields::compared_row;
use crate::{Printout, RUN_SHARE_MIN};

/// Columns of the quantities of runs.
pub(crate) const TOTAL_COLUMNS: [Shows<ComparedRow>; 6] = [
    stays(compared_row::name),
    stays(compared_row::before_cycles),
    stays(compared_row::after_cycles),
    stays(compared_row::change_share),
    gives_way(2, compared_row::change_least_share),
    gives_way(1, compared_row::change_largest_share),
];

/// Columns of findings.
pub(crate) const FINDING_COLUMNS: [Shows<ComparedRow>; 7] = [
    stays(compared_row::name),
    stays(compared_row::kind),
    stays(compared_row::before_cycles),
    stays(compared_row::after_cycles),
    stays(compared_row::change_share),
    gives_way(2, compared_row::before_run_share),
    gives_way(1, compared_row::after_run_share),
];

/// The whole answer.
pub fn render(compared: &ProgramComparison, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    let labels = compared.programs.each_ref().map(|one| &*one.label);
    writer.push(Style::Bold, &format!("hitm compare: {}", labels.join(", ")));
    for (label, one) in ["before", "after"].into_iter().zip(&compared.programs) {
        let runs = counted(one.runs.len() as u64, "run");
        let command = one.command.join(" ");
        let text = match command.contains(&one.label) {
            true => format!("{command}, {runs}"),
            false => format!("{}: {command}, {runs}", one.label),
        };
        writer.paragraph(Style::Plain, label, &text);
    }
    writer.paragraph(Style::Plain, "machine", &compared.machine);
    writer.out.blank();
    writer.sentence(Style::Bold, &compared.sentence());
    writer.title("Cycles of a run");
    writer.compared(&TOTAL_COLUMNS, compared.known_totals());
    writer.title("Findings: what they cost, by change");
    match compared.findings.is_empty() {
        true => writer.sentence(Style::Plain, "No finding in either."),
        false => writer.compared(&FINDING_COLUMNS, compared.findings.iter()),
    }
    if let Some(text) = small_text(compared) {
        writer.sentence(Style::Dim, &text);
    }
    writer.out
}

impl Writer {
    fn compared<'t>(
        &mut self,
        columns: &[Shows<ComparedRow>],
        rows: impl Iterator<Item = &'t ComparedRow>,
    ) {
        let mut table = FieldTable::new(columns);
        rows.for_each(|row| table.push(row));
        self.table(&table.table);
    }
}

/// Says how many findings are too small to be shown.
pub(crate) fn small_text(compared: &ProgramComparison) -> Option<String> {
    let limit = RUN_SHARE_MIN * 100.0;
    let count = compared.small_count as u64;
    (count > 0).then(|| match count {
        1 => format!("1 more finding, below {limit:.1}% in both."),
        _ => format!(
            "{} more findings, below {limit:.1}% in both.",
            grouped(count)
        ),
    })
}
