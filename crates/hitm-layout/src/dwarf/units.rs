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
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugInfoOffset,
    DebugTypesOffset, EndianSlice, LittleEndian, SectionId, UnitHeader, UnitType,
};

use super::children::Extents;
use super::decl::FileNames;
use super::die::{Attributes, PcRanges, Walker, attr_text};
use super::sections::DebugSections;
use super::sources::{MAIN, Source, View};
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

/// Contents of a unit's root entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    pub(super) low_pc: u64,
    str_offsets_base: Option<usize>,
    pub(super) addr_base: usize,
    loclists_base: Option<usize>,
    pub(super) rnglists_base: Option<usize>,
    pub(crate) line_program: Option<usize>,
    pub(crate) language: u16,
    /// For a unit whose entries lie elsewhere, and for the unit there: the number that they share.
    pub(super) dwo_id: Option<u64>,
    /// For a unit whose entries lie elsewhere: in which file.
    pub(super) dwo: Option<DwoName>,
    /// The unit elsewhere that has this unit's entries, or whose entries this unit has.
    pub(super) partner: Option<u32>,
}

/// The `.dwo` file of a skeleton unit.
#[derive(Debug, Clone, Default)]
pub(crate) struct DwoName {
    /// As the compiler was told.
    pub(crate) name: String,
    /// Directory in which the compiler ran; empty when the unit does not say.
    pub(crate) directory: String,
}

/// A range of addresses that a unit covers.
#[derive(Debug, Clone, Copy)]
struct UnitRange {
    begin: u64,
    end: u64,
    unit: u32,
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
            let mut units = dwarf.units();
            let damage = loop {
                match units.next() {
                    Ok(Some(header)) => found.push(Found::new(source, Part::Info, &header)),
                    Ok(None) => break None,
                    Err(error) => break Some((".debug_info", error)),
                }
            };
            let mut units = dwarf.type_units();
            let type_damage = loop {
                match units.next() {
                    Ok(Some(header)) => found.push(Found::new(source, Part::Types, &header)),
                    Ok(None) => break None,
                    Err(error) => break Some((".debug_types", error)),
                }
            };
            for (section, error) in damage.into_iter().chain(type_damage) {
                problems.push(format!(
                    "{}{section}: units after a damaged header left out: {error}",
                    self.label(source)
                ));
            }
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
        let str_offsets_base = root.str_offsets_base.map(gimli::DebugStrOffsetsBase);
        let loclists_base = root.loclists_base.map(gimli::DebugLocListsBase);
        let rnglists_base = root.rnglists_base.map(gimli::DebugRngListsBase);
        Ok(gimli::Unit {
            header,
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: root.low_pc,
            str_offsets_base: str_offsets_base.unwrap_or_else(|| {
                gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, file_type)
            }),
            addr_base: gimli::DebugAddrBase(root.addr_base),
            loclists_base: loclists_base.unwrap_or_else(|| {
                gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, file_type)
            }),
            rnglists_base: rnglists_base.unwrap_or_else(|| {
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

    fn read_root(
        &self,
        number: u32,
        budget: &mut usize,
        ranges: &mut Vec<UnitRange>,
    ) -> gimli::Result<Root> {
        let mut unit = self.unit(number)?;
        let mut attributes = Vec::new();
        {
            let mut walker = Walker::new(&unit, None)?;
            if walker.next()?.is_none() {
                return Ok(Root::default());
            }
            walker.read(&mut attributes)?;
        }
        let mut root = Root::default();
        if let UnitType::Skeleton(id) | UnitType::SplitCompilation(id) = unit.header.type_() {
            root.dwo_id = Some(id.0);
        }
        for attribute in &attributes {
            root.take(attribute.name(), attribute.value());
        }
        if let Some(base) = root.str_offsets_base {
            unit.str_offsets_base = gimli::DebugStrOffsetsBase(base);
        }
        if let Some(base) = root.rnglists_base {
            unit.rnglists_base = gimli::DebugRngListsBase(base);
        }
        unit.addr_base = gimli::DebugAddrBase(root.addr_base);
        let dwarf = &*self.dwarf_of(number);
        root.dwo = dwo_name(dwarf, &unit, &attributes);
        let covered = PcRanges::of(&attributes);
        root.low_pc = covered.low_pc(dwarf, &unit).unwrap_or(0);
        unit.low_pc = root.low_pc;
        // A split unit's addresses are the skeleton's.
        if self.file.units[number as usize].source == MAIN {
            covered.each(dwarf, &unit, budget, |range| {
                ranges.push(UnitRange {
                    begin: range.begin,
                    end: range.end,
                    unit: number,
                });
            })?;
        }
        Ok(root)
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

/// The `.dwo` file that a skeleton unit names.
fn dwo_name<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'a>,
    attributes: &Attributes<'a>,
) -> Option<DwoName> {
    let text = |wanted: &[gimli::DwAt]| {
        let mut found = attributes.iter();
        let attribute = found.find(|attribute| wanted.contains(&attribute.name()))?;
        attr_text(dwarf, unit, attribute.value())
    };
    let name = text(&[gimli::DW_AT_dwo_name, gimli::DW_AT_GNU_dwo_name])?;
    let directory = text(&[gimli::DW_AT_comp_dir]).unwrap_or_default();
    Some(DwoName { name, directory })
}

impl Root {
    fn take(&mut self, name: gimli::DwAt, value: AttributeValue<Slice<'_>>) {
        match (name, value) {
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                self.line_program = Some(offset.0);
            }
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                self.str_offsets_base = Some(base.0);
            }
            (
                gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                AttributeValue::DebugAddrBase(base),
            ) => self.addr_base = base.0,
            (gimli::DW_AT_loclists_base, AttributeValue::DebugLocListsBase(base)) => {
                self.loclists_base = Some(base.0);
            }
            (
                gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(base),
            ) => self.rnglists_base = Some(base.0),
            (gimli::DW_AT_GNU_dwo_id, value) => {
                let id = match value {
                    AttributeValue::DwoId(id) => Some(id.0),
                    other => other.udata_value(),
                };
                self.dwo_id = id.or(self.dwo_id);
            }
            (gimli::DW_AT_language, AttributeValue::Language(language)) => {
                self.language = language.0;
            }
            _ => {}
        }
    }
}
