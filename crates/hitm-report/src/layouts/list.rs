//! Structures of a file as text.

use hitm_base::printable;
use hitm_layout::structs::LayoutList;

use crate::Printout;

/// A line for each structure.
pub fn list_text(list: &LayoutList) -> Printout {
    let names: Vec<_> = list
        .structs
        .iter()
        .map(|row| printable(&row.name))
        .collect();
    let width = names.iter().map(|name| name.chars().count());
    let width = width.max().unwrap_or(0).clamp(4, 48);
    let mut text = Printout::new();
    text.line(&format!(
        "{:<width$} {:>10} {:>6} {:>6} {:>10} {:>8}  straddling members",
        "name", "bytes", "lines", "holes", "hole bytes", "padding"
    ));
    for (name, row) in names.iter().zip(&list.structs) {
        let line = format!(
            "{name:<width$} {:>10} {:>6} {:>6} {:>10} {:>8}  {}",
            row.size_bytes,
            row.line_count,
            row.hole_count,
            row.hole_bytes,
            row.padding_bytes,
            row.straddling.join(" ")
        );
        text.line(line.trim_end());
    }
    text
}
