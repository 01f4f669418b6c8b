//! ELF and DWARF: names, members and layouts.

use hitm_layout::{
    Bytes, Mapping, ObjectFile, Symbolizer, TextLayout, Unread, c_source, layout_text,
};

/// Asks a file everything. `other` is each other file that it wants.
pub fn ask(bytes: Vec<u8>, other: Option<&[u8]>) {
    let Ok(mut file) = ObjectFile::parse(Bytes::from(bytes), "fuzz") else {
        return;
    };
    file.attach_debug_files(&mut |_| {
        let other = other.map(|bytes| Bytes::from(bytes.to_vec()));
        other.ok_or(Unread::Missing)
    });
    for address in (0x1100..0x1200).chain(0x4000..0x4100).step_by(7) {
        file.code_location(address);
        file.data_location(address, address % 17);
    }
    file.members_in(0x4000..0x4100);
    for name in ["s", "t", "t@s.c:3", "n"] {
        show(&mut file, name);
    }
    let _ = file.type_by_name("ns::t");
    file.definitions_of("s");
    file.diagnostics();
}

/// Shows a structure in both languages; its holes fit into it.
fn show(file: &mut ObjectFile, name: &str) {
    let Ok(layout) = file.struct_layout(name) else {
        return;
    };
    let shape = file.types().shape(&layout);
    let (_, hole_bytes) = shape.holes();
    assert!(hole_bytes + shape.padding <= layout.size);
    let options = TextLayout {
        line_size: 64,
        expand: true,
    };
    layout_text(file.types(), &layout, name, &options);
    let _ = c_source(file.types(), &layout, name);
}

/// The bytes as the whole of a process: its mapping and its file.
pub fn symbolize(bytes: &[u8]) {
    let mapping = Mapping {
        start: 0x1000,
        end: 0x9000,
        file_offset: 0,
        path: String::from("/fuzz"),
        build_id: None,
    };
    let mut symbolizer = Symbolizer::new(vec![mapping], |_| Ok(Bytes::from(bytes.to_vec())));
    for address in [0x1234, 0x1180, 0x4040] {
        symbolizer.code(address);
        symbolizer.data(address, 8);
    }
    symbolizer.members_in(0x4000..0x4040);
    symbolizer.diagnostics();
}
