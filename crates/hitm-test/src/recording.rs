//! Recordings: records from bytes, files from records, and files written number by number.
//!
//! [`made`] writes blocks and chunks itself, from docs/formats/trace.md and the table of the kinds of
//! records, so that a file can hold values that no recorder writes. [`records`] makes typed records,
//! which hold only what a recorder may write.

mod made;
mod payload;
mod pool;
mod records;
mod wire;

use hitm_base::{Access, Clock, Cycles, Outcome};
use hitm_trace::{BlockEncoder, EncodeError, Header, Record, TraceWriter, Visitor};

pub use made::{MACHINE, made};
pub use records::{record, records};
pub use wire::{Block, FileWriter, WireAccess, repair_checksums};

/// Bytes in a block of the files made here: small, so that a short input fills several.
const BLOCK_LEN: usize = 2048;

/// Keeps every record that is decoded.
#[derive(Debug, Default)]
pub struct Collect(pub Vec<Record>);

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

/// A header to begin files with.
pub fn header() -> Header {
    Header {
        hitm_version: "0.1.0".to_owned(),
        args: vec!["./a".to_owned()],
        machine_toml: String::new(),
        window: Cycles(10_000),
        placement: "spread".to_owned(),
        seed: 1,
        arch: "x86_64".to_owned(),
        qemu_version: "7.2.0".to_owned(),
        clock: Clock::from_khz(1),
        page_size_bytes: 4096,
        sampled: None,
    }
}

/// A complete file with these records. Records that fit no block are left out; the others are
/// returned beside the file.
pub fn file(records: Vec<Record>) -> (Vec<u8>, Vec<Record>) {
    let mut writer = TraceWriter::new(Vec::new(), &header()).expect("memory takes it");
    let mut encoder = BlockEncoder::new(vec![0; BLOCK_LEN]);
    let mut written = Vec::new();
    for record in records {
        let mut result = encoder.push(&record);
        if result == Err(EncodeError::Full) {
            writer
                .write_block(encoder.meta(), encoder.bytes())
                .expect("memory takes it");
            encoder.clear();
            result = encoder.push(&record);
        }
        match result {
            Ok(()) => written.push(record),
            Err(EncodeError::TooLarge { .. }) => {}
            Err(error) => panic!("{record:?} is not encoded: {error}"),
        }
    }
    writer
        .write_block(encoder.meta(), encoder.bytes())
        .expect("memory takes it");
    (writer.finish().expect("memory takes it"), written)
}
