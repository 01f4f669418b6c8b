//! Tables and details of a report for a view that shows one row in one line, and a line of memory as a heat map.
//!
//! Figures are those of the text, by the same fields. The first line of rows is the head.

mod heat;
mod source;

use crate::Printout;
use crate::by::TotalRow;
use crate::fields::{Field, line, row};
pub use crate::live::screen::paragraph;
use crate::model::{Finding, LineReport, Report, RowReport};
use crate::pictures::LineMap;
use crate::summary::{self, WHERE};
use crate::text::by::total_table;
use crate::text::style::Painter;
use crate::text::table::{FieldTable, Shows, gives_way, pairs, stays};
use crate::text::{calls, findings, line_table};
pub use heat::{Figure, HEAT_MAX, Spot};
pub use source::{Excerpt, SourceText, file_and_line};

/// Columns of the accesses to a member.
const ACCESS_COLUMNS: &[Shows<RowReport>] = &[
    stays(row::op),
    stays(row::lost_share),
    gives_way(2, row::remote_hitm_share),
    gives_way(1, row::local_hitm_share),
    gives_way(3, row::access_count),
    stays(row::threads),
    stays(row::function),
    stays(row::source),
];

const PLAIN: Painter = Painter { color: false };

/// Text of a detail, with what is coloured in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// The text.
    pub text: Printout,
    /// Coloured parts, from the top down.
    pub spots: Vec<Spot>,
}

/// A row for each finding of a report, in at most `width` columns.
pub fn finding_rows(report: &Report, width: usize) -> Printout {
    rendered(&findings::all(report), width)
}

/// A finding in a few sentences, to stand above its lines.
pub fn finding_detail(report: &Report, finding: &Finding, width: usize) -> Printout {
    let mut detail = Printout::new();
    let title = format!(
        "Finding {}: {}, {}",
        finding.number, finding.name, finding.kind_brief
    );
    detail.append(&paragraph(&title, width));
    // Its name and its place are said.
    let told = summary::of_finding(report, finding).into_iter();
    for line in told.filter(|line| line.label != WHERE) {
        detail.append(&paragraph(&format!("{}: {}", line.label, line.text), width));
    }
    let cost = format!("Cost: {}", findings::cost(finding, report.is_sampled()));
    detail.append(&paragraph(&cost, width));
    detail
}

/// A row for each of some lines of a report, in at most `width` columns.
pub fn line_rows(report: &Report, lines: &[&LineReport], width: usize) -> Printout {
    let mut table = line_table(report.is_sampled());
    lines.iter().for_each(|line| table.push(line));
    rendered(&table, width)
}

/// A row for each name of a table of totals.
pub fn total_rows(report: &Report, rows: &[TotalRow], width: usize) -> Printout {
    let mut table = total_table(report.is_sampled());
    rows.iter().for_each(|row| table.push(row));
    rendered(&table, width)
}

/// A line: its bytes by thread as a heat map of a figure, the accesses to the box of number `place`, and what to do
/// about it.
pub fn line_detail(
    line: &LineReport,
    map: &LineMap,
    figure: Figure,
    place: usize,
    width: usize,
) -> Detail {
    let value = |field: Field<_>| field.text(line);
    let mut detail = Detail::default();
    let title = format!(
        "Line {}: {} {}, {} lost cycles ({}), {}",
        value(line::rank),
        value(line::address),
        line.name(),
        value(line::lost_cycles),
        value(line::lost_share),
        line.verdict_text
    );
    detail.text.append(&paragraph(&title, width));
    detail.text.blank();
    heat::draw(&mut detail, map, figure, place, width);
    if let Some(one) = map.boxes.get(place) {
        detail.text.blank();
        let end = one.offset.saturating_add(one.size_bytes);
        let rows = line.rows.iter();
        let rows: Vec<&RowReport> = rows
            .filter(|row| (one.offset..end).contains(&row.offset))
            .collect();
        let name = format!("{}{}", one.object, one.member);
        let title = format!("Accesses to {name} at {:#x}", one.offset);
        detail.text.append(&paragraph(&title, width));
        detail.text.append(&accesses(&rows, width));
    }
    detail.text.blank();
    let advice = format!("advice: {}", line.advice);
    detail.text.append(&paragraph(&advice, width));
    let cost = [
        line::load_latency_cycles_mean,
        line::thread_count,
        line::cpu_count,
        line::nodes,
    ];
    detail.text.append(&paragraph(&pairs(line, &cost), width));
    detail
}

/// Rows of a line with their callers, where accesses have some.
fn accesses(rows: &[&RowReport], width: usize) -> Printout {
    let mut table = FieldTable::new(ACCESS_COLUMNS);
    for row in rows {
        let cells = table.cells(row);
        table.table.push_with_notes(cells, calls::notes(row, width));
    }
    rendered(&table, width)
}

/// A table without colours, in at most `width` columns.
pub(crate) fn rendered<T>(table: &FieldTable<T>, width: usize) -> Printout {
    let mut out = Printout::new();
    table.table.render(&mut out, width, PLAIN);
    out
}
