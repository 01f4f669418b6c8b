//! One type of a recording as text.

use hitm_base::grouped;

use super::style::Style;
use super::table::{FieldTable, Shows, gives_way, shorten, stays, wrap};
use super::{TextOptions, Writer};
use crate::Printout;
use crate::fields::{Field, type_line, type_report, type_row};
use crate::of_type::{TypeLine, TypeReport, TypeRow};

const LINE_COLUMNS: &[Shows<TypeLine>] = &[
    stays(type_line::line),
    stays(type_line::layout),
    stays(type_line::offset_bytes),
    stays(type_line::remote_hitm_count),
    gives_way(5, type_line::local_hitm_count),
    gives_way(6, type_line::store_count),
    stays(type_line::access_count),
    gives_way(3, type_line::load_cycles_mean),
    gives_way(2, type_line::stall_cycles),
    stays(type_line::stall_share),
    gives_way(4, type_line::lost_cycles),
    gives_way(1, type_line::cpu_count),
    stays(type_line::members),
];
const ROW_COLUMNS: &[Shows<TypeRow>] = &[
    stays(type_row::offset),
    stays(type_row::member),
    stays(type_row::function),
    gives_way(6, type_row::op),
    stays(type_row::remote_hitm_share),
    gives_way(5, type_row::local_hitm_share),
    gives_way(3, type_row::store_share),
    gives_way(4, type_row::load_cycles_mean),
    stays(type_row::access_count),
    stays(type_row::stall_share),
    gives_way(1, type_row::cpu_count),
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
        .filter(|one| report.moved_count > 0 || !one.field.is(&type_line::layout));
    let mut table = FieldTable::new(columns);
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
        let mut table = FieldTable::new(ROW_COLUMNS);
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
