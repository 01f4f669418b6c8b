//! Lines that change hands, and are not contended.

use super::Writer;
use super::style::Style;
use super::table::{Align, Column, Table};
use crate::WORTH_SHARE_MIN;
use crate::fields::{HANDED_FIELDS, HANDED_ROW_FIELDS, by_id};
use crate::handed::{HandedOver, HandedRow};

impl Writer {
    pub(super) fn handed(&mut self, handed: &HandedOver) {
        if handed.run_share < WORTH_SHARE_MIN {
            return;
        }
        self.title("Handed over: lines that pass from CPU to CPU, each too rarely for a verdict");
        let figure = |id| by_id(HANDED_FIELDS, id).text(handed);
        let text = format!(
            "  {} lines, {} hand-overs, {} HITM; lost {} cycles, {} of the run",
            figure("line_count"),
            figure("handover_count"),
            figure("hitm_count"),
            figure("lost_cycles"),
            figure("run_share")
        );
        self.sentence(Style::Plain, &text);
        let figures = ["handover_count", "hitm_count", "lost_cycles", "lost_share"];
        let objects = [&["line_count"], &figures[..]].concat();
        self.handed_rows("object", &objects, &handed.objects);
        self.handed_rows("taken by", &figures, &handed.takers);
    }

    fn handed_rows(&mut self, title: &str, ids: &[&str], rows: &[HandedRow]) {
        let fields = ids.iter().map(|id| by_id(HANDED_ROW_FIELDS, id));
        let mut columns: Vec<Column> = fields
            .clone()
            .map(|field| Column::of_field(field, Align::Right))
            .collect();
        columns.push(Column::new(title, Align::Name));
        let mut table = Table::new(columns);
        for row in rows {
            let mut cells: Vec<String> = fields.clone().map(|field| field.cell(row)).collect();
            cells.push(match row.name_count {
                0 => "(without a name)".to_owned(),
                1 if !row.name.is_empty() => row.name.clone(),
                others => format!("({others} others)"),
            });
            table.push(cells);
        }
        self.table(&table);
    }
}
