//! The table of units, and the ranges of addresses that they cover.
//!
//! A unit's row keeps what its root entry says (bases, line program, language). Abbreviations, the
//! bulky part, are parsed again when they have fallen out of a small cache. Abbreviation tables do
//! not overlap in a sound file, so each is parsed from its own bytes only. A file whose units claim
//! overlapping tables cannot make the work quadratic.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{
    Abbreviations, DebugAbbrev, DebugAbbrevOffset, DebugInfoOffset, DebugTypesOffset, EndianSlice,
    LittleEndian, SectionId, UnitHeader, UnitType,
};

use super::children::Extents;
use super::decl::FileNames;
use super::root::Root;
use super::sections::DebugSections;
use super::sources::{Source, View};
use crate::types::TypeIndex;

/// A reader over a section.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// A unit as gimli knows it, without its line program.
pub(crate) type Unit<'a> = gimli::Unit<Slice<'a>>;

/// More address ranges than this are not looked at: units may share range lists, so that their sum
/// is not bounded by the file's size.
const MAX_RANGES: usize = 1 << 21;

/// Bytes after which a pass over all units gives back the memory of what it has read.
const PASS_BYTES: usize = 32 << 20;

/// Parsed abbreviation tables that are kept.
const ABBREVIATION_CACHE: usize = 32;

/// An entry: a unit, and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DieRef {
    pub(crate) unit: u32,
    pub(crate) offset: u32,
}

/// The section of its source that a unit is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Info,
    Types,
}

/// One unit's row.
#[derive(Debug, Clone)]
pub(super) struct UnitRow {
    /// The source, by number. Rows are sorted by source, part and offset.
    pub(super) source: u32,
    part: Part,
    offset: usize,
    is_type_unit: bool,
    /// In the file of the source.
    abbreviations: Range<usize>,
    pub(super) root: Root,
}

/// A range of addresses that a unit covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnitRange {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) unit: u32,
}

/// The debug information of one file, with its supplementary file and its split files.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    pub(super) files: Vec<DebugSections>,
    pub(super) sources: Vec<Source>,
    pub(super) units: Vec<UnitRow>,
    /// Sorted by begin.
    ranges: Vec<UnitRange>,
    /// `reach[i]`: the largest end of `ranges[..=i]`.
    reach: Vec<u64>,
    /// Type units by signature: the entry that the signature stands for.
    signatures: BTreeMap<u64, DieRef>,
    /// By file and offset in it.
    tables: RefCell<BTreeMap<(u32, usize), Arc<Abbreviations>>>,
    pub(crate) file_names: FileNames,
    pub(super) extents: Extents,
    /// Made at the first search for a type by name.
    pub(crate) type_index: OnceCell<TypeIndex>,
}

impl DwarfFile {
    /// Indexes the units. `problems` gets a line for each part that is damaged.
    pub(crate) fn new(
        sections: DebugSections,
        supplement: Option<DebugSections>,
        problems: &mut Vec<String>,
    ) -> DwarfFile {
        let mut file = DwarfFile {
            files: vec![sections],
            sources: vec![Source::whole(0)],
            units: Vec::new(),
            ranges: Vec::new(),
            reach: Vec::new(),
            signatures: BTreeMap::new(),
            tables: RefCell::default(),
            file_names: FileNames::default(),
            extents: Extents::default(),
            type_index: OnceCell::new(),
        };
        if let Some(supplement) = supplement {
            file.files.push(supplement);
            file.sources.push(Source::whole(1));
        }
        let signatures = file.add_units(0, problems);
        file.add_signatures(signatures);
        file.ranges
            .sort_by_key(|range| (range.begin, range.end, range.unit));
        file.reach = file
            .ranges
            .iter()
            .scan(0, |furthest: &mut u64, range| {
                *furthest = (*furthest).max(range.end);
                Some(*furthest)
            })
            .collect();
        file
    }

    pub(super) fn unit_numbers(&self) -> Range<u32> {
        0..self.units.len() as u32
    }

