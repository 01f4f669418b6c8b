//! Tables and figures of declared fields.

use hitm_base::{Printout, printable};
use hitm_fields::{Align as Set, Field, Unit, Value};

use crate::text::style::Painter;
use crate::text::table::{Align, Column, Table, shorten};

/// A head and a row for each item, in at most `width` columns.
pub(super) fn rows<T>(columns: &[Field<T>], items: &[T], width: usize) -> Printout {
    let mut table = Table::new(columns.iter().map(column).collect());
    for item in items {
        table.push(columns.iter().map(|field| field.cell(item)).collect());
    }
    let mut out = Printout::new();
    table.render(&mut out, width, Painter { color: false });
    out
}

fn column<T>(field: &Field<T>) -> Column {
    let align = match field.align {
        Set::Left => Align::Left,
        Set::Right => Align::Right,
        Set::Name => Align::Name,
        Set::Words => Align::Words,
    };
    Column::new(&title(field), align)
}

fn title<T>(field: &Field<T>) -> String {
    let per_cent = if field.unit == Unit::Share { "%" } else { "" };
    format!("{}{per_cent}", field.title)
}

/// Every figure with its meaning.
pub(super) fn figures<T>(out: &mut Printout, fields: &[Field<T>], item: &T, width: usize) {
    const TITLE: usize = 12;
    const VALUE: usize = 12;
    const BLANKS: usize = 4;
    out.blank();
    out.line("Figures");
    for field in fields {
        // Names stand above.
        if matches!((field.value)(item), Value::Text(_)) {
            continue;
        }
        let value = field.text(item);
        let value = printable(&value);
        let room = width.saturating_sub(TITLE + VALUE.max(value.chars().count()) + BLANKS);
        let meaning = shorten(field.description(), room.max(2));
        let title = title(field);
        out.line(&format!("  {title:<TITLE$}{value:>VALUE$}  {meaning}"));
    }
}
