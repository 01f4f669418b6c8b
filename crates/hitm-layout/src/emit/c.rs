//! C, C++ and the kernel's dialect.

use std::collections::BTreeMap;

use super::names::shell_word;
use super::{Emission, LINE, Step, Style, steps};
use crate::layout_file::{FileMember, FileStruct};
use crate::types::SourceNames;

/// Largest alignment that most scalars have by themselves.
const SCALAR_ALIGN_MAX: u64 = 8;

/// The structure as C or C++, one line a member.
pub fn c_struct(emission: &Emission<'_>) -> String {
    let mut out = format!("struct {} {{\n", emission.layout.name);
    for step in steps(emission) {
        match step {
            Step::Padding { number, bytes } => {
                out += &format!("\tchar hitm_padding{number}[{bytes}];\n");
            }
            Step::Member {
                index,
                is_aligned,
                file,
            } => {
                if file.offset_bytes.is_multiple_of(LINE) && file.offset_bytes > 0 {
                    out += &format!("\n\t/* line {} */\n", file.offset_bytes / LINE);
                }
                let declared = &emission.declarations[index];
                let align = emission.subject.members[index].align;
                let is_forced =
                    align > SCALAR_ALIGN_MAX || !file.size_bytes.is_multiple_of(align.max(1));
                let (before, behind) = match (is_aligned, file.bits) {
                    (true, _) => emission.style.line(),
                    // What the source demands does not show in a type's name.
                    (false, None) if is_forced => emission.style.bytes(align),
                    (false, _) => Default::default(),
                };
                out += &format!("\t{before}{declared}{behind};\n");
            }
        }
    }
    out += "};\n";
    out
}

/// A structure of C++ with its assertions, in its namespace, and what debug information does not have of
/// it.
pub fn cpp_text(text: &str, emission: &Emission<'_>, names: &SourceNames) -> String {
    let mut out = String::from("#include <cstddef>\n\n");
    let inside = names.inside.as_deref().unwrap_or_default();
    let uses = |declared: &&String| !inside.is_empty() && declared.contains(inside);
    let users = emission.declarations.iter().filter(uses).count();
    out += "/* Default values, functions, access and attributes are not in the debug information: with\n";
    out += " * --source FILE they stay";
    out += match users {
        0 => ". */\n",
        _ => ", and so do types that the structure declares, which this needs. */\n",
    };
    // Compilers give the offsets of all members, and warn of those that the standard leaves open.
    out += "#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Winvalid-offsetof\"\n";
    out += &match &names.namespace {
        Some(namespace) => format!("namespace {namespace} {{\n{text}}}\n"),
        None => text.to_owned(),
    };
    out + "#pragma GCC diagnostic pop\n"
}

/// The members that `offsetof` can name.
fn named(layout: &FileStruct) -> impl Iterator<Item = &FileMember> {
    let members = layout.members.iter();
    members.filter(|member| member.bits.is_none() && !member.name.starts_with('('))
}

/// Assertions that fail to compile when a member moves.
pub fn c_asserts(layout: &FileStruct, style: Style) -> String {
    let word = match style {
        Style::C => "_Static_assert",
        Style::Cpp | Style::Kernel => "static_assert",
    };
    let of = match style {
        Style::Cpp => layout.name.clone(),
        Style::C | Style::Kernel => format!("struct {}", layout.name),
    };
    let mut out = String::new();
    for member in named(layout) {
        out += &format!(
            "{word}(offsetof({of}, {}) == {}, \"{}.{} moved\");\n",
            member.name, member.offset_bytes, layout.name, member.name
        );
    }
    out += &format!(
        "{word}(sizeof({of}) == {}, \"{} has another size\");\n",
        layout.size_bytes, layout.name
    );
    out
}

/// The kernel's form: groups that are marked in the structure, and assertions for a function that is
/// built in. Only lines that begin with a member of their own are groups.
pub fn kernel_asserts(layout: &FileStruct) -> String {
    let mut groups: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for member in named(layout) {
        let end = member.offset_bytes + member.size_bytes.max(1);
        if (end - 1) / LINE == member.offset_bytes / LINE {
            let group = groups.entry(member.offset_bytes / LINE);
            group.or_default().push(&member.name);
        }
    }
    let mut out = String::from(
        "/* Mark each group in the structure with __cacheline_group_begin(GROUP) and\n * __cacheline_group_end(GROUP). */\n",
    );
    for (line, members) in groups {
        let group = format!("line{line}");
        for member in members {
            out += &format!(
                "CACHELINE_ASSERT_GROUP_MEMBER(struct {}, {group}, {member});\n",
                layout.name
            );
        }
        out += &format!(
            "CACHELINE_ASSERT_GROUP_SIZE(struct {}, {group}, {LINE});\n",
            layout.name
        );
    }
    out
}

/// The command that puts the members of every file into this order, initialisers included. It adds no
/// alignment.
pub fn clang_reorder_fields(layout: &FileStruct, source: &str) -> String {
    let names = layout.members.iter().map(|member| member.name.as_str());
    let names: Vec<&str> = names.collect();
    format!(
        "clang-reorder-fields -i --record-name={} --fields-order={} {} --",
        layout.name,
        names.join(","),
        shell_word(source)
    )
}
