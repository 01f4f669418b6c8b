//! Time that threads waited for one another.

use super::Writer;
use super::style::Style;
use super::table::FieldTable;
use crate::WORTH_SHARE_MIN;
use crate::fields::{Field, wait_row, waiting};
use crate::glossary::TO_WAIT;
use crate::model::share;
use crate::waiting::{WaitRow, Waiting};

/// Rows that text shows, and the least part of the threads' time that each needs.
const ROWS_MAX: usize = 10;
const ROW_SHARE_MIN: f64 = 0.001;

/// Columns of the table.
const COLUMNS: &[Field<WaitRow>] = &[
    wait_row::kind,
    wait_row::cycles,
    wait_row::run_share,
    wait_row::wait_count,
    wait_row::cycles_mean,
    wait_row::thread_count,
    wait_row::name,
    wait_row::waiters,
];

impl Writer {
    pub(super) fn waiting(&mut self, waiting: &Waiting) {
        let has_parked = share(waiting.parked_cycles, waiting.whole_cycles) >= WORTH_SHARE_MIN;
        if waiting.run_share() < WORTH_SHARE_MIN && !has_parked {
            return;
        }
        self.title(&format!("Waiting: {}", TO_WAIT.clause()));
        let figure = |field: Field<_>| field.text(waiting);
        let text = format!(
            "  spinning {}, asleep for locks {} of {} cycles, {}",
            figure(waiting::spinning_cycles),
            figure(waiting::asleep_cycles),
            figure(waiting::whole_cycles),
            figure(waiting::run_share)
        );
        self.sentence(Style::Plain, &text);
        if has_parked {
            let text = format!(
                "  {} cycles asleep at words of single threads, for locks or for work: no part of these",
                figure(waiting::parked_cycles)
            );
            self.sentence(Style::Plain, &text);
        }
        let mut table = FieldTable::new(COLUMNS);
        let rows = waiting.rows.iter();
        let rows = rows.filter(|row| row.kind.is_some() && row.run_share >= ROW_SHARE_MIN);
        rows.take(ROWS_MAX).for_each(|row| table.push(row));
        self.table(&table.table);
    }
}
