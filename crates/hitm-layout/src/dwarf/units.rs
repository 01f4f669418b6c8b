//! The table of units, and the ranges of addresses that they cover.
//!
//! A unit's row keeps what its root entry says (bases, line program, language); abbreviations, the
//! bulky part, are parsed again when they have fallen out of a small cache. Abbreviation tables do
//! not overlap in a sound file, so each is parsed from its own bytes only: a file whose units claim
//! overlapping tables cannot make the work quadratic.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugInfoOffset,
    DebugTypesOffset, EndianSlice, LittleEndian, SectionId, UnitHeader, UnitType,
};

use super::decl::FileNames;
use super::die::{PcRanges, Walker};
use super::sections::DebugSections;

/// A reader over a section.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// A unit as gimli knows it, without its line program.
pub(crate) type Unit<'a> = gimli::Unit<Slice<'a>>;

/// More address ranges than this are not looked at: units may share range lists, so that their sum
/// is not bounded by the file's size.
const MAX_RANGES: usize = 1 << 21;

/// Parsed abbreviation tables that are kept.
const ABBREVIATION_CACHE: usize = 32;

/// An entry: a unit, and the offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DieRef {
    pub(crate) unit: u32,
    pub(crate) offset: u32,
}

/// Which section a unit is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Info,
    Types,
    Supplement,
}

/// One unit's row.
#[derive(Debug, Clone)]
struct UnitRow {
    part: Part,
    offset: usize,
    abbreviations: Range<usize>,
    root: Root,
}

/// What a unit's root entry says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    low_pc: u64,
    str_offsets_base: Option<usize>,
    addr_base: usize,
    loclists_base: Option<usize>,
    rnglists_base: Option<usize>,
    pub(crate) line_program: Option<usize>,
    pub(crate) language: u16,
    /// Whether the unit's entries lie in a `.dwo` file, which is not read.
    is_skeleton: bool,
}

/// A range of addresses that a unit covers.
#[derive(Debug, Clone, Copy)]
struct UnitRange {
    begin: u64,
    end: u64,
    unit: u32,
}

/// The debug information of one file, with its supplementary file.
#[derive(Debug)]
pub(crate) struct DwarfFile {
    sections: DebugSections,
    supplement: Option<DebugSections>,
    units: Vec<UnitRow>,
    /// Sorted by begin.
    ranges: Vec<UnitRange>,
    /// `reach[i]`: the largest end of `ranges[..=i]`.
    reach: Vec<u64>,
    /// Type units by signature: the entry that the signature stands for.
    signatures: BTreeMap<u64, DieRef>,
    tables: RefCell<BTreeMap<(bool, usize), Arc<Abbreviations>>>,
    pub(crate) file_names: FileNames,
}

/// A [`DwarfFile`] while one question is answered.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) file: &'a DwarfFile,
    pub(crate) dwarf: gimli::Dwarf<Slice<'a>>,
}

impl DwarfFile {
    /// Indexes the units. `problems` gets a line for each part that is damaged.
    pub(crate) fn new(
        sections: DebugSections,
        supplement: Option<DebugSections>,
        problems: &mut Vec<String>,
    ) -> DwarfFile {
        let mut file = DwarfFile {
            sections,
            supplement,
            units: Vec::new(),
            ranges: Vec::new(),
            reach: Vec::new(),
            signatures: BTreeMap::new(),
            tables: RefCell::default(),
            file_names: FileNames::default(),
        };
        file.list_units(problems);
        file.read_roots(problems);
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

    pub(crate) fn view(&self) -> View<'_> {
        let mut dwarf = self.sections.dwarf();
        if let Some(supplement) = &self.supplement {
            dwarf.set_sup(supplement.dwarf());
        }
        View { file: self, dwarf }
    }

    /// The numbers of all units.
    pub(crate) fn unit_numbers(&self) -> Range<u32> {
        0..self.units.len() as u32
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

    fn part(&self, part: Part) -> Range<usize> {
        let start = self.units.partition_point(|unit| unit.part < part);
        let end = self.units.partition_point(|unit| unit.part <= part);
        start..end
    }

    /// Reads all unit headers, and gives each unit the bytes of its abbreviation table: those up to
    /// where the next table begins.
    fn list_units(&mut self, problems: &mut Vec<String>) {
        let mut found: Vec<(Part, usize, usize)> = Vec::new();
        let mut signatures = BTreeMap::new();
        let mut note = |part: Part, header: &UnitHeader<Slice<'_>>| {
            let offset = match header.offset() {
                gimli::UnitSectionOffset::DebugInfoOffset(offset) => offset.0,
                gimli::UnitSectionOffset::DebugTypesOffset(offset) => offset.0,
            };
            if let UnitType::Type {
                type_signature,
                type_offset,
            } = header.type_()
            {
                let die = u32::try_from(found.len())
                    .ok()
                    .zip(u32::try_from(type_offset.0).ok());
                if let Some((unit, offset)) = die {
                    signatures.insert(type_signature.0, DieRef { unit, offset });
                }
            }
            found.push((part, offset, header.debug_abbrev_offset().0));
        };
        let view = self.view();
        let mut failures = Vec::new();
        let mut units = view.dwarf.units();
        loop {
            match units.next() {
                Ok(Some(header)) => note(Part::Info, &header),
                Ok(None) => break,
                Err(error) => break failures.push((".debug_info", error)),
            }
        }
        let mut units = view.dwarf.type_units();
        loop {
            match units.next() {
                Ok(Some(header)) => note(Part::Types, &header),
                Ok(None) => break,
                Err(error) => break failures.push((".debug_types", error)),
            }
        }
        if let Some(supplement) = view.dwarf.sup() {
            let mut units = supplement.units();
            loop {
                match units.next() {
                    Ok(Some(header)) => note(Part::Supplement, &header),
                    Ok(None) => break,
                    Err(error) => break failures.push(("supplementary .debug_info", error)),
                }
            }
        }
        for (section, error) in failures {
            problems.push(format!(
                "{section}: units after a damaged header left out: {error}"
            ));
        }
        let units = self.with_tables(&found);
        self.units = units;
        self.signatures = signatures;
    }

