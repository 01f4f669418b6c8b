//! The parts of an ELF file that naming needs: build id, loadable segments, sections, debug links.
//!
//! Everything is read once into owned tables; afterwards only [`Section`] ranges point into the
//! bytes. Invariant: every range lies inside the file.

use std::ops::Range;

use hitm_base::Architecture;
use object::elf;
use object::read::elf::{ElfFile64, FileHeader};
use object::{CompressionFormat, LittleEndian, Object, ObjectSection, ObjectSegment};

use crate::{Bytes, Error};

/// A part of the file that is loaded into memory (`PT_LOAD`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset of its first byte in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Virtual address of its first byte.
    pub vaddr: u64,
    /// Bytes in memory: at least `file_size`; the rest is zero (`.bss`).
    pub memory_size: u64,
}

impl Segment {
    /// Returns true if the segment holds the virtual address.
    pub const fn contains(&self, vaddr: u64) -> bool {
        vaddr >= self.vaddr && vaddr - self.vaddr < self.memory_size
    }
}

/// A section that debug information or symbols may come from.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Its number in the file.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) range: Range<usize>,
    /// Address at which it is loaded, 0 when it is not.
    pub(crate) address: u64,
    pub(crate) compression: CompressionFormat,
    pub(crate) uncompressed_size: u64,
}

/// Link to the supplementary file that holds shared debug information (`.gnu_debugaltlink`, made by
/// dwz).
#[derive(Debug, Clone)]
pub(crate) struct AltLink {
    pub(crate) path: String,
    pub(crate) build_id: Vec<u8>,
}

/// One parsed ELF file.
#[derive(Debug)]
pub(crate) struct Elf {
    pub(crate) bytes: Bytes,
    pub(crate) name: String,
    pub(crate) architecture: Architecture,
    /// An object file that is not linked yet, or a kernel's module.
    pub(crate) is_relocatable: bool,
    pub(crate) build_id: Option<Vec<u8>>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
    pub(crate) debug_link: Option<String>,
    pub(crate) alt_link: Option<AltLink>,
}

/// The page size by which mappings are rounded. aarch64 kernels may use larger pages; a mapping is
/// then larger than this rounding admits, never smaller.
const PAGE: u64 = 4096;

impl Elf {
    /// Parses an executable or shared library.
    pub(crate) fn parse(bytes: Bytes, name: &str) -> Result<Elf, Error> {
        let header = Header::of(&bytes, name)?;
        if header.is_relocatable {
            let expected = "an executable or shared library (type 2 or 3)";
            let found = format!("type {}", elf::ET_REL);
            return Err(Error::not_supported(name, expected, found));
        }
        Elf::read(bytes, name, header)
    }

    /// Parses a file that may only carry debug information, or is not linked yet.
    pub(crate) fn parse_debug(bytes: Bytes, name: &str) -> Result<Elf, Error> {
        let header = Header::of(&bytes, name)?;
        Elf::read(bytes, name, header)
    }

