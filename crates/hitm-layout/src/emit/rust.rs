//! Rust: `#[repr(C)]`, explicit padding, and assertions.

use super::{Emission, LINE, Step, steps};

/// The structure as Rust, with assertions that keep it. `declarations` of the emission are the types
/// of the members here.
pub fn rust_struct(emission: &Emission<'_>) -> String {
    let layout = emission.layout;
    let mut out = format!("#[repr(C, align({LINE}))]\npub struct {} {{\n", layout.name);
    let mut end = 0;
    let mut padding = 0;
    for step in steps(emission) {
        let Step::Member { index, file, .. } = step else {
            continue;
        };
        let align = emission.subject.members[index].align.max(1);
        // An alignment of its own would need a type of its own: bytes do it as well.
        if file.offset_bytes > u64::next_multiple_of(end, align) {
            out += &format!(
                "    _padding{padding}: [u8; {}],\n",
                file.offset_bytes - end
            );
            padding += 1;
        }
        let line = file.offset_bytes / LINE;
        let in_line = layout
            .members
            .iter()
            .filter(|other| other.offset_bytes / LINE == line)
            .count();
        if file.offset_bytes.is_multiple_of(LINE) {
            let hint = match in_line {
                1 => ", alone: crossbeam_utils::CachePadded does this without padding by hand",
                _ => "",
            };
            out += &format!("    // Line {line}{hint}.\n");
        }
        out += &format!("    pub {}: {},\n", file.name, emission.declarations[index]);
        end = file.offset_bytes + file.size_bytes;
    }
    out += "}\n\nconst _: () = {\n";
    for member in &layout.members {
        out += &format!(
            "    assert!(core::mem::offset_of!({}, {}) == {});\n",
            layout.name, member.name, member.offset_bytes
        );
    }
    out += &format!(
        "    assert!(size_of::<{}>() == {});\n}};\n",
        layout.name, layout.size_bytes
    );
    out
}
