//! Tables and details of a report for a view that shows one row in one line, and a line of memory as a heat map.
//!
//! Figures are those of the text, by the same fields. The first line of rows is the head.

mod heat;
mod source;

use hitm_base::Printout;

use crate::by::TotalRow;
use crate::fields::{LINE_FIELDS, ROW_FIELDS, TOTAL_ROW_FIELDS, by_id};
pub use crate::live::screen::paragraph;
use crate::model::{LineReport, Report, RowReport};
use crate::pictures::LineMap;
use crate::text::by::columns as total_columns;
use crate::text::style::Painter;
use crate::text::table::{Align, FieldTable};
use crate::text::{calls, line_columns};
pub use heat::{Figure, HEAT_MAX, Spot};
pub use source::SourceText;

/// Columns of the accesses to a member.
const ACCESS_COLUMNS: &[(&str, Align)] = &[
    ("op", Align::Left),
    ("lost_share", Align::Right),
    ("remote_hitm_share", Align::Right),
    ("local_hitm_share", Align::Right),
    ("access_count", Align::Right),
    ("threads", Align::Words),
    ("function", Align::Name),
    ("source", Align::Name),
];
/// Those that a narrow screen leaves out, the first one first.
const ACCESS_LEAVES_OUT: &[&str] = &["local_hitm_share", "remote_hitm_share", "access_count"];

const PLAIN: Painter = Painter { color: false };

/// Text of a detail, with what is coloured in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// The text.
    pub text: Printout,
    /// Coloured parts, from the top down.
    pub spots: Vec<Spot>,
}

/// A row for each of some lines of a report, in at most `width` columns.
pub fn line_rows(report: &Report, lines: &[&LineReport], width: usize) -> Printout {
    let (columns, leaves_out) = line_columns(report.run.sampled.is_some());
    let mut table = FieldTable::new(LINE_FIELDS, columns).leave_out(leaves_out);
    lines.iter().for_each(|line| table.push(line));
    rendered(&table, width)
}

/// A row for each name of a table of totals.
pub fn total_rows(report: &Report, rows: &[TotalRow], width: usize) -> Printout {
    let (columns, leaves_out) = total_columns(report.run.sampled.is_some());
    let mut table = FieldTable::new(TOTAL_ROW_FIELDS, columns).leave_out(leaves_out);
    rows.iter().for_each(|row| table.push(row));
    rendered(&table, width)
}

/// A line: its bytes by thread as a heat map of a figure, the accesses to the box of number `place`, and what to do
/// about it.
pub fn line_detail(
    line: &LineReport,
    map: &LineMap,
    (figure, place): (Figure, usize),
    width: usize,
) -> Detail {
    let value = |id| by_id(LINE_FIELDS, id).text(line);
    let mut detail = Detail::default();
    let title = format!(
        "Line {}: {} {}, {} lost cycles ({}), {}",
        value("rank"),
        value("address"),
        line.name(),
        value("lost_cycles"),
        value("lost_share"),
        line.verdict_text
    );
    detail.text.append(&paragraph(&title, width));
    detail.text.blank();
    heat::draw(&mut detail, map, (figure, place), width);
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
        "load_latency_cycles_mean",
        "thread_count",
        "cpu_count",
        "nodes",
    ];
    let cost = cost.map(|id| format!("{} {}", by_id(LINE_FIELDS, id).title, value(id)));
    detail.text.append(&paragraph(&cost.join(", "), width));
    detail
}

/// Rows of a line with their callers, where accesses have some.
fn accesses(rows: &[&RowReport], width: usize) -> Printout {
    let mut table = FieldTable::new(ROW_FIELDS, ACCESS_COLUMNS).leave_out(ACCESS_LEAVES_OUT);
    for row in rows {
        let cells = table.cells(row);
        table.table.push_with_notes(cells, calls::notes(row, width));
    }
    rendered(&table, width)
}

fn rendered<T>(table: &FieldTable<T>, width: usize) -> Printout {
    let mut out = Printout::new();
    table.table.render(&mut out, width, PLAIN);
    out
}
