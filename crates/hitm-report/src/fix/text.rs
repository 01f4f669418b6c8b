//! The result of `hitm fix` for people.

use super::{FixRemedy, FixView, fate, fix_left, fix_remedy};
use crate::Printout;
use crate::fields::Field;
use crate::sentences::fix as say;
use crate::text::TextOptions;
use crate::text::style::Painter;
use crate::text::table::{Column, Table};

/// Columns of the table of remedies, before the fate.
const COLUMNS: &[Field<FixRemedy>] = &[
    fix_remedy::number,
    fix_remedy::what,
    fix_remedy::file,
    fix_remedy::replayed_gain,
    fix_remedy::cycles_before,
    fix_remedy::cycles_after,
    fix_remedy::size_before_bytes,
    fix_remedy::size_after_bytes,
    fix_remedy::instance_count,
    fix_remedy::memory_before_bytes,
    fix_remedy::memory_after_bytes,
];

/// Columns that a narrow screen leaves out, the first one first.
const GIVE_WAY: [&Field<FixRemedy>; 5] = [
    &fix_remedy::file,
    &fix_remedy::replayed_gain,
    &fix_remedy::memory_before_bytes,
    &fix_remedy::instance_count,
    &fix_remedy::size_before_bytes,
];

impl FixView {
    /// The result for people.
    pub fn text(&self, options: &TextOptions) -> Printout {
        let mut out = Printout::new();
        out.line(&self.result());
        self.elsewhere().for_each(|line| out.line(&line));
        if !self.remedies.is_empty() {
            out.blank();
            self.table().render(
                &mut out,
                options.width,
                Painter {
                    color: options.color,
                },
            );
        }
        for note in self.notes() {
            out.line(&format!("note: {note}"));
        }
        if !self.left.is_empty() {
            out.blank();
            out.line("Left as it is:");
        }
        for left in &self.left {
            let share = fix_left::run_share.text(left);
            let name = say::left(&left.finding, &left.kind, share);
            out.line(&format!("  {name}: {}", left.fix));
        }
        for (title, text) in [
            ("Patch:", &self.diff),
            ("The structure:", &self.declaration),
            ("Assertions that keep it:", &self.assertions),
            ("Layout file:", &self.layout),
            ("Message for the commit:", &self.message),
        ] {
            if !text.is_empty() {
                out.blank();
                out.line(title);
                out.source(text);
            }
        }
        out
    }

    fn table(&self) -> Table {
        // Sizes are known of structures alone.
        let is_known = |field: &&Field<FixRemedy>| {
            let mut rows = self.remedies.iter();
            rows.any(|row| field.text(row) != "-")
        };
        let columns: Vec<&Field<FixRemedy>> = COLUMNS.iter().filter(is_known).collect();
        let heads = columns.iter().copied().chain([&fix_remedy::fate]);
        let mut table = Table::new(heads.map(Column::of_field).collect());
        let position = |wanted: &&Field<FixRemedy>| {
            let mut ids = columns.iter().map(|field| field.id);
            ids.position(|id| id == wanted.id)
        };
        table.leave_out(GIVE_WAY.iter().filter_map(position));
        for row in &self.remedies {
            let cells = columns.iter().map(|field| field.text(row));
            let (fate, notes) = match row.reason.is_empty() {
                true => (fate(row), Vec::new()),
                false => (row.fate.to_owned(), vec![row.reason.clone()]),
            };
            table.push_with_notes(cells.chain([fate]).collect(), notes);
        }
        table
    }
}
