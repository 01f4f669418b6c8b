//! The symbol table, sorted by address: which function or object holds an address.

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

/// Symbols of one kind, sorted by address.
#[derive(Debug, Default)]
struct Sorted {
    symbols: Vec<Symbol>,
    /// `reach[i]`: the largest end of `symbols[..=i]`, so that a search backwards knows when to stop.
    reach: Vec<u64>,
}

/// Most symbols before an address that are searched for one that reaches it. Symbols nest two or
/// three deep in practice.
const MAX_STEPS_BACK: usize = 64;

/// Most bytes that a symbol without a size may hold: hand-written code is short.
pub(crate) const MAX_GUESS: u64 = 4096;

impl Sorted {
    fn new(mut symbols: Vec<Symbol>) -> Sorted {
        symbols.sort_by_key(|symbol| {
            (
                symbol.address,
                std::cmp::Reverse(symbol.size > 0),
                symbol.rank,
                symbol.name,
            )
        });
        symbols.dedup_by_key(|symbol| symbol.address);
        let reach = symbols.iter().scan(0, |furthest: &mut u64, symbol| {
            *furthest = (*furthest).max(symbol.end());
            Some(*furthest)
        });
        let reach = reach.collect();
        Sorted { symbols, reach }
    }

    /// The symbol that begins last among those that hold the address. One without a size holds what
    /// comes up to the next symbol, within [`MAX_GUESS`].
    fn find(&self, address: u64) -> Option<Symbol> {
        let after = self.symbols.partition_point(|s| s.address <= address);
        let nearest = self.symbols[..after].last()?;
        if nearest.size == 0 {
            return (address - nearest.address < MAX_GUESS).then_some(*nearest);
        }
        (0..after)
            .rev()
            .take(MAX_STEPS_BACK)
            .take_while(|index| self.reach[*index] > address)
            .map(|index| self.symbols[index])
            .find(|symbol| address < symbol.end())
    }

    fn next_start(&self, address: u64) -> Option<u64> {
        let after = self.symbols.partition_point(|s| s.address <= address);
        self.symbols.get(after).map(|symbol| symbol.address)
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
        let mut code = Vec::new();
        let mut data = Vec::new();
        for entry in elf.bytes[table.range.clone()].chunks_exact(ENTRY_SIZE) {
            match read_entry(entry) {
                Some((SymbolUse::Code, symbol)) => code.push(symbol),
                Some((SymbolUse::Data, symbol)) => data.push(symbol),
                None => {}
            }
        }
        SymbolTable {
            code: Sorted::new(code),
            data: Sorted::new(data),
            strings: Some(strings.clone()),
        }
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
        self.code.symbols.is_empty() && self.data.symbols.is_empty()
    }

    /// The function that holds the address.
    pub(crate) fn code(&self, address: u64) -> Option<Symbol> {
        self.code.find(address)
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
