//! The head of a file, and the sections that it points to.

use std::io::{Read, Seek, SeekFrom};

use super::attr::{ATTR_LEN_MAX, ATTR_LEN_MIN, Attr};
use super::bytes::{ByteOrder, Bytes};
use super::events::{Events, IDS_MAX};
use super::{FileFacts, ReadError};
use crate::format::{FILE_HEADER_LEN, MAGIC, MAGIC_SWAPPED, PIPE_HEADER_LEN};

/// Events that a file may have.
pub(super) const EVENTS_MAX: usize = 4096;

/// The largest feature section that is read; command lines and build ids are far smaller.
pub const FEATURE_LEN_MAX: u64 = 16 << 20;

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Layout of the file.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) order: ByteOrder,
    /// Bytes of the file.
    pub(super) len: u64,
    /// The records.
    pub(super) data: Section,
    /// Sections of a seekable file; a stream has none.
    pub(super) sections: Option<Sections>,
}

#[derive(Debug)]
pub(super) struct Sections {
    attrs: Section,
    attr_len: u64,
    features: [u64; 4],
    /// perf was killed before it wrote the length of the data.
    pub(super) is_unfinished: bool,
}

fn cut_header(expected: usize, len: u64) -> ReadError {
    ReadError::Truncated {
        offset: 0,
        what: "the header",
        expected: expected as u64,
        len,
    }
}

/// Reads the header of either layout.
pub(super) fn read<R: Read + Seek>(source: &mut R) -> Result<Layout, ReadError> {
    let len = source.seek(SeekFrom::End(0))?;
    source.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    source
        .by_ref()
        .take(FILE_HEADER_LEN as u64)
        .read_to_end(&mut head)?;
    let order = match head.get(..8) {
        Some(magic) if magic == MAGIC => ByteOrder::Little,
        Some(magic) if magic == MAGIC_SWAPPED => ByteOrder::Big,
        _ => {
            head.truncate(8);
            return Err(ReadError::Foreign { found: head });
        }
    };
    let mut fields = Bytes::new(&head[8..], order);
    let header_len = fields
        .u64()
        .ok_or_else(|| cut_header(PIPE_HEADER_LEN, len))?;
    if header_len == PIPE_HEADER_LEN as u64 {
        return Ok(Layout {
            order,
            len,
            data: Section {
                offset: header_len,
                len: len - header_len,
            },
            sections: None,
        });
    }
    if header_len != FILE_HEADER_LEN as u64 {
        let expected = format!("{PIPE_HEADER_LEN} or {FILE_HEADER_LEN}");
        return Err(ReadError::malformed(
            8,
            "the length of the header",
            header_len,
            expected,
        ));
    }
    read_sections(fields, order, len)
}

/// Reads the rest of the header of a seekable file.
fn read_sections(mut fields: Bytes<'_>, order: ByteOrder, len: u64) -> Result<Layout, ReadError> {
    let mut word = || fields.u64().ok_or_else(|| cut_header(FILE_HEADER_LEN, len));
    let attr_len = word()?;
    let attrs = Section {
        offset: word()?,
        len: word()?,
    };
    let mut data = Section {
        offset: word()?,
        len: word()?,
    };
    let _event_types = (word()?, word()?);
    let features = [word()?, word()?, word()?, word()?];
    check(attrs, "the section of attributes", len)?;
    let is_unfinished = data.len == 0 && data.offset < len;
    if is_unfinished {
        data.len = len - data.offset;
    }
    check(data, "the section of records", len)?;
    Ok(Layout {
        order,
        len,
        data,
        sections: Some(Sections {
            attrs,
            attr_len,
            features: if is_unfinished { [0; 4] } else { features },
            is_unfinished,
        }),
    })
}

/// Fails unless the section lies within the file.
fn check(section: Section, what: &'static str, len: u64) -> Result<(), ReadError> {
    match section.offset.checked_add(section.len) {
        Some(end) if end <= len => Ok(()),
        _ => Err(ReadError::Truncated {
            offset: section.offset,
            what,
            expected: section.len,
            len,
        }),
    }
}

