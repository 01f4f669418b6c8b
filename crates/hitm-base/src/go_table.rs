//! Names of Go's functions, which a Go program needs to unwind its own stack: stripped or not, it has them.
//!
//! Read in place: a look-up is a search in the section's bytes. Source: Go's runtime/symtab.go (`pcHeader`,
//! `functab`, `_func`) of versions 1.18 to 1.26. Files and lines, and what is inlined, are not read.
//!
//! Here, because the recorder (`hitm-qemu`) unwinds by it and `hitm-layout` names by it, which do not know each other.

/// The first bytes of the table: since Go 1.18 and since Go 1.20.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Bytes of a row: where a function begins, and where more is said of it.
const ROW_BYTES: usize = 8;

/// Longest name that is read.
const NAME_MAX: usize = 32 * 1024;

/// The table of a program: places in its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoTable {
    /// Start of the code that the rows count from.
    text: u64,
    count: usize,
    names: usize,
    rows: usize,
}

impl GoTable {
    /// Names of the section: of programs for one address, and for any.
    pub const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];

    /// The table in the bytes of its section, if its version is known. `text` is the address of `.text`:
    /// a program that may lie anywhere learns where its code is when it is loaded. `is_loaded` says which
    /// addresses are the program's.
    pub fn read(
        section: &[u8],
        text: Option<u64>,
        is_loaded: impl Fn(u64) -> bool,
    ) -> Option<GoTable> {
        let word = |at: usize| Some(u64::from_le_bytes(*section.get(at..)?.first_chunk()?));
        let place = |at: usize| usize::try_from(word(at)?).ok();
        let magic = u32::from_le_bytes(*section.first_chunk()?);
        let pointer_bytes = *section.get(7)?;
        if !MAGICS.contains(&magic) || pointer_bytes != 8 {
            return None;
        }
        let text = word(24).filter(|text| is_loaded(*text)).or(text)?;
        let (count, names, rows) = (place(8)?, place(32)?, place(64)?);
        let end = rows.checked_add(count.checked_mul(ROW_BYTES)?)?;
        (end.checked_add(4)? <= section.len()).then_some(GoTable {
            text,
            count,
            names,
            rows,
        })
    }

    /// The function that holds an address: its name and its first address.
    pub fn find(&self, section: &[u8], address: u64) -> Option<(String, u64)> {
        let offset = u32::try_from(address.checked_sub(self.text)?).ok()?;
        // The row behind the last one says where the code ends.
        let (mut low, mut high) = (0, self.count + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.start(section, middle)? <= offset {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let row = low.checked_sub(1).filter(|row| *row < self.count)?;
        let (name, begin) = self.function(section, row)?;
        (!name.is_empty()).then(|| (String::from_utf8_lossy(name).into_owned(), begin))
    }

    /// All functions: name and first address.
    pub fn functions<'s>(&self, section: &'s [u8]) -> impl Iterator<Item = (&'s str, u64)> {
        let table = *self;
        let functions = (0..self.count).filter_map(move |row| table.function(section, row));
        functions.filter_map(|(name, begin)| Some((std::str::from_utf8(name).ok()?, begin)))
    }

    fn function<'s>(&self, section: &'s [u8], row: usize) -> Option<(&'s [u8], u64)> {
        let more = number(section, self.rows + row * ROW_BYTES + 4)?;
        let of_function = self.rows.checked_add(usize::try_from(more).ok()?)?;
        let name = usize::try_from(number(section, of_function.checked_add(4)?)?).ok()?;
        let from = section.get(self.names.checked_add(name)?..)?;
        let length = from.iter().take(NAME_MAX).position(|byte| *byte == 0)?;
        let begin = self.text.checked_add(self.start(section, row)?.into())?;
        Some((&from[..length], begin))
    }

    /// Start of a function, from that of the code.
    fn start(&self, section: &[u8], row: usize) -> Option<u32> {
        number(section, self.rows + row * ROW_BYTES)
    }
}

fn number(section: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*section.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two functions, `a.f` at 0x1000 and `b.g` at 0x1040, up to 0x1060.
    fn table() -> Vec<u8> {
        let header = [2_u64, 0, 0x1000, 72, 0, 0, 0, 80];
        let mut bytes = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        header
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(b"a.f\0b.g\0");
        // Rows: starts, and places of what follows them, which says the start and the name again.
        let rows = [0_u32, 20, 0x40, 28, 0x60, 0, 0, 0x40, 4];
        rows.iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }

    #[test]
    fn functions_have_their_names_and_starts() {
        let bytes = table();
        let table = GoTable::read(&bytes, None, |at| at == 0x1000).expect("it is one");
        let all: Vec<_> = table.functions(&bytes).collect();
        assert_eq!(all, [("a.f", 0x1000), ("b.g", 0x1040)]);
        assert_eq!(table.find(&bytes, 0x103f), Some(("a.f".into(), 0x1000)));
        assert_eq!(table.find(&bytes, 0x1040), Some(("b.g".into(), 0x1040)));
        assert_eq!(table.find(&bytes, 0x1060), None);
        assert_eq!(table.find(&bytes, 0xfff), None);
    }

    #[test]
    fn a_program_that_may_lie_anywhere_counts_from_its_text() {
        let bytes = table();
        assert_eq!(GoTable::read(&bytes, None, |_| false), None);
        let table = GoTable::read(&bytes, Some(0x5000), |_| false).expect("it is one");
        let starts: Vec<u64> = table.functions(&bytes).map(|(_, at)| at).collect();
        assert_eq!(starts, [0x5000, 0x5040]);
    }

    #[test]
    fn what_is_cut_off_is_no_table() {
        let bytes = table();
        for end in 0..bytes.len() {
            let Some(table) = GoTable::read(&bytes[..end], Some(0), |_| true) else {
                continue;
            };
            assert!(table.functions(&bytes[..end]).count() <= 2);
            table.find(&bytes[..end], 0x1040);
        }
    }
}
