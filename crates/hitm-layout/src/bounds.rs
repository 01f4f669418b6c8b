//! Bounds of functions, in files that keep nothing else of them: `.eh_frame` has a row for each
//! function that exceptions and profilers unwind through.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};

use crate::elf::Elf;

/// Functions of one file that are kept, 16 bytes each: the largest browsers have a million.
const FUNCTIONS_MAX: usize = 1 << 21;

/// Functions by address.
#[derive(Debug, Default)]
pub(crate) struct FunctionBounds {
    /// First address and the one after the last, sorted.
    functions: Vec<(u64, u64)>,
}

impl FunctionBounds {
    /// Reads the functions of a file, up to the first damaged row.
    pub(crate) fn read(elf: &Elf) -> FunctionBounds {
        let mut functions = Vec::new();
        if let Some(section) = elf.section(".eh_frame") {
            let address = |name| elf.section(name).map_or(0, |section| section.address);
            let bases = BaseAddresses::default()
                .set_eh_frame(section.address)
                .set_text(address(".text"))
                .set_got(address(".got"));
            let frame = EhFrame::new(&elf.bytes[section.range.clone()], LittleEndian);
            let mut entries = frame.entries(&bases);
            while let Ok(Some(entry)) = entries.next() {
                let CieOrFde::Fde(partial) = entry else {
                    continue;
                };
                let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
                    continue;
                };
                let (begin, length) = (entry.initial_address(), entry.len());
                if functions.len() >= FUNCTIONS_MAX {
                    break;
                }
                functions.extend(begin.checked_add(length).map(|end| (begin, end)));
            }
        }
        functions.retain(|(begin, end)| begin < end && elf.is_loaded(*begin));
        functions.sort_unstable();
        FunctionBounds { functions }
    }

    /// The function that holds an address: its first address and the one after its last.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, u64)> {
        let after = self
            .functions
            .partition_point(|function| function.0 <= address);
        let nearest = self.functions[..after].last()?;
        (address < nearest.1).then_some(*nearest)
    }
}
