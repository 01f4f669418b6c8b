//! Functions in a jitdump file (tools/perf/Documentation/jitdump-specification.txt, Linux 6.1).
//!
//! A file is a header and records in the order of time. Code is loaded under a name and an index, and may
//! move. Line numbers and unwind tables are passed over.

use std::collections::BTreeMap;

use super::Function;

/// First word of a file in this host's order of bytes.
const MAGIC: u32 = 0x4a69_5444;
/// Size of a record's header: kind, size, time.
const RECORD_HEADER_BYTES: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;

/// Returns the functions in the order in which they came to their addresses. Ends at the first record
/// that is none: a program that was killed leaves half of one.
pub(super) fn functions(bytes: &[u8]) -> Vec<Function> {
    let header = Fields(bytes);
    let (Some(MAGIC), Some(header_bytes)) = (header.u32(0), header.u32(8)) else {
        return Vec::new();
    };
    let mut rest = bytes.get(header_bytes as usize..).unwrap_or_default();
    let mut names = BTreeMap::new();
    let mut found = Vec::new();
    while let Some((kind, body, behind)) = record(rest) {
        match kind {
            CODE_LOAD => found.extend(load(body, &mut names)),
            CODE_MOVE => found.extend(moved(body, &names)),
            _ => {}
        }
        rest = behind;
    }
    found
}

/// Splits the first record off: its kind, what follows its header, and what follows it.
fn record(bytes: &[u8]) -> Option<(u32, Fields<'_>, &[u8])> {
    let fields = Fields(bytes);
    let (kind, size) = (fields.u32(0)?, fields.u32(4)? as usize);
    let body = bytes.get(RECORD_HEADER_BYTES..size)?;
    Some((kind, Fields(body), &bytes[size..]))
}

/// The fields are pid, tid, vma, address, size, index, and the name with a zero behind it.
fn load(body: Fields<'_>, names: &mut BTreeMap<u64, String>) -> Option<Function> {
    const NAME: usize = 40;
    let (start, size, index) = (body.u64(16)?, body.u64(24)?, body.u64(32)?);
    let name = body.0.get(NAME..)?.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(name).into_owned();
    names.insert(index, name.clone());
    Some((start, size, name))
}

/// The fields are pid, tid, vma, old address, new address, size and index.
fn moved(body: Fields<'_>, names: &BTreeMap<u64, String>) -> Option<Function> {
    let (start, size, index) = (body.u64(24)?, body.u64(32)?, body.u64(40)?);
    Some((start, size, names.get(&index)?.clone()))
}

/// Numbers at offsets of a slice.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn u64(self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_of(kind: u32, numbers: &[u64], name: &str, code: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = [7u32, 8].iter().flat_map(|id| id.to_ne_bytes()).collect();
        body.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        body.extend(name.as_bytes());
        body.extend(code);
        let size = (RECORD_HEADER_BYTES + body.len()) as u32;
        let mut record: Vec<u8> = [kind, size]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        record.extend(5u64.to_ne_bytes());
        record.extend(body);
        record
    }

    fn file_of(records: &[Vec<u8>]) -> Vec<u8> {
        let header = [MAGIC, 1, 40, 62, 0, 7, 0, 0, 0, 0];
        let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
        file.extend(records.concat());
        file
    }

    #[test]
    fn code_that_moves_keeps_its_name() {
        let file = file_of(&[
            record_of(CODE_LOAD, &[0x1000, 0x1000, 3, 1], "add\0", &[0x90; 3]),
            record_of(2, &[0x1000, 0], "", &[]),
            record_of(CODE_MOVE, &[0x1000, 0x1000, 0x2000, 3, 1], "", &[]),
            record_of(CODE_MOVE, &[0x1000, 0x1000, 0x3000, 3, 9], "", &[]),
        ]);
        let add = |start| (start, 3, "add".to_owned());
        assert_eq!(functions(&file), [add(0x1000), add(0x2000)]);
        assert_eq!(
            functions(&file[..file.len() - 1]),
            [add(0x1000), add(0x2000)]
        );
        assert_eq!(functions(&file[..60]), []);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)
        ) {
            functions(&bytes);
            functions(&file_of(&[bytes]));
        }
    }
}
