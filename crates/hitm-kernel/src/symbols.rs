//! The kernel's own list of symbols, `/proc/kallsyms`.

use std::ops::Range;

/// Symbols that a kernel with all its modules can have; today's have 200,000.
pub const SYMBOLS_MAX: usize = 4_000_000;

/// Functions and variables of a kernel.
#[derive(Debug, Clone, Default)]
pub struct KernelSymbols {
    /// In ascending order of their addresses, or offsets in each CPU's area, and names.
    symbols: Vec<Symbol>,
    /// All names, one behind the other.
    names: String,
    /// Addresses of the kernel's image.
    image: Option<Range<u64>>,
}

/// A symbol of the list.
#[derive(Debug, Clone)]
struct Symbol {
    address: u64,
    /// Its name among all names.
    name: Range<usize>,
}

impl KernelSymbols {
    /// Parses lines of address, type and name, and skips all others. A kernel that hides its
    /// addresses gives an empty list.
    pub fn parse(text: &str) -> KernelSymbols {
        let mut list = SymbolList::default();
        for line in text.lines().take(SYMBOLS_MAX) {
            list.add(line);
        }
        list.finish()
    }

    /// Moves the symbols of the image up by `shift`. Per-CPU offsets and modules stay.
    pub fn shifted(mut self, shift: u64) -> KernelSymbols {
        if let Some(image) = self.image.clone().filter(|_| shift != 0) {
            for Symbol { address, .. } in &mut self.symbols {
                // `_end` is the first address behind the image, and moves with it.
                if image.contains(address) || *address == image.end {
                    *address = address.wrapping_add(shift);
                }
            }
            return self.sorted();
        }
        self
    }

    fn sorted(mut self) -> KernelSymbols {
        let names = &self.names;
        let key = |symbol: &Symbol| (symbol.address, &names[symbol.name.clone()]);
        self.symbols
            .sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        let start = self.address("_text").or(self.address("_stext"));
        // Without CONFIG_KALLSYMS_ALL code alone is listed.
        let end = self.address("_end").or(self.address("_einittext"));
        self.image = start.zip(end).map(|(start, end)| start..end);
        self
    }

    fn all(&self) -> impl Iterator<Item = (u64, &str)> {
        let symbols = self.symbols.iter();
        symbols.map(|symbol| (symbol.address, &self.names[symbol.name.clone()]))
    }

    /// Address of a symbol, or its offset when it is a per-CPU variable. Scans all symbols.
    pub fn address(&self, name: &str) -> Option<u64> {
        let symbol = self.all().find(|(_, own)| *own == name);
        symbol.map(|(address, _)| address)
    }

    /// Code of the functions of these names, in any form in which a compiler keeps the arguments in their places.
    /// Scans all symbols.
    pub fn functions(&self, names: &[String]) -> Vec<Range<u64>> {
        let is_one = |symbol: &str| {
            let (name, form) = symbol.split_once('.').unwrap_or((symbol, ""));
            let keeps_arguments = !form.contains("cold") && !form.contains("part");
            keeps_arguments && names.iter().any(|one| one == name)
        };
        let starts = self.all().filter(|(_, name)| is_one(name));
        let ranges = starts.filter_map(|(start, _)| Some(start..self.next(start)?));
        ranges.collect()
    }

    /// Addresses of the image's code, without that of modules and of the boot.
    pub fn code(&self) -> Option<Range<u64>> {
        let end = self.address("_etext")?;
        let start = self.image.as_ref()?.start;
        (start < end).then_some(start..end)
    }

    /// Linked area of per-CPU variables. Before Linux 6.15 on x86-64 it begins at 0, so that their
    /// symbols are offsets; later it lies among the other addresses.
    pub fn per_cpu(&self) -> Option<Range<u64>> {
        let start = self.address("__per_cpu_start")?;
        let end = self.address("__per_cpu_end")?;
        (start < end).then_some(start..end)
    }

