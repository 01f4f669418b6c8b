//! Files that lie: an error with its place, never a panic, a hang or much memory.

use std::io::Cursor;

use hitm_perf::read::{PerfData, read};
use hitm_test::perf_data::vendors::{self, intel};
use hitm_test::perf_data::{Content, Layout, bits, generate};
use proptest::prelude::*;

fn content() -> Content {
    vendors::content("x86_64", "GenuineIntel,6,85,7", &intel(), bits::WEIGHT)
}

fn outcome(file: Vec<u8>) -> Result<PerfData, String> {
    read(Cursor::new(file), &mut |_, _, _| {}, &mut |_, _| {}).map_err(|error| error.to_string())
}

fn check(file: Vec<u8>, expected: &str) {
    let error = outcome(file).expect_err("the file lies");
    assert!(
        error.contains(expected),
        "found {error:?}, expected {expected:?}"
    );
}

/// The plain file with a number of its header changed.
fn with_word(at: usize, value: u64) -> Vec<u8> {
    let mut file = generate(&content(), Layout::PLAIN);
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    file
}

#[test]
fn sizes_that_lie_are_errors_with_their_place() {
    check(b"PERFILE".to_vec(), "not a perf.data file");
    check(
        b"PERFILE2".to_vec(),
        "the file ends at byte 8, within the header at byte 0",
    );
    check(with_word(8, 1 << 40), "byte 8: the length of the header");
    check(
        with_word(16, 3),
        "byte 16: the length of an attribute: found 3",
    );
    check(
        with_word(32, u64::MAX),
        "within the section of attributes at byte 104",
    );
    check(
        with_word(40, u64::MAX),
        "within the section of records at byte 18446744073709551615",
    );
    check(with_word(48, 1 << 50), "within the section of records");
    // All 256 features, whose table would be longer than the file.
    let mut file = generate(&content(), Layout::PLAIN);
    file[72..104].fill(0xff);
    check(file, "within the table of feature sections");
    // The ids of an event lie elsewhere.
    check(
        with_word(104 + 112 + 8, 1 << 40),
        "within an event's sample ids at byte",
    );
}

#[test]
fn sections_that_lead_in_circles_are_errors_with_their_place() {
    let plain = generate(&content(), Layout::PLAIN);
    let (data, len) = (word(&plain, 40), word(&plain, 48));
    let table = data + len;
    // A feature section that is the table of feature sections, one that holds itself and all before
    // it, and one among the records.
    for (offset, len) in [(table, 16), (0, plain.len()), (data, 64)] {
        let mut file = plain.clone();
        for entry in 1..6 {
            let at = table + 16 * entry;
            file[at..at + 8].copy_from_slice(&(offset as u64).to_le_bytes());
            file[at + 8..at + 16].copy_from_slice(&(len as u64).to_le_bytes());
        }
        check(
            file,
            &format!("byte {offset}: a feature section over what stands before it"),
        );
    }
    // The sample ids of an event are the records.
    let mut file = plain.clone();
    let ids = 104 + 112;
    file[ids..ids + 8].copy_from_slice(&(data as u64).to_le_bytes());
    check(
        file,
        &format!("byte {data}: an event's sample ids among the records"),
    );
}

#[test]
fn records_that_lie_are_errors_with_their_place() {
    let plain = generate(&content(), Layout::PLAIN);
    let data = u64::from_le_bytes(plain[40..48].try_into().unwrap()) as usize;
    let mut file = plain.clone();
    file[data + 6..data + 8].copy_from_slice(&4u16.to_le_bytes());
    check(
        file,
        &format!("byte {data}: the length of a record: found 4, expected at least 8"),
    );
    // A piece of a hardware trace that would reach beyond the end.
    let mut file = plain.clone();
    file[data..data + 4].copy_from_slice(&71u32.to_le_bytes());
    file[data + 8..data + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    check(
        file,
        &format!("within a piece of a hardware trace at byte {data}"),
    );
    let mut pipe = generate(
        &content(),
        Layout {
            is_pipe: true,
            ..Layout::PLAIN
        },
    );
    pipe.truncate(pipe.len() - 5);
    check(pipe, "within a record at byte");
}

#[test]
fn compressed_records_that_lie_are_errors_with_their_place() {
    let layout = Layout {
        compressed_piece: 1000,
        ..Layout::PLAIN
    };
    let mut file = generate(&content(), layout);
    let data = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    file[data + 8] ^= 0xff;
    check(
        file,
        &format!("byte {data}: a compressed record does not decompress"),
    );
}

/// perf record that was killed leaves a header without the length of the data.
#[test]
fn a_file_whose_recorder_was_killed_is_read_to_its_end() {
    let mut file = with_word(48, 0);
    let plain = generate(&content(), Layout::PLAIN);
    let (data, len) = (word(&plain, 40), word(&plain, 48));
    file.truncate(data + len);
    let read = outcome(file).unwrap();
    let samples: u64 = read.events.iter().map(|event| event.sample_count).sum();
    assert_eq!(samples, content().samples.len() as u64);
    assert_eq!(read.notes.len(), 1, "{:?}", read.notes);
}

fn word(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize
}

proptest! {
    /// Any change of any layout, and any cut, gives a result.
    #[test]
    fn damage_is_survived(
        layout in 0..4usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let layout = [
            Layout::PLAIN,
            Layout { is_big_endian: true, ..Layout::PLAIN },
            Layout { is_pipe: true, ..Layout::PLAIN },
            Layout { compressed_piece: 700, ..Layout::PLAIN },
        ][layout];
        let mut file = generate(&content(), layout);
        for (place, byte) in changes {
            let place = place.index(file.len());
            file[place] = byte;
        }
        let _ = outcome(file.clone());
        file.truncate(cut.index(file.len()));
        let _ = outcome(file);
    }
}
