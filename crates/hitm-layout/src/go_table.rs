//! Names of Go's functions, which a Go program needs to unwind its own stack: stripped or not, it has them.
//!
//! Read in place: a lookup is a search in the section's bytes. Source: Go's runtime/symtab.go (`pcHeader`,
//! `functab`, `_func`) of versions 1.18 to 1.26. Files and lines, and what is inlined, are not read.

use std::ops::Range;

use crate::elf::Elf;

/// The first bytes of the table: since Go 1.18 and since Go 1.20.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Bytes of a row: where a function begins, and where more is said of it.
const ROW_BYTES: usize = 8;

/// Longest name that is read.
const NAME_MAX: usize = 32 * 1024;

/// The table in one file.
#[derive(Debug, Clone)]
pub(crate) struct GoTable {
    /// The table in the file's bytes.
    section: Range<usize>,
    /// Start of the code that the rows count from.
    text: u64,
    count: usize,
    /// In the table.
    names: usize,
    rows: usize,
}

impl GoTable {
    /// The table of a file, if it has one of a version that is known.
    pub(crate) fn read(elf: &Elf) -> Option<GoTable> {
        let sections = [".gopclntab", ".data.rel.ro.gopclntab"];
        let section = sections.iter().find_map(|name| elf.section(name))?;
        let bytes = &elf.bytes[section.range.clone()];
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let place = |at: usize| usize::try_from(word(at)?).ok();
        let magic = u32::from_le_bytes(*bytes.first_chunk()?);
        let pointer_bytes = *bytes.get(7)?;
        if !MAGICS.contains(&magic) || pointer_bytes != 8 {
            return None;
        }
        // A program that may lie anywhere learns where its code is when it is loaded.
        let text = word(24).filter(|text| elf.is_loaded(*text));
        let text = text.or_else(|| Some(elf.section(".text")?.address))?;
        let (count, names, rows) = (place(8)?, place(32)?, place(64)?);
        let end = rows.checked_add(count.checked_mul(ROW_BYTES)?)?;
        (end.checked_add(4)? <= bytes.len()).then_some(GoTable {
            section: section.range.clone(),
            text,
            count,
            names,
            rows,
        })
    }

    /// The function that holds an address: its name and its first address.
    pub(crate) fn find(&self, elf: &Elf, address: u64) -> Option<(String, u64)> {
        let bytes = &elf.bytes[self.section.clone()];
        let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let start = |row: usize| number(self.rows + row * ROW_BYTES);
        let offset = u32::try_from(address.checked_sub(self.text)?).ok()?;
        // The row behind the last one says where the code ends.
        let (mut low, mut high) = (0, self.count + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match start(middle)? <= offset {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let row = low.checked_sub(1).filter(|row| *row < self.count)?;
        let more = number(self.rows + row * ROW_BYTES + 4)?;
        let of_function = self.rows.checked_add(usize::try_from(more).ok()?)?;
        let name = usize::try_from(number(of_function.checked_add(4)?)?).ok()?;
        let from = bytes.get(self.names.checked_add(name)?..)?;
        let length = from.iter().take(NAME_MAX).position(|byte| *byte == 0)?;
        let name = String::from_utf8_lossy(&from[..length]).into_owned();
        let begin = self.text + u64::from(start(row)?);
        (!name.is_empty()).then_some((name, begin))
    }
}