    fn with_tables(&self, found: &[(Part, usize, usize)]) -> Vec<UnitRow> {
        let tables_of = |supplement: bool| {
            let of_file = found
                .iter()
                .filter(|(part, ..)| (*part == Part::Supplement) == supplement);
            let mut starts: Vec<usize> = of_file.map(|(_, _, table)| *table).collect();
            starts.sort_unstable();
            starts.dedup();
            starts
        };
        let starts = [tables_of(false), tables_of(true)];
        let row = |(part, offset, table): &(Part, usize, usize)| {
            let supplement = *part == Part::Supplement;
            let starts = &starts[usize::from(supplement)];
            let next = starts.partition_point(|start| start <= table);
            let size = self
                .sections_of(supplement)
                .get(SectionId::DebugAbbrev)
                .len();
            let end = starts.get(next).copied().unwrap_or(size).min(size);
            UnitRow {
                part: *part,
                offset: *offset,
                abbreviations: (*table).min(end)..end,
                root: Root::default(),
            }
        };
        found.iter().map(row).collect()
    }

    fn sections_of(&self, supplement: bool) -> &DebugSections {
        match &self.supplement {
            Some(sections) if supplement => sections,
            _ => &self.sections,
        }
    }

    /// Reads the root entry of every unit.
    fn read_roots(&mut self, problems: &mut Vec<String>) {
        let mut ranges = Vec::new();
        let mut budget = MAX_RANGES;
        let mut roots = Vec::with_capacity(self.units.len());
        let view = self.view();
        for unit in self.unit_numbers() {
            let read = view.read_root(unit, &mut budget, &mut ranges);
            roots.push(read.unwrap_or_else(|error| {
                let row = &self.units[unit as usize];
                problems.push(format!("unit at {:#x} left out: {error}", row.offset));
                Root::default()
            }));
        }
        let skeletons = roots.iter().filter(|root| root.is_skeleton).count();
        if skeletons > 0 {
            problems.push(format!(
                "split debug information (.dwo) of {skeletons} units is not read: lines only"
            ));
        }
        for (row, root) in self.units.iter_mut().zip(roots) {
            row.root = root;
        }
        self.ranges = ranges;
    }

    fn abbreviations(&self, row: &UnitRow) -> gimli::Result<Arc<Abbreviations>> {
        let supplement = row.part == Part::Supplement;
        let key = (supplement, row.abbreviations.start);
        let mut tables = self.tables.borrow_mut();
        if let Some(table) = tables.get(&key) {
            return Ok(table.clone());
        }
        let section = self.sections_of(supplement).get(SectionId::DebugAbbrev);
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

impl<'a> View<'a> {
    /// gimli's reader of the file that the unit is in.
    pub(crate) fn dwarf_of(&self, unit: u32) -> &gimli::Dwarf<Slice<'a>> {
        match (self.file.units[unit as usize].part, self.dwarf.sup()) {
            (Part::Supplement, Some(supplement)) => supplement,
            _ => &self.dwarf,
        }
    }

    /// A unit, ready for reading entries.
    pub(crate) fn unit(&self, number: u32) -> gimli::Result<Unit<'a>> {
        let row = &self.file.units[number as usize];
        let dwarf = self.dwarf_of(number);
        let header = match row.part {
            Part::Types => {
                let section = self.file.sections.get(SectionId::DebugTypes);
                types_header(section, row.offset)?
            }
            _ => dwarf
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

    /// The entry at an offset of the main file's or the supplement's `.debug_info`.
    pub(crate) fn at_section_offset(&self, supplement: bool, offset: usize) -> Option<DieRef> {
        let part = if supplement {
            Part::Supplement
        } else {
            Part::Info
        };
        let rows = self.file.part(part);
        let of_part = &self.file.units[rows.clone()];
        let after = of_part.partition_point(|row| row.offset <= offset);
        let index = after.checked_sub(1)?;
        Some(DieRef {
            unit: u32::try_from(rows.start + index).ok()?,
            offset: u32::try_from(offset - of_part[index].offset).ok()?,
        })
    }

    /// Whether references of the unit into `.debug_info` stay in the supplement.
    pub(crate) fn in_supplement(&self, unit: u32) -> bool {
        self.file.units[unit as usize].part == Part::Supplement
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
        let dwarf = self.dwarf_of(number);
        let covered = PcRanges::of(&attributes);
        root.low_pc = covered.low_pc(dwarf, &unit).unwrap_or(0);
        unit.low_pc = root.low_pc;
        if !self.in_supplement(number) {
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
fn types_header(section: &[u8], offset: usize) -> gimli::Result<UnitHeader<Slice<'_>>> {
    let rest = section.get(offset..).unwrap_or_default();
    let types = gimli::DebugTypes::new(rest, LittleEndian);
    let header = types.units().next()?.ok_or(gimli::Error::MissingUnitDie)?;
    debug_assert!(matches!(
        header.offset(),
        gimli::UnitSectionOffset::DebugTypesOffset(DebugTypesOffset(0))
    ));
    Ok(header)
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
            (gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name, _) => self.is_skeleton = true,
            (gimli::DW_AT_language, AttributeValue::Language(language)) => {
                self.language = language.0;
            }
            _ => {}
        }
    }
}
