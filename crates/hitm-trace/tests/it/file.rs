//! Whole files: what goes in comes out, and what is damaged is said to be.

use std::io::Cursor;

use expect_test::{Expect, expect};
use hitm_base::{Access, Outcome};
use hitm_trace::{
    ChunkDecoder, DamageKind, ReadError, Record, Recovery, TraceReader, TraceWriter, Visitor,
    WriteError, decode_chunk, read_index,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::{blocks, file, header, numbered, record};

const BLOCK_LEN: usize = 4096;

#[derive(Default)]
struct Collect(Vec<Record>);

impl Visitor for Collect {
    fn access(&mut self, access: &Access, outcome: &Outcome) {
        self.0.push(Record::Access {
            access: *access,
            outcome: *outcome,
        });
    }

    fn record(&mut self, record: Record) {
        self.0.push(record);
    }
}

fn read(bytes: &[u8], does_resync: bool) -> Result<(Vec<Record>, Recovery), ReadError> {
    let mut reader = TraceReader::new(bytes)?;
    if does_resync {
        reader = reader.resync();
    }
    let mut collect = Collect::default();
    let recovery = reader.visit(&mut collect)?;
    Ok((collect.0, recovery))
}

fn numbered_records(count: u64) -> Vec<Record> {
    (0..count).map(numbered).collect()
}

/// Byte at which each chunk of `bytes` begins, and the end of the last one.
fn chunk_bounds(bytes: &[u8]) -> Vec<usize> {
    let mut reader = TraceReader::new(bytes).unwrap();
    let mut bounds = Vec::new();
    let mut end = 0;
    for chunk in reader.chunks() {
        let chunk = chunk.unwrap();
        bounds.push(chunk.offset() as usize);
        end = chunk.offset() as usize + chunk.stored_len();
    }
    bounds.push(end);
    bounds
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_goes_in_comes_out(records in vec(record(), 0..400)) {
        let bytes = file(&records, BLOCK_LEN);
        prop_assert_eq!(&bytes, &file(&records, BLOCK_LEN), "the same records make the same bytes");
        let (found, recovery) = read(&bytes, false).unwrap();
        prop_assert_eq!(found, records);
        prop_assert!(recovery.is_complete());
    }

    #[test]
    fn any_bytes_end_in_a_value_or_an_error(
        mut tail in vec(any::<u8>(), 0..500),
        patches in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        is_foreign: bool,
    ) {
        let mut bytes = if is_foreign { Vec::new() } else { file(&numbered_records(300), BLOCK_LEN) };
        bytes.append(&mut tail);
        for (at, value) in patches {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        let _ = read(&bytes, false);
        let _ = read(&bytes, true);
        let _ = read_index(&mut Cursor::new(&bytes));
    }

    #[test]
    fn any_block_decodes_to_records_or_an_error(bytes in vec(any::<u8>(), 0..300)) {
        let mut collect = Collect::default();
        let summary = hitm_trace::decode_block(&bytes, &mut collect);
        let records: Result<Vec<Record>, _> = hitm_trace::BlockDecoder::new(&bytes).collect();
        prop_assert_eq!(summary.map(|_| collect.0).err(), records.err());
    }
}

#[test]
fn a_file_cut_anywhere_reads_back_to_its_last_whole_chunk() {
    let records = numbered_records(3000);
    let bytes = file(&records, BLOCK_LEN);
    let bounds = chunk_bounds(&bytes);
    let counts: Vec<usize> = blocks(&records, BLOCK_LEN)
        .iter()
        .map(|(meta, _)| meta.record_count as usize)
        .collect();
    assert!(counts.len() > 5);
    for cut in bounds[0]..bytes.len() {
        let whole = bounds[1..].iter().filter(|&&end| end <= cut).count();
        let (found, recovery) = read(&bytes[..cut], false).unwrap();
        assert_eq!(found.len(), counts[..whole].iter().sum::<usize>());
        assert_eq!(found, records[..found.len()]);
        assert_eq!(recovery.chunks, whole as u64);
        assert!(!recovery.is_complete(), "cut at {cut}");
        if whole < counts.len() {
            assert_eq!(recovery.missing_bytes, (cut - bounds[whole]) as u64);
        }
    }
}

#[test]
fn a_header_cut_anywhere_is_an_error() {
    let bytes = file(&numbered_records(10), BLOCK_LEN);
    let end = chunk_bounds(&bytes)[0];
    for cut in 0..end {
        assert!(matches!(
            TraceReader::new(&bytes[..cut]),
            Err(ReadError::Header(_))
        ));
    }
}

#[test]
fn a_changed_byte_is_never_taken_for_data() {
    let records = numbered_records(600);
    let bytes = file(&records, BLOCK_LEN);
    let bounds = chunk_bounds(&bytes);
    for at in bounds[0]..bounds[bounds.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x20;
        assert!(
            matches!(read(&bytes, false), Err(ReadError::Damaged(_))),
            "byte {at}"
        );
        let (found, recovery) = read(&bytes, true).unwrap();
        assert!(found.len() < records.len());
        assert!(found.iter().all(|record| records.contains(record)));
        let damage = recovery.reason.unwrap();
        let chunk = bounds.iter().filter(|&&begin| begin <= at).count() - 1;
        assert_eq!(damage.chunk, chunk as u64);
        assert_eq!(damage.offset, bounds[chunk] as u64);
        assert_eq!(
            recovery.missing_bytes,
            (bounds[chunk + 1] - bounds[chunk]) as u64
        );
        assert_eq!(recovery.chunks, bounds.len() as u64 - 2);
        assert_eq!(recovery.missing_chunks, 1);
    }
}

/// Damages a file of six chunks, whose compressed lengths are those of zstd 1.5.7, and compares what a
/// reader says, first without and then with resync.
fn check_damage(damage: impl Fn(&mut Vec<u8>, &[usize]), expected: Expect) {
    let mut bytes = file(&numbered_records(3000), BLOCK_LEN);
    let bounds = chunk_bounds(&bytes);
    damage(&mut bytes, &bounds);
    let describe = |result: Result<(Vec<Record>, Recovery), ReadError>| match result {
        Err(error) => format!("error: {error}\n"),
        Ok((records, recovery)) => format!(
            "{} records, {} chunks, missing {} bytes, {} chunks: {}\n",
            records.len(),
            recovery.chunks,
            recovery.missing_bytes,
            recovery.missing_chunks,
            match recovery.reason {
                Some(damage) => damage.to_string(),
                None => "complete".to_owned(),
            }
        ),
    };
    expected.assert_eq(&(describe(read(&bytes, false)) + &describe(read(&bytes, true))));
}

#[test]
fn a_header_that_is_no_header_is_described() {
    check_damage(
        |_, _| {},
        expect![[r#"
        3000 records, 6 chunks, missing 0 bytes, 0 chunks: complete
        3000 records, 6 chunks, missing 0 bytes, 0 chunks: complete
    "#]],
    );
    check_damage(
        |bytes, _| bytes[0] = 0x7f,
        expect![[r#"
        error: not a hitm trace: the file begins with [7f 48 49 54 4d 0d 0a 1a], expected [89 48 49 54 4d 0d 0a 1a]
        error: not a hitm trace: the file begins with [7f 48 49 54 4d 0d 0a 1a], expected [89 48 49 54 4d 0d 0a 1a]
    "#]],
    );
    check_damage(
        |bytes, _| bytes[8] = 2,
        expect![[r#"
            error: trace format 2.8, but this hitm reads 1.x: use the hitm that recorded it, or a newer one
            error: trace format 2.8, but this hitm reads 1.x: use the hitm that recorded it, or a newer one
        "#]],
    );
    check_damage(
        |bytes, _| bytes[30] ^= 1,
        expect![[r#"
            error: the header (bytes 0 to 304) is damaged: checksum 0x58d55fbe, expected 0xed96135c
            error: the header (bytes 0 to 304) is damaged: checksum 0x58d55fbe, expected 0xed96135c
        "#]],
    );
}

#[test]
fn a_lost_tail_is_described() {
    check_damage(
        |bytes, at| bytes.truncate(at[2] + 100),
        expect![[r#"
            1008 records, 2 chunks, missing 100 bytes, 0 chunks: byte 1984, where chunk 2 belongs: the file ends after 100 of 894 bytes
            1008 records, 2 chunks, missing 100 bytes, 0 chunks: byte 1984, where chunk 2 belongs: the file ends after 100 of 894 bytes
        "#]],
    );
    check_damage(
        |bytes, at| bytes.truncate(at[2]),
        expect![[r#"
            1008 records, 2 chunks, missing 0 bytes, 0 chunks: byte 1984, where chunk 2 belongs: the file ends without the mark of a clean end
            1008 records, 2 chunks, missing 0 bytes, 0 chunks: byte 1984, where chunk 2 belongs: the file ends without the mark of a clean end
        "#]],
    );
    // A page that never reached the disk.
    check_damage(
        |bytes, at| bytes[at[2]..at[2] + 16].fill(0),
        expect![[r#"
            error: the trace is damaged, though not only at its end: byte 1984, where chunk 2 belongs: found [00 00 00 00 00 00 00 00], expected [a7 68 69 74 6d 43 48 4b]
            2496 records, 5 chunks, missing 894 bytes, 1 chunks: byte 1984, where chunk 2 belongs: found [00 00 00 00 00 00 00 00], expected [a7 68 69 74 6d 43 48 4b]
        "#]],
    );
    check_damage(
        |bytes, at| {
            bytes.truncate(at[3]);
            bytes[at[2] + 70..].fill(0);
        },
        expect![[r#"
            1008 records, 2 chunks, missing 894 bytes, 0 chunks: byte 1984, where chunk 2 belongs: payload checksum 0xf205a708, expected 0xd50f7af4
            1008 records, 2 chunks, missing 894 bytes, 0 chunks: byte 1984, where chunk 2 belongs: payload checksum 0xf205a708, expected 0xd50f7af4
        "#]],
    );
}

#[test]
fn changes_in_the_middle_are_described() {
    // Bytes that were taken out, a chunk that was taken out, one that comes twice.
    check_damage(
        |bytes, at| drop(bytes.drain(at[1] + 60..at[2] + 10)),
        expect![[r#"
            error: the trace is damaged, though not only at its end: byte 1142, where chunk 1 belongs: payload checksum 0x91c8b7c6, expected 0xa022e07a
            1992 records, 4 chunks, missing 944 bytes, 2 chunks: byte 1142, where chunk 1 belongs: payload checksum 0x91c8b7c6, expected 0xa022e07a
        "#]],
    );
    check_damage(
        |bytes, at| drop(bytes.drain(at[1]..at[2])),
        expect![[r#"
            error: the trace is damaged, though not only at its end: byte 1142, where chunk 1 belongs: the chunks before chunk 2 are missing
            2496 records, 5 chunks, missing 0 bytes, 1 chunks: byte 1142, where chunk 1 belongs: the chunks before chunk 2 are missing
        "#]],
    );
    check_damage(
        |bytes, at| {
            let chunk = bytes[at[1]..at[2]].to_vec();
            bytes.splice(at[2]..at[2], chunk);
        },
        expect![[r#"
            error: the trace is damaged, though not only at its end: byte 1984, where chunk 2 belongs: found chunk 1 again
            3000 records, 6 chunks, missing 842 bytes, 0 chunks: byte 1984, where chunk 2 belongs: found chunk 1 again
        "#]],
    );
    check_damage(
        |bytes, at| drop(bytes.drain(at[4]..at[6])),
        expect![[r#"
            error: the trace is damaged, though not only at its end: byte 3848, where chunk 4 belongs: the chunks before chunk 6 are missing
            2016 records, 4 chunks, missing 0 bytes, 2 chunks: byte 3848, where chunk 4 belongs: the chunks before chunk 6 are missing
        "#]],
    );
    check_damage(
        |bytes, _| bytes.push(b'\n'),
        expect![[r#"
            3000 records, 6 chunks, missing 1 bytes, 0 chunks: byte 5576, where chunk 6 belongs: the file goes on after its end
            3000 records, 6 chunks, missing 1 bytes, 0 chunks: byte 5576, where chunk 6 belongs: the file goes on after its end
        "#]],
    );
}

#[test]
fn a_chunk_that_claims_too_much_is_refused_before_anything_is_allocated() {
    let mut bytes = file(&numbered_records(300), BLOCK_LEN);
    let at = chunk_bounds(&bytes)[0];
    bytes[at + 40..at + 44].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes[at + 44..at + 48].copy_from_slice(&u32::MAX.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[at..at + 52]);
    bytes[at + 52..at + 56].copy_from_slice(&checksum.to_le_bytes());
    bytes.truncate(at + 60);
    let (records, recovery) = read(&bytes, false).unwrap();
    assert!(records.is_empty());
    assert_eq!(
        recovery.reason.unwrap().kind,
        DamageKind::Length {
            field: "uncompressed length",
            found: u32::MAX
        }
    );
}

#[test]
fn the_index_finds_every_chunk() {
    let records = numbered_records(3000);
    let bytes = file(&records, BLOCK_LEN);
    let mut cursor = Cursor::new(&bytes);
    let index = read_index(&mut cursor).unwrap().unwrap();
    let mut found = Vec::new();
    let mut decoder = ChunkDecoder::new().unwrap();
    for (sequence, entry) in index.entries.iter().enumerate() {
        let chunk = entry.read_chunk(&mut cursor).unwrap();
        assert_eq!(chunk.sequence(), sequence as u64);
        assert_eq!(chunk.meta(), entry.meta);
        let block = decoder.decode(&chunk).unwrap();
        assert_eq!(block, decode_chunk(&chunk).unwrap());
        found.extend(block.records().map(Result::unwrap));
    }
    assert_eq!(found, records);
    let cut = &bytes[..bytes.len() - 1];
    assert_eq!(read_index(&mut Cursor::new(cut)).unwrap(), None);
}

#[test]
fn the_header_survives() {
    let header = header();
    let bytes = file(&[], BLOCK_LEN);
    let reader = TraceReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.header(), &header);
}

/// Takes a number of bytes, then fails, as a full disk does.
struct FullDisk(usize);

impl std::io::Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(std::io::ErrorKind::StorageFull.into()),
            len => {
                self.0 -= len;
                Ok(len)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_follows_a_failed_write() {
    let blocks = blocks(&numbered_records(3000), BLOCK_LEN);
    let mut writer = TraceWriter::new(FullDisk(2000), &header()).unwrap();
    let mut results = blocks
        .iter()
        .map(|(meta, block)| writer.write_block(*meta, block));
    assert!(matches!(
        results.find(Result::is_err),
        Some(Err(WriteError::Io { .. }))
    ));
    assert!(matches!(
        results.next(),
        Some(Err(WriteError::AfterFailure))
    ));
}
