//! The symbol table, sorted by address: which function or object holds an address.

use std::ops::Range;

use crate::elf::{Elf, Section};

/// A named range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    /// Bytes; 0 when the table does not say.
    pub(crate) size: u64,
    name: u32,
    /// Lower is better among symbols of one address.
    rank: u8,
}

impl Symbol {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

/// Symbols of one kind, sorted by address: a browser has millions.
#[derive(Debug, Default)]
struct Sorted(Vec<Symbol>);

/// Most symbols before an address that are searched for one that reaches it. Symbols nest two or
/// three deep in practice.
const MAX_STEPS_BACK: usize = 64;

/// Most bytes that a symbol without a size may hold: hand-written code is short.
pub(crate) const MAX_GUESS: u64 = 4096;

impl Sorted {
    fn new(mut symbols: Vec<Symbol>) -> Sorted {
        symbols.sort_unstable_by_key(|symbol| {
            let has_size = std::cmp::Reverse(symbol.size > 0);
            let (rank, name, size) = (symbol.rank, symbol.name, symbol.size);
            (symbol.address, has_size, rank, name, size)
        });
        symbols.dedup_by_key(|symbol| symbol.address);
        symbols.shrink_to_fit();
        Sorted(symbols)
    }

    /// The symbol that begins last among those that hold the address. One without a size holds what
    /// comes up to the next symbol, within [`MAX_GUESS`].
    fn find(&self, address: u64) -> Option<Symbol> {
        let before = &self.0[..self.after(address)];
        let nearest = before.last()?;
        if nearest.size == 0 {
            return (address - nearest.address < MAX_GUESS).then_some(*nearest);
        }
        let mut close = before.iter().rev().take(MAX_STEPS_BACK);
        close.find(|symbol| address < symbol.end()).copied()
    }

    fn next_start(&self, address: u64) -> Option<u64> {
        let next = self.0.get(self.after(address));
        next.map(|symbol| symbol.address)
    }

    /// Symbols that begin at or before the address.
    fn after(&self, address: u64) -> usize {
        self.0.partition_point(|symbol| symbol.address <= address)
    }
}

/// Function and object symbols of one file.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    code: Sorted,
    data: Sorted,
    /// The section that names point into.
    strings: Option<Section>,
}

impl SymbolTable {
    /// Reads `.symtab`, or `.dynsym` when the file has been stripped.
    pub(crate) fn read(elf: &Elf) -> SymbolTable {
        let full = (elf.section(".symtab"), elf.section(".strtab"));
        let dynamic = (elf.section(".dynsym"), elf.section(".dynstr"));
        let not_empty = |pair: &(Option<&Section>, Option<&Section>)| {
            pair.0.is_some_and(|table| !table.range.is_empty())
        };
        let Some((Some(table), Some(strings))) = [full, dynamic].into_iter().find(not_empty) else {
            return SymbolTable::default();
        };
        let entries = || elf.bytes[table.range.clone()].chunks_exact(ENTRY_SIZE);
        let used_as = |wanted| {
            let of_kind = |entry| read_entry(entry).filter(|(kind, _)| *kind == wanted);
            // A vector that grows would hold twice of them for a moment.
            let mut symbols = Vec::with_capacity(entries().filter_map(of_kind).count());
            symbols.extend(entries().filter_map(of_kind).map(|(_, symbol)| symbol));
            Sorted::new(symbols)
        };
        let found = SymbolTable {
            code: used_as(SymbolUse::Code),
            data: used_as(SymbolUse::Data),
            strings: Some(strings.clone()),
        };
        elf.bytes.release();
        found
    }

