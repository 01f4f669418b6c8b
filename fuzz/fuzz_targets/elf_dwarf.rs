//! Any bytes as an ELF file, and as the debug sections of one. They are also a file that its debug
//! information refers to: a `.dwo` file, a package of them, dwz's shared file.
#![no_main]

use hitm_fuzz::elf::{ask, symbolize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    ask(bytes.to_vec(), None);
    ask(as_sections(bytes), None);
    symbolize(bytes);
    if let Some((first, second)) = pair(bytes) {
        ask(first.to_vec(), Some(second));
    }
});

/// Two files: four bytes say how long the first is, the rest is the second.
fn pair(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, files) = bytes.split_first_chunk()?;
    files.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// The sections that the bytes are shared out to.
const SECTIONS: [&str; 13] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_line",
    ".debug_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_addr",
    ".debug_types",
    ".debug_str_offsets",
    ".debug_line_str",
    ".zdebug_info",
    ".symtab",
    ".strtab",
];

/// An ELF file with one segment at 0x1000. The first bytes say how long each section is, two bytes
/// each; the rest is their contents, the last section taking what is left.
fn as_sections(bytes: &[u8]) -> Vec<u8> {
    const HEADERS: usize = 64 + 56;
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(2 * (SECTIONS.len() - 1)));
    let mut contents: Vec<u8> = Vec::new();
    let mut names = vec![0_u8];
    let mut table = vec![0_u8; 64];
    let mut add = |name: u32, contents_at: usize, size: usize| {
        table.extend(name.to_le_bytes());
        table.extend(1_u32.to_le_bytes());
        table.extend([0; 16]);
        table.extend(((HEADERS + contents_at) as u64).to_le_bytes());
        table.extend((size as u64).to_le_bytes());
        table.extend([0; 24]);
    };
    for (index, name) in SECTIONS.iter().enumerate() {
        let length = lengths.get(2 * index..2 * index + 2);
        let length = length.map_or(rest.len(), |two| {
            usize::from(two[0]) | usize::from(two[1]) << 8
        });
        let (own, others) = rest.split_at(length.min(rest.len()));
        add(names.len() as u32, contents.len(), own.len());
        names.extend(name.bytes().chain([0]));
        contents.extend(own);
        rest = others;
    }
    add(0, contents.len(), names.len());
    contents.extend(&names);
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    file.extend([0; 8]);
    file.extend(64_u64.to_le_bytes());
    file.extend(((HEADERS + contents.len()) as u64).to_le_bytes());
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0]);
    file.extend((SECTIONS.len() as u16 + 2).to_le_bytes());
    file.extend((SECTIONS.len() as u16 + 1).to_le_bytes());
    file.extend([1, 0, 0, 0, 6, 0, 0, 0]);
    for field in [0_u64, 0x1000, 0x1000, 0x10000, 0x10000, 0x1000] {
        file.extend(field.to_le_bytes());
    }
    file.extend(contents);
    file.extend(table);
    file
}
