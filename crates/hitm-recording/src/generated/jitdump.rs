//! Functions in a jitdump file (tools/perf/Documentation/jitdump-specification.txt, Linux 6.1).
//!
//! A file is a header and records in the order of time. Code is loaded under a name and an index, and may
//! move. Line numbers and unwind tables are passed over.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::Function;

/// First word of a file in this host's order of bytes.
const MAGIC: u32 = 0x4a69_5444;
/// Size of a file's header, as far as it is read here.
const HEADER_BYTES: u64 = 40;
/// Size of a record's header: kind, size, time.
const RECORD_HEADER_BYTES: u64 = 16;
/// Bytes of a record that are looked at: its fields and its name. Code follows.
const BODY_BYTES_MAX: u64 = 8192;
/// Memory for names of code that may move.
const NAMES_BYTES_MAX: usize = 64 << 20;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;

/// Passes the functions to `take` in the order in which they came to their addresses. Ends at the
/// first record that is none: a program that was killed leaves half of one.
///
/// # Errors
/// Those of reading.
pub(super) fn functions(file: &mut impl Read, take: &mut dyn FnMut(Function)) -> io::Result<()> {
    let start = up_to(file, HEADER_BYTES)?;
    let header = Fields(&start);
    let (Some(MAGIC), Some(header_bytes)) = (header.u32(0), header.u32(8)) else {
        return Ok(());
    };
    skip(file, u64::from(header_bytes).saturating_sub(HEADER_BYTES))?;
    let mut names = Names::default();
    loop {
        let start = up_to(file, RECORD_HEADER_BYTES)?;
        let (Some(kind), Some(size)) = (Fields(&start).u32(0), Fields(&start).u32(4)) else {
            return Ok(());
        };
        let Some(rest) = u64::from(size).checked_sub(RECORD_HEADER_BYTES) else {
            return Ok(());
        };
        let wanted = match kind {
            CODE_LOAD | CODE_MOVE => rest.min(BODY_BYTES_MAX),
            _ => 0,
        };
        let body = up_to(file, wanted)?;
        if skip(file, rest - wanted)? < rest - wanted || (body.len() as u64) < wanted {
            return Ok(());
        }
        let function = match kind {
            CODE_LOAD => load(Fields(&body), &mut names),
            CODE_MOVE => moved(Fields(&body), &names),
            _ => None,
        };
        function.into_iter().for_each(&mut *take);
    }
}

/// Reads so many bytes, fewer at the end of the file.
fn up_to(file: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Skips so many bytes; returns how many there were.
fn skip(file: &mut impl Read, count: u64) -> io::Result<u64> {
    io::copy(&mut file.take(count), &mut io::sink())
}

/// Names of code that may move, by index.
#[derive(Default)]
struct Names {
    by_index: BTreeMap<u64, String>,
    bytes: usize,
}

impl Names {
    /// Remembers a name while there is room: code without one has no name once it moves.
    fn insert(&mut self, index: u64, name: &str) {
        self.bytes += name.len() + size_of::<(u64, String)>();
        if self.bytes <= NAMES_BYTES_MAX {
            self.by_index.insert(index, name.to_owned());
        }
    }
}

/// The fields are pid, tid, vma, address, size, index, and the name with a zero behind it.
fn load(body: Fields<'_>, names: &mut Names) -> Option<Function> {
    const NAME: usize = 40;
    let (start, size, index) = (body.u64(16)?, body.u64(24)?, body.u64(32)?);
    let name = body.0.get(NAME..)?.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(name).into_owned();
    names.insert(index, &name);
    Some(Function { start, size, name })
}

/// The fields are pid, tid, vma, old address, new address, size and index.
fn moved(body: Fields<'_>, names: &Names) -> Option<Function> {
    let (start, size, index) = (body.u64(24)?, body.u64(32)?, body.u64(40)?);
    Some(Function {
        start,
        size,
        name: names.by_index.get(&index)?.clone(),
    })
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

    fn read(bytes: &[u8]) -> Vec<Function> {
        let mut found = Vec::new();
        functions(&mut &*bytes, &mut |function| found.push(function)).unwrap();
        found
    }

    fn record_of(kind: u32, numbers: &[u64], name: &str, code: &[u8]) -> Vec<u8> {
        let mut body: Vec<u8> = [7u32, 8].iter().flat_map(|id| id.to_ne_bytes()).collect();
        body.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        body.extend(name.as_bytes());
        body.extend(code);
        let size = RECORD_HEADER_BYTES as u32 + body.len() as u32;
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
        let add = |start| Function {
            start,
            size: 3,
            name: "add".to_owned(),
        };
        assert_eq!(read(&file), [add(0x1000), add(0x2000)]);
        assert_eq!(read(&file[..file.len() - 1]), [add(0x1000), add(0x2000)]);
        assert_eq!(read(&file[..60]), []);
        let long = record_of(CODE_LOAD, &[0, 0x4000, 3, 1], "long\0", &[0x90; 100_000]);
        let file = file_of(&[long.clone(), long]);
        assert_eq!(read(&file).len(), 2);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)
        ) {
            read(&bytes);
            read(&file_of(&[bytes]));
        }
    }
}
