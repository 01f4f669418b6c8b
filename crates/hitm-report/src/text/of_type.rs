//! One type of a recording as text.

use hitm_base::{Printout, grouped};

use super::style::Style;
use super::table::{Align, FieldTable, shorten, wrap};
use super::{TextOptions, Writer};
use crate::fields::{TYPE_FIELDS, TYPE_LINE_FIELDS, TYPE_ROW_FIELDS, by_id};
use crate::of_type::{TypeLine, TypeReport};

const LINE_COLUMNS: &[(&str, Align)] = &[
    ("line", Align::Right),
    ("layout", Align::Left),
    ("offset_bytes", Align::Right),
    ("remote_hitm_count", Align::Right),
    ("local_hitm_count", Align::Right),
    ("store_count", Align::Right),
    ("access_count", Align::Right),
    ("load_cycles_mean", Align::Right),
    ("stall_cycles", Align::Right),
    ("stall_share", Align::Right),
    ("lost_cycles", Align::Right),
    ("cpu_count", Align::Right),
    ("members", Align::Words),
];
const ROW_COLUMNS: &[(&str, Align)] = &[
    ("offset", Align::Right),
    ("member", Align::Name),
    ("function", Align::Name),
    ("op", Align::Left),
    ("remote_hitm_share", Align::Right),
    ("local_hitm_share", Align::Right),
    ("store_share", Align::Right),
    ("load_cycles_mean", Align::Right),
    ("access_count", Align::Right),
    ("stall_share", Align::Right),
    ("cpu_count", Align::Right),
];

/// Columns that a narrow screen leaves out, the first one first.
const LEAVES_OUT: &[&str] = &[
    "cpu_count",
    "stall_cycles",
    "store_share",
    "load_cycles_mean",
    "lost_cycles",
    "local_hitm_count",
    "local_hitm_share",
    "store_count",
    "op",
];

/// The whole report.
pub fn render(report: &TypeReport, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    let command = shorten(&report.command.join(" "), writer.width - 13);
    writer.push(Style::Bold, &format!("hitm report: {command}"));
    let figure = |id| by_id(TYPE_FIELDS, id).text(report);
    let text = format!(
        "{} of {} on {}, taken together; lines are counted from the first byte",
        figure("object_count"),
        report.type_name,
        report.machine
    );
    writer.paragraph(Style::Plain, "objects", &text);
    if report.unaligned_count > 0 {
        let text = format!(
            "{} objects do not begin at the start of a cache line: their lines are others",
            figure("unaligned_count")
        );
        writer.paragraph(Style::Warning, "note", &text);
    }
    if report.moved_count > 0 {
        let text = format!(
            "{} objects were priced in another layout, on lines marked moved; the others keep the compiled one",
            figure("moved_count")
        );
        writer.paragraph(Style::Plain, "layout", &text);
    }
    writer.title(&format!("Lines of {}", report.type_name));
    let columns = LINE_COLUMNS
        .iter()
        .filter(|(id, _)| *id != "layout" || report.moved_count > 0);
    let columns: Vec<(&str, Align)> = columns.copied().collect();
    let mut table = FieldTable::new(TYPE_LINE_FIELDS, &columns).leave_out(LEAVES_OUT);
    report.lines.iter().for_each(|line| table.push(line));
    writer.table(&table.table);
    report.lines.iter().for_each(|line| writer.type_line(line));
    writer.out
}

impl Writer {
    fn type_line(&mut self, line: &TypeLine) {
        let title = format!(
            "Line {}{} ({} remote HITM, {} local, {} stores)",
            line.number,
            if line.is_moved { ", moved" } else { "" },
            grouped(line.remote_hitm()),
            grouped(line.local_hitm()),
            grouped(line.store_count())
        );
        self.title(&title);
        let mut table = FieldTable::new(TYPE_ROW_FIELDS, ROW_COLUMNS).leave_out(LEAVES_OUT);
        line.rows.iter().for_each(|row| table.push(row));
        self.table(&table.table);
        let members = wrap(&line.members.join(" "), self.width - 12);
        for (index, text) in members.iter().enumerate() {
            let label = if index == 0 {
                "  members: "
            } else {
                "           "
            };
            self.push(Style::Plain, &format!("{label}{text}"));
        }
    }
}
