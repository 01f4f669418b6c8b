//! The debug sections of one ELF file, decompressed where needed.

use std::convert::Infallible;
use std::ops::Range;

use gimli::{EndianSlice, LittleEndian, SectionId};
use object::read::CompressedData;

use crate::Bytes;
use crate::elf::{Elf, Section};

/// A compressed section may claim to hold at most this many times its own size. Real debug sections
/// reach about 30.
const MAX_EXPANSION: u64 = 512;

/// No debug section may be larger than this, in bytes.
const MAX_SECTION: u64 = 1 << 32;

/// Where a section's bytes are.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Missing,
    InFile(Range<usize>),
    Decompressed(Vec<u8>),
}

/// The sections that are read.
const USED: [SectionId; 12] = [
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
];

/// The debug sections of one file.
#[derive(Debug)]
pub(crate) struct DebugSections {
    bytes: Bytes,
    places: Vec<Place>,
}

impl DebugSections {
    /// Finds the sections, and decompresses those that are compressed. `problems` gets a line for
    /// each that cannot be.
    pub(crate) fn new(elf: &Elf, problems: &mut Vec<String>) -> DebugSections {
        let places = USED.iter().map(|id| {
            let gnu_name = id.name().replacen(".debug_", ".zdebug_", 1);
            let section = elf.section(id.name()).or_else(|| elf.section(&gnu_name));
            let place = section.map(|section| place_of(elf, section));
            match place {
                None => Place::Missing,
                Some(Ok(place)) => place,
                Some(Err(problem)) => {
                    problems.push(format!("section {} left out: {problem}", id.name()));
                    Place::Missing
                }
            }
        });
        let places = places.collect();
        DebugSections {
            bytes: elf.bytes.clone(),
            places,
        }
    }

    /// The bytes of a section; none when the file has no such section.
    pub(crate) fn get(&self, id: SectionId) -> &[u8] {
        let place = USED
            .iter()
            .position(|used| *used == id)
            .map_or(&Place::Missing, |index| &self.places[index]);
        match place {
            Place::Missing => &[],
            Place::InFile(range) => &self.bytes[range.clone()],
            Place::Decompressed(bytes) => bytes,
        }
    }

    /// gimli's reader of all sections.
    pub(crate) fn dwarf(&self) -> gimli::Dwarf<EndianSlice<'_, LittleEndian>> {
        let load = |id: SectionId| Ok(EndianSlice::new(self.get(id), LittleEndian));
        match gimli::Dwarf::load(load) {
            Ok(dwarf) => dwarf,
            Err::<_, Infallible>(never) => match never {},
        }
    }
}

fn place_of(elf: &Elf, section: &Section) -> Result<Place, String> {
    if section.compression == object::CompressionFormat::None {
        return Ok(Place::InFile(section.range.clone()));
    }
    let data = &elf.bytes[section.range.clone()];
    let claimed = section.uncompressed_size;
    let most = (data.len() as u64).saturating_mul(MAX_EXPANSION);
    if claimed > most.min(MAX_SECTION) {
        return Err(format!(
            "{} compressed bytes claim to be {claimed}",
            data.len()
        ));
    }
    let compressed = CompressedData {
        format: section.compression,
        data,
        uncompressed_size: claimed,
    };
    match compressed.decompress() {
        Ok(bytes) => Ok(Place::Decompressed(bytes.into_owned())),
        Err(cause) => Err(cause.to_string()),
    }
}
