//! ELF and DWARF: names, members and layouts.

use hitm_layout::structs::ShowOptions;
use hitm_layout::{Bytes, Mapping, ObjectFile, Symbolizer, Unread, c_source};
use hitm_report::layouts::layout_text;
use hitm_test::elf::Elf;

/// Reads all of a file. `other` is the content of each further file that it refers to.
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
        if let Some(accessed) = file.accessed_type(address) {
            let range = accessed.offset..accessed.offset + 8;
            file.members_of("", accessed.type_id, 64, range);
            file.content_at(accessed.type_id, accessed.offset);
        }
        file.result_use(address);
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
    let options = ShowOptions {
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

/// Reads the functions of a stripped file. `bytes` are its remaining tables: for Go, as compressed
/// symbols, or as rows for unwinding.
pub fn stripped(bytes: &[u8]) {
    for name in [".gopclntab", ".gnu_debugdata", ".eh_frame"] {
        let mut elf = Elf::default();
        elf.loaded(".text", 4, 0x1100, vec![0x90; 0x100]);
        elf.loaded(name, 0, 0x2000, bytes.to_vec());
        let Ok(mut file) = ObjectFile::parse(Bytes::from(elf.finish()), "fuzz") else {
            continue;
        };
        for address in (0x1000..0x1300).step_by(13) {
            if let Some((_, offset)) = file.code_location(address).symbol {
                assert!(offset <= address, "a function begins before its code");
            }
        }
    }
}
