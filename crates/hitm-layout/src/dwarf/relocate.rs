//! Relocations of a relocatable file's debug sections: what a linker would write into them.
//!
//! An object file leaves offsets into other debug sections, such as those of strings, to relocations.
//! Only absolute values of 32 and 64 bits are needed (`R_X86_64_32`, `R_X86_64_64`, `R_AARCH64_ABS32`,
//! `R_AARCH64_ABS64`). Others belong to locations of thread-local variables, and stay zero.
//!
//! Sections of one name are read one after the other, so a symbol of a debug section moves with it.
//! Code and data are not placed: their addresses count from each section's start.
//!
//! Source: System V ABI, x86-64 supplement, section 4.4; ELF for the Arm 64-bit architecture, section 5.7.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, Relocation, RelocationKind,
    RelocationTarget, SectionIndex,
};

use crate::elf::Elf;

/// Relocations of one file.
pub(super) struct Relocator<'f> {
    file: ElfFile64<'f, LittleEndian>,
    /// Offset of a section in those of its name.
    starts: BTreeMap<usize, u64>,
}

impl<'f> Relocator<'f> {
    /// The relocations of a relocatable file; none for a linked one.
    pub(super) fn of(elf: &'f Elf) -> Option<Relocator<'f>> {
        if !elf.is_relocatable {
            return None;
        }
        let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
        let mut starts = BTreeMap::new();
        for section in &elf.sections {
            let end = ends.entry(&section.name).or_default();
            starts.insert(section.index, *end);
            *end = end.saturating_add(section.uncompressed_size);
        }
        let file = ElfFile64::parse(&*elf.bytes).ok()?;
        Some(Relocator { file, starts })
    }

    /// Writes the values of a section's relocations into its bytes.
    pub(super) fn apply(&self, section: usize, bytes: &mut [u8]) -> Result<(), String> {
        let section = self.file.section_by_index(SectionIndex(section));
        let section = section.map_err(|cause| cause.to_string())?;
        for (offset, relocation) in section.relocations() {
            let Some(size) = size_of(&relocation) else {
                continue;
            };
            let at = usize::try_from(offset).ok();
            let place = at.and_then(|at| bytes.get_mut(at..at.checked_add(size)?));
            let place =
                place.ok_or_else(|| format!("a relocation at {offset:#x}, beyond its end"))?;
            let value = self.value(&relocation, place)?;
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(())
    }

    fn value(&self, relocation: &Relocation, place: &[u8]) -> Result<u64, String> {
        let mut addend = relocation.addend() as u64;
        if relocation.has_implicit_addend() {
            let mut before = [0; 8];
            before[..place.len()].copy_from_slice(place);
            addend = addend.wrapping_add(u64::from_le_bytes(before));
        }
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            return Ok(addend);
        };
        let symbol = self.file.symbol_by_index(symbol);
        let symbol = symbol.map_err(|cause| cause.to_string())?;
        let section = symbol.section_index().map(|index| index.0);
        let start = section.and_then(|index| self.starts.get(&index));
        let start = start.copied().unwrap_or(0);
        Ok(start.wrapping_add(symbol.address()).wrapping_add(addend))
    }
}

/// Bytes that a relocation writes; none for those that are not applied.
fn size_of(relocation: &Relocation) -> Option<usize> {
    match (relocation.kind(), relocation.size()) {
        (RelocationKind::Absolute, 32) => Some(4),
        (RelocationKind::Absolute, 64) => Some(8),
        _ => None,
    }
}