fn load<R: Read + Seek>(source: &mut R, section: Section) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    source.seek(SeekFrom::Start(section.offset))?;
    source.by_ref().take(section.len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the events and their sample ids.
pub(super) fn read_attrs<R: Read + Seek>(
    source: &mut R,
    layout: &Layout,
    sections: &Sections,
    events: &mut Events,
) -> Result<(), ReadError> {
    let (attrs, entry_len) = (sections.attrs, sections.attr_len);
    let lens = ATTR_LEN_MIN + 16..=ATTR_LEN_MAX + 16;
    if !lens.contains(&entry_len) {
        let expected = format!("{} to {}", lens.start(), lens.end());
        return Err(ReadError::malformed(
            16,
            "the length of an attribute",
            entry_len,
            expected,
        ));
    }
    let count = attrs.len / entry_len;
    if count > EVENTS_MAX as u64 {
        return Err(ReadError::malformed(
            32,
            "events",
            count,
            format!("at most {EVENTS_MAX}"),
        ));
    }
    let bytes = load(source, attrs)?;
    for (index, entry) in bytes.chunks_exact(entry_len as usize).enumerate() {
        let offset = attrs.offset + index as u64 * entry_len;
        let (attr, ids) = entry.split_at(entry.len() - 16);
        let Some(attr) = Attr::read(attr, layout.order) else {
            return Err(ReadError::malformed(
                offset,
                "an attribute",
                entry_len,
                "more bytes",
            ));
        };
        let mut ids = Bytes::new(ids, layout.order);
        let ids = Section {
            offset: ids.u64().unwrap_or(0),
            len: ids.u64().unwrap_or(0),
        };
        check(ids, "an event's sample ids", layout.len)?;
        let records = layout.data.offset..layout.data.offset + layout.data.len;
        if ids.len > 0 && ids.offset < records.end && ids.offset + ids.len > records.start {
            return Err(ReadError::malformed(
                ids.offset,
                "an event's sample ids among the records",
                format!("bytes {} to {}", ids.offset, ids.offset + ids.len),
                format!("none of bytes {} to {}", records.start, records.end),
            ));
        }
        // Sections may overlap, so that a small file could claim the same ids for many events.
        if ids.len / 8 + events.id_count() as u64 > IDS_MAX as u64 {
            let found = ids.len / 8;
            return Err(ReadError::malformed(
                offset,
                "sample ids",
                found,
                format!("at most {IDS_MAX}"),
            ));
        }
        let ids = load(source, ids)?;
        let mut ids = Bytes::new(&ids, layout.order);
        events.add(attr, std::iter::from_fn(|| ids.u64()));
    }
    Ok(())
}

/// Reads the feature sections, whose table stands behind the records.
pub(super) fn read_features<R: Read + Seek>(
    source: &mut R,
    layout: &Layout,
    sections: &Sections,
    facts: &mut FileFacts,
) -> Result<(), ReadError> {
    let bits: Vec<u8> = (0..=u8::MAX)
        .filter(|bit| sections.features[usize::from(bit / 64)] >> (bit % 64) & 1 == 1)
        .collect();
    let table = Section {
        offset: layout.data.offset + layout.data.len,
        len: 16 * bits.len() as u64,
    };
    check(table, "the table of feature sections", layout.len)?;
    let mut free = table.offset + table.len;
    let table = load(source, table)?;
    let mut table = Bytes::new(&table, layout.order);
    for bit in bits {
        let section = Section {
            offset: table.u64().unwrap_or(0),
            len: table.u64().unwrap_or(0),
        };
        check(section, "a feature section", layout.len)?;
        // perf writes them one behind the other. Sections that lead back into what was read before
        // could say the same things without end.
        if section.len > 0 && section.offset < free {
            return Err(ReadError::malformed(
                section.offset,
                "a feature section over what stands before it",
                format!("feature {bit} at byte {}", section.offset),
                format!("byte {free} or later"),
            ));
        }
        free = free.max(section.offset + section.len);
        if section.len > FEATURE_LEN_MAX {
            let expected = format!("at most {FEATURE_LEN_MAX}");
            return Err(ReadError::malformed(
                section.offset,
                "bytes of a feature section",
                section.len,
                expected,
            ));
        }
        let bytes = load(source, section)?;
        facts.take(bit, &bytes, layout.order);
    }
    Ok(())
}
