//! Any bytes as BTF, and as the two sections of one: everything that can be shown and listed of them.
#![no_main]

use hitm_layout::{BtfFile, Bytes, TextLayout, c_source, layout_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    ask(bytes.to_vec(), None);
    let whole = as_sections(bytes, true);
    ask(whole.clone(), None);
    // The same bytes go on from themselves.
    if let Ok(base) = BtfFile::parse(Bytes::from(whole), None, "base") {
        ask(as_sections(bytes, false), Some(&base));
    }
});

/// Structures that are asked about: one input shall not cost many times its length.
const STRUCTURES: usize = 64;

/// Asks a file everything.
fn ask(bytes: Vec<u8>, base: Option<&BtfFile>) {
    BtfFile::is_in_elf(&bytes);
    let Ok(mut file) = BtfFile::parse(Bytes::from(bytes), base, "fuzz") else {
        return;
    };
    let options = TextLayout {
        line_size: 64,
        expand: true,
    };
    for definition in file.definitions().into_iter().take(STRUCTURES) {
        let Ok(layout) = file.definition_layout(&definition) else {
            continue;
        };
        let shape = file.types().shape(&layout);
        let (_, hole_bytes) = shape.holes();
        assert!(hole_bytes + shape.padding <= layout.size);
        layout_text(file.types(), &layout, &definition.name, &options);
        let _ = c_source(file.types(), &layout, &definition.name);
        // Another one may have the name, or no text does: names are any bytes.
        let _ = file.struct_layout(&definition.name);
    }
    for variable in file.variables().into_iter().take(STRUCTURES) {
        file.variable_type(&variable);
    }
    let _ = file.type_by_name("int");
}

/// BTF of these bytes: two say how long the types are, the rest are types and strings.
fn as_sections(bytes: &[u8], begins_empty: bool) -> Vec<u8> {
    let (head, rest) = bytes.split_at(bytes.len().min(2));
    let wanted = head.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (types, strings) = rest.split_at(wanted.min(rest.len()));
    let empty: &[u8] = if begins_empty { &[0] } else { &[] };
    let mut file = vec![0x9f, 0xeb, 1, 0];
    let sizes = [types.len(), strings.len() + empty.len()].map(|size| size as u32);
    for word in [24, 0, sizes[0], sizes[0], sizes[1]] {
        file.extend(word.to_le_bytes());
    }
    [&file, types, empty, strings].concat()
}
