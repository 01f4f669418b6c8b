//! Split debug information: what skeleton units leave to `.dwo` files, or to the package of them
//! (`.dwp`) beside the program.
//!
//! A skeleton and the unit that has its entries share a number, by which they find each other. A
//! file of that name from another compilation is not used. Sources: DWARF 5, section 7.3; the GNU
//! extension to version 4 that it grew from (attributes `DW_AT_GNU_dwo_*`).

use std::collections::BTreeMap;

use gimli::{DebugCuIndex, DebugTuIndex, LittleEndian, SectionId, UnitIndex};

use super::root::DwoName;
use super::sections::{DebugSections, Parts};
use super::sources::{MAIN, Source};
use super::units::{DwarfFile, Slice};

/// A unit whose entries are elsewhere and were not found yet.
#[derive(Debug, Clone)]
pub(crate) struct Skeleton {
    pub(crate) unit: u32,
    pub(crate) dwo: DwoName,
}

impl DwarfFile {
    /// The skeleton units that nothing was attached to yet.
    pub(crate) fn skeletons(&self) -> Vec<Skeleton> {
        let rows = self.units.iter().zip(self.unit_numbers());
        rows.filter(|(row, _)| row.source == MAIN && row.root.partner.is_none())
            .filter_map(|(row, unit)| {
                let dwo = row.root.dwo.clone()?;
                Some(Skeleton { unit, dwo })
            })
            .collect()
    }

    /// The unit that has the entries: of a skeleton the split unit, if it is there; else itself.
    pub(crate) fn full_unit(&self, unit: u32) -> u32 {
        let row = &self.units[unit as usize];
        match row.root.partner {
            Some(split) if row.source == MAIN => split,
            _ => unit,
        }
    }

    /// The unit whose line table the numbers of files in this unit refer to.
    pub(crate) fn line_unit(&self, unit: u32) -> u32 {
        let row = &self.units[unit as usize];
        match row.root.partner {
            Some(skeleton) if row.source != MAIN => skeleton,
            _ => unit,
        }
    }

    /// Adds the sections of a `.dwo` file, or of a package of them. Answers how many skeletons found
    /// their entries in it; where none did it is from another compilation, and nothing is added.
    pub(crate) fn attach_split(
        &mut self,
        skeletons: &[Skeleton],
        sections: DebugSections,
        problems: &mut Vec<String>,
    ) -> usize {
        let (file, unit) = (self.files.len(), self.units.len());
        let first = self.sources.len();
        let mut sources = Vec::new();
        for (name, index) in indexes(&sections) {
            match index {
                Ok(index) => list_parts(&index, &sections, file as u32, &mut sources, problems),
                Err(error) => problems.push(format!("package: damaged {name}: {error}")),
            }
        }
        if sources.is_empty() {
            sources.push(Source::whole(file as u32));
        }
        self.files.push(sections);
        self.sources.extend(sources);
        let signatures = self.add_units(first as u32, problems);
        let mut by_id = BTreeMap::new();
        for (row, number) in self.units[unit..].iter().zip(unit as u32..) {
            if let Some(id) = row.root.dwo_id {
                by_id.entry(id).or_insert(number);
            }
        }
        let mut joined = 0;
        for skeleton in skeletons {
            let id = self.units[skeleton.unit as usize].root.dwo_id;
            if let Some(split) = id.and_then(|id| by_id.remove(&id)) {
                self.join(skeleton.unit, split);
                joined += 1;
            }
        }
        if joined > 0 {
            self.add_signatures(signatures);
        } else {
            self.files.truncate(file);
            self.sources.truncate(first);
            self.units.truncate(unit);
            self.forget_tables(file as u32);
        }
        joined
    }

    /// Makes two units one: the split one takes its addresses from the skeleton.
    fn join(&mut self, skeleton: u32, split: u32) {
        let from = self.units[skeleton as usize].root.clone();
        self.units[skeleton as usize].root.partner = Some(split);
        let split = &mut self.units[split as usize].root;
        split.partner = Some(skeleton);
        split.low_pc = from.low_pc;
        split.addr_base = from.addr_base;
        // Version 5 has the lists in the split file; before, offsets count from the skeleton's base.
        split.rnglists_base = split.rnglists_base.or(from.rnglists_base);
        split.language = if split.language == 0 {
            from.language
        } else {
            split.language
        };
    }
}

type Index<'a> = gimli::Result<UnitIndex<Slice<'a>>>;

fn indexes(sections: &DebugSections) -> [(&'static str, Index<'_>); 2] {
    let units = sections.get(SectionId::DebugCuIndex);
    let types = sections.get(SectionId::DebugTuIndex);
    [
        (
            ".debug_cu_index",
            DebugCuIndex::new(units, LittleEndian).index(),
        ),
        (
            ".debug_tu_index",
            DebugTuIndex::new(types, LittleEndian).index(),
        ),
    ]
}

/// A source for each row of a package's index. Rows of a sound package share no entries: once they
/// have more of them together than the package has, the rest is left out.
fn list_parts(
    index: &UnitIndex<Slice<'_>>,
    sections: &DebugSections,
    file: u32,
    sources: &mut Vec<Source>,
    problems: &mut Vec<String>,
) {
    let entries = [SectionId::DebugInfo, SectionId::DebugTypes];
    let mut room: usize = entries.iter().map(|id| sections.get(*id).len()).sum();
    for row in 1..=index.unit_count() {
        let parts = match index.sections(row) {
            Ok(columns) => Parts::new(columns.map(|column| {
                let start = column.offset as usize;
                let range = start..start.saturating_add(column.size as usize);
                (column.section.section_id(), range)
            })),
            Err(error) => {
                problems.push(format!("package: damaged index: {error}"));
                return;
            }
        };
        let own = entries.iter().filter_map(|id| parts.get(*id));
        let taken: usize = own.map(|range| range.len()).sum();
        let Some(left) = room.checked_sub(taken) else {
            problems.push(format!(
                "package: units from row {row} of an index on overlap others: left out"
            ));
            return;
        };
        room = left;
        sources.push(Source::part_of(file, parts));
    }
}
