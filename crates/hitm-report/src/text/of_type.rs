//! One type of a recording as text.

use hitm_base::grouped;

use super::style::Style;
use super::table::{FieldTable, shorten, wrap};
use super::{TextOptions, Writer};
use crate::Printout;
use crate::fields::{Field, type_line, type_report, type_row};
use crate::of_type::{TypeLine, TypeReport, TypeRow};

const LINE_COLUMNS: &[Field<TypeLine>] = &[
    type_line::line,
    type_line::layout,
    type_line::offset_bytes,
    type_line::remote_hitm_count,
    type_line::local_hitm_count,
    type_line::store_count,
    type_line::access_count,
    type_line::load_cycles_mean,
    type_line::stall_cycles,
    type_line::stall_share,
    type_line::lost_cycles,
    type_line::cpu_count,
    type_line::members,
];
const ROW_COLUMNS: &[Field<TypeRow>] = &[
    type_row::offset,
    type_row::member,
    type_row::function,
    type_row::op,
    type_row::remote_hitm_share,
    type_row::local_hitm_share,
    type_row::store_share,
    type_row::load_cycles_mean,
    type_row::access_count,
    type_row::stall_share,
    type_row::cpu_count,
];

/// Columns that a narrow screen leaves out, the first one first.
const LINE_LEAVES_OUT: &[Field<TypeLine>] = &[
    type_line::cpu_count,
    type_line::stall_cycles,
    type_line::load_cycles_mean,
    type_line::lost_cycles,
    type_line::local_hitm_count,
    type_line::store_count,
];
const ROW_LEAVES_OUT: &[Field<TypeRow>] = &[
    type_row::cpu_count,
    type_row::stall_cycles,
    type_row::store_share,
    type_row::load_cycles_mean,
    type_row::local_hitm_share,
    type_row::op,
];

/// The whole report.
pub fn render(report: &TypeReport, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    let command = shorten(&report.command.join(" "), writer.width - 13);
    writer.push(Style::Bold, &format!("hitm report: {command}"));
    let figure = |field: Field<_>| field.text(report);
    let text = format!(
        "{} of {} on {}, taken together; lines are counted from the first byte",
        figure(type_report::object_count),
        report.type_name,
        report.machine
    );
    writer.paragraph(Style::Plain, "objects", &text);
    if report.unaligned_count > 0 {
        let text = format!(
            "{} objects do not begin at the start of a cache line: their lines are others",
            figure(type_report::unaligned_count)
        );
        writer.paragraph(Style::Warning, "note", &text);
    }
    if report.moved_count > 0 {
        let text = format!(
            "{} objects were priced in another layout, on lines marked moved; the others keep the compiled one",
            figure(type_report::moved_count)
        );
        writer.paragraph(Style::Plain, "layout", &text);
    }
    writer.title(&format!("Lines of {}", report.type_name));
    let columns = LINE_COLUMNS
        .iter()
        .filter(|field| report.moved_count > 0 || !field.is(&type_line::layout));
    let columns: Vec<Field<TypeLine>> = columns.copied().collect();
    let mut table = FieldTable::new(&columns).leave_out(LINE_LEAVES_OUT);
    report.lines.iter().for_each(|line| table.push(line));
    writer.table(&table.table);
    report.lines.iter().for_each(|line| writer.type_line(line));
    writer.out
}

impl Writer {
    fn type_line(&mut self, line: &TypeLine) {
        let title = format!(
            "Line {}{} ({} remote HITM, {} local, {} stores)",
            line.line,
            if line.is_moved { ", moved" } else { "" },
            grouped(line.counts.remote_hitm()),
            grouped(line.counts.local_hitm()),
            grouped(line.store_count())
        );
        self.title(&title);
        let mut table = FieldTable::new(ROW_COLUMNS).leave_out(ROW_LEAVES_OUT);
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
