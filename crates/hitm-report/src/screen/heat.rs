//! The 64 bytes of a line by thread: a character for each byte.
//!
//! A cell begins with letters of what the thread does: R reads, W writes, L locked operations. A
//! figure from 0 to 9 follows for how much: 9 for the most, and one less for each half of it.

use hitm_base::LINE_SIZE;
use hitm_fields::words;

use super::Detail;
use crate::fields::{cell, line_box};
use crate::pictures::{LineCell, LineMap, Seat};
use crate::text::name::shorten_name;
use crate::text::style::Painter;
use crate::text::table::{Align, Column, Table};

/// The highest heat.
pub const HEAT_MAX: u8 = 9;

/// The widest name of a thread beside the map.
const NAME_MAX: usize = 32;
/// Blanks around it.
const BLANKS: usize = 2;
/// Bytes between two figures of the ruler.
const RULER_STEP: usize = 8;

words! {
    /// A quantity that a heat map shows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Figure {
        /// Cycles that threads lost.
        #[default]
        Lost = "lost cycles",
        /// Accesses that found the line modified in another cache.
        Hitm = "HITM",
        /// Plain loads.
        Reads = "reads",
        /// Plain stores.
        Writes = "writes",
        /// Locked operations.
        Locked = "locked operations",
    }
}

impl Figure {
    /// The figure after this one; the first after the last.
    #[must_use]
    pub const fn next(self) -> Figure {
        Figure::ALL[(self as usize + 1) % Figure::ALL.len()]
    }

    const fn of(self, cell: &LineCell) -> u64 {
        match self {
            Figure::Lost => cell.lost_cycles,
            Figure::Hitm => cell.hitm_count,
            Figure::Reads => cell.load_count,
            Figure::Writes => cell.store_count,
            Figure::Locked => cell.locked_count,
        }
    }
}

/// A part of a detail's text that has a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Line of the text.
    pub row: usize,
    /// Its first column.
    pub column: usize,
    /// Columns.
    pub width: usize,
    /// 0 to [`HEAT_MAX`].
    pub heat: u8,
}

/// Adds a map, and a table of its boxes below it.
pub(super) fn draw(detail: &mut Detail, map: &LineMap, figure: Figure, place: usize, width: usize) {
    let most = map.cells.iter().map(|cell| figure.of(cell)).max();
    let most = most.unwrap_or(0);
    let room = width.saturating_sub(LINE_SIZE as usize + BLANKS);
    let wanted = map.seats.iter().map(|seat| seat_name(seat).chars().count());
    let names = wanted.max().unwrap_or(0).max(6).min(room.min(NAME_MAX));
    let head = |label: &str, bytes: &str| format!("{label:<names$}  {bytes}");
    detail.text.line(&head("byte", &ruler()));
    detail.text.line(&head("member", &letters(map, place)));
    for (index, seat) in map.seats.iter().enumerate() {
        let row = detail.text.lines().count();
        let mut bytes = [b'.'; LINE_SIZE as usize];
        for cell in map.cells.iter().filter(|cell| cell.seat == index as u64) {
            let Some(one) = map.boxes.get(cell.place as usize) else {
                continue;
            };
            let heat = heat(figure.of(cell), most);
            let (from, size) = (usize::from(one.offset), usize::from(one.size_bytes));
            bytes[from..from + size].copy_from_slice(&characters(cell, heat, size));
            detail.spots.push(Spot {
                row,
                column: names + BLANKS + from,
                width: size,
                heat,
            });
        }
        let name = shorten_name(&seat_name(seat), names);
        let bytes = String::from_utf8_lossy(&bytes);
        detail.text.line(&head(&name, &bytes));
    }
    let scale = format!(
        "{}: 9 is {}, each step half; R reads, W writes, L locked",
        figure.id(),
        hitm_base::grouped(most)
    );
    detail.text.append(&super::paragraph(&scale, width));
    detail.text.blank();
    boxes(map, place).render(&mut detail.text, width, Painter { color: false });
}

/// Offsets over every eighth byte.
fn ruler() -> String {
    let marks = (0..LINE_SIZE as usize).step_by(RULER_STEP);
    marks.map(|at| format!("{at:<RULER_STEP$x}")).collect()
}

