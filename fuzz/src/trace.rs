//! Recordings below the facade: blocks, chunks and the index.

use std::io::Cursor;

use hitm_test::recording::Collect;
use hitm_trace::{
    BlockDecoder, BlockEncoder, CHUNK_HEADER_LEN, Record, TraceReader, decode_block, read_index,
};

/// The records of a block must survive encoding and decoding, and both ways to decode must agree.
pub fn check_block(bytes: &[u8]) {
    let mut visited = Collect::default();
    let result = decode_block(bytes, &mut visited);
    let records: Result<Vec<Record>, _> = BlockDecoder::new(bytes).collect();
    assert_eq!(result.as_ref().err(), records.as_ref().err());
    let Ok(records) = records else { return };
    assert_eq!(records, visited.0);
    // A hundred bytes more than the longest access for each record.
    let mut encoder = BlockEncoder::new(vec![0; bytes.len() + 200 * (records.len() + 1)]);
    for record in &records {
        let result = encoder.push(record);
        result.expect("what was decoded can be encoded");
    }
    let again: Result<Vec<Record>, _> = BlockDecoder::new(encoder.bytes()).collect();
    assert_eq!(again.as_ref(), Ok(&records));
}

/// Reads a file, strictly and past damage: what is missing is at most what is there.
pub fn check_file(bytes: &[u8]) {
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
