//! Any bytes through everything that reads a trace.
#![no_main]

use std::io::Cursor;

use hitm_fuzz::Collect;
use hitm_trace::{
    BlockDecoder, BlockEncoder, CHUNK_HEADER_LEN, Record, TraceReader, decode_block, read_index,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    read_block(bytes);
    read_file(bytes);
    let mut repaired = bytes.to_vec();
    repair_checksums(&mut repaired);
    read_file(&repaired);
});

/// What a block decodes to must survive encoding and decoding, and both ways to decode must agree.
fn read_block(bytes: &[u8]) {
    let mut visited = Collect::default();
    let result = decode_block(bytes, &mut visited);
    let records: Result<Vec<Record>, _> = BlockDecoder::new(bytes).collect();
    assert_eq!(result.as_ref().err(), records.as_ref().err());
    let Ok(records) = records else { return };
    assert_eq!(records, visited.0);
    // A hundred bytes more than the longest access for each record.
    let mut encoder = BlockEncoder::new(vec![0; bytes.len() + 200 * (records.len() + 1)]);
    for record in &records {
        encoder
            .push(record)
            .expect("what was decoded can be encoded");
    }
    let again: Result<Vec<Record>, _> = BlockDecoder::new(encoder.bytes()).collect();
    assert_eq!(again.as_ref(), Ok(&records));
}

fn read_file(bytes: &[u8]) {
    for does_resync in [false, true] {
        let Ok(mut reader) = TraceReader::new(bytes) else {
            return;
        };
        if does_resync {
            reader = reader.resync();
        }
        let _ = reader.visit(&mut Collect::default());
        let recovery = reader.recovery();
        assert!(recovery.missing_bytes <= bytes.len() as u64);
        assert!(recovery.chunks <= (bytes.len() / CHUNK_HEADER_LEN) as u64);
    }
    let mut cursor = Cursor::new(bytes);
    if let Ok(Some(index)) = read_index(&mut cursor) {
        assert!(index.entries.len() <= bytes.len() / CHUNK_HEADER_LEN);
        for entry in index.entries.iter().take(10) {
            let _ = entry.read_chunk(&mut cursor);
        }
    }
}

/// Makes every checksum right, so that what lies behind them is reached.
fn repair_checksums(bytes: &mut [u8]) {
    if bytes.len() >= 20 && bytes.starts_with(&hitm_trace::MAGIC) {
        let end = 20usize.saturating_add(word(bytes, 12)).min(bytes.len());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[20..end]);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    }
    for at in 0..bytes.len() {
        let rest = &mut bytes[at..];
        if rest.starts_with(b"\xa7hitmCHK") && rest.len() >= CHUNK_HEADER_LEN {
            let end = CHUNK_HEADER_LEN.saturating_add(word(rest, 44));
            let payload = &rest[CHUNK_HEADER_LEN..end.min(rest.len())];
            let checksum = crc32c::crc32c(payload);
            rest[48..52].copy_from_slice(&checksum.to_le_bytes());
            let checksum = crc32c::crc32c(&rest[..52]);
            rest[52..56].copy_from_slice(&checksum.to_le_bytes());
        } else if rest.starts_with(b"\xa7hitmEND") && rest.len() >= 28 {
            let checksum = crc32c::crc32c(&rest[..24]);
            rest[24..28].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}
