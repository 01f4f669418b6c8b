//! Reading single entries, and walking over many, with a bound on the work.

use gimli::{Abbreviation, Attribute, AttributeValue, DwAt, DwTag, EntriesRaw, Range, UnitOffset};

use super::sources::View;
use super::units::{DieRef, Slice, Unit};
use crate::demangle::cut;

/// The attributes of one entry.
pub(crate) type Attributes<'a> = Vec<Attribute<Slice<'a>>>;

/// An entry's place in a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Offset in the unit.
    pub(crate) offset: u32,
    /// 0 for the entry that the walk began at.
    pub(crate) depth: isize,
    pub(crate) tag: DwTag,
}

impl Step {
    /// The entry, in the unit with this number.
    pub(crate) const fn at(self, unit: u32) -> DieRef {
        let offset = self.offset;
        DieRef { unit, offset }
    }
}

/// Walks over the entries of a unit in file order. The attributes of an entry are either read with
/// [`Walker::read`] or skipped by the next step.
///
/// An abbreviation may list attributes that take no bytes, and one byte may be an entry. So the
/// work would not be bounded by the unit's size. The walk ends with an error once it has seen far
/// more attributes than a unit of this size can sensibly have.
#[derive(Debug)]
pub(crate) struct Walker<'u, 'a> {
    unit: &'u Unit<'a>,
    /// Depth of the entry that `entries` began at.
    base: isize,
    entries: EntriesRaw<'u, 'u, Slice<'a>>,
    pending: Option<&'u Abbreviation>,
    begun: bool,
    attributes_left: usize,
}

/// Attributes that a unit may have for each of its bytes. Compilers stay below one.
const ATTRIBUTES_PER_BYTE: usize = 8;

impl<'u, 'a> Walker<'u, 'a> {
    /// Walks over `start`, or the root, and everything below it.
    pub(crate) fn new(unit: &'u Unit<'a>, start: Option<u32>) -> gimli::Result<Self> {
        let start = start.map(|offset| UnitOffset(offset as usize));
        let bytes = unit.header.length_including_self();
        Ok(Walker {
            unit,
            base: 0,
            entries: unit.entries_raw(start)?,
            pending: None,
            begun: false,
            attributes_left: bytes.saturating_mul(ATTRIBUTES_PER_BYTE).saturating_add(64),
        })
    }

    /// The next entry. Ends of lists of children are passed over.
    pub(crate) fn next(&mut self) -> gimli::Result<Option<Step>> {
        loop {
            self.place()?;
            if self.is_at_end() {
                return Ok(None);
            }
            if let Some(step) = self.step()? {
                return Ok(Some(step));
            }
        }
    }

    /// Offset and depth of what comes after the entry that was stepped to and its attributes.
    pub(super) fn place(&mut self) -> gimli::Result<(u32, isize)> {
        if let Some(skipped) = self.pending.take() {
            self.skip(skipped)?;
        }
        let offset = u32::try_from(self.entries.next_offset().0);
        let offset = offset.map_err(|_| gimli::Error::UnsupportedOffset)?;
        Ok((offset, self.base + self.entries.next_depth()))
    }

    /// Returns true if nothing comes after the attributes of the entry that was stepped to.
    pub(super) fn is_at_end(&self) -> bool {
        let depth = self.base + self.entries.next_depth();
        self.entries.is_empty() || (self.begun && depth <= 0)
    }

    /// Steps to the entry at the present place; none at the end of a list of children.
    pub(super) fn step(&mut self) -> gimli::Result<Option<Step>> {
        let (offset, depth) = self.place()?;
        self.begun = true;
        let Some(abbreviation) = self.entries.read_abbreviation()? else {
            return Ok(None);
        };
        self.pending = Some(abbreviation);
        Ok(Some(Step {
            offset,
            depth,
            tag: abbreviation.tag(),
        }))
    }

    /// Goes on at `offset`, where entries have this depth.
    pub(super) fn jump(&mut self, offset: u32, depth: isize) -> gimli::Result<()> {
        self.entries = self.unit.entries_raw(Some(UnitOffset(offset as usize)))?;
        self.base = depth;
        self.pending = None;
        Ok(())
    }

    /// The attributes of the entry that was stepped to.
    pub(crate) fn read(&mut self, attributes: &mut Attributes<'a>) -> gimli::Result<()> {
        attributes.clear();
        let Some(abbreviation) = self.pending.take() else {
            return Ok(());
        };
        self.spend(abbreviation)?;
        for specification in abbreviation.attributes() {
            attributes.push(self.entries.read_attribute(*specification)?);
        }
        Ok(())
    }

