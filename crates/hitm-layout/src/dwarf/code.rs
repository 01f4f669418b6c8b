//! Function, file and line that an instruction belongs to, and the inlined calls that it lies in.
//!
//! A unit's functions and line table are read at the first question about an address in it, and
//! kept until [`MAX_KEPT`] rows are.

mod inlined;
mod lines;

use std::collections::BTreeMap;

use self::inlined::Inlined;
use self::lines::LineTable;
pub(crate) use self::lines::file_names;
use super::die::{Die, PcRanges, Walker};
use super::sources::View;
use super::units::{DieRef, Unit};
use crate::demangle::demangle;

/// One level of inlined calls: a function, and where in it the next inner one was called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// The function's name, demangled.
    pub function: Option<String>,
    /// The source file, as the compiler was given it, below its directory.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// Function, file and line that an instruction comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeLocation {
    /// The innermost function, inlined or not; without debug information the symbol that holds the
    /// address. Demangled, without parameters.
    pub function: Option<String>,
    /// The source file of the instruction.
    pub file: Option<String>,
    /// The source line of the instruction, from 1.
    pub line: Option<u32>,
    /// The callers that `function` is inlined into, innermost first; the last is the function that
    /// the machine code belongs to. Empty when nothing is inlined here.
    pub inlined_from: Vec<Frame>,
    /// The symbol that holds the instruction, and the offset from its start.
    pub symbol: Option<(String, u64)>,
}

/// Rows of line tables and functions that are kept over all units, 24 bytes each.
const MAX_KEPT: usize = 1 << 20;

/// Ranges that the functions of one unit may have together.
const MAX_RANGES: usize = 1 << 20;

/// Most references that are followed from an entry to the one that has its name.
const MAX_HOPS: usize = 16;

/// Functions and lines of the units that were read, as far as they are kept.
#[derive(Debug, Default)]
pub(crate) struct CodeIndex {
    units: BTreeMap<u32, UnitCode>,
    kept: usize,
    /// Inlined calls of the functions that were asked about last.
    inlined: BTreeMap<DieRef, Inlined>,
    inlined_kept: usize,
}

/// The functions and lines of one unit.
#[derive(Debug, Default)]
struct UnitCode {
    /// Sorted by begin.
    functions: Vec<FunctionRange>,
    lines: LineTable,
}

/// A unit that has the lines, and the one that has the entries: the same where no unit is split.
struct SplitUnit<'a> {
    number: u32,
    lines: Unit<'a>,
    full_number: u32,
    full: Unit<'a>,
}