    /// Returns the symbol at or before an address, and the address's distance from it.
    pub fn at(&self, address: u64) -> Option<(&str, u64)> {
        let symbol = self.symbols.get(self.behind(address).checked_sub(1)?)?;
        Some((&self.names[symbol.name.clone()], address - symbol.address))
    }

    /// Address of the first symbol behind an address: the end of the function there.
    pub fn next(&self, address: u64) -> Option<u64> {
        let symbol = self.symbols.get(self.behind(address));
        symbol.map(|symbol| symbol.address)
    }

    /// Index of the first symbol behind an address.
    fn behind(&self, address: u64) -> usize {
        self.symbols
            .partition_point(|symbol| symbol.address <= address)
    }

    /// Returns true if a symbol is at this very address.
    pub fn begins_at(&self, address: u64) -> bool {
        let found = self
            .symbols
            .binary_search_by_key(&address, |symbol| symbol.address);
        found.is_ok()
    }

    /// Addresses of the kernel's image, as far as its symbols reach.
    pub fn image(&self) -> Option<Range<u64>> {
        self.image.clone()
    }

    /// Returns the symbol of the kernel's image at or before an address inside it.
    pub fn in_image(&self, address: u64) -> Option<(&str, u64)> {
        self.image
            .as_ref()?
            .contains(&address)
            .then(|| self.at(address))?
    }
}

/// A list of symbols, line by line.
#[derive(Debug, Default)]
pub struct SymbolList {
    list: KernelSymbols,
    has_addresses: bool,
}

impl SymbolList {
    /// Adds a line of address, type and name. Returns false for another one, which is not added.
    pub fn add(&mut self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace();
        let address = words
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        let (Some(address), Some(_type), Some(name)) = (address, words.next(), words.next()) else {
            return false;
        };
        let names = &mut self.list.names;
        let begin = names.len();
        names.push_str(name);
        let name = begin..names.len();
        self.list.symbols.push(Symbol { address, name });
        self.has_addresses |= address != 0;
        true
    }

    /// Number of symbols so far.
    pub fn count(&self) -> usize {
        self.list.symbols.len()
    }

    /// Returns true if an address is not zero: a kernel hides all of them or none.
    pub fn has_addresses(&self) -> bool {
        self.has_addresses
    }

    /// The symbols of all lines.
    pub fn finish(self) -> KernelSymbols {
        self.list.sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_by_name_and_address() {
        let text = "0000000000036040 A runqueues\nffffffff81000000 T _text\nffffffff81000100 t f\n\
                    ffffffff82000000 B _end\njunk\n";
        let symbols = KernelSymbols::parse(text);
        assert_eq!(symbols.address("runqueues"), Some(0x36040));
        assert_eq!(symbols.at(0xffff_ffff_8100_0104), Some(("f", 4)));
        assert_eq!(symbols.in_image(0xffff_ffff_8100_0104), Some(("f", 4)));
        assert_eq!(symbols.in_image(0xffff_ffff_8300_0000), None);
        assert_eq!(
            symbols.next(0xffff_ffff_8100_0100),
            Some(0xffff_ffff_8200_0000)
        );
        assert_eq!(symbols.at(5), None);
        let moved = symbols.shifted(0x20_0000);
        assert_eq!(moved.in_image(0xffff_ffff_8120_0104), Some(("f", 4)));
        assert_eq!(moved.address("runqueues"), Some(0x36040));
    }
    #[test]
    fn functions_in_the_forms_that_compilers_give_them() {
        let text = "ffffffff81000100 t f.constprop.0\nffffffff81000180 t f.cold\n\
                    ffffffff810001a0 t ff\nffffffff810001c0 t f.part.0\n\
                    ffffffff81000200 T f\nffffffff81000280 T g\n";
        let symbols = KernelSymbols::parse(text);
        let found = symbols.functions(&["f".to_owned()]);
        let at = |start: u64, end: u64| 0xffff_ffff_8100_0000 + start..0xffff_ffff_8100_0000 + end;
        assert_eq!(found, [at(0x100, 0x180), at(0x200, 0x280)]);
    }
}
