//! BTF: everything that can be shown and listed.

use hitm_base::Architecture;
use hitm_layout::structs::ShowOptions;
use hitm_layout::{BtfFile, BtfFlow, Bytes, CodeBytes, KernelFunction, c_source};
use hitm_report::layouts::layout_text;

/// Limit on shown structures: the cost of an input shall not be many times its length.
const STRUCTURES: usize = 64;

/// Parses a file and reads all of it. Returns it as a base for others.
pub fn check(bytes: Vec<u8>, base: Option<&BtfFile>) -> Option<BtfFile> {
    follow(&bytes, base);
    BtfFile::is_in_elf(&bytes);
    let mut file = BtfFile::parse(Bytes::from(bytes), base, "fuzz").ok()?;
    let options = ShowOptions {
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
        // Another type may have the name, or no text has it: names are any bytes.
        let _ = file.struct_layout(&definition.name);
    }
    for variable in file.variables().into_iter().take(STRUCTURES) {
        file.variable_type(&variable);
    }
    let _ = file.type_by_name("int");
    Some(file)
}

/// Code that is followed.
const CODE: usize = 512;

/// Follows the last bytes as machine code, of a function that calls itself.
fn follow(bytes: &[u8], base: Option<&BtfFile>) {
    let code = CodeBytes {
        begin: 0x1000,
        bytes: &bytes[bytes.len().saturating_sub(CODE)..],
    };
    let function = KernelFunction { name: "a", code };
    for architecture in [Architecture::X86_64, Architecture::Aarch64] {
        let Ok(file) = BtfFile::parse(Bytes::from(bytes.to_vec()), base, "fuzz") else {
            return;
        };
        let mut flow = BtfFlow::new(file, architecture, |_| Some("a".to_owned()));
        flow.set_current(code);
        for at in code.begin..code.begin + CODE as u64 {
            if let Some(accessed) = flow.access(&function, at) {
                let _ = flow.path(&accessed);
            }
            let _ = flow.argument(&function, at, 0);
        }
    }
}
