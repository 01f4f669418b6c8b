//! Journals of placements.

use std::path::{Component, Path};

use hitm_live::place::journal::Journal;

/// Reads the bytes unchanged, and as lines with right checksums, below a valid head.
pub fn check(bytes: &[u8]) {
    read(bytes);
    let checked = |line: &[u8]| {
        [
            format!("{:08x} ", crc32c::crc32c(line)).as_bytes(),
            line,
            b"\n",
        ]
        .concat()
    };
    let lines = bytes.split(|byte| *byte == b'\n').map(checked);
    let lines = lines.collect::<Vec<_>>().concat();
    read(&lines);
    let head = HEAD.map(|line| checked(line.as_bytes())).concat();
    read(&[head, lines].concat());
}

const HEAD: [&str; 7] = [
    "hitm-place 1",
    "boot 0f-12",
    "tool 7 900",
    "since 1",
    "backend affinity",
    "cpus 0",
    "name x",
];

/// A journal that parses reads back as the same bytes, except for a last line that was cut off. A
/// mistake has a line of the file. Paths to be removed are cgroups of hitm's own.
fn read(bytes: &[u8]) {
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    match Journal::parse(bytes) {
        Ok(journal) => {
            assert_eq!(journal.encode().as_bytes(), &bytes[..whole]);
            journal.groups().for_each(check_group);
        }
        Err(error) => {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            assert!((1..=lines + 1).contains(&error.line));
        }
    }
}

fn check_group(path: &Path) {
    let name = path.file_name().expect("a group has a name");
    assert!(path.is_absolute() && name.as_encoded_bytes().starts_with(b"hitm-"));
    assert!(!path.components().any(|part| part == Component::ParentDir));
}