    /// The address of the symbol with this name, of whatever kind, marks of the linker included.
    pub(crate) fn address_of(elf: &Elf, name: &str) -> Option<u64> {
        let strings = &elf.bytes[elf.section(".strtab")?.range.clone()];
        let is_wanted = |entry: &&[u8]| {
            let place = entry.first_chunk().map(|place| u32::from_le_bytes(*place));
            let own = place.and_then(|place| strings.get(place as usize..));
            let rest = own.and_then(|own| own.strip_prefix(name.as_bytes()));
            rest.is_some_and(|rest| rest.first() == Some(&0))
        };
        let table = &elf.bytes[elf.section(".symtab")?.range.clone()];
        let entry = table.chunks_exact(ENTRY_SIZE).find(is_wanted)?;
        Some(u64::from_le_bytes(entry.get(8..16)?.try_into().ok()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.code.0.is_empty() && self.data.0.is_empty()
    }

    /// The function that holds the address.
    pub(crate) fn code(&self, address: u64) -> Option<Symbol> {
        self.code.find(address)
    }

    /// The code of the function that holds the address. One without a size ends where the next one begins.
    pub(crate) fn code_range(&self, address: u64) -> Option<Range<u64>> {
        let symbol = self.code.find(address)?;
        let end = match symbol.size {
            0 => {
                let most = symbol.address.saturating_add(MAX_GUESS);
                let next = self.code.next_start(address);
                next.map_or(most, |next| next.min(most))
            }
            _ => symbol.end(),
        };
        Some(symbol.address..end)
    }

    /// The object that holds the address.
    pub(crate) fn data(&self, address: u64) -> Option<Symbol> {
        self.data.find(address)
    }

    /// Start of the next object after the address.
    pub(crate) fn next_data_start(&self, address: u64) -> Option<u64> {
        self.data.next_start(address)
    }

    /// The symbol's name as the table has it.
    pub(crate) fn name(&self, elf: &Elf, symbol: Symbol) -> String {
        let strings = match &self.strings {
            Some(section) => &elf.bytes[section.range.clone()],
            None => &[],
        };
        let from = strings.get(symbol.name as usize..).unwrap_or_default();
        let length = from.iter().position(|byte| *byte == 0);
        let raw = &from[..length.unwrap_or(from.len())];
        let raw = &raw[..raw.len().min(MAX_RAW_NAME)];
        let name = String::from_utf8_lossy(raw);
        // `memcpy@@GLIBC_2.14`: the version is no part of the name.
        name.split('@').next().unwrap_or_default().to_owned()
    }
}

/// Longest raw name that is read; the demangler refuses longer ones anyway.
const MAX_RAW_NAME: usize = 32 * 1024;

/// Bytes of an `Elf64_Sym`.
const ENTRY_SIZE: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SymbolUse {
    Code,
    Data,
}

/// One `Elf64_Sym`, if it names code or data of this file.
fn read_entry(entry: &[u8]) -> Option<(SymbolUse, Symbol)> {
    use object::elf;
    let u64_at = |at: usize| Some(u64::from_le_bytes(entry.get(at..at + 8)?.try_into().ok()?));
    let name = u32::from_le_bytes(entry.get(..4)?.try_into().ok()?);
    let info = *entry.get(4)?;
    let section = u16::from_le_bytes(entry.get(6..8)?.try_into().ok()?);
    let (address, size) = (u64_at(8)?, u64_at(16)?);
    if section == elf::SHN_UNDEF || section == elf::SHN_ABS || address == 0 || name == 0 {
        return None;
    }
    let rank = match info >> 4 {
        elf::STB_GLOBAL => 0,
        elf::STB_WEAK => 1,
        _ => 2,
    };
    let symbol = Symbol {
        address,
        size,
        name,
        rank,
    };
    match info & 0xf {
        elf::STT_FUNC | elf::STT_GNU_IFUNC => Some((SymbolUse::Code, symbol)),
        elf::STT_OBJECT | elf::STT_COMMON => Some((SymbolUse::Data, symbol)),
        // Assembly code leaves types out; a linker's marks such as `_end` have no size.
        elf::STT_NOTYPE if size > 0 => Some((SymbolUse::Data, symbol)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u64, size: u64, name: u32) -> Symbol {
        Symbol {
            address,
            size,
            name,
            rank: 0,
        }
    }

    #[test]
    fn nested_and_sizeless_symbols() {
        let table = Sorted::new(vec![
            symbol(0x8000, 0, 5),
            symbol(0x100, 0x40, 1),
            symbol(0x110, 8, 2),
            symbol(0x200, 0, 3),
            symbol(0x300, 8, 4),
        ]);
        let name_at = |address| table.find(address).map(|symbol| symbol.name);
        assert_eq!(name_at(0xff), None);
        assert_eq!(name_at(0x100), Some(1));
        assert_eq!(name_at(0x117), Some(2));
        assert_eq!(name_at(0x118), Some(1), "the outer one goes on after it");
        assert_eq!(name_at(0x140), None, "a size is believed");
        assert_eq!(name_at(0x2ff), Some(3), "no size: up to the next");
        assert_eq!(name_at(0x8fff), Some(5));
        assert_eq!(name_at(0x9000), None, "but not for ever");
        assert_eq!(table.next_start(0x110), Some(0x200));
    }
}