    /// The numbers of the units that belong to this program, for a pass over all of them: a package may have
    /// others. Memory of what the pass has read is given back on the way.
    pub(crate) fn own_units(&self) -> impl Iterator<Item = u32> + '_ {
        let mut released = 0_usize;
        self.unit_numbers().filter(move |unit| {
            let row = &self.units[*unit as usize];
            if row.offset.abs_diff(released) >= PASS_BYTES {
                released = row.offset;
                let file = self.sources[row.source as usize].file;
                self.files[file as usize].release();
            }
            let is_split = self.is_split(row.source);
            !is_split || row.is_type_unit || row.root.partner.is_some()
        })
    }

    pub(crate) fn root(&self, unit: u32) -> &Root {
        &self.units[unit as usize].root
    }

    /// The units that cover the address: in a sound file at most one.
    pub(crate) fn units_at(&self, address: u64) -> impl Iterator<Item = u32> + '_ {
        const MAX_STEPS_BACK: usize = 256;
        let after = self.ranges.partition_point(|range| range.begin <= address);
        (0..after)
            .rev()
            .take(MAX_STEPS_BACK)
            .take_while(move |index| self.reach[*index] > address)
            .map(|index| self.ranges[index])
            .filter(move |range| address < range.end)
            .map(|range| range.unit)
    }

    /// The entry that a type signature stands for.
    pub(crate) fn signature(&self, signature: u64) -> Option<DieRef> {
        self.signatures.get(&signature).copied()
    }

    /// Adds the units of the sources from `first` on, which share no file with those before.
    /// `problems` gets a line for each part that is damaged. Answers the type units' signatures.
    pub(super) fn add_units(
        &mut self,
        first: u32,
        problems: &mut Vec<String>,
    ) -> Vec<(u64, DieRef)> {
        let before = self.unit_numbers().end;
        let found = self.list_units(first, problems);
        let rows = self.with_tables(&found);
        self.units.extend(rows);
        self.read_roots(before, problems);
        let numbered = found.iter().zip(before..);
        let signatures = numbered.filter_map(|(unit, number)| {
            let (signature, offset) = unit.signature?;
            let unit = number;
            Some((signature, DieRef { unit, offset }))
        });
        signatures.collect()
    }

    pub(super) fn add_signatures(&mut self, signatures: Vec<(u64, DieRef)>) {
        for (signature, die) in signatures {
            self.signatures.entry(signature).or_insert(die);
        }
    }

    /// Reads the unit headers of the sources from `first` on.
    fn list_units(&self, first: u32, problems: &mut Vec<String>) -> Vec<Found> {
        let mut found = Vec::new();
        let view = self.view();
        for source in first..self.sources.len() as u32 {
            let dwarf = view.dwarf_of_source(source);
            let mut list = |part, section, next: &mut dyn FnMut() -> gimli::Result<Option<_>>| {
                while let Some(header) = next().unwrap_or_else(|error| {
                    let label = self.label(source);
                    problems.push(format!(
                        "{label}{section}: units after a damaged header left out: {error}"
                    ));
                    None
                }) {
                    found.push(Found::new(source, part, &header));
                }
            };
            let (mut units, mut types) = (dwarf.units(), dwarf.type_units());
            list(Part::Info, ".debug_info", &mut || units.next());
            list(Part::Types, ".debug_types", &mut || types.next());
        }
        found
    }

    /// Gives each unit the bytes of its abbreviation table: those up to where the next table of the
    /// file begins.
    fn with_tables(&self, found: &[Found]) -> Vec<UnitRow> {
        let place = |unit: &Found| {
            let source = &self.sources[unit.source as usize];
            let part = source.part(SectionId::DebugAbbrev);
            let start = part.as_ref().map_or(0, |part| part.start);
            (source.file, start.saturating_add(unit.table), part)
        };
        let mut starts: Vec<(u32, usize)> = found
            .iter()
            .map(|unit| (place(unit).0, place(unit).1))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let row = |unit: &Found| {
            let (file, table, part) = place(unit);
            let size = self.files[file as usize].get(SectionId::DebugAbbrev).len();
            let last = part.map_or(size, |part| part.end.min(size));
            let next = starts.partition_point(|start| *start <= (file, table));
            let next = starts.get(next).filter(|next| next.0 == file);
            let end = next.map_or(last, |next| next.1.min(last));
            UnitRow {
                source: unit.source,
                part: unit.part,
                offset: unit.offset,
                is_type_unit: unit.signature.is_some(),
                abbreviations: table.min(end)..end,
                root: Root::default(),
            }
        };
        found.iter().map(row).collect()
    }

    /// Reads the root entries of the units from `first` on.
    fn read_roots(&mut self, first: u32, problems: &mut Vec<String>) {
        let mut ranges = Vec::new();
        let mut budget = MAX_RANGES;
        let mut roots = Vec::new();
        let view = self.view();
        for unit in first..self.unit_numbers().end {
            let read = view.read_root(unit, &mut budget, &mut ranges);
            roots.push(read.unwrap_or_else(|error| {
                let row = &self.units[unit as usize];
                let label = self.label(row.source);
                problems.push(format!(
                    "{label}unit at {:#x} left out: {error}",
                    row.offset
                ));
                Root::default()
            }));
        }
        for (row, root) in self.units[first as usize..].iter_mut().zip(roots) {
            row.root = root;
        }
        if first == 0 {
            self.ranges = ranges;
        }
    }

    /// Forgets the abbreviations of a file whose number another file may get.
    pub(super) fn forget_tables(&mut self, file: u32) {
        self.tables.get_mut().retain(|key, _| key.0 != file);
    }

    fn abbreviations(&self, row: &UnitRow) -> gimli::Result<Arc<Abbreviations>> {
        let file = self.sources[row.source as usize].file;
        let key = (file, row.abbreviations.start);
        let mut tables = self.tables.borrow_mut();
        if let Some(table) = tables.get(&key) {
            return Ok(table.clone());
        }
        let section = self.files[file as usize].get(SectionId::DebugAbbrev);
        let bytes = section.get(row.abbreviations.clone()).unwrap_or_default();
        let table = DebugAbbrev::new(bytes, LittleEndian).abbreviations(DebugAbbrevOffset(0))?;
        let table = Arc::new(table);
        if tables.len() >= ABBREVIATION_CACHE {
            tables.clear();
        }
        tables.insert(key, table.clone());
        Ok(table)
    }
}