impl<'a> SplitUnit<'a> {
    fn read(view: &View<'a>, number: u32) -> gimli::Result<SplitUnit<'a>> {
        let full_number = view.file.full_unit(number);
        Ok(SplitUnit {
            number,
            lines: view.unit(number)?,
            full_number,
            full: view.unit(full_number)?,
        })
    }

    const fn die_ref(&self, offset: u32) -> DieRef {
        DieRef {
            unit: self.full_number,
            offset,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct FunctionRange {
    begin: u64,
    end: u64,
    die: u32,
}

impl UnitCode {
    fn len(&self) -> usize {
        self.functions.len() + self.lines.len()
    }

    fn function(&self, address: u64) -> Option<u32> {
        let after = self.functions.partition_point(|f| f.begin <= address);
        let nearest = self.functions[..after].last()?;
        (address < nearest.end).then_some(nearest.die)
    }
}

impl CodeIndex {
    /// Locates the instruction, by debug information alone. The second value lists what was
    /// damaged.
    pub(crate) fn find(
        &mut self,
        view: &View<'_>,
        address: u64,
    ) -> (Option<CodeLocation>, Vec<gimli::Error>) {
        let mut problems = Vec::new();
        let units: Vec<u32> = view.file.units_at(address).collect();
        for number in units {
            match self.find_in_unit(view, number, address, &mut problems) {
                Ok(Some(location)) => return (Some(location), problems),
                Ok(None) => {}
                Err(error) => problems.push(error),
            }
        }
        (None, problems)
    }

    fn find_in_unit(
        &mut self,
        view: &View<'_>,
        number: u32,
        address: u64,
        problems: &mut Vec<gimli::Error>,
    ) -> gimli::Result<Option<CodeLocation>> {
        let split = SplitUnit::read(view, number)?;
        let code = self.unit_code(view, &split, problems);
        let file_name = |file: u64| lines::file_name(view, &split.lines, number, file);
        let function = code.function(address);
        let place = code.lines.find(address);
        let chain = match function {
            Some(die) => {
                let inlined = self.inlined(view, &split.full, split.die_ref(die))?;
                inlined.chain(view, &split.full, address)?
            }
            None => Vec::new(),
        };
        if chain.is_empty() && place.is_none() {
            return Ok(None);
        }
        let file = place.and_then(|(file, _)| file_name(file));
        let line = place.map(|(_, line)| line).filter(|line| *line != 0);
        let Some((innermost, callers)) = chain.split_last() else {
            return Ok(Some(CodeLocation {
                file,
                line,
                ..CodeLocation::default()
            }));
        };
        // Each frame's place is where the next inner one was called.
        let calls = chain.iter().skip(1).rev().map(|inner| inner.call);
        let inlined_from = callers.iter().rev().zip(calls).map(|(caller, call)| Frame {
            function: caller.name.clone(),
            file: call.and_then(|(file, _)| file_name(file)),
            line: call.map(|(_, line)| line).filter(|line| *line != 0),
        });
        Ok(Some(CodeLocation {
            function: innermost.name.clone(),
            file,
            line,
            inlined_from: inlined_from.collect(),
            symbol: None,
        }))
    }

    /// The entry of the function whose machine code holds the address.
    pub(crate) fn function(&mut self, view: &View<'_>, address: u64) -> Option<DieRef> {
        let units: Vec<u32> = view.file.units_at(address).collect();
        units.into_iter().find_map(|number| {
            let split = SplitUnit::read(view, number).ok()?;
            // The question for the address's name reports damage.
            let code = self.unit_code(view, &split, &mut Vec::new());
            code.function(address).map(|die| split.die_ref(die))
        })
    }

    /// The functions and lines of a unit, read at the first question.
    fn unit_code<'a>(
        &mut self,
        view: &View<'a>,
        split: &SplitUnit<'a>,
        problems: &mut Vec<gimli::Error>,
    ) -> &UnitCode {
        let number = split.number;
        if !self.units.contains_key(&number) {
            let code = UnitCode::read(view, split, problems);
            if self.kept + code.len() > MAX_KEPT {
                self.units.clear();
                self.kept = 0;
            }
            self.kept += code.len();
            self.units.insert(number, code);
        }
        &self.units[&number]
    }

    /// The inlined calls of a function, read at the first question.
    fn inlined<'a>(
        &mut self,
        view: &View<'a>,
        unit: &Unit<'a>,
        function: DieRef,
    ) -> gimli::Result<&Inlined> {
        if !self.inlined.contains_key(&function) {
            let read = Inlined::read(view, unit, function)?;
            if self.inlined_kept + read.len() > MAX_KEPT {
                self.inlined.clear();
                self.inlined_kept = 0;
            }
            self.inlined_kept += read.len();
            self.inlined.insert(function, read);
        }
        Ok(&self.inlined[&function])
    }
}

impl UnitCode {
    /// Reads functions and lines, as far as they can be read. A damaged line table leaves the functions.
    fn read<'a>(
        view: &View<'a>,
        split: &SplitUnit<'a>,
        problems: &mut Vec<gimli::Error>,
    ) -> UnitCode {
        let mut functions = Vec::new();
        let read = read_functions(view, &split.full, split.full_number, &mut functions);
        problems.extend(read.err());
        functions.sort_by_key(|function| (function.begin, function.die));
        let lines = LineTable::read(view, &split.lines, split.number);
        UnitCode {
            functions,
            lines: lines.unwrap_or_else(|error| {
                problems.push(error);
                LineTable::default()
            }),
        }
    }
}

fn read_functions<'a>(
    view: &View<'a>,
    unit: &Unit<'a>,
    number: u32,
    functions: &mut Vec<FunctionRange>,
) -> gimli::Result<()> {
    let mut attributes = Vec::new();
    let mut budget = MAX_RANGES;
    let mut walker = Walker::new(unit, None)?;
    while let Some(step) = walker.next()? {
        let has_code = walker.has(gimli::DW_AT_low_pc) || walker.has(gimli::DW_AT_ranges);
        if step.tag != gimli::DW_TAG_subprogram || !has_code {
            continue;
        }
        walker.read(&mut attributes)?;
        let ranges = PcRanges::of(&attributes);
        ranges.each(&view.dwarf_of(number), unit, &mut budget, |range| {
            functions.push(FunctionRange {
                begin: range.begin,
                end: range.end,
                die: step.offset,
            });
        })?;
    }
    Ok(())
}

impl<'a> View<'a> {
    /// The name of a function, demangled: its linkage name if that is mangled, which says the
    /// namespace; else its own.
    pub(crate) fn function_name(&self, unit: &Unit<'a>, entry: &Die<'a>) -> Option<String> {
        let (linkage, plain) = self.names(unit, entry);
        linkage.map(|name| demangle(&name)).or(plain)
    }

    /// The linkage name, if it is mangled, and the plain name. Follows the entry's specification and
    /// origin. A linkage name that is not mangled is an alias that the source does not know.
    pub(crate) fn names(
        &self,
        unit: &Unit<'a>,
        entry: &Die<'a>,
    ) -> (Option<String>, Option<String>) {
        let (mut plain, mut alias) = (None, None);
        let mut fetched;
        let (mut unit, mut entry) = (unit, entry);
        for _ in 0..MAX_HOPS {
            let text = |name| self.text_of(unit, entry, name);
            let linkage =
                text(gimli::DW_AT_linkage_name).or_else(|| text(gimli::DW_AT_MIPS_linkage_name));
            plain = plain.or_else(|| text(gimli::DW_AT_name));
            if let Some(linkage) = linkage {
                if linkage.starts_with("_Z") || linkage.starts_with("_R") {
                    return (Some(linkage), plain);
                }
                alias = alias.or(Some(linkage));
            }
            let Some(origin) = self.origin(entry).and_then(|at| self.fetch(at)) else {
                break;
            };
            fetched = origin;
            (unit, entry) = (&fetched.0, &fetched.1);
        }
        (None, plain.or(alias))
    }

    /// An entry with its unit.
    pub(crate) fn fetch(&self, at: DieRef) -> Option<(Unit<'a>, Die<'a>)> {
        let unit = self.unit(at.unit).ok()?;
        let die = self.die(&unit, at).ok()?;
        Some((unit, die))
    }
}