/// The letter of each byte's box; of the selected one a capital.
fn letters(map: &LineMap, place: usize) -> String {
    let mut letters = String::new();
    for (index, one) in map.boxes.iter().enumerate() {
        let letter = match letter(map, index) {
            Some(letter) if index == place => letter.to_ascii_uppercase(),
            Some(letter) => letter,
            None => '.',
        };
        letters.extend(std::iter::repeat_n(letter, one.size_bytes.into()));
    }
    letters
}

/// The letter of a box that is accessed: after z comes a again.
fn letter(map: &LineMap, index: usize) -> Option<char> {
    let one = map.boxes.get(index).filter(|one| one.is_accessed)?;
    let before = map.boxes[..index].iter().filter(|one| one.is_accessed);
    debug_assert!(one.size_bytes > 0, "a box has bytes");
    Some(char::from(b'a' + (before.count() % 26) as u8))
}

fn seat_name(seat: &Seat) -> String {
    match seat.name.as_str() {
        "" => format!("{} threads", seat.thread_count),
        name => name.to_owned(),
    }
}

/// 9 for the most, one less for each half of it, 1 for all that is small, 0 for nothing.
fn heat(value: u64, most: u64) -> u8 {
    if value == 0 {
        return 0;
    }
    let halves = (most / value).ilog2().min(u32::from(HEAT_MAX) - 1);
    HEAT_MAX - halves as u8
}

/// The characters of a cell: a single byte has room for a letter only.
fn characters(cell: &LineCell, heat: u8, size: usize) -> Vec<u8> {
    let ops = [
        (cell.load_count, b'R'),
        (cell.store_count, b'W'),
        (cell.locked_count, b'L'),
    ];
    let ops: Vec<u8> = ops
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, letter)| letter)
        .collect();
    // What invalidates others' copies says most.
    let kept = ops.len().saturating_sub(size.saturating_sub(1).max(1));
    let mut shown = ops[kept..].to_vec();
    shown.resize(size, b'0' + heat);
    shown
}

/// The accessed boxes with sums over all threads.
fn boxes(map: &LineMap, place: usize) -> Table {
    let fields = [
        cell::load_count,
        cell::store_count,
        cell::locked_count,
        cell::hitm_count,
        cell::lost_cycles,
    ];
    let mut columns = vec![
        Column::new("", Align::Left),
        Column::of_field(&line_box::offset),
        Column::new("member", Align::Name),
    ];
    columns.extend(fields.iter().map(Column::of_field));
    let mut table = Table::new(columns);
    for (index, one) in map.boxes.iter().enumerate() {
        let Some(letter) = letter(map, index) else {
            continue;
        };
        let mark = if index == place { '>' } else { ' ' };
        let sum = sum(map, index);
        let mut cells = vec![
            format!("{letter}{mark}"),
            line_box::offset.cell(one),
            format!("{}{}", one.object, one.member),
        ];
        cells.extend(fields.iter().map(|field| field.cell(&sum)));
        table.push(cells);
    }
    table
}

fn sum(map: &LineMap, index: usize) -> LineCell {
    let mut sum = LineCell::default();
    let cells = map.cells.iter();
    let cells = cells.filter(|cell| cell.place == index as u64);
    cells.for_each(|cell| sum.merge(cell));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_falls_by_one_for_each_half() {
        let heats = [1000, 501, 500, 250, 4, 1, 0].map(|value| heat(value, 1000));
        assert_eq!(heats, [9, 9, 8, 7, 2, 1, 0]);
        assert_eq!(heat(0, 0), 0);
        assert_eq!(heat(1, u64::MAX), 1);
    }

    #[test]
    fn cells_say_what_a_thread_does_and_how_much() {
        let cell = |load_count, store_count, locked_count| LineCell {
            load_count,
            store_count,
            locked_count,
            ..LineCell::default()
        };
        let shown = |cell: &LineCell, size| String::from_utf8(characters(cell, 7, size)).unwrap();
        assert_eq!(shown(&cell(1, 1, 0), 4), "RW77");
        assert_eq!(shown(&cell(1, 1, 1), 8), "RWL77777");
        assert_eq!(shown(&cell(1, 1, 1), 3), "WL7");
        assert_eq!(shown(&cell(1, 1, 0), 2), "W7");
        assert_eq!(shown(&cell(1, 1, 0), 1), "W");
    }
}
