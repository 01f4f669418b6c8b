//! Any bytes as BTF, and as the two sections of one: everything that can be shown and listed of them.
#![no_main]

use hitm_fuzz::btf::check;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes.to_vec(), None);
    // The bytes are split BTF with themselves as base.
    if let Some(base) = check(as_sections(bytes, true), None) {
        check(as_sections(bytes, false), Some(&base));
    }
});

/// BTF of these bytes: two say how long the types are, the rest are types and strings.
fn as_sections(bytes: &[u8], begins_empty: bool) -> Vec<u8> {
    let (head, rest) = bytes.split_at(bytes.len().min(2));
    let wanted = head
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (types, strings) = rest.split_at(wanted.min(rest.len()));
    let empty: &[u8] = if begins_empty { &[0] } else { &[] };
    let mut file = vec![0x9f, 0xeb, 1, 0];
    let sizes = [types.len(), strings.len() + empty.len()].map(|size| size as u32);
    for word in [24, 0, sizes[0], sizes[0], sizes[1]] {
        file.extend(word.to_le_bytes());
    }
    [&file, types, empty, strings].concat()
}
