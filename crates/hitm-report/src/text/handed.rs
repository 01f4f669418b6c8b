//! Lines that change hands, and are not contended.

use super::Writer;
use super::style::Style;
use super::table::{FieldTable, Shown};
use crate::WORTH_SHARE_MIN;
use crate::fields::{Field, Value, handed, handed_row};
use crate::handed::{HandedOver, HandedRow};

/// Columns of objects and of those who take them.
const FIGURES: &[Field<HandedRow>] = &[
    handed_row::handover_count,
    handed_row::hitm_count,
    handed_row::lost_cycles,
    handed_row::lost_share,
];

impl Writer {
    pub(super) fn handed(&mut self, handed: &HandedOver) {
        if handed.run_share < WORTH_SHARE_MIN {
            return;
        }
        self.title("Handed over: lines that pass from CPU to CPU, each too rarely for a verdict");
        let figure = |field: Field<_>| field.text(handed);
        let text = format!(
            "  {} lines, {} hand-overs, {} HITM; lost {} cycles, {} of the run",
            figure(handed::line_count),
            figure(handed::handover_count),
            figure(handed::hitm_count),
            figure(handed::lost_cycles),
            figure(handed::run_share)
        );
        self.sentence(Style::Plain, &text);
        let objects = handed_row::name.titled("object");
        let columns = [&[handed_row::line_count], FIGURES, &[objects]].concat();
        self.handed_rows(&columns, &handed.objects);
        let takers = handed_row::name.titled("taken by");
        self.handed_rows(&[FIGURES, &[takers]].concat(), &handed.takers);
    }

    fn handed_rows(&mut self, columns: &[Field<HandedRow>], rows: &[HandedRow]) {
        let mut table = FieldTable::new(columns);
        for row in rows {
            let name = match row.name_count {
                0 => "(without a name)".to_owned(),
                1 if !row.name.is_empty() => row.name.clone(),
                others => format!("({others} others)"),
            };
            let name = Shown::new(handed_row::name, Value::Text(name));
            let cells = table.cells_with(row, &[name]);
            table.table.push(cells);
        }
        self.table(&table.table);
    }
}
