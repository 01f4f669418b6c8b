//! Recordings side by side as text.

use hitm_base::grouped;

use super::style::Style;
use super::table::{Align, Column, Table};
use super::{TextOptions, Writer};
use crate::Printout;
use crate::fields::side;
use crate::side_by_side::{SideBySide, SideRow};

/// The tables.
pub fn render(sides: &SideBySide, options: &TextOptions) -> Printout {
    let mut writer = Writer::new(options);
    for sentence in sides.sentences() {
        writer.sentence(Style::Bold, &sentence);
    }
    writer.sides("By object and member", sides, &sides.places);
    writer.sides("By function", sides, &sides.functions);
    writer.sides("By function and what it touches", sides, &sides.uses);
    writer.out
}

impl Writer {
    fn sides(&mut self, title: &str, sides: &SideBySide, rows: &[SideRow]) {
        self.title(title);
        let mut columns = vec![Column::new("", Align::Name)];
        for title in [side::lost_cycles.title, side::hitm_count.title] {
            let heads = sides.labels.iter().map(|label| format!("{title} {label}"));
            columns.extend(heads.map(|head| Column::new(&head, Align::Right)));
        }
        let mut table = Table::new(columns);
        // HITMs say what the cycles are lost by.
        let hitms = 1 + sides.labels.len()..1 + 2 * sides.labels.len();
        table.leave_out(hitms.rev());
        for row in rows.iter().chain([&sides.all]) {
            let numbers = row.lost_cycles.iter().chain(&row.hitm_count);
            let mut cells = vec![row.name.clone()];
            cells.extend(numbers.map(|number| grouped(*number)));
            table.push(cells);
        }
        self.table(&table);
        if rows.is_empty() {
            self.push(Style::Plain, "  Nothing is lost.");
        }
    }
}