    /// The entry that was stepped to, in the unit with this number.
    pub(crate) fn die(&mut self, unit: u32, step: Step) -> gimli::Result<Die<'a>> {
        let mut attributes = Vec::new();
        self.read(&mut attributes)?;
        Ok(Die {
            at: step.at(unit),
            tag: step.tag,
            attributes,
        })
    }

    /// Returns true if the entry that was stepped to can have an attribute, by its abbreviation.
    pub(crate) fn has(&self, name: DwAt) -> bool {
        self.pending.is_some_and(|abbreviation| {
            let mut specifications = abbreviation.attributes().iter();
            specifications.any(|specification| specification.name() == name)
        })
    }

    fn spend(&mut self, abbreviation: &Abbreviation) -> gimli::Result<()> {
        let left = self
            .attributes_left
            .checked_sub(abbreviation.attributes().len());
        self.attributes_left = left.ok_or(gimli::Error::TooManyIterations)?;
        Ok(())
    }

    fn skip(&mut self, abbreviation: &Abbreviation) -> gimli::Result<()> {
        self.spend(abbreviation)?;
        // gimli adds up sizes without a check; a block can claim a size that overflows the sum.
        let can_overflow = |form| {
            matches!(
                form,
                gimli::DW_FORM_block | gimli::DW_FORM_exprloc | gimli::DW_FORM_indirect
            )
        };
        let specifications = abbreviation.attributes();
        if !specifications
            .iter()
            .any(|specification| can_overflow(specification.form()))
        {
            return self.entries.skip_attributes(specifications);
        }
        for specification in specifications {
            self.entries.read_attribute(*specification)?;
        }
        Ok(())
    }
}

/// One entry with its attributes.
#[derive(Debug)]
pub(crate) struct Die<'a> {
    pub(crate) at: DieRef,
    pub(crate) tag: DwTag,
    pub(crate) attributes: Attributes<'a>,
}

impl<'a> Die<'a> {
    pub(crate) fn get(&self, name: DwAt) -> Option<AttributeValue<Slice<'a>>> {
        value_of(&self.attributes, name)
    }

    pub(crate) fn u64(&self, name: DwAt) -> Option<u64> {
        self.get(name).and_then(attr_u64)
    }

    pub(crate) fn flag(&self, name: DwAt) -> bool {
        matches!(self.get(name), Some(AttributeValue::Flag(true)))
    }
}

impl<'a> View<'a> {
    /// Reads one entry.
    pub(crate) fn die(&self, unit: &Unit<'a>, at: DieRef) -> gimli::Result<Die<'a>> {
        // `range_from` of gimli refuses offsets outside of the unit.
        let mut walker = Walker::new(unit, Some(at.offset))?;
        let step = walker.next()?.ok_or(gimli::Error::NoEntryAtGivenOffset)?;
        if step.offset != at.offset {
            return Err(gimli::Error::NoEntryAtGivenOffset);
        }
        walker.die(at.unit, step)
    }

    /// A string attribute as text, cut to a sensible length.
    pub(crate) fn text(
        &self,
        unit: &Unit<'a>,
        number: u32,
        value: AttributeValue<Slice<'a>>,
    ) -> Option<String> {
        attr_text(&self.dwarf_of(number), unit, value)
    }

    /// An attribute of an entry as text.
    pub(crate) fn text_of(&self, unit: &Unit<'a>, die: &Die<'a>, name: DwAt) -> Option<String> {
        self.text(unit, die.at.unit, die.get(name)?)
    }

    /// The name of an entry.
    pub(crate) fn name(&self, unit: &Unit<'a>, die: &Die<'a>) -> Option<String> {
        self.text_of(unit, die, gimli::DW_AT_name)
    }

    /// The entry of an entry's type.
    pub(crate) fn type_of(&self, die: &Die<'a>) -> Option<DieRef> {
        self.target(die.at.unit, die.get(gimli::DW_AT_type)?)
    }

    /// The entry that an entry is a copy or the definition of.
    pub(crate) fn origin(&self, die: &Die<'a>) -> Option<DieRef> {
        let origin = die
            .get(gimli::DW_AT_abstract_origin)
            .or_else(|| die.get(gimli::DW_AT_specification))?;
        self.target(die.at.unit, origin)
    }

    /// The type of an entry, or of the one that it is a copy or the definition of. An array's own entry may
    /// know a bound that its declaration does not.
    pub(crate) fn type_through_origin(&self, die: &Die<'a>) -> Option<DieRef> {
        const MAX_HOPS: usize = 8;
        let mut fetched;
        let mut die = die;
        for _ in 0..MAX_HOPS {
            if let Some(value) = die.get(gimli::DW_AT_type) {
                return self.target(die.at.unit, value);
            }
            fetched = self.fetch(self.origin(die)?)?;
            die = &fetched.1;
        }
        None
    }

    /// The entry that an attribute refers to.
    pub(crate) fn target(&self, from: u32, value: AttributeValue<Slice<'a>>) -> Option<DieRef> {
        match value {
            AttributeValue::UnitRef(offset) => Some(DieRef {
                unit: from,
                offset: u32::try_from(offset.0).ok()?,
            }),
            AttributeValue::DebugInfoRef(offset) => {
                let source = self.file.units[from as usize].source;
                self.at_section_offset(source, offset.0)
            }
            AttributeValue::DebugInfoRefSup(offset) => {
                self.at_section_offset(self.supplement_of()?, offset.0)
            }
            AttributeValue::DebugTypesRef(signature) => self.file.signature(signature.0),
            _ => None,
        }
    }
}

/// The value of the attribute with a name.
pub(crate) fn value_of<'a>(
    attributes: &Attributes<'a>,
    name: DwAt,
) -> Option<AttributeValue<Slice<'a>>> {
    let mut attributes = attributes.iter();
    let found = attributes.find(|attribute| attribute.name() == name)?;
    Some(found.value())
}

