//! Line tables.

use std::sync::Arc;

use gimli::{DebugLineOffset, IncompleteLineProgram, LineProgramHeader};

use crate::dwarf::die::attr_text;
use crate::dwarf::sources::View;
use crate::dwarf::units::{Slice, Unit};

/// Rows of one table that are kept; a table with more is cut.
const MAX_ROWS: usize = 1 << 22;

/// The rows of one unit's line program, sorted by address.
#[derive(Debug, Default)]
pub(super) struct LineTable {
    rows: Vec<Row>,
}

/// From `address` on, up to the next row, instructions come from this line.
#[derive(Debug, Clone, Copy)]
struct Row {
    address: u64,
    file: u32,
    /// 0 for none.
    line: u32,
    /// True if the row only ends a sequence: what follows it has no line.
    is_end: bool,
    /// The number of the sequence, so that rows of one address keep their order.
    sequence: u32,
}

impl LineTable {
    pub(super) fn read<'a>(
        view: &View<'a>,
        unit: &Unit<'a>,
        number: u32,
    ) -> gimli::Result<LineTable> {
        let Some(program) = program(view, unit, number)? else {
            return Ok(LineTable::default());
        };
        let mut rows: Vec<Row> = Vec::new();
        let mut sequence = 0;
        let mut program = program.rows();
        while let Some((_, row)) = program.next_row()? {
            if rows.len() >= MAX_ROWS {
                break;
            }
            let line = row.line().map_or(0, |line| line.get());
            let new = Row {
                address: row.address(),
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: u32::try_from(line).unwrap_or(0),
                is_end: row.end_sequence(),
                sequence,
            };
            sequence += u32::from(row.end_sequence());
            // Of several rows for one address the last says where the code comes from.
            match rows.last_mut() {
                Some(last) if last.address == new.address && last.sequence == new.sequence => {
                    *last = new;
                }
                _ => rows.push(new),
            }
        }
        // A sequence may begin where another ends: its first row must come after that end.
        rows.sort_by_key(|row| (row.address, !row.is_end, row.sequence));
        Ok(LineTable { rows })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// File number and line of the instruction.
    pub(super) fn find(&self, address: u64) -> Option<(u64, u32)> {
        let after = self.rows.partition_point(|row| row.address <= address);
        let row = self.rows[..after].last()?;
        (!row.is_end).then_some((u64::from(row.file), row.line))
    }
}

fn program<'a>(
    view: &View<'a>,
    unit: &Unit<'_>,
    number: u32,
) -> gimli::Result<Option<IncompleteLineProgram<Slice<'a>>>> {
    let Some(offset) = view.file.root(number).line_program else {
        return Ok(None);
    };
    let address_size = unit.header.address_size();
    let dwarf = view.dwarf_of(number);
    Ok(Some(dwarf.debug_line.program(
        DebugLineOffset(offset),
        address_size,
        None,
        None,
    )?))
}

/// The path of a file of the unit's line table, as the compiler was given it. Directories that the
/// table names are put before it; the compilation directory (number 0) is not.
pub(super) fn file_name<'a>(
    view: &View<'a>,
    unit: &Unit<'a>,
    number: u32,
    file: u64,
) -> Option<String> {
    let program = program(view, unit, number).ok()??;
    path_of(view, unit, number, program.header(), file)
}

/// The paths of the first `most` files of the unit's line table, by the numbers that entries use.
pub(crate) fn file_names<'a>(
    view: &View<'a>,
    unit: &Unit<'a>,
    number: u32,
    most: usize,
) -> gimli::Result<Vec<Option<Arc<str>>>> {
    let Some(program) = program(view, unit, number)? else {
        return Ok(Vec::new());
    };
    let header = program.header();
    // Before version 5 files are numbered from 1.
    let first = usize::from(header.version() < 5);
    let count = (header.file_names().len() + first).min(most);
    let names = (0..count).map(|file| {
        let path = path_of(view, unit, number, header, file as u64);
        path.map(Arc::from)
    });
    Ok(names.collect())
}

fn path_of<'a>(
    view: &View<'a>,
    unit: &Unit<'a>,
    number: u32,
    header: &LineProgramHeader<Slice<'a>>,
    file: u64,
) -> Option<String> {
    let entry = header.file(file)?;
    let dwarf = &*view.dwarf_of(number);
    let name = attr_text(dwarf, unit, entry.path_name())?;
    if name.starts_with('/') || entry.directory_index() == 0 {
        return Some(name);
    }
    let directory = entry.directory(header);
    let directory = directory.and_then(|value| attr_text(dwarf, unit, value));
    match directory {
        Some(directory) if !directory.is_empty() => Some(format!("{directory}/{name}")),
        _ => Some(name),
    }
}