    fn read(bytes: Bytes, name: &str, header: Header) -> Result<Elf, Error> {
        let file = ElfFile64::<LittleEndian>::parse(&*bytes);
        let file =
            file.map_err(|cause| Error::damaged(name, "ELF header or section table", cause))?;
        let segments = file
            .segments()
            .map(|segment| Segment {
                file_offset: segment.file_range().0,
                file_size: segment.file_range().1,
                vaddr: segment.address(),
                memory_size: segment.size(),
            })
            .collect();
        let sections = file
            .sections()
            .filter_map(|section| read_section(&section, bytes.len()))
            .collect();
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        let text = |raw: &[u8]| String::from_utf8_lossy(raw).into_owned();
        let debug_link = file.gnu_debuglink().ok().flatten();
        let alt_link = file.gnu_debugaltlink().ok().flatten();
        let debug_link = debug_link.map(|(path, _checksum)| text(path));
        let alt_link = alt_link.map(|(path, build_id)| AltLink {
            path: text(path),
            build_id: build_id.to_vec(),
        });
        drop(file);
        Ok(Elf {
            bytes,
            name: name.to_owned(),
            architecture: header.architecture,
            is_relocatable: header.is_relocatable,
            build_id,
            segments,
            sections,
            debug_link,
            alt_link,
        })
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Returns true if a segment holds the address. Address 0 is where linkers leave what they
    /// discarded.
    pub(crate) fn is_loaded(&self, vaddr: u64) -> bool {
        vaddr != 0 && self.segments.iter().any(|segment| segment.contains(vaddr))
    }

    /// The bytes of the file that are loaded at a range of virtual addresses, if they all are.
    pub(crate) fn loaded(&self, range: Range<u64>) -> Option<&[u8]> {
        let holds = |segment: &&Segment| segment.contains(range.start);
        let segment = self.segments.iter().find(holds)?;
        let into = range.start - segment.vaddr;
        let length = range.end.checked_sub(range.start)?;
        let is_in_file = into.checked_add(length)? <= segment.file_size;
        let first = segment
            .file_offset
            .checked_add(into)
            .filter(|_| is_in_file)?;
        let first = usize::try_from(first).ok()?;
        self.bytes
            .get(first..first.checked_add(usize::try_from(length).ok()?)?)
    }

    /// Bytes of the file that are loaded from a virtual address on, up to `max`; none when not even one is.
    pub(crate) fn loaded_from(&self, vaddr: u64, max: u64) -> Option<u64> {
        let holds = |segment: &&Segment| segment.contains(vaddr);
        let segment = self.segments.iter().find(holds)?;
        let into = vaddr - segment.vaddr;
        let in_segment = segment.file_size.checked_sub(into)?;
        let first = segment.file_offset.checked_add(into)?;
        let in_file = (self.bytes.len() as u64).checked_sub(first)?;
        Some(max.min(in_segment).min(in_file)).filter(|bytes| *bytes > 0)
    }

    /// The virtual address of the byte at `offset` of the file, as mapped by a mapping that begins
    /// at `mapping_offset` of the file.
    ///
    /// Two segments can share a page of the file; the mapping's own offset then tells them apart.
    pub(crate) fn vaddr_of_offset(&self, mapping_offset: u64, offset: u64) -> Option<u64> {
        let pages = |segment: &Segment| {
            let first = segment.file_offset & !(PAGE - 1);
            let end = segment.file_offset.saturating_add(segment.file_size);
            first..end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
        };
        let mapped = |segment: &&Segment| {
            let pages = pages(segment);
            segment.file_size > 0 && pages.contains(&mapping_offset) && pages.contains(&offset)
        };
        let rank = |segment: &&Segment| {
            let starts_here = pages(segment).start == mapping_offset;
            let holds =
                offset >= segment.file_offset && offset - segment.file_offset < segment.file_size;
            (!starts_here, !holds)
        };
        let segment = self.segments.iter().filter(mapped).min_by_key(rank)?;
        Some(
            segment
                .vaddr
                .wrapping_add(offset.wrapping_sub(segment.file_offset)),
        )
    }
}

/// Facts of the first 64 bytes.
#[derive(Debug, Clone, Copy)]
struct Header {
    architecture: Architecture,
    is_relocatable: bool,
}

impl Header {
    /// Checks the header, so that a foreign file gets an answer that names what it is.
    fn of(bytes: &[u8], name: &str) -> Result<Header, Error> {
        let refuse = |expected, found: String| Error::not_supported(name, expected, found);
        if bytes.len() < 64 || !bytes.starts_with(&elf::ELFMAG) {
            return Err(Error::foreign(name, "an ELF file", bytes));
        }
        if bytes[4] != elf::ELFCLASS64 || bytes[5] != elf::ELFDATA2LSB {
            let found = format!("class {}, data encoding {}", bytes[4], bytes[5]);
            return Err(refuse("64-bit little-endian ELF (class 2, data 1)", found));
        }
        let header = elf::FileHeader64::<LittleEndian>::parse(bytes)
            .map_err(|cause| refuse("an ELF header", cause.to_string()))?;
        let kind = header.e_type(LittleEndian);
        if ![elf::ET_REL, elf::ET_EXEC, elf::ET_DYN].contains(&kind) {
            let expected = "an object file, executable or shared library (type 1, 2 or 3)";
            return Err(refuse(expected, format!("type {kind}")));
        }
        let machine = header.e_machine(LittleEndian);
        let architecture = Architecture::of_elf(machine).ok_or_else(|| {
            let found = format!("machine {machine}");
            refuse("x86-64 or aarch64 (machine 62 or 183)", found)
        })?;
        Ok(Header {
            architecture,
            is_relocatable: kind == elf::ET_REL,
        })
    }
}

fn read_section<'data>(section: &impl ObjectSection<'data>, file_size: usize) -> Option<Section> {
    let name = String::from_utf8_lossy(section.name_bytes().ok()?).into_owned();
    let compressed = section.compressed_file_range().ok()?;
    let start = usize::try_from(compressed.offset).ok()?;
    let size = usize::try_from(compressed.compressed_size).ok()?;
    let end = start.checked_add(size).filter(|end| *end <= file_size)?;
    Some(Section {
        index: section.index().0,
        name,
        range: start..end,
        address: section.address(),
        compression: compressed.format,
        uncompressed_size: compressed.uncompressed_size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_segments(segments: Vec<Segment>) -> Elf {
        Elf {
            bytes: Bytes::from(Vec::new()),
            name: String::from("test"),
            architecture: Architecture::X86_64,
            is_relocatable: false,
            build_id: None,
            segments,
            sections: Vec::new(),
            debug_link: None,
            alt_link: None,
        }
    }

    #[test]
    fn a_page_of_the_file_mapped_twice_is_told_apart_by_the_mapping() {
        let text = Segment {
            file_offset: 0x1000,
            file_size: 0x1800,
            vaddr: 0x1000,
            memory_size: 0x1800,
        };
        let data = Segment {
            file_offset: 0x2800,
            file_size: 0x100,
            vaddr: 0x3800,
            memory_size: 0x900,
        };
        let elf = with_segments(vec![text, data]);
        assert_eq!(elf.vaddr_of_offset(0x1000, 0x1010), Some(0x1010));
        assert_eq!(elf.vaddr_of_offset(0x2000, 0x2810), Some(0x3810));
        // The text's mapping continues to the end of the page that the data begins in.
        assert_eq!(elf.vaddr_of_offset(0x1000, 0x2810), Some(0x2810));
        assert_eq!(elf.vaddr_of_offset(0x5000, 0x5000), None);
        assert!(elf.is_loaded(0x40ff) && !elf.is_loaded(0x4100));
    }
}
