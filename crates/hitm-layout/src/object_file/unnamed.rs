//! Functions of stripped files.

use std::ops::Range;

use hitm_base::GoTable;

use super::ObjectFile;
use crate::bounds::FunctionBounds;
use crate::demangle::demangle;
use crate::elf::Elf;
use crate::mini_debug::MiniDebug;
use crate::symbols::{MAX_GUESS, Symbol, SymbolTable};

/// Sources of functions beside symbols.
#[derive(Debug)]
pub(super) struct Unnamed {
    bounds: FunctionBounds,
    mini: Option<MiniDebug>,
    /// Go's table, and its place in the file.
    go: Option<(GoTable, Range<usize>)>,
}

impl ObjectFile {
    /// The name of the function that holds a virtual address, and its first address. The name is
    /// from symbols, from what stripped files keep for debuggers and for Go, or else the address,
    /// as `func@0x1234`. Never that of a neighbour.
    pub(super) fn symbol_at(&mut self, vaddr: u64) -> Option<(String, u64)> {
        let symbols = self.symbols.as_ref().expect("prepare() makes it");
        let symbol = symbols.code(vaddr);
        if let Some(symbol) = symbol.filter(|symbol| symbol.size > 0) {
            return Some(name_of(self.symbol_elf(), symbols, symbol));
        }
        if self.unnamed.is_none() {
            self.read_unnamed();
        }
        let unnamed = self.unnamed.as_ref()?;
        if let Some(mini) = &unnamed.mini
            && let Some(symbol) = mini.symbols.code(vaddr).filter(|symbol| symbol.size > 0)
        {
            return Some(name_of(&mini.elf, &mini.symbols, symbol));
        }
        if let Some((go, section)) = &unnamed.go
            && let Some(found) = go.find(&self.elf.bytes[section.clone()], vaddr)
        {
            return Some(found);
        }
        let bounds = unnamed.bounds.find(vaddr);
        // A symbol without a size may be that of the function before.
        let is_before = |symbol: &Symbol| bounds.is_some_and(|(begin, _)| symbol.address < begin);
        if let Some(symbol) = symbol.filter(|symbol| !is_before(symbol)) {
            let symbols = self.symbols.as_ref()?;
            return Some(name_of(self.symbol_elf(), symbols, symbol));
        }
        let (begin, _) = bounds?;
        Some((format!("func@{begin:#x}"), begin))
    }

    /// The code of the function that holds a virtual address, from the same sources.
    pub(super) fn code_range(&mut self, vaddr: u64) -> Option<Range<u64>> {
        self.prepare();
        let symbols = self.symbols.as_ref()?;
        let has_size = symbols.code(vaddr).is_some_and(|symbol| symbol.size > 0);
        let named = symbols.code_range(vaddr);
        if has_size {
            return named;
        }
        if self.unnamed.is_none() {
            self.read_unnamed();
        }
        let unnamed = self.unnamed.as_ref()?;
        let mini = unnamed.mini.as_ref();
        let mini = mini.and_then(|mini| mini.symbols.code_range(vaddr));
        let bounds = || unnamed.bounds.find(vaddr).map(|(begin, end)| begin..end);
        let found = mini.or_else(|| self.go_range(vaddr)).or_else(bounds);
        found.or(named).filter(|range| range.contains(&vaddr))
    }

    /// The code of the function that Go's table has at a virtual address.
    fn go_range(&self, vaddr: u64) -> Option<Range<u64>> {
        let (go, section) = self.unnamed.as_ref()?.go.as_ref()?;
        let section = &self.elf.bytes[section.clone()];
        let (_, begin) = go.find(section, vaddr)?;
        let mut starts = go.functions(section).map(|(_, start)| start);
        let end = starts.find(|start| *start > vaddr);
        Some(begin..end.unwrap_or_else(|| vaddr.saturating_add(MAX_GUESS)))
    }

    fn read_unnamed(&mut self) {
        let mini = match MiniDebug::read(&self.elf).transpose() {
            Ok(mini) => mini,
            Err(problem) => {
                self.note(problem);
                None
            }
        };
        self.unnamed = Some(Unnamed {
            bounds: FunctionBounds::read(&self.elf),
            mini,
            go: go_table(&self.elf),
        });
    }
}

fn go_table(elf: &Elf) -> Option<(GoTable, Range<usize>)> {
    let section = GoTable::SECTIONS
        .iter()
        .find_map(|name| elf.section(name))?;
    let text = elf.section(".text").map(|text| text.address);
    let bytes = &elf.bytes[section.range.clone()];
    let table = GoTable::read(bytes, text, |address| elf.is_loaded(address))?;
    Some((table, section.range.clone()))
}

fn name_of(elf: &Elf, symbols: &SymbolTable, symbol: Symbol) -> (String, u64) {
    (demangle(&symbols.name(elf, symbol)), symbol.address)
}
