//! The debug sections of one ELF file, decompressed where needed: whole, or cut to what one unit of a
//! package owns.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

use gimli::{EndianSlice, LittleEndian, SectionId};
use object::CompressionFormat;
use object::read::CompressedData;

use super::relocate::Relocator;
use crate::Bytes;
use crate::elf::{Elf, Section};

/// The compressed sections of a file may together claim to hold at most this many times the size of
/// the file. Real debug sections reach about 30, and only the small ones.
const MAX_EXPANSION: u64 = 64;

/// Bytes that a small file may claim beyond that.
const MIN_ROOM: u64 = 16 << 20;

/// Place of a section's bytes.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Missing,
    InFile(Range<usize>),
    Decompressed(Vec<u8>),
}

/// The sections that are read.
const USED: [SectionId; 14] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
];

/// Scheme by which the sections of a file are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// `.debug_info`; `.zdebug_info` when compressed as binutils once did.
    Main,
    /// `.debug_info.dwo`: what the linker does not look at (split DWARF).
    Split,
}

/// The debug sections of one file.
#[derive(Debug)]
pub(crate) struct DebugSections {
    bytes: Bytes,
    places: Vec<Place>,
    pub(crate) naming: Naming,
}

impl DebugSections {
    /// Finds the sections, and decompresses those that are compressed. `problems` gets a line for
    /// each that cannot be.
    pub(crate) fn new(elf: &Elf, naming: Naming, problems: &mut Vec<String>) -> DebugSections {
        let mut room = (elf.bytes.len() as u64)
            .saturating_mul(MAX_EXPANSION)
            .saturating_add(MIN_ROOM);
        let relocator = Relocator::of(elf);
        let mut place = |id: &SectionId| {
            let name = match naming {
                Naming::Main => Some(id.name()),
                Naming::Split => id.dwo_name(),
            };
            let Some(name) = name else {
                return Place::Missing;
            };
            let gnu_name = name.replacen(".debug_", ".zdebug_", 1);
            let found = elf
                .sections
                .iter()
                .filter(|section| section.name == name || section.name == gnu_name);
            let found: Vec<&Section> = match naming {
                // A linked file has one of each; a relocatable one has a section for each type unit.
                Naming::Main if !elf.is_relocatable => found.take(1).collect(),
                Naming::Main | Naming::Split => found.collect(),
            };
            place_of(elf, &found, relocator.as_ref(), &mut room).unwrap_or_else(|problem| {
                problems.push(format!("section {name} left out: {problem}"));
                Place::Missing
            })
        };
        let places = USED.iter().map(&mut place).collect();
        DebugSections {
            bytes: elf.bytes.clone(),
            places,
            naming,
        }
    }

    /// The bytes of a section; none when the file has no such section.
    pub(crate) fn get(&self, id: SectionId) -> &[u8] {
        let index = USED.iter().position(|used| *used == id);
        match index.map_or(&Place::Missing, |index| &self.places[index]) {
            Place::Missing => &[],
            Place::InFile(range) => &self.bytes[range.clone()],
            Place::Decompressed(bytes) => bytes,
        }
    }

    /// Gives back memory that is not needed soon.
    pub(crate) fn release(&self) {
        self.bytes.release();
    }

    /// gimli's reader of all sections, or of those parts of them that are `own`.
    pub(crate) fn dwarf(&self, own: Option<&Parts>) -> gimli::Dwarf<EndianSlice<'_, LittleEndian>> {
        let load = |id: SectionId| {
            let whole = self.get(id);
            let range = own.and_then(|parts| parts.get(id));
            let part = range.map_or(whole, |range| whole.get(range).unwrap_or_default());
            Ok(EndianSlice::new(part, LittleEndian))
        };
        match gimli::Dwarf::load(load) {
            Ok(dwarf) => dwarf,
            Err::<_, Infallible>(never) => match never {},
        }
    }
}

/// The parts of a package's sections that belong to one unit. A section without a part is shared.
#[derive(Debug, Default)]
pub(crate) struct Parts(Vec<(SectionId, Range<usize>)>);

impl Parts {
    pub(crate) fn new(parts: impl Iterator<Item = (SectionId, Range<usize>)>) -> Parts {
        let mut parts: Vec<_> = parts.collect();
        parts.shrink_to_fit();
        Parts(parts)
    }

    pub(crate) fn get(&self, id: SectionId) -> Option<Range<usize>> {
        let part = self.0.iter().find(|part| part.0 == id)?;
        Some(part.1.clone())
    }
}

/// Place of the bytes of sections of one name, one after the other, with their relocations. What is
/// decompressed or copied is taken off `room`.
fn place_of(
    elf: &Elf,
    sections: &[&Section],
    relocator: Option<&Relocator<'_>>,
    room: &mut u64,
) -> Result<Place, String> {
    let mut joined = match sections {
        [] => return Ok(Place::Missing),
        [only] if only.compression == CompressionFormat::None && relocator.is_none() => {
            return Ok(Place::InFile(only.range.clone()));
        }
        _ => Vec::new(),
    };
    for section in sections {
        let data = &elf.bytes[section.range.clone()];
        let claimed = match section.compression {
            CompressionFormat::None => data.len() as u64,
            _ => section.uncompressed_size,
        };
        *room = room
            .checked_sub(claimed)
            .ok_or_else(|| format!("{} compressed bytes claim to be {claimed}", data.len()))?;
        let mut bytes = decompress(section.compression, data, claimed)?;
        if let Some(relocator) = relocator {
            relocator.apply(section.index, bytes.to_mut())?;
        }
        if joined.is_empty() {
            joined = bytes.into_owned();
        } else {
            joined.extend_from_slice(&bytes);
        }
    }
    Ok(Place::Decompressed(joined))
}

/// Decompresses to exactly `claimed` bytes, and never to more.
fn decompress(
    format: CompressionFormat,
    data: &[u8],
    claimed: u64,
) -> Result<Cow<'_, [u8]>, String> {
    if format != CompressionFormat::Zstandard {
        let compressed = CompressedData {
            format,
            data,
            uncompressed_size: claimed,
        };
        return compressed.decompress().map_err(|cause| cause.to_string());
    }
    // `object` would decompress to the end, however far that is.
    let capacity = usize::try_from(claimed).map_err(|cause| cause.to_string())?;
    let bytes = zstd::bulk::decompress(data, capacity).map_err(|cause| cause.to_string())?;
    if bytes.len() != capacity {
        return Err(format!("{} bytes instead of {claimed}", bytes.len()));
    }
    Ok(Cow::Owned(bytes))
}
