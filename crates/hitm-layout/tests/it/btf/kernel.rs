//! The running kernel's BTF, where there is one: every structure has a layout, and the C that is
//! written of some compiles with all of its assertions.

use hitm_test::process::Command;

use hitm_layout::{BtfFile, Bytes, c_source};

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

#[test]
fn every_structure_has_a_layout() {
    let Ok(bytes) = std::fs::read(VMLINUX) else {
        // A kernel without BTF: nothing to check here.
        return;
    };
    let mut file = BtfFile::parse(Bytes::from(bytes), None, VMLINUX).unwrap();
    let definitions = file.definitions();
    assert!(definitions.len() > 1000, "{}", definitions.len());
    for definition in &definitions {
        let layout = file.definition_layout(definition);
        let layout = layout.unwrap_or_else(|error| panic!("{error}"));
        let members = layout.members.iter();
        let end = members
            .map(|member| member.bit_offset + member.bit_size)
            .max();
        assert!(end.unwrap_or(0) <= layout.size * 8, "{}", definition.name);
    }
    let directory = tempfile::tempdir().unwrap();
    for name in ["rq", "task_struct", "sk_buff", "cpupri", "root_domain"] {
        let layout = file.struct_layout(name).unwrap();
        let source = c_source(file.types(), &layout, name).unwrap();
        let path = directory.path().join(format!("{name}.c"));
        std::fs::write(&path, source).unwrap();
        let mut cc = Command::new("cc");
        let status = cc.arg("-fsyntax-only").arg(&path).status().unwrap();
        assert!(status.success(), "{name}");
    }
}
