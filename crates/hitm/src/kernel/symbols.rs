//! The kernel's own list of symbols, `/proc/kallsyms`.

use std::collections::BTreeMap;

/// Symbols that a kernel with all its modules can have; today's have 200,000.
const SYMBOLS_MAX: usize = 4_000_000;

/// Functions and variables of a kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelSymbols {
    /// By address, without what lies in the per-CPU area.
    by_address: Vec<(u64, String)>,
    /// Offsets in each CPU's area, and addresses, by name.
    by_name: BTreeMap<String, u64>,
}

impl KernelSymbols {
    /// Reads lines of address, type and name. Lines that are none are left out; a kernel that hides
    /// its addresses gives an empty list.
    pub(crate) fn parse(text: &str) -> KernelSymbols {
        let mut symbols = KernelSymbols::default();
        for line in text.lines().take(SYMBOLS_MAX) {
            let mut words = line.split_ascii_whitespace();
            let address = words
                .next()
                .and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(_type), Some(name)) = (address, words.next(), words.next())
            else {
                continue;
            };
            symbols.by_name.entry(name.to_owned()).or_insert(address);
            if address >> 63 == 1 {
                symbols.by_address.push((address, name.to_owned()));
            }
        }
        symbols.by_address.sort();
        symbols
    }

    /// The address of a symbol, or its offset when it is a per-CPU variable.
    pub(crate) fn address(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// The symbol at or before an address, and how far behind it the address is.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, u64)> {
        let next = self
            .by_address
            .partition_point(|(start, _)| *start <= address);
        let (start, name) = self.by_address.get(next.checked_sub(1)?)?;
        Some((name, address - start))
    }

    /// The symbol of the kernel's image at or before an address inside it.
    pub(crate) fn in_image(&self, address: u64) -> Option<(&str, u64)> {
        let start = self.address("_text").or(self.address("_stext"))?;
        let end = self.address("_end")?;
        (start..end).contains(&address).then(|| self.at(address))?
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
        assert_eq!(symbols.at(5), None);
    }
}