/// A string attribute as text.
pub(crate) fn attr_text<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'a>,
    value: AttributeValue<Slice<'a>>,
) -> Option<String> {
    const MAX_BYTES: usize = 32 * 1024;
    let raw = dwarf.attr_string(unit, value).ok()?;
    let raw = &raw.slice()[..raw.slice().len().min(MAX_BYTES)];
    Some(cut(&String::from_utf8_lossy(raw)).to_owned())
}

/// An attribute as a number, when it is a constant of a form that holds no negative one.
pub(crate) fn attr_u64(value: AttributeValue<Slice<'_>>) -> Option<u64> {
    match value {
        AttributeValue::Sdata(number) => u64::try_from(number).ok(),
        other => other.udata_value(),
    }
}

/// The attributes that say which addresses an entry covers.
#[derive(Debug, Default)]
pub(crate) struct PcRanges<'a> {
    low: Option<AttributeValue<Slice<'a>>>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
}

impl<'a> PcRanges<'a> {
    pub(crate) fn of(attributes: &Attributes<'a>) -> PcRanges<'a> {
        let mut ranges = PcRanges::default();
        for attribute in attributes {
            let value = Some(attribute.value());
            match attribute.name() {
                gimli::DW_AT_low_pc => ranges.low = value,
                gimli::DW_AT_high_pc => ranges.high = value,
                gimli::DW_AT_ranges => ranges.ranges = value,
                _ => {}
            }
        }
        ranges
    }

    /// The first address, if the entry names one.
    pub(crate) fn low_pc(&self, dwarf: &gimli::Dwarf<Slice<'a>>, unit: &Unit<'a>) -> Option<u64> {
        dwarf.attr_address(unit, self.low?).ok().flatten()
    }

    /// Calls `take` for each range that is not empty. `budget` is how many ranges may be looked at;
    /// what was is taken off.
    pub(crate) fn each(
        &self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &Unit<'a>,
        budget: &mut usize,
        mut take: impl FnMut(Range),
    ) -> gimli::Result<()> {
        if let Some(value) = self.ranges {
            let Some(mut ranges) = dwarf.attr_ranges(unit, value)? else {
                return Ok(());
            };
            while let Some(range) = ranges.next()? {
                *budget = budget
                    .checked_sub(1)
                    .ok_or(gimli::Error::TooManyIterations)?;
                if range.begin < range.end {
                    take(range);
                }
            }
            return Ok(());
        }
        let Some(begin) = self.low_pc(dwarf, unit) else {
            return Ok(());
        };
        let end = match self.high {
            None => return Ok(()),
            Some(high) => match attr_u64(high) {
                Some(size) => begin.checked_add(size),
                None => dwarf.attr_address(unit, high)?,
            },
        };
        match end {
            Some(end) if begin < end => take(Range { begin, end }),
            _ => {}
        }
        Ok(())
    }
}
