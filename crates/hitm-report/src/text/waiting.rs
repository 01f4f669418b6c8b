//! Time that threads waited for one another.

use super::Writer;
use super::style::Style;
use super::table::{Align, Column, Table};
use crate::WORTH_SHARE_MIN;
use crate::fields::{WAIT_ROW_FIELDS, WAITING_FIELDS, by_id};
use crate::waiting::Waiting;

/// Rows that text shows, and the least part of the threads' time that each needs.
const ROWS_MAX: usize = 10;
const ROW_SHARE_MIN: f64 = 0.001;

/// Columns of the table.
const COLUMNS: &[(&str, Align)] = &[
    ("kind", Align::Left),
    ("cycles", Align::Right),
    ("run_share", Align::Right),
    ("wait_count", Align::Right),
    ("cycles_mean", Align::Right),
    ("thread_count", Align::Right),
    ("name", Align::Name),
    ("waiters", Align::Name),
];

impl Writer {
    pub(super) fn waiting(&mut self, waiting: &Waiting) {
        if waiting.run_share() < WORTH_SHARE_MIN {
            return;
        }
        self.title("Waiting: threads that spin or sleep until another one lets them go on");
        let figure = |id| by_id(WAITING_FIELDS, id).text(waiting);
        let text = format!(
            "  spinning {}, asleep for locks {} of {} cycles, {}",
            figure("spinning_cycles"),
            figure("asleep_cycles"),
            figure("whole_cycles"),
            figure("run_share")
        );
        self.sentence(Style::Plain, &text);
        let fields = COLUMNS.iter().map(|(id, _)| by_id(WAIT_ROW_FIELDS, id));
        let columns = COLUMNS.iter().zip(fields.clone());
        let columns = columns.map(|((_, align), field)| Column::of_field(field, *align));
        let mut table = Table::new(columns.collect());
        let rows = waiting.rows.iter();
        let rows = rows.filter(|row| row.kind.is_some() && row.run_share >= ROW_SHARE_MIN);
        for row in rows.take(ROWS_MAX) {
            table.push(fields.clone().map(|field| field.cell(row)).collect());
        }
        self.table(&table);
    }
}
