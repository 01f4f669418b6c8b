//! Root entries of units: bases, line program, language, and the addresses that a unit covers.

use gimli::{
    AttributeValue, DebugAddrBase, DebugLocListsBase, DebugRngListsBase, DebugStrOffsetsBase,
    UnitType,
};

use super::die::{Attributes, PcRanges, Walker, attr_text, value_of};
use super::sources::{MAIN, View};
use super::units::{Slice, Unit, UnitRange};

/// Contents of a unit's root entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Root {
    pub(super) low_pc: u64,
    pub(super) str_offsets_base: Option<DebugStrOffsetsBase<usize>>,
    pub(super) addr_base: usize,
    pub(super) loclists_base: Option<DebugLocListsBase<usize>>,
    pub(super) rnglists_base: Option<DebugRngListsBase<usize>>,
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

impl View<'_> {
    /// Reads the root entry of a unit, and adds the addresses that it covers to `ranges`.
    pub(super) fn read_root(
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
            unit.str_offsets_base = base;
        }
        if let Some(base) = root.rnglists_base {
            unit.rnglists_base = base;
        }
        unit.addr_base = DebugAddrBase(root.addr_base);
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

/// The `.dwo` file that a skeleton unit names.
fn dwo_name<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'a>,
    attributes: &Attributes<'a>,
) -> Option<DwoName> {
    let text = |name| attr_text(dwarf, unit, value_of(attributes, name)?);
    let name = text(gimli::DW_AT_dwo_name).or_else(|| text(gimli::DW_AT_GNU_dwo_name))?;
    let directory = text(gimli::DW_AT_comp_dir).unwrap_or_default();
    Some(DwoName { name, directory })
}

impl Root {
    fn take(&mut self, name: gimli::DwAt, value: AttributeValue<Slice<'_>>) {
        match (name, value) {
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => {
                self.line_program = Some(offset.0);
            }
            (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                self.str_offsets_base = Some(base);
            }
            (
                gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base,
                AttributeValue::DebugAddrBase(base),
            ) => self.addr_base = base.0,
            (gimli::DW_AT_loclists_base, AttributeValue::DebugLocListsBase(base)) => {
                self.loclists_base = Some(base);
            }
            (
                gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(base),
            ) => self.rnglists_base = Some(base),
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
