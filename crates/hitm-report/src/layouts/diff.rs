//! Changes of a structure as text.

use hitm_base::printable;
use hitm_layout::structs::{Change, LayoutDiff, MemberDiff, MemberPlace};

use crate::Printout;

/// A line for each member that changed.
pub fn diff_text(diff: &LayoutDiff) -> Printout {
    let (before, after) = (&diff.before, &diff.after);
    let mut text = Printout::new();
    text.line(&format!("{}: {} -> {}", diff.name, before.file, after.file));
    text.line(&format!(
        "  size {} -> {}, lines {} -> {}, bytes in holes {} -> {}, padding {} -> {}",
        before.size_bytes,
        after.size_bytes,
        before.line_count,
        after.line_count,
        before.hole_bytes,
        after.hole_bytes,
        before.padding_bytes,
        after.padding_bytes
    ));
    let changed = |row: &&MemberDiff| row.change != Change::Same || row.is_resized;
    let rows = diff.members.iter().filter(changed);
    let rows: Vec<_> = rows.map(|row| (printable(&row.name), row)).collect();
    if rows.is_empty() {
        text.line("  no member changed");
        return text;
    }
    let width = rows.iter().map(|(name, _)| name.chars().count());
    let width = width.max().unwrap_or(0).clamp(6, 40);
    text.line(&format!(
        "  {:<width$} {:>18} {:>18}  change",
        "member", "offset:size @line", "offset:size @line"
    ));
    for (name, row) in rows {
        text.line(&format!(
            "{} {name:<width$} {:>18} {:>18}  {}",
            mark(row.change),
            place_text(row.before.as_ref()),
            place_text(row.after.as_ref()),
            words(row)
        ));
    }
    text
}

const fn mark(change: Change) -> char {
    match change {
        Change::Same => ' ',
        Change::Moved => '.',
        Change::MovedLine => '*',
        Change::Added => '+',
        Change::Removed => '-',
    }
}

fn place_text(place: Option<&MemberPlace>) -> String {
    match place {
        None => "-".to_owned(),
        Some(place) if place.bit_size.is_multiple_of(8) && place.bit_offset.is_multiple_of(8) => {
            format!(
                "{}:{} @{}",
                place.offset_bytes, place.size_bytes, place.first_line
            )
        }
        Some(place) => format!(
            "{}.{}:{}b @{}",
            place.offset_bytes,
            place.bit_offset % 8,
            place.bit_size,
            place.first_line
        ),
    }
}

fn words(row: &MemberDiff) -> String {
    let word = match row.change {
        Change::Same => "",
        Change::Moved => "moved",
        Change::MovedLine => "moved to another line",
        Change::Added => "added",
        Change::Removed => "removed",
    };
    let types = row.before.as_ref().zip(row.after.as_ref());
    let resized = types.filter(|_| row.is_resized).map(|(before, after)| {
        if before.type_name == after.type_name {
            "resized".to_owned()
        } else {
            format!("{} -> {}", before.type_name, after.type_name)
        }
    });
    match (word, resized) {
        ("", Some(resized)) => resized,
        (word, Some(resized)) => format!("{word}, {resized}"),
        (word, None) => word.to_owned(),
    }
}