/// A unit's header, as far as its row needs it.
struct Found {
    source: u32,
    part: Part,
    offset: usize,
    /// Offset of its abbreviations in the source.
    table: usize,
    /// For a type unit: the signature, and the entry that it stands for.
    signature: Option<(u64, u32)>,
}

impl Found {
    fn new(source: u32, part: Part, header: &UnitHeader<Slice<'_>>) -> Found {
        let offset = match header.offset() {
            gimli::UnitSectionOffset::DebugInfoOffset(offset) => offset.0,
            gimli::UnitSectionOffset::DebugTypesOffset(offset) => offset.0,
        };
        let signature = match header.type_() {
            UnitType::Type {
                type_signature,
                type_offset,
            }
            | UnitType::SplitType {
                type_signature,
                type_offset,
            } => u32::try_from(type_offset.0)
                .ok()
                .map(|entry| (type_signature.0, entry)),
            _ => None,
        };
        Found {
            source,
            part,
            offset,
            table: header.debug_abbrev_offset().0,
            signature,
        }
    }
}

impl<'a> View<'a> {
    /// A unit, ready for reading entries.
    pub(crate) fn unit(&self, number: u32) -> gimli::Result<Unit<'a>> {
        let row = &self.file.units[number as usize];
        let dwarf = self.dwarf_of(number);
        let header = match row.part {
            Part::Types => types_header(dwarf.debug_types, row.offset)?,
            Part::Info => dwarf
                .debug_info
                .header_from_offset(DebugInfoOffset(row.offset))?,
        };
        let abbreviations = self.file.abbreviations(row)?;
        let encoding = header.encoding();
        let file_type = dwarf.file_type;
        let root = &row.root;
        Ok(gimli::Unit {
            header,
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: root.low_pc,
            str_offsets_base: root.str_offsets_base.unwrap_or_else(|| {
                gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, file_type)
            }),
            addr_base: gimli::DebugAddrBase(root.addr_base),
            loclists_base: root.loclists_base.unwrap_or_else(|| {
                gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, file_type)
            }),
            rnglists_base: root.rnglists_base.unwrap_or_else(|| {
                gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, file_type)
            }),
            line_program: None,
            dwo_id: None,
        })
    }

    /// The entry at an offset of a source's `.debug_info`.
    pub(crate) fn at_section_offset(&self, source: u32, offset: usize) -> Option<DieRef> {
        let units = &self.file.units;
        let place = |row: &UnitRow| (row.source, row.part, row.offset);
        let after = units.partition_point(|row| place(row) <= (source, Part::Info, offset));
        let index = after.checked_sub(1)?;
        let row = &units[index];
        if (row.source, row.part) != (source, Part::Info) {
            return None;
        }
        Some(DieRef {
            unit: u32::try_from(index).ok()?,
            offset: u32::try_from(offset - row.offset).ok()?,
        })
    }
}

/// gimli offers no header of `.debug_types` by its offset; an iterator over the rest of the section
/// gives it.
fn types_header<'a>(
    section: gimli::DebugTypes<Slice<'a>>,
    offset: usize,
) -> gimli::Result<UnitHeader<Slice<'a>>> {
    let section = gimli::Section::reader(&section).slice();
    let rest = section.get(offset..).unwrap_or_default();
    let types = gimli::DebugTypes::new(rest, LittleEndian);
    let header = types.units().next()?.ok_or(gimli::Error::MissingUnitDie)?;
    debug_assert!(matches!(
        header.offset(),
        gimli::UnitSectionOffset::DebugTypesOffset(DebugTypesOffset(0))
    ));
    Ok(header)
}
