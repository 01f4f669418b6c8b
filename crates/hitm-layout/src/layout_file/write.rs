//! [`LayoutFile`] -> TOML text that parses to the same file.

use std::fmt::Write;

use super::{FileMember, FileStruct, LayoutFile, Storage};

impl LayoutFile {
    /// The file as TOML, one line a member.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("schema = 1\n");
        for (key, words) in [
            ("name", &self.name),
            ("description", &self.description),
            ("source", &self.source),
        ] {
            writeln!(out, "{key} = {}", quote(words)).expect("writing to a String cannot fail");
        }
        for written in &self.structs {
            out += &struct_text(written);
        }
        out
    }
}

fn struct_text(written: &FileStruct) -> String {
    let mut out = String::from("\n[[struct]]\n");
    out += &format!(
        "name = {}\nsize_bytes = {}\n",
        quote(&written.name),
        written.size_bytes
    );
    if let Some(align) = written.align_bytes {
        out += &format!("align_bytes = {align}\n");
    }
    out += "members = [\n";
    for member in &written.members {
        out += &format!("  {{ {} }},\n", member_keys(member).join(", "));
    }
    out += "]\n";
    out
}

fn member_keys(member: &FileMember) -> Vec<String> {
    let mut keys = vec![
        format!("name = {}", quote(&member.name)),
        format!("offset_bytes = {}", member.offset_bytes),
        format!("size_bytes = {}", member.size_bytes),
    ];
    if let Some(bits) = member.bits {
        keys.push(format!("bit_offset = {}", bits.offset));
        keys.push(format!("bit_size = {}", bits.size));
    }
    if let Some(name) = &member.type_name {
        keys.push(format!("type = {}", quote(name)));
    }
    if let Some(array) = member.array {
        keys.push(format!("count = {}", array.count));
        keys.push(format!("stride_bytes = {}", array.stride_bytes));
    }
    if member.cpu_bitmap {
        keys.push(String::from("bits_of = \"cpu\""));
    }
    if let Some(per) = member.per {
        keys.push(format!("per = \"{}\"", per.name()));
    }
    match member.storage {
        Storage::Inline { stride_bytes } => {
            keys.extend(stride_bytes.map(|stride| format!("stride_bytes = {stride}")));
        }
        Storage::Pointer {
            element_bytes,
            element_align_bytes,
        } => {
            keys.push(String::from("storage = \"pointer\""));
            keys.extend(element_bytes.map(|bytes| format!("element_bytes = {bytes}")));
            keys.extend(element_align_bytes.map(|align| format!("element_align_bytes = {align}")));
        }
    }
    keys
}

fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
